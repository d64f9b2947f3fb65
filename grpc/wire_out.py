"""Answers of the ledger as messages of the wire."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from turnledger.domain import events as e
from turnledger.domain import records as r
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import NoWindow
from turnledger.domain.ids import authored_id, message_id
from turnledger.domain.words import Role, RunStatus, Source
from turnledger.grpc.errors import reason_number
from turnledger.grpc.limits import CHUNK_BYTES_MAX
from turnledger.ledger.answers import Item, ReplayAnswer, WindowAnswer
from turnledger.ledger.encoding import Row
from turnledger.ledger.recorder import RunHead
from turnledger.ledger.sessions import Session
from turnledger.projections.windows import Keep
from turnledger.v1 import audit_service_pb2 as audit
from turnledger.v1 import ledger_service_pb2 as pb
from turnledger.v1 import run_pb2, window_pb2

STATUSES = {
    RunStatus.OPEN: run_pb2.RUN_STATUS_OPEN,
    RunStatus.PAUSED: run_pb2.RUN_STATUS_PAUSED,
    RunStatus.FINISHED: run_pb2.RUN_STATUS_FINISHED,
    RunStatus.FAILED: run_pb2.RUN_STATUS_FAILED,
    RunStatus.CANCELLED: run_pb2.RUN_STATUS_CANCELLED,
}
_ROLES = {
    Role.USER: run_pb2.ROLE_USER,
    Role.MODEL: run_pb2.ROLE_MODEL,
    Role.TOOL: run_pb2.ROLE_TOOL,
    Role.SYSTEM: run_pb2.ROLE_SYSTEM,
}
_SOURCES = {
    Source.PERSON: run_pb2.SOURCE_PERSON,
    Source.MODEL: run_pb2.SOURCE_MODEL,
    Source.TOOL: run_pb2.SOURCE_TOOL,
    Source.INJECTED: run_pb2.SOURCE_INJECTED,
    Source.AUTHORED: run_pb2.SOURCE_AUTHORED,
}
_EVENT_HEAD = {"originator_id", "originator_version", "recorded_time", "body"}


def timestamp(moment: datetime) -> Timestamp:
    """The moment as a message."""
    message = Timestamp()
    message.FromDatetime(moment)
    return message


def run(head: RunHead) -> run_pb2.Run:
    """A run from its directory row."""
    return run_pb2.Run(
        run_id=head.run_key.partition("/")[2],
        status=STATUSES[head.status],
        format=head.format,
        policy_json=head.policy_json,
        tokenizer=head.tokenizer or "",
        labels=dict(head.labels),
        version=head.ledger_version,
        iteration=head.windows_version,
        message_count=head.message_count,
        opened_time=timestamp(head.opened_time),
        updated_time=timestamp(head.updated_time),
        ledger_head=head.ledger_head,
        windows_head=head.windows_head,
        input_tokens=head.input_tokens,
        output_tokens=head.output_tokens,
    )


def run_details(session: Session) -> pb.GetRunResponse:
    """A run with its open calls and its request."""
    run_id, state = session.run.id, session.run.state
    calls = [
        run_pb2.OpenToolCall(
            message_id=message_id(run_id, call.version),
            index=call.index,
            call_id=call.id,
            tool_name=call.name,
            paused=call.paused,
            abandoned=call.abandoned,
        )
        for call in state.calls
        if not call.late
    ]
    request = message_id(run_id, state.request) if state.request else ""
    return pb.GetRunResponse(run=run(session.head), open_calls=calls, request_message_id=request)


def ledger_message(run_id: str, event: e.MessageAppended) -> run_pb2.LedgerMessage:
    """A message with its body."""
    message = event.message
    return run_pb2.LedgerMessage(
        message_id=message_id(run_id, message.version),
        version=message.version,
        body=event.body.content if event.body else b"",
        salt=event.body.salt if event.body else b"",
        commitment=message.commitment,
        role=_ROLES[message.role],
        source=_SOURCES[message.source],
        request=message.request,
        iteration=message.iteration,
        reply_id=message.reply_id or "",
        stage_id=message.stage_id or "",
        size_bytes=message.size_bytes,
        characters=message.characters,
        tokens=message.tokens,
        mark=message.mark or "",
        recorded_time=timestamp(event.recorded_time),
    )


def fact(row: Row, event: e.RunEvent) -> audit.ReadLedgerResponse:
    """A fact of the ledger."""
    fields = json.loads(event.model_dump_json(exclude=_EVENT_HEAD, exclude_none=True))
    return audit.ReadLedgerResponse(
        version=event.originator_version,
        topic=event.TOPIC,
        fields_json=json.dumps(fields).encode(),
        body=event.body.content if event.body else b"",
        salt=event.body.salt if event.body else b"",
        chain=row.chain or b"",
        recorded_time=timestamp(event.recorded_time),
    )


def build_error(error: NoWindow) -> window_pb2.BuildError:
    """Why there is no window."""
    return window_pb2.BuildError(reason=reason_number(error.reason), message=str(error), metadata=error.metadata)


def window(answer: WindowAnswer) -> window_pb2.Window:
    """A window in the form that its answer has."""
    built = answer.window
    message = window_pb2.Window(
        run_id=answer.run_id,
        iteration=built.iteration,
        step_id=built.step_id,
        ledger_version=built.ledger_version,
        digest=built.digest,
        envelope_commitment=built.envelope_commitment or b"",
        replayed=answer.replayed,
        item_count=built.item_count,
        records=[_record(answer.run_id, record) for record in built.records],
        faults=[_fault(answer.run_id, fault) for fault in built.faults],
    )
    if answer.whole is not None:
        message.whole.CopyFrom(window_pb2.WholeWindow(items=map(item, answer.whole)))
    elif answer.delta is not None:
        parts = [_part(part) for part in answer.delta.parts]
        message.delta.CopyFrom(window_pb2.WindowDelta(base_iteration=answer.delta.base_iteration, parts=parts))
    elif answer.elsewhere_bytes is not None:
        message.elsewhere.size_bytes = answer.elsewhere_bytes
    return message


def item(answer: Item) -> window_pb2.WindowItem:
    """An item of a window."""
    return window_pb2.WindowItem(kind=int(answer.kind), id=answer.id, body=answer.body, salt=answer.salt)  # type: ignore[arg-type]


def replay(answer: ReplayAnswer) -> Iterator[audit.ReplayWindowResponse]:
    """One iteration as a stream: its head and first items, then further items."""
    chunks = _chunks(answer.items)
    first = audit.ReplayWindowResponse(window=window(answer.answer), items=map(item, next(chunks, [])))
    if answer.envelope is not None:
        first.envelope.CopyFrom(_envelope(answer.envelope))
    yield first
    for chunk in chunks:
        yield audit.ReplayWindowResponse(items=map(item, chunk))


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    chunk: list[Item] = []
    size = 0
    for entry in items:
        if chunk and size + len(entry.body) > CHUNK_BYTES_MAX:
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += len(entry.body)
    if chunk:
        yield chunk


def _part(part: Keep | Item) -> window_pb2.WindowDelta.Part:
    if isinstance(part, Keep):
        return window_pb2.WindowDelta.Part(keep=window_pb2.WindowDelta.Keep(start=part.start, count=part.count))
    return window_pb2.WindowDelta.Part(new=item(part))


def _envelope(envelope: Envelope) -> run_pb2.Envelope:
    return run_pb2.Envelope(
        system=envelope.system, tools=envelope.tools, model=envelope.model, parameters=envelope.parameters
    )


def _fault(run_id: str, fault: r.Fault) -> window_pb2.Fault:
    where = message_id(run_id, fault.version) if fault.version else ""
    return window_pb2.Fault(rule=fault.rule, message_id=where, detail=fault.detail)


def omission(run_id: str, omission: r.Omission) -> window_pb2.Omission:
    """A message that is not sent."""
    return window_pb2.Omission(reason=omission.reason.value, message_id=message_id(run_id, omission.version))


def _record(run_id: str, record: r.Record) -> window_pb2.Record:
    message = window_pb2.Record(
        strategy=record.strategy,
        strategy_version=record.strategy_version,
        options_digest=record.options_digest,
        outcome=record.outcome.value,
        outcome_reason=record.outcome_reason.value if record.outcome_reason else "",
        iteration=record.iteration,
        ledger_version=record.ledger_version,
        envelope_version=record.envelope_version,
        removed=_ranges(run_id, record.removed),
        removed_count=record.removed_count,
        removed_stages=record.removed_stages,
        removed_lived_max=record.removed_lived_max,
        rewritten=_ranges(run_id, record.rewritten),
        rewritten_count=record.rewritten_count,
        refusals=[_refusal(run_id, refusal) for refusal in record.refusals],
        dropped_observations=record.dropped_observations,
        pins=window_pb2.Pins(
            pinned=_ranges(run_id, record.pins.pinned),
            yielded=record.pins.yielded,
            limit=record.pins.limit,
            stand_down=_ranges(run_id, record.pins.stand_down),
        ),
        omissions=[omission(run_id, o) for o in record.omissions],
        mends=[window_pb2.Mend(kind=m.kind.value, message_id=message_id(run_id, m.version)) for m in record.mends],
        authored=[authored_id(run_id, record.iteration, index) for index in record.authored],
        before=_size(record.before),
        after=_size(record.after),
        keep_recent_turns=record.keep_recent_turns,
        unchanged_items=record.unchanged_items,
        unchanged_bytes=record.unchanged_bytes,
        first_changed_id=record.first_changed_id or "",
        digest=record.digest,
        persist=record.persist,
    )
    if record.measurement is not None:
        message.measurement.CopyFrom(_measurement(record.measurement))
    return message


def _ranges(run_id: str, spans: Iterable[r.Span]) -> list[window_pb2.MessageRange]:
    return [
        window_pb2.MessageRange(first_id=message_id(run_id, first), last_id=message_id(run_id, last))
        for first, last in spans
    ]


def _refusal(run_id: str, refusal: r.Refusal) -> window_pb2.Refusal:
    return window_pb2.Refusal(
        reason=refusal.reason.value,
        first_id=message_id(run_id, refusal.first),
        last_id=message_id(run_id, refusal.last),
        turn_count=refusal.turns,
    )


def _size(size: r.Size) -> window_pb2.WindowSize:
    return window_pb2.WindowSize(
        turns=size.turns, items=size.items, bytes=size.bytes, characters=size.characters, tokens=size.tokens
    )


def _measurement(measurement: r.Measurement) -> window_pb2.Measurement:
    return window_pb2.Measurement(
        tokens=measurement.tokens,
        source=measurement.source,
        threshold_tokens=measurement.threshold_tokens,
        over_budget=measurement.over_budget,
        not_measured_streak=measurement.not_measured_streak,
    )
