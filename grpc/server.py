"""The server process: starts, serves, and stops cleanly."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Self

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from turnledger.domain.errors import FieldInvalid, shown
from turnledger.grpc.interceptors import CallInterceptor
from turnledger.grpc.limits import CALL_THREADS, DRAIN_SECONDS, SERVER_OPTIONS
from turnledger.grpc.services import AuditServicer, LedgerServicer
from turnledger.ledger.application import Ledger
from turnledger.ledger.stores import open_ledger
from turnledger.v1 import audit_service_pb2, audit_service_pb2_grpc, ledger_service_pb2, ledger_service_pb2_grpc

DEFAULT_LISTEN = "127.0.0.1:50551"
PORT_MAX = 65_535
_SERVICES = (
    ledger_service_pb2.DESCRIPTOR.services_by_name["LedgerService"].full_name,
    audit_service_pb2.DESCRIPTOR.services_by_name["AuditService"].full_name,
)
log = structlog.get_logger("turnledger.server")


class Server:
    """A running service over one ledger. A context manager: it stops at the end of the block."""

    def __init__(self, ledger: Ledger, listen: str = DEFAULT_LISTEN) -> None:
        """Binds ``listen`` (``host:port``, port 0 takes a free one; or ``unix:path``) and starts to serve.

        Raises :class:`FieldInvalid` where the address can't be bound; the ledger is closed then too.
        """
        self._ledger = ledger
        self._interceptor = CallInterceptor()
        self._health = health.HealthServicer()
        self._server = grpc.server(
            ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="call"),
            interceptors=[self._interceptor],
            options=SERVER_OPTIONS,
        )
        ledger_service_pb2_grpc.add_LedgerServiceServicer_to_server(LedgerServicer(ledger), self._server)
        audit_service_pb2_grpc.add_AuditServiceServicer_to_server(AuditServicer(ledger), self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        try:
            self.address = _bind(self._server, listen)
        except FieldInvalid:
            self._interceptor.close()
            ledger.close()
            raise
        self._server.start()
        self._report(serving=True)

    def _report(self, *, serving: bool) -> None:
        answers = health_pb2.HealthCheckResponse
        status = answers.SERVING if serving else answers.NOT_SERVING
        for service in ("", *_SERVICES):
            self._health.set(service, status)

    def stop(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Takes no more calls, lets those that run end, and closes the ledger."""
        self._report(serving=False)
        self._interceptor.stopping.set()
        self._server.stop(drain_seconds).wait()
        self._interceptor.close()
        self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(store: str = "memory:", listen: str = "127.0.0.1:0") -> Server:
    """A service on a store, in this process: for tests, notebooks and trying things out.

    Logs warnings only, unless the program has configured structlog itself.
    """
    if not structlog.is_configured():
        configure_logs(logging.WARNING)
    return Server(open_ledger(store), listen)


def _bind(server: grpc.Server, listen: str) -> str:
    if listen.startswith("unix:"):
        _bind_port(server, listen)
        return listen
    host, separator, port = listen.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise FieldInvalid("listen", f"must be HOST:PORT, the port at most {PORT_MAX}, or unix:PATH", shown(listen))
    return f"{host}:{_bind_port(server, listen)}"


def _bind_port(server: grpc.Server, listen: str) -> int:
    try:
        return server.add_insecure_port(listen)
    except RuntimeError as error:
        raise FieldInvalid("listen", "must be an address of this machine that is not in use", shown(listen)) from error


def serve(store: str, listen: str, ready: Callable[[str], None] | None = None, *, for_people: bool = False) -> None:
    """Serves until SIGTERM or SIGINT, then drains and returns. Logs on standard error, as JSON lines unless it is
    ``for_people``; ``ready`` is told the address once it is bound.
    """
    configure_logs(for_people=for_people)
    logging.basicConfig(handlers=[_LibraryLog()], level=logging.WARNING)
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, frame: stopping.set())
    server = Server(open_ledger(store), listen)
    log.info("serving", address=server.address, store=store)
    if ready is not None:
        ready(server.address)
    stopping.wait()
    log.info("stopping")
    server.stop()
    log.info("stopped")


class _StandardError:
    """Lines on standard error as it is when they are written, not as it was when logs were configured."""

    def msg(self, line: str) -> None:
        """Writes one line."""
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    debug = info = warning = error = critical = msg


class _LibraryLog(logging.Handler):
    """What libraries log, as lines like ours: where it was said, but not what, since that may quote content."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line."""
        log.warning("library", logger=record.name, at=f"{record.filename}:{record.lineno}")


def configure_logs(level: int = logging.INFO, *, for_people: bool = False) -> None:
    """Structured logs on standard error: one JSON object a line, or lines ``for_people``."""
    rendered = structlog.dev.ConsoleRenderer() if for_people else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            rendered,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *names: _StandardError(),
    )
