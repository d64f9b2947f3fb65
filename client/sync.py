"""The synchronous client. Made from ``turnledger.client.aio`` by ``make gen``: do not edit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import grpc

from turnledger.client import messages as wire
from turnledger.client.errors import error_of, error_of_build
from turnledger.client.models import (
    Appended,
    Envelope,
    Fact,
    Item,
    LedgerMessage,
    Omission,
    ReportedUsage,
    RunDetails,
    RunInfo,
    Window,
    WindowHead,
    item_of_wire,
    stored_envelope,
)
from turnledger.client.options import CHANNEL_OPTIONS, TIMEOUT_SECONDS
from turnledger.client.windows import Held, receive, receive_message
from turnledger.v1 import (
    audit_service_pb2,
    audit_service_pb2_grpc,
    ledger_service_pb2,
    ledger_service_pb2_grpc,
    window_pb2,
)


class LedgerClient:
    """A connection to a turnledger service. Close it, or use it as a context manager.

    Every call has a deadline of ``timeout`` seconds, and every write a request id, so that it is repeated
    safely where the connection breaks. ``principal`` is recorded with every fact. Errors are those of
    :mod:`turnledger.client.errors`.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = TIMEOUT_SECONDS,
        principal: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self.address = address
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=CHANNEL_OPTIONS)
        self._timeout = timeout
        self._metadata = wire.call_metadata(principal)
        self.ledger_service = ledger_service_pb2_grpc.LedgerServiceStub(self._channel)
        self.audit_service = audit_service_pb2_grpc.AuditServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def open_run(
        self,
        *,
        format: str,
        policy: Any = None,
        run_id: str = "",
        tokenizer: str = "",
        labels: Mapping[str, str] | None = None,
        step_base: str = "",
        context_limit_tokens: int | None = None,
        envelope: Envelope | None = None,
        messages: Sequence[Any] = (),
        imported: bool = False,
        request_id: str | None = None,
    ) -> Run:
        """Opens a run; opening it again with the same content gives the same run.

        ``policy`` is a policy model, a mapping or JSON text; None sends everything. ``messages`` are the
        provider's, or :class:`Message` where more is to be said of them.
        """
        request = wire.wire_message(
            ledger_service_pb2.OpenRunRequest,
            run_id=run_id,
            request_id=request_id or new_request_id(),
            format=format,
            policy_json=wire.policy_json(policy),
            tokenizer=tokenizer,
            labels=dict(labels or {}),
            step_base=step_base,
            context_limit_tokens=context_limit_tokens,
            envelope=wire.envelope(envelope),
            messages=wire.new_messages(messages),
            imported=imported,
        )
        answer = self.call(self.ledger_service.OpenRun, request)
        return Run(self, answer.run.run_id, answer.run.version)

    def run(self, run_id: str) -> Run:
        """A run that is open already. Nothing is asked of the service until it is used."""
        return Run(self, run_id)

    def list_runs(
        self, *, status: str | None = None, labels: Mapping[str, str] | None = None, page_size: int = 0
    ) -> Iterator[RunInfo]:
        """Runs, latest opened first, page by page."""
        token = ""
        while True:
            request = wire.wire_message(
                audit_service_pb2.ListRunsRequest,
                page_size=page_size,
                page_token=token,
                status=wire.status_value(status),
                labels=dict(labels or {}),
            )
            page = self.call(self.audit_service.ListRuns, request)
            for run in page.runs:
                yield RunInfo.of_wire(run)
            token = page.next_page_token
            if not token:
                return

    def call(self, method: Any, request: Any) -> Any:
        """Makes one call of the contract; raises its typed error."""
        try:
            return method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error, self.address, request.ByteSize()) from None

    def stream(self, method: Any, request: Any) -> Iterator[Any]:
        """Makes one streaming call of the contract; raises its typed error."""
        try:
            for answer in method(request, timeout=self._timeout, metadata=self._metadata):
                yield answer
        except grpc.RpcError as error:
            raise error_of(error, self.address, request.ByteSize()) from None


