"""The run: one agent run or standing conversation, as an immutable aggregate.

Commands return the facts that they would add, or raise; :meth:`Run.apply` folds a fact or a window into
the next ``Run``. Nothing here reads a clock, a store or a random source.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from turnledger.domain import events as e
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import (
    FieldInvalid,
    IterationOutOfRange,
    ResultDuplicate,
    ResultOrphan,
    ResultRefused,
    ResultsMixed,
    RunClosed,
    RunNotPaused,
    ToolCallNotOpen,
    shown,
)
from turnledger.domain.formats import FORMATS, Format, Reading, ReadResult
from turnledger.domain.ids import LEDGER, CallKey, message_version, originator_id
from turnledger.domain.jsonbytes import canonical, text_bytes
from turnledger.domain.messages import Call, Message, Result
from turnledger.domain.policies import Policy
from turnledger.domain.records import Omission
from turnledger.domain.state import (
    ENVELOPES_REMEMBERED_MAX,
    REPLIES_REMEMBERED_MAX,
    UNANSWERED_REMEMBERED_MAX,
    EnvelopeInForce,
    PendingCall,
    Reply,
    ReportedUsage,
    RunState,
)
from turnledger.domain.usage import Usage
from turnledger.domain.words import OmissionReason, Role, RunStatus, Source

Changes = dict[str, Any]
"""What a fact changes of the state, by field."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What every fact carries: when it was recorded, who called, and the request id."""

    recorded_time: datetime
    principal: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to append: its body, what it says, and what the worker says of it."""

    body: bytes
    reading: Reading
    source: Source | None = None
    request: bool = False
    reply_id: str | None = None
    stage_id: str | None = None
    answers_iteration: int | None = None
    usage: Usage | None = None
    usage_raw: bytes | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Lookups:
    """What a rule must ask of the ledger beyond the state; asked only where a rule needs it."""

    window_version: Callable[[int], int]
    """The ledger version that an earlier window saw."""
    has_call: Callable[[bytes], bool]
    """Whether any message of the run made a call with this id."""


@dataclass(frozen=True)
class Run:
    """A run and where it stands."""

    key: str
    """``<namespace>/<run>``."""
    opening: e.RunOpened
    state: RunState
    arguments_key: bytes
    """Under which the tags of call arguments are made."""

    @property
    def id(self) -> str:
        """The run's id."""
        return self.key.partition("/")[2]

    @property
    def version(self) -> int:
        """Version of its last fact."""
        return self.state.version

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.opening.parsed_policy

    @property
    def format(self) -> Format:
        """The format of its messages."""
        return FORMATS[self.opening.format]

    # Commands

    @classmethod
    def open(
        cls,
        key: str,
        stamp: Stamp,
        *,
        format: str,
        policy: Policy,
        tokenizer: str | None,
        labels: dict[str, str],
        step_base: str,
        context_limit_tokens: int | None,
        arguments_key: bytes,
        envelope: bool = False,
        messages: int = 0,
        imported: bool = False,
    ) -> e.RunOpened:
        """The fact that begins a run."""
        return e.RunOpened(
            originator_id=originator_id(key, LEDGER),
            originator_version=1,
            **_stamp(stamp),
            body=e.Body.of(arguments_key),
            format=format,
            policy=policy.model_dump(),
            tokenizer=tokenizer,
            labels=labels,
            step_base=step_base,
            context_limit_tokens=context_limit_tokens,
            envelope=envelope,
            messages=messages,
            imported=imported,
        )

    def append(
        self, stamp: Stamp, messages: Sequence[NewMessage], lookups: Lookups, *, imported: bool = False
    ) -> tuple[list[e.MessageAppended], Run]:
        """The facts of appended messages, and the run after them.

        Raises :class:`ResultOrphan`, :class:`ResultDuplicate`, :class:`ResultsMixed` (not of an import,
        which marks them), :class:`IterationOutOfRange`, :class:`FieldInvalid`, :class:`RunClosed`.
        """
        self._check_open()
        run, facts = self, []
        made: set[bytes] = set()
        for index, new in enumerate(messages):
            fact = run._append_one(stamp, new, f"messages[{index}]", lookups, made, imported)
            facts.append(fact)
            made.update(call.id for call in fact.message.calls)
            run = run.apply(fact)
        return facts, run

    def _append_one(
        self,
        stamp: Stamp,
        new: NewMessage,
        field: str,
        lookups: Lookups,
        made: set[bytes],
        imported: bool,
    ) -> e.MessageAppended:
        reading, state = new.reading, self.state
        source = new.source or reading.source
        _check_claims(new, source, field)
        results, mark = self._pair(reading, field, lookups, made, imported)
        if reading.is_empty and not (reading.role is Role.USER and source is Source.PERSON):
            # Nothing of it could be sent. What a person sent, even if empty, is sent as a placeholder.
            mark = OmissionReason.LEFT_OUT_EMPTY
        reply_id = (new.reply_id or reading.reply_id) if reading.role is Role.MODEL else None
        reply = next((r for r in state.replies if r.id == reply_id), None)
        answers, read_through = self._read_through(new, reply, field, lookups)
        body = e.Body.of(new.body)
        message = Message(
            version=state.version + 1,
            ordinal=state.message_count + 1,
            role=reading.role,
            source=source,
            iteration=state.iteration,
            commitment=body.commitment,
            size_bytes=len(new.body),
            characters=reading.characters,
            tokens=new.tokens,
            calls=tuple(
                Call(text_bytes(c.id), text_bytes(c.name), self._arguments_tag(c.arguments_value))
                for c in reading.calls
            ),
            results=results,
            request=new.request,
            reply_id=reply_id,
            reply=reply.version if reply else None,
            stage_id=new.stage_id,
            answers=answers,
            read_through=read_through,
            mark=mark,
            is_empty=reading.is_empty,
            mixes_content=reading.mixes_content,
        )
        return e.MessageAppended(
            **self._head(stamp),
            body=body,
            message=message,
            usage=new.usage,
            usage_raw=new.usage_raw,
            usage_implausible=self._is_implausible(new.usage),
        )

    def _pair(
        self, reading: Reading, field: str, lookups: Lookups, made: set[bytes], imported: bool
    ) -> tuple[tuple[Result, ...], OmissionReason | None]:
        """The calls that the results of a message answer (WINDOW-RULES 1.2, 1.4).

        ``made`` are the ids of calls that came with the same append.
        """
        waiting = _Waiting(self.state.calls if reading.results else ())
        paired = [(read, waiting.take(text_bytes(read.call_id))) for read in reading.results]
        calls = [call for _, call in paired if call is not None]
        # A late result is kept but not sent; so it may not take anything else out of sight. And results come
        # before other content, so only one message of a turn can hold both.
        stands_alone = all(call.abandoned for call in calls) and not reading.mixes_content
        mark: OmissionReason | None = None
        for read, call in paired:
            error: type[ResultRefused] | None = None
            if call is None:
                is_second = text_bytes(read.call_id) in made or lookups.has_call(text_bytes(read.call_id))
                error = ResultDuplicate if is_second else ResultOrphan
                mark = mark or (OmissionReason.LATE_RESULT if is_second else OmissionReason.ORPHAN_RESULT)
            elif (
                call.reply_version != calls[0].reply_version
                or reading.is_misordered
                or (call.beside_content and reading.mixes_content)
            ):
                error = ResultsMixed
                mark = mark or OmissionReason.ORPHAN_RESULT
            elif call.abandoned:
                error = None if stands_alone else ResultsMixed
                mark = mark or OmissionReason.LATE_RESULT
            if error is not None and not imported:
                raise error(self.id, field, shown(read.call_id))
        return tuple(_result(index, read, call) for index, (read, call) in enumerate(paired)), mark

    def _read_through(
        self, new: NewMessage, reply: Reply | None, field: str, lookups: Lookups
    ) -> tuple[int | None, int | None]:
        """Which iteration a reply answers, and up to where the model had read (WINDOW-RULES 4.2)."""
        state = self.state
        if new.reading.role is not Role.MODEL:
            return None, None
        if new.answers_iteration is not None and not 1 <= new.answers_iteration <= state.iteration:
            raise IterationOutOfRange(self.id, f"{field}.answers_iteration", new.answers_iteration, state.iteration)
        if reply is not None:
            # A further part of the same reply has read no more than the first.
            return reply.answers, reply.read_through
        answers = new.answers_iteration or state.iteration
        if answers <= state.answered_iteration and answers not in state.unanswered:
            # It answers no window of ours, or one that is answered: history brought along.
            return None, state.version
        seen = state.window_version if answers == state.iteration else lookups.window_version(answers)
        return answers, max(seen, state.read_through)

    def _arguments_tag(self, arguments: object) -> bytes:
        return hmac.digest(self.arguments_key, canonical(arguments), "sha256")[:8]

    def _is_implausible(self, usage: Usage | None) -> bool:
        limit = self.opening.context_limit_tokens
        return bool(usage and limit and usage.input_tokens and usage.input_tokens > limit)

    def set_envelope(
        self,
        stamp: Stamp,
        envelope: Envelope,
        tokens: int | None,
        stored: Callable[[int], e.Body | None],
    ) -> e.EnvelopeSet | None:
        """The fact that sets the envelope, or None where these bytes are in force already.

        ``stored`` reads the body of an earlier fact, so that equal bytes are kept once.
        """
        self._check_open()
        content = envelope.encode()
        held = self._envelope_with(content, stored)
        if held and self.state.envelope and held[0] == self.state.envelope.version:
            return None
        body = None if held else e.Body.of(content)
        return e.EnvelopeSet(
            **self._head(stamp),
            body=body,
            commitment=held[1].commitment if held else body.commitment if body else b"",
            size_bytes=len(content),
            has_tools=envelope.has_tools,
            tokens=tokens,
            same_as=held[0] if held else None,
        )

    def _envelope_with(self, content: bytes, stored: Callable[[int], e.Body | None]) -> tuple[int, e.Body] | None:
        for version, size in reversed(self.state.envelopes):
            if size == len(content):
                body = stored(version)
                if body and body.content == content:
                    return version, body
        return None

    def report_usage(
        self, stamp: Stamp, iteration: int | None, usage: Usage, usage_raw: bytes | None
    ) -> e.UsageReported:
        """The fact of a usage report. Raises :class:`IterationOutOfRange`, :class:`RunClosed`."""
        self._check_open()
        named = self.state.iteration if iteration is None else iteration
        if not 1 <= named <= self.state.iteration:
            raise IterationOutOfRange(self.id, "iteration", named, self.state.iteration)
        return e.UsageReported(
            **self._head(stamp),
            iteration=named,
            usage=usage,
            usage_raw=usage_raw,
            usage_implausible=self._is_implausible(usage),
        )

    def pause(self, stamp: Stamp, calls: Iterable[CallKey], *, awaits_person: bool) -> e.RunPaused:
        """The fact that the run waits on some of its calls. Raises :class:`RunClosed`."""
        self._check_open()
        return e.RunPaused(**self._head(stamp), calls=tuple(calls), awaits_person=awaits_person)

    def resume(self, stamp: Stamp) -> e.RunResumed:
        """The fact that the run waits no longer. Raises :class:`RunNotPaused`, :class:`RunClosed`."""
        self._check_open()
        if self.state.status is not RunStatus.PAUSED:
            raise RunNotPaused(self.id)
        return e.RunResumed(**self._head(stamp))

    def abandon(self, stamp: Stamp, call: CallKey, reason: bytes) -> e.ToolCallAbandoned:
        """The fact that a call is given up. Raises :class:`RunClosed`."""
        self._check_open()
        body = e.Body.of(reason) if reason else None
        return e.ToolCallAbandoned(
            **self._head(stamp), body=body, call=call, commitment=body.commitment if body else None
        )

    def close(self, stamp: Stamp, status: RunStatus, reason: bytes) -> e.RunClosed:
        """The fact that the run ends. Raises :class:`RunClosed`."""
        self._check_open()
        body = e.Body.of(reason) if reason else None
        return e.RunClosed(**self._head(stamp), body=body, status=status, commitment=body.commitment if body else None)

    def open_call(self, field: str, *, call_id: bytes | None = None, message_id: str = "", index: int = 0) -> CallKey:
        """The open call that a reference names, by the provider's id or by its place.

        Raises :class:`ToolCallNotOpen`, and :class:`MessageNotFound` for an id of another run.
        """
        if call_id is not None:
            matches = [c.key for c in self.state.calls if c.id == call_id and not c.abandoned]
            value = shown(call_id.decode("utf-8", "replace"))
        else:
            place = CallKey(message_version(self.id, message_id), index)
            matches = [c.key for c in self.state.calls if c.key == place and not c.abandoned]
            value = f"{message_id}[{index}]"
        if len(matches) != 1:
            raise ToolCallNotOpen(self.id, field, value, len(matches))
        return matches[0]

    def _head(self, stamp: Stamp) -> dict[str, Any]:
        return {
            "originator_id": originator_id(self.key, LEDGER),
            "originator_version": self.state.version + 1,
            **_stamp(stamp),
        }

    def _check_open(self) -> None:
        if self.state.status.is_closed:
            raise RunClosed(self.id, self.state.status.value)

    # Folding

    def apply(self, event: e.RunEvent) -> Run:
        """The run after one more fact or window."""
        if isinstance(event, e.WindowBuilt):
            return replace(self, state=event.state)
        state = self.state
        changes: Changes = {"version": event.originator_version}
        if not isinstance(event, e.UsageReported):
            changes["fact_version"] = event.originator_version
        match event:
            case e.MessageAppended():
                changes |= _of_message(state, event)
            case e.EnvelopeSet():
                changes |= _of_envelope(state, event)
            case e.UsageReported():
                changes |= _of_report(state, event)
            case e.RunPaused():
                calls = tuple(
                    replace(c, paused=True, awaits_person=event.awaits_person) if c.key in event.calls else c
                    for c in state.calls
                )
                changes |= {"status": RunStatus.PAUSED, "calls": calls}
            case e.RunResumed():
                calls = tuple(replace(c, paused=False, awaits_person=False) for c in state.calls)
                changes |= {"status": RunStatus.OPEN, "calls": calls}
            case e.ToolCallAbandoned():
                calls = tuple(
                    replace(c, abandoned=True, paused=False, awaits_person=False) if c.key == event.call else c
                    for c in state.calls
                )
                changes["calls"] = calls
            case e.RunClosed():
                changes["status"] = event.status
        # A state is put together once for a fact: it has many fields, and this is done for every message.
        return Run(self.key, self.opening, replace(state, **changes), self.arguments_key)


