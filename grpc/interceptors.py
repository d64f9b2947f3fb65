"""What every call goes through: admission, errors as statuses, one log line without content."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore
from traceback import extract_tb
from typing import Any, NoReturn

import grpc
import structlog
from eventsourcing.persistence import PersistenceError
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status

from turnledger.domain.errors import ServiceBusy, StoreUnavailable, TurnledgerError, shown
from turnledger.grpc.errors import internal_status, status_of
from turnledger.grpc.limits import STREAM_THREADS, STREAMS_MAX
from turnledger.v1 import error_reason_pb2

log = structlog.get_logger("turnledger.grpc")
Log = Any
"""A structlog logger, bound once: it costs as much as the line itself."""
Handler = Any
"""grpc.RpcMethodHandler: a named tuple whose fields depend on the kind of call."""


class CallInterceptor(grpc.ServerInterceptor):
    """Wraps every handler of turnledger's own services; health and reflection pass as they are."""

    def __init__(self) -> None:
        self.stopping = Event()
        self._streams = Semaphore(STREAMS_MAX)
        self._stream_pool = ThreadPoolExecutor(STREAM_THREADS, thread_name_prefix="stream")
        self._log = log.bind()
        self._wrapped: dict[str, Handler] = {}
        """Handlers by method, wrapped once: the library asks again for every call."""

    def close(self) -> None:
        """Ends the threads of streams once the server has stopped."""
        self._stream_pool.shutdown(wait=False, cancel_futures=True)

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Handler], details: grpc.HandlerCallDetails
    ) -> Handler:
        """The handler of a call, wrapped."""
        method: str = details.method
        known = self._wrapped.get(method)
        if known is not None:
            return known
        handler = continuation(details)
        if handler is None or not method.startswith("/turnledger."):
            return handler
        if handler.unary_unary:
            wrapped = handler._replace(unary_unary=self._unary(method, handler.unary_unary))
        else:
            wrapped = handler._replace(unary_stream=self._stream(method, handler.unary_stream))
        self._wrapped[method] = wrapped
        return wrapped

    def _unary(self, method: str, behavior: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def call(request: Message, context: grpc.ServicerContext) -> Any:
            with _Call(method, request, context, self._log) as running:
                running.check(self.stopping)
                return running.answered(behavior(request, context))

        return call

    def _stream(self, method: str, behavior: Callable[[Any, Any], Iterator[Any]]) -> Callable[[Any, Any], Any]:
        def call(request: Message, context: grpc.ServicerContext) -> Iterator[Any]:
            with _Call(method, request, context, self._log) as running:
                running.check(self.stopping)
                if not self._streams.acquire(blocking=False):
                    raise ServiceBusy(f"{STREAMS_MAX} streams are open")
                try:
                    for answer in behavior(request, context):
                        yield answer
                        running.check(self.stopping)
                finally:
                    self._streams.release()

        # Long streams have threads of their own, so that they can't starve calls. grpcio looks for this
        # attribute on the behavior, not on its handler.
        call.experimental_thread_pool = self._stream_pool  # type: ignore[attr-defined]
        return call


class _Call:
    """One call: its errors become statuses, its end becomes a log line."""

    def __init__(self, method: str, request: Message, context: grpc.ServicerContext, log: Log) -> None:
        self._method = method.rpartition("/")[2]
        self._request = request
        self._context = context
        self._log = log
        self._started = time.perf_counter()
        self._outcome = "ok"

    def __enter__(self) -> _Call:
        return self

    def answered(self, answer: Message) -> Message:
        """The answer itself. One that says why there is no window is no error on the wire, but it is in the log."""
        if "build_error" in answer.DESCRIPTOR.fields_by_name and answer.HasField("build_error"):
            reason = error_reason_pb2.ErrorReason.Name(answer.build_error.reason)  # type: ignore[attr-defined]  # checked
            self._outcome = reason.removeprefix("ERROR_REASON_")
        return answer

    def check(self, stopping: Event) -> None:
        """Raises :class:`ServiceBusy` once the service is stopping."""
        if stopping.is_set():
            raise ServiceBusy("the service is stopping")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, GeneratorExit):
            self._note(self._outcome if error is None else "cancelled")
            return
        if isinstance(error, PersistenceError):
            self._note(StoreUnavailable.reason, store_error=shown(str(error)))
            self._abort(status_of(StoreUnavailable(f"the store does not answer: {type(error).__name__}")))
        if isinstance(error, TurnledgerError):
            self._note(error.reason)
            self._abort(status_of(error))
        fault_id = secrets.token_hex(8)
        self._log.error("fault", outcome="INTERNAL", fault_id=fault_id, trace=places(error), **self._facts())
        self._abort(internal_status(fault_id))

    def _abort(self, status: status_pb2.Status) -> NoReturn:
        self._context.abort_with_status(rpc_status.to_status(status))
        raise AssertionError(code_pb2.Code.Name(status.code))  # abort_with_status always raises

    def _note(self, outcome: str, **more: str) -> None:
        self._log.info("call", outcome=outcome, **more, **self._facts())

    def _facts(self) -> dict[str, Any]:
        """What may be logged of a call: never content."""
        return {
            "method": self._method,
            "run_id": shown(getattr(self._request, "run_id", "")) or None,
            "request_id": shown(getattr(self._request, "request_id", "")) or None,
            "duration_ms": round((time.perf_counter() - self._started) * 1000, 2),
        }


def places(error: BaseException | None) -> list[str]:
    """What was raised and where, innermost last. Never the text of an exception: it may quote content."""
    lines: list[str] = []
    while error is not None:
        frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in extract_tb(error.__traceback__)]
        lines = [*frames, type(error).__qualname__, *lines]
        error = error.__cause__ or error.__context__
    return lines
