"""Requests of the wire as commands of the ledger. Says nothing of what they mean."""

from __future__ import annotations

from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import FieldInvalid
from turnledger.domain.words import RunStatus, Source
from turnledger.ledger import commands as c
from turnledger.v1 import ledger_service_pb2 as pb
from turnledger.v1 import run_pb2, window_pb2

_SOURCES = {
    run_pb2.SOURCE_UNSPECIFIED: None,
    run_pb2.SOURCE_PERSON: Source.PERSON,
    run_pb2.SOURCE_MODEL: Source.MODEL,
    run_pb2.SOURCE_TOOL: Source.TOOL,
    run_pb2.SOURCE_INJECTED: Source.INJECTED,
    run_pb2.SOURCE_AUTHORED: Source.AUTHORED,
}
_STATUSES = {
    run_pb2.RUN_STATUS_OPEN: RunStatus.OPEN,
    run_pb2.RUN_STATUS_PAUSED: RunStatus.PAUSED,
    run_pb2.RUN_STATUS_FINISHED: RunStatus.FINISHED,
    run_pb2.RUN_STATUS_FAILED: RunStatus.FAILED,
    run_pb2.RUN_STATUS_CANCELLED: RunStatus.CANCELLED,
}


def open_run(request: pb.OpenRunRequest) -> c.OpenRun:
    """The command of a request."""
    return c.OpenRun(
        run_id=request.run_id,
        request_id=request.request_id or None,
        format=request.format,
        policy=request.policy_json,
        tokenizer=request.tokenizer,
        labels=dict(request.labels),
        step_base=request.step_base,
        context_limit_tokens=request.context_limit_tokens if request.HasField("context_limit_tokens") else None,
        envelope=envelope(request.envelope) if request.HasField("envelope") else None,
        messages=_messages(request.messages),
        imported=request.imported,
    )


def append(request: pb.AppendRequest) -> c.Append:
    """The command of a request."""
    return c.Append(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
        messages=_messages(request.messages),
        imported=request.imported,
    )


def build_window(request: pb.BuildWindowRequest) -> c.BuildWindow:
    """The command of a request."""
    return c.BuildWindow(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
        iteration=request.iteration if request.HasField("iteration") else None,
        while_paused=request.while_paused,
        base=_base(request.base) if request.HasField("base") else None,
    )


def step(request: pb.StepRequest) -> c.Step:
    """The command of a request."""
    return c.Step(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
        messages=_messages(request.messages),
        imported=request.imported,
        while_paused=request.while_paused,
        base=_base(request.base) if request.HasField("base") else None,
    )


def set_envelope(request: pb.SetEnvelopeRequest) -> c.SetEnvelope:
    """The command of a request."""
    _require(request.HasField("envelope"), "envelope")
    return c.SetEnvelope(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
        envelope=envelope(request.envelope),
    )


def report_usage(request: pb.ReportUsageRequest) -> c.ReportUsage:
    """The command of a request."""
    _require(request.HasField("usage"), "usage")
    return c.ReportUsage(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
        iteration=request.iteration if request.HasField("iteration") else None,
        usage=_usage(request.usage, "usage"),
    )


def pause_run(request: pb.PauseRunRequest) -> c.PauseRun:
    """The command of a request."""
    return c.PauseRun(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
        calls=tuple(_call(ref, f"calls[{i}]") for i, ref in enumerate(request.calls)),
        awaits_person=request.awaits_person,
    )


def resume_run(request: pb.ResumeRunRequest) -> c.ResumeRun:
    """The command of a request."""
    return c.ResumeRun(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
    )


def abandon_tool_call(request: pb.AbandonToolCallRequest) -> c.AbandonToolCall:
    """The command of a request."""
    _require(request.HasField("call"), "call")
    return c.AbandonToolCall(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
        call=_call(request.call, "call"),
        reason=request.reason,
    )


def close_run(request: pb.CloseRunRequest) -> c.CloseRun:
    """The command of a request."""
    return c.CloseRun(
        run_id=request.run_id,
        request_id=request.request_id or None,
        expectation=_expectation(request.expectation),
        status=status(request.status, "status"),
        reason=request.reason,
    )


def envelope(message: run_pb2.Envelope) -> Envelope:
    """The envelope of a message."""
    return Envelope(
        message.system if message.HasField("system") else None,
        message.tools if message.HasField("tools") else None,
        message.model if message.HasField("model") else None,
        message.parameters if message.HasField("parameters") else None,
    )


def status(value: run_pb2.RunStatus.ValueType, field: str) -> RunStatus:
    """The status of a value. Raises :class:`FieldInvalid` for none."""
    if value not in _STATUSES:
        raise FieldInvalid(field, "must be a status of runs", str(value))
    return _STATUSES[value]


def _messages(messages: object) -> tuple[c.MessageInput, ...]:
    return tuple(_message(m, f"messages[{i}]") for i, m in enumerate(messages))  # type: ignore[arg-type, var-annotated]


def _message(message: run_pb2.NewMessage, field: str) -> c.MessageInput:
    _require(bool(message.body), f"{field}.body")
    if message.source not in _SOURCES:
        raise FieldInvalid(f"{field}.source", "must be a source of messages", str(message.source))
    return c.MessageInput(
        body=message.body,
        source=_SOURCES[message.source],
        request=message.request,
        reply_id=message.reply_id or None,
        stage_id=message.stage_id or None,
        answers_iteration=message.answers_iteration if message.HasField("answers_iteration") else None,
        usage=_usage(message.usage, f"{field}.usage") if message.HasField("usage") else None,
    )


def _usage(usage: run_pb2.Usage, field: str) -> c.UsageInput:
    given = c.UsageInput(
        usage.raw or None,
        usage.input_tokens if usage.HasField("input_tokens") else None,
        usage.output_tokens if usage.HasField("output_tokens") else None,
    )
    _require(given != c.UsageInput(), field)
    return given


def _expectation(expectation: run_pb2.Expectation) -> c.Expectation:
    match expectation.WhichOneof("expected"):
        case "version":
            return c.Expectation(version=expectation.version)
        case "no_run":
            return c.Expectation(no_run=True)
        case _:
            return c.Expectation()


def _base(base: window_pb2.WindowBase) -> c.Base:
    return c.Base(base.iteration, base.digest)


def _call(ref: run_pb2.ToolCallRef, field: str) -> c.CallRef:
    match ref.WhichOneof("call"):
        case "call_id":
            return c.CallRef(call_id=ref.call_id)
        case "position":
            return c.CallRef(message_id=ref.position.message_id, index=ref.position.index)
        case _:
            raise FieldInvalid(field, "must name a call by call_id or position", "neither")


def _require(is_there: bool, field: str) -> None:
    if not is_there:
        raise FieldInvalid(field, "is required", "absent")