def opened(event: e.RunOpened) -> Run:
    """The run that an opening begins."""
    key = event.originator_id.rpartition("/")[0]
    arguments_key = event.body.content if event.body else b""
    return Run(key, event, RunState(version=1, fact_version=1), arguments_key)


def project_run(run: Run | None, events: Iterable[Any]) -> Run | None:
    """Folds events in order; the projector function for the library's repository."""
    for event in events:
        run = opened(event) if run is None else run.apply(event)
    return run


def _stamp(stamp: Stamp) -> dict[str, Any]:
    return {
        "recorded_time": stamp.recorded_time,
        "principal": stamp.principal,
        "request_id": stamp.request_id,
    }


def _check_claims(new: NewMessage, source: Source, field: str) -> None:
    if source is Source.AUTHORED:
        raise FieldInvalid(f"{field}.source", "only the service authors", source.value)
    if not new.request:
        return
    if new.reading.role not in (Role.USER, Role.TOOL) or not (
        new.reading.role is Role.USER or new.reading.mixes_content
    ):
        raise FieldInvalid(f"{field}.request", "only a user's message can be the request", f"role {new.reading.role}")
    if source is Source.INJECTED:
        raise FieldInvalid(f"{field}.request", "an injected message is never the request", "true")


class _Waiting:
    """Calls without a result, as the results of one message take them (WINDOW-RULES 1.2)."""

    def __init__(self, calls: Iterable[PendingCall]) -> None:
        self._open: dict[bytes, list[deque[PendingCall]]] = {}
        self._abandoned: dict[bytes, list[deque[PendingCall]]] = {}
        for call in calls:
            if call.late:
                continue
            replies = (self._abandoned if call.abandoned else self._open).setdefault(call.id, [])
            if not replies or replies[-1][0].reply_version != call.reply_version:
                replies.append(deque())
            replies[-1].append(call)

    def take(self, call_id: bytes) -> PendingCall | None:
        """The most recent open call with this id, else the latest abandoned one; those of one reply, which
        were made at once, in their order."""
        for calls in (self._open, self._abandoned):
            if replies := calls.get(call_id):
                call = replies[-1].popleft()
                if not replies[-1]:
                    replies.pop()
                return call
        return None