class Run:
    """One run. Holds its last window, so that the service sends only what is new."""

    def __init__(self, client: LedgerClient, run_id: str, version: int | None = None) -> None:
        self._client = client
        self._held: Held | None = None
        self.id = run_id
        self.version = version
        """Version of the run's last fact as far as this client has seen; None for not yet."""

    def append(
        self,
        messages: Sequence[Any],
        *,
        usage: Any = None,
        imported: bool = False,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Appended:
        """Appends messages, all or none. ``usage`` is that of the model's message among them."""
        request = wire.wire_message(
            ledger_service_pb2.AppendRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
            messages=wire.new_messages(messages, usage),
            imported=imported,
        )
        answer = self._client.call(self._client.ledger_service.Append, request)
        self.version = answer.version
        return _appended(answer)

    def build_window(
        self,
        *,
        iteration: int | None = None,
        while_paused: bool = False,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Window:
        """The window for the next model call, or one that was handed out before.

        Raises a :class:`turnledger.domain.errors.NoWindow` where there is none.
        """
        request = wire.wire_message(
            ledger_service_pb2.BuildWindowRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
            iteration=iteration,
            while_paused=while_paused,
            base=self._held.base if self._held else None,
        )
        answer = self._client.call(self._client.ledger_service.BuildWindow, request)
        return self._window(answer)

    def step(
        self,
        messages: Sequence[Any],
        *,
        usage: Any = None,
        imported: bool = False,
        while_paused: bool = False,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Window:
        """Appends messages and builds the next window, in one round trip and one transaction.

        Raises a :class:`turnledger.domain.errors.NoWindow` where there is no window; the messages are
        appended all the same.
        """
        request = wire.wire_message(
            ledger_service_pb2.StepRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
            messages=wire.new_messages(messages, usage),
            imported=imported,
            while_paused=while_paused,
            base=self._held.base if self._held else None,
        )
        answer = self._client.call(self._client.ledger_service.Step, request)
        return self._window(answer)

    def _window(self, answer: Any) -> Window:
        self.version = answer.version
        if answer.HasField("build_error"):
            raise error_of_build(answer.build_error)
        self._held = self._receive(answer.window)
        return self._held.window

    def _receive(self, message: window_pb2.Window) -> Held:
        if message.WhichOneof("content") != "elsewhere":
            return receive(message, self._held)
        request = wire.wire_message(audit_service_pb2.ReplayWindowRequest, run_id=self.id, iteration=message.iteration)
        items: list[Item] = []
        for part in self._client.stream(self._client.audit_service.ReplayWindow, request):
            items += map(item_of_wire, part.items)
        return receive(message, None, items)

    def set_envelope(
        self, envelope: Envelope, *, expected_version: int | None = None, request_id: str | None = None
    ) -> bytes:
        """Sets what goes with the messages from the next window on; gives its commitment."""
        request = wire.wire_message(
            ledger_service_pb2.SetEnvelopeRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
            envelope=wire.envelope(envelope),
        )
        answer = self._client.call(self._client.ledger_service.SetEnvelope, request)
        self.version = answer.version
        commitment: bytes = answer.commitment
        return commitment

    def report_usage(
        self,
        usage: Any,
        *,
        iteration: int | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> ReportedUsage:
        """Reports the usage of a call apart from its reply."""
        request = wire.wire_message(
            ledger_service_pb2.ReportUsageRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
            iteration=iteration,
            usage=wire.usage(usage),
        )
        answer = self._client.call(self._client.ledger_service.ReportUsage, request)
        self.version = answer.version
        return ReportedUsage.of_wire(answer)

    def pause(
        self,
        calls: Sequence[str | tuple[str, int]],
        *,
        awaits_person: bool = False,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> None:
        """Says that the run waits on open calls: provider's call ids, or (message id, index)."""
        request = wire.wire_message(
            ledger_service_pb2.PauseRunRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
            calls=map(wire.call_ref, calls),
            awaits_person=awaits_person,
        )
        self.version = (self._client.call(self._client.ledger_service.PauseRun, request)).version

    def resume(self, *, expected_version: int | None = None, request_id: str | None = None) -> None:
        """Says that the run waits no longer."""
        request = wire.wire_message(
            ledger_service_pb2.ResumeRunRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
        )
        self.version = (self._client.call(self._client.ledger_service.ResumeRun, request)).version

    def abandon_tool_call(
        self,
        call: str | tuple[str, int],
        *,
        reason: str = "",
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> None:
        """Gives up an open call: a provider's call id, or (message id, index)."""
        request = wire.wire_message(
            ledger_service_pb2.AbandonToolCallRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
            call=wire.call_ref(call),
            reason=reason,
        )
        self.version = (self._client.call(self._client.ledger_service.AbandonToolCall, request)).version

    def close(
        self,
        status: str = "finished",
        *,
        reason: str = "",
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> None:
        """Ends the run for good: ``finished``, ``failed`` or ``cancelled``."""
        request = wire.wire_message(
            ledger_service_pb2.CloseRunRequest,
            run_id=self.id,
            request_id=request_id or new_request_id(),
            expectation=wire.expectation(expected_version),
            status=wire.status_value(status, wire.CLOSED),
            reason=reason,
        )
        self.version = (self._client.call(self._client.ledger_service.CloseRun, request)).version

    def get(self) -> RunDetails:
        """Where the run stands."""
        request = wire.wire_message(ledger_service_pb2.GetRunRequest, run_id=self.id)
        answer = self._client.call(self._client.ledger_service.GetRun, request)
        self.version = answer.run.version
        return RunDetails.of_wire(answer)

    def messages(self, message_ids: Sequence[str]) -> list[LedgerMessage]:
        """Messages by id, byte for byte, whether they are still in a window or not.

        Raises :class:`MessageMismatch` for one whose bytes were changed in the store.
        """
        found: list[LedgerMessage] = []
        message_ids = wire.message_ids(message_ids)
        while len(found) < len(message_ids):
            request = wire.wire_message(
                audit_service_pb2.GetMessagesRequest, run_id=self.id, message_ids=message_ids[len(found) :]
            )
            answer = self._client.call(self._client.audit_service.GetMessages, request)
            found += map(receive_message, answer.messages)
        return found

    def replay(self, iteration: int = 0) -> Window:
        """One iteration as it was sent, byte for byte, its digest checked; 0: the last."""
        request = wire.wire_message(audit_service_pb2.ReplayWindowRequest, run_id=self.id, iteration=iteration)
        parts: list[Any] = []
        for part in self._client.stream(self._client.audit_service.ReplayWindow, request):
            parts.append(part)
        return _replayed(parts)

    def replay_all(self, first: int = 0, last: int = 0) -> Iterator[Window]:
        """Iterations as they were sent, in order; 0: from the first, to the last."""
        request = wire.wire_message(
            audit_service_pb2.ReplayRunRequest, run_id=self.id, from_iteration=first, to_iteration=last
        )
        parts: list[Any] = []
        for answer in self._client.stream(self._client.audit_service.ReplayRun, request):
            if parts and answer.part.HasField("window"):
                yield _replayed(parts)
                parts = []
            parts.append(answer.part)
        if parts:
            yield _replayed(parts)

    def window_heads(self, first: int = 0, last: int = 0) -> Iterator[WindowHead]:
        """How windows came about, in order, without what they held; 0: from the first, to the last."""
        request = wire.wire_message(
            audit_service_pb2.ReplayRunRequest,
            run_id=self.id,
            from_iteration=first,
            to_iteration=last,
            omit_items=True,
        )
        for answer in self._client.stream(self._client.audit_service.ReplayRun, request):
            yield WindowHead.of_wire(answer.part.window)

    def ledger(self, first: int = 0, last: int = 0, *, bodies: bool = True) -> Iterator[Fact]:
        """The facts of the run in order; 0: from the first, to the last."""
        request = wire.wire_message(
            audit_service_pb2.ReadLedgerRequest,
            run_id=self.id,
            from_version=first,
            to_version=last,
            omit_bodies=not bodies,
        )
        for fact in self._client.stream(self._client.audit_service.ReadLedger, request):
            yield Fact.of_wire(fact)


def new_request_id() -> str:
    """An id for a request that the caller did not name."""
    return uuid.uuid4().hex


def _appended(answer: Any) -> Appended:
    return Appended(
        version=answer.version,
        message_ids=tuple(answer.message_ids),
        replayed=answer.replayed,
        omissions=tuple(map(Omission.of_wire, answer.omissions)),
    )


def _replayed(parts: Sequence[Any]) -> Window:
    items = [item_of_wire(item) for part in parts for item in part.items]
    window = receive(parts[0].window, None, items).window
    if not parts[0].HasField("envelope"):
        return window
    sent = parts[0].envelope
    return window.model_copy(update={"envelope": Envelope.of_wire(sent), "envelope_bytes": stored_envelope(sent)})