def _result(index: int, read: ReadResult, call: PendingCall | None) -> Result:
    if call is None:
        return Result(0, index, b"", b"", read.is_error)
    return Result(call.version, call.index, call.name, call.arguments_tag, read.is_error)


def _of_message(state: RunState, event: e.MessageAppended) -> Changes:
    message = event.message
    changes: Changes = {"message_count": message.ordinal}
    if message.mark is not None:
        changes |= _of_marked(state, message)
    elif message.results:
        changes |= _of_results(state, message)
    if message.mark is None:
        changes["last_message"] = message.version
        if message.request:
            changes["flagged_request"] = message.version
        if message.role is Role.USER and message.source is Source.PERSON:
            changes["person_message"] = message.version
    if message.role is Role.MODEL:
        # A reply has no results, so what was changed above are no calls.
        changes |= _of_reply(state, message)
    if event.usage is not None:
        changes |= _of_reply_usage(state, message, event.usage, event.usage_implausible)
    return changes


def _of_marked(state: RunState, message: Message) -> Changes:
    assert message.mark is not None
    omission = Omission(message.mark, message.version)
    late = {CallKey(r.call_version, r.call_index) for r in message.results}
    # The call stays as it is rendered; another result for it would be a second.
    calls = tuple(replace(c, late=True) if c.abandoned and c.key in late else c for c in state.calls)
    return {"omissions": (*state.omissions, omission), "calls": calls}


def _of_results(state: RunState, message: Message) -> Changes:
    answered = {CallKey(r.call_version, r.call_index) for r in message.results}
    replaced = any(c.closed for c in state.calls if c.key in answered)
    calls = tuple(c for c in state.calls if c.key not in answered)
    replies = state.replies
    if message.mixes_content:
        beside = {c.reply_version for c in state.calls if c.key in answered}
        calls = tuple(replace(c, beside_content=True) if c.reply_version in beside else c for c in calls)
        replies = tuple(r._replace(beside_content=True) if r.version in beside else r for r in replies)
    return {
        "calls": calls,
        "replies": replies,
        "closings_replaced": (*state.closings_replaced, message.version) if replaced else state.closings_replaced,
    }


def _of_reply(state: RunState, message: Message) -> Changes:
    first = message.reply or message.version
    beside = any(r.beside_content for r in state.replies if r.version == first)
    answers, answered = message.answers or 0, state.answered_iteration
    passed_over = range(max(answered + 1, answers - UNANSWERED_REMEMBERED_MAX), answers)
    unanswered = (*(i for i in state.unanswered if i != answers), *passed_over)
    made = tuple(
        PendingCall(message.version, i, call.id, call.name, call.arguments_tag, first, beside)
        for i, call in enumerate(message.calls)
    )
    replies = state.replies
    if message.reply_id is not None and message.reply is None:
        replies = (*replies, Reply(message.reply_id, first, message.answers, message.read_through or 0))
    return {
        "calls": state.calls + made,
        "replies": replies[-REPLIES_REMEMBERED_MAX:],
        "read_through": max(state.read_through, message.read_through or 0),
        "answered_iteration": max(answered, answers),
        "unanswered": unanswered[-UNANSWERED_REMEMBERED_MAX:],
    }


def _of_envelope(state: RunState, event: e.EnvelopeSet) -> Changes:
    holder = event.same_as or event.originator_version
    envelopes = state.envelopes
    if event.same_as is None:
        envelopes = (*envelopes, (holder, event.size_bytes))[-ENVELOPES_REMEMBERED_MAX:]
    in_force = EnvelopeInForce(holder, event.commitment, event.has_tools, event.tokens)
    return {"envelope": in_force, "envelopes": envelopes}


def _of_reply_usage(state: RunState, message: Message, usage: Usage, implausible: bool) -> Changes:
    """A reply brings its usage; a split one repeats it with each part, and it may have been reported before."""
    reply, last = message.reply or message.version, state.usage
    iteration = message.answers or state.answered_iteration
    is_reported = last is not None and not last.reply_version and last.iteration == message.answers
    again = last is not None and (last.reply_version == reply or is_reported)
    return _of_usage(state, ReportedUsage(iteration, usage, implausible, reply), again=again)


def _of_report(state: RunState, event: e.UsageReported) -> Changes:
    """A report corrects what is known of the same call."""
    last = state.usage
    again = last is not None and last.iteration == event.iteration
    reply = last.reply_version if last is not None and again else 0
    return _of_usage(state, ReportedUsage(event.iteration, event.usage, event.usage_implausible, reply), again=again)


def _of_usage(state: RunState, report: ReportedUsage, *, again: bool) -> Changes:
    last, usage = state.usage, report.usage
    counted = last.usage if last is not None and again else Usage()
    # What comes late of an earlier call counts, but says nothing of the latest.
    is_latest = last is None or report.iteration >= last.iteration
    return {
        "usage": report if is_latest else last,
        "input_tokens": state.input_tokens + (usage.input_tokens or 0) - (counted.input_tokens or 0),
        "output_tokens": state.output_tokens + (usage.output_tokens or 0) - (counted.output_tokens or 0),
    }
