"""The ledger's use cases: facts in, windows out, one transaction each.

A use case works on what is held of the run, and the store checks that the run stands where it is believed
to: a stale cache costs a second attempt, never a wrong answer. An error or an answer that writes nothing
is given only after the run's version was checked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import uuid_utils
from eventsourcing.application import Application

from turnledger.domain import events as e
from turnledger.domain.errors import (
    FieldInvalid,
    IterationOutOfRange,
    NoWindow,
    RunClosed,
    TurnledgerError,
    VersionConflict,
)
from turnledger.domain.formats import format_named
from turnledger.domain.ids import (
    LEDGER,
    NAMESPACE_DEFAULT,
    CallKey,
    check_run_id,
    run_id_of_request,
    run_key,
    treated_stream,
)
from turnledger.domain.policies import Policy
from turnledger.domain.records import Omission
from turnledger.domain.run import Lookups, NewMessage, Run, Stamp, opened
from turnledger.domain.usage import Usage
from turnledger.domain.words import OmissionReason
from turnledger.ledger import commands as c
from turnledger.ledger.answers import (
    Answerer,
    AppendAnswer,
    EnvelopeAnswer,
    OpenAnswer,
    UsageAnswer,
    WindowAnswer,
    WriteAnswer,
)
from turnledger.ledger.encoding import EventMapper
from turnledger.ledger.loading import Loader, Replayed
from turnledger.ledger.opening import check_opening, check_same_opening, message_versions
from turnledger.ledger.outcomes import error_of_outcome, outcome_of_error
from turnledger.ledger.parsing import (
    check_envelope,
    check_limits,
    check_text,
    check_usage_limit,
    read_messages,
    read_usage,
)
from turnledger.ledger.recorder import Commit, LedgerRecorder, RequestExists, StaleHead
from turnledger.ledger.requests import check_request_id, first_outcome, request_row
from turnledger.ledger.sessions import Session, Sessions, Slot
from turnledger.ledger.tokenizers import tokenizer_named
from turnledger.ledger.writing import Unit, build_transaction
from turnledger.projections.live import Live
from turnledger.projections.visit import Visit

ATTEMPTS_MAX = 5
REASON_BYTES_MAX = 4096

Clock = Callable[[], datetime]
Answer = TypeVar("Answer", bound=WriteAnswer)


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class Ledger(Application[str]):
    """Runs and their windows, in one store."""

    name = "turnledger"

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        *,
        namespace: str = NAMESPACE_DEFAULT,
        clock: Clock = utc_now,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(dict(env or {}))
        self.namespace = namespace
        self.store = cast("LedgerRecorder", self.recorder)
        self.loader = Loader(self.store, cast("EventMapper", self.mapper))
        self.answerer = Answerer(self.loader)
        self.sessions = Sessions()
        self._clock = clock
        self._new_id = new_id or _uuid7

    def key(self, run_id: str) -> str:
        """The key of a run. Raises :class:`FieldInvalid` for what is no run id."""
        return run_key(self.namespace, check_run_id(run_id))

    # Opening

    def open_run(self, command: c.OpenRun, principal: str | None = None) -> OpenAnswer:
        """Opens a run, or answers as before where it is open with the same content."""
        check_request_id(command.request_id)
        policy = check_opening(command)
        run_id = command.run_id or (
            run_id_of_request(self.namespace, command.request_id) if command.request_id else self._new_id()
        )
        command = replace(command, run_id=check_run_id(run_id))
        key = self.key(run_id)
        messages = read_messages(command.messages, format_named(command.format), tokenizer_named(command.tokenizer))
        with self.sessions.locked(key) as slot:
            if self.store.select_head(key) is None:
                try:
                    return self._open(slot, key, command, policy, messages, principal)
                except StaleHead:
                    pass  # Another process opened it just now.
            return self._opened_before(slot, key, command, policy, messages)

    def _open(
        self,
        slot: Slot,
        key: str,
        command: c.OpenRun,
        policy: Policy,
        messages: list[NewMessage],
        principal: str | None,
    ) -> OpenAnswer:
        stamp = self._stamp(command, principal)
        opening = Run.open(
            key,
            stamp,
            format=command.format,
            policy=policy,
            tokenizer=command.tokenizer or None,
            labels=dict(command.labels),
            step_base=command.step_base or command.run_id,
            context_limit_tokens=command.context_limit_tokens,
            arguments_key=secrets.token_bytes(16),
            envelope=command.envelope is not None,
            messages=len(messages),
            imported=command.imported,
        )
        run = opened(opening)
        facts: list[e.RunEvent] = [opening]
        if command.envelope is not None:
            envelope_set = run.set_envelope(
                stamp, command.envelope, self._envelope_tokens(run, command.envelope), _no_body
            )
            assert envelope_set is not None
            facts.append(envelope_set)
            run = run.apply(envelope_set)
        appended, run = run.append(stamp, messages, _NO_LOOKUPS, imported=command.imported)
        live = Live().add(fact.message for fact in appended)
        slot.session = self._commit(Unit(None, run, [*facts, *appended], live=live), stamp, None)
        return OpenAnswer(run.version, False, slot.session.head, tuple(fact.message.version for fact in appended))

    def _opened_before(
        self, slot: Slot, key: str, command: c.OpenRun, policy: Policy, messages: list[NewMessage]
    ) -> OpenAnswer:
        session = slot.session or self.loader.session(key)
        versions = message_versions(session.run.opening)
        last = 1 + len(versions) + session.run.opening.envelope
        check_same_opening(session.run, command, policy, messages, self.loader.facts(key, 2, last, bodies=True))
        return OpenAnswer(session.run.version, True, self.loader.head(key), versions)

    # Facts

    def append(self, command: c.Append, principal: str | None = None) -> AppendAnswer:
        """Appends messages."""
        if not command.messages:
            raise FieldInvalid("messages", "at least one", "none")
        messages = self._read(command.run_id, command.messages)

        def decide(session: Session, stamp: Stamp) -> Unit:
            return self._append(session, stamp, messages, imported=command.imported)

        return self._write(command, decide, self._appended, principal)

    def _append(self, session: Session, stamp: Stamp, messages: list[NewMessage], *, imported: bool) -> Unit:
        run = session.run
        lookups = Lookups(
            lambda iteration: self.loader.window(run.key, iteration).ledger_version,
            lambda call_id: self.loader.has_call(run.key, run.version, call_id),
        )
        facts, after = run.append(stamp, messages, lookups, imported=imported)
        live = session.live.add(fact.message for fact in facts) if session.live else None
        outcome: dict[str, Any] = {
            "versions": [fact.message.version for fact in facts],
            "omissions": [[f.message.mark, f.message.version] for f in facts if f.message.mark],
        }
        return Unit(session, after, facts, outcome=outcome, live=live)

    def _appended(self, unit: Unit, replayed: bool) -> AppendAnswer:
        return AppendAnswer(
            unit.run.version, replayed, tuple(unit.outcome["versions"]), _omissions(unit.outcome["omissions"])
        )

    def set_envelope(self, command: c.SetEnvelope, principal: str | None = None) -> EnvelopeAnswer:
        """Sets what goes with the messages."""
        check_envelope(command.envelope)

        def decide(session: Session, stamp: Stamp) -> Unit:
            run = session.run
            tokens = self._envelope_tokens(run, command.envelope)
            stored = self._stored_body(run.key)
            fact = run.set_envelope(stamp, command.envelope, tokens, stored)
            after = run.apply(fact) if fact else run
            assert after.state.envelope is not None
            outcome = {"commitment": after.state.envelope.commitment}
            return Unit(session, after, [fact] if fact else [], outcome=outcome, live=session.live)

        def answer(unit: Unit, replayed: bool) -> EnvelopeAnswer:
            return EnvelopeAnswer(unit.run.version, replayed or not unit.facts, unit.outcome["commitment"])

        return self._write(command, decide, answer, principal)

    def report_usage(self, command: c.ReportUsage, principal: str | None = None) -> UsageAnswer:
        """Reports the usage of a call."""
        check_usage_limit(command.usage, "usage.raw")

        def decide(session: Session, stamp: Stamp) -> Unit:
            run = session.run
            usage = read_usage(command.usage, "usage", run.format)
            fact = run.report_usage(stamp, command.iteration, usage, command.usage.raw)
            outcome = {"input": usage.input_tokens, "output": usage.output_tokens, "off": fact.usage_implausible}
            return Unit(session, run.apply(fact), [fact], outcome=outcome, live=session.live)

        def answer(unit: Unit, replayed: bool) -> UsageAnswer:
            said = unit.outcome
            return UsageAnswer(unit.run.version, replayed, Usage(said["input"], said["output"]), said["off"])

        return self._write(command, decide, answer, principal)

    def pause_run(self, command: c.PauseRun, principal: str | None = None) -> WriteAnswer:
        """Pauses a run on some of its calls."""
        if not command.calls:
            raise FieldInvalid("calls", "at least one", "none")

        def decide(session: Session, stamp: Stamp) -> Unit:
            calls = [_open_call(session.run, ref, f"calls[{i}]") for i, ref in enumerate(command.calls)]
            fact = session.run.pause(stamp, calls, awaits_person=command.awaits_person)
            return Unit(session, session.run.apply(fact), [fact], live=session.live)

        return self._write(command, decide, _written, principal)

    def resume_run(self, command: c.ResumeRun, principal: str | None = None) -> WriteAnswer:
        """Resumes a run."""

        def decide(session: Session, stamp: Stamp) -> Unit:
            fact = session.run.resume(stamp)
            return Unit(session, session.run.apply(fact), [fact], live=session.live)

        return self._write(command, decide, _written, principal)

    def abandon_tool_call(self, command: c.AbandonToolCall, principal: str | None = None) -> WriteAnswer:
        """Gives up a call."""
        reason = check_text(command.reason, "reason", REASON_BYTES_MAX)

        def decide(session: Session, stamp: Stamp) -> Unit:
            fact = session.run.abandon(stamp, _open_call(session.run, command.call, "call"), reason)
            return Unit(session, session.run.apply(fact), [fact], live=session.live)

        return self._write(command, decide, _written, principal)

    def close_run(self, command: c.CloseRun, principal: str | None = None) -> WriteAnswer:
        """Ends a run."""
        reason = check_text(command.reason, "reason", REASON_BYTES_MAX)
        if not command.status.is_closed:
            raise FieldInvalid("status", "must be finished, failed or cancelled", command.status.value)

        def decide(session: Session, stamp: Stamp) -> Unit:
            fact = session.run.close(stamp, command.status, reason)
            return Unit(session, session.run.apply(fact), [fact], live=session.live)

        return self._write(command, decide, _written, principal)

    # Windows

    def build_window(self, command: c.BuildWindow, principal: str | None = None) -> AppendAnswer:
        """Builds the next window, or answers with one that was handed out."""

        def decide(session: Session, stamp: Stamp) -> Unit:
            return self._build(Unit(session, session.run, live=session.live), command, command.iteration)

        def answer(unit: Unit, replayed: bool) -> AppendAnswer:
            return self._windowed(unit, replayed, command.base)

        return self._write(command, decide, answer, principal)

    def step(self, command: c.Step, principal: str | None = None) -> AppendAnswer:
        """Appends messages and builds the next window, in one transaction."""
        messages = self._read(command.run_id, command.messages)

        def decide(session: Session, stamp: Stamp) -> Unit:
            session = self.loader.with_live(session)
            unit = self._append(session, stamp, messages, imported=command.imported)
            return self._build(unit, command, None)

        def answer(unit: Unit, replayed: bool) -> AppendAnswer:
            return self._windowed(unit, replayed, command.base)

        return self._write(command, decide, answer, principal)

    def _build(self, unit: Unit, command: c.BuildWindow | c.Step, iteration: int | None) -> Unit:
        """The unit with a window; or, where nothing came since the last one, or an earlier one is asked for,
        the number of that."""
        unit.outcome.setdefault("versions", [])
        unit.outcome.setdefault("omissions", [])
        run = unit.run
        state = run.state
        if iteration is not None and not 1 <= iteration <= state.iteration + 1:
            raise IterationOutOfRange(run.id, "iteration", iteration, state.iteration)
        if iteration is not None and iteration <= state.iteration:
            unit.outcome["iteration"] = iteration
            return unit
        if state.iteration and state.fact_version <= state.window_version:
            unit.outcome["iteration"] = state.iteration
            return unit
        if state.status.is_closed:
            raise RunClosed(run.id, state.status.value)
        assert unit.before is not None
        unit.before = session = self.loader.with_live(unit.before)
        live = unit.live if unit.live is not None else session.live
        assert live is not None and session.items is not None
        known = {f.originator_version: f.body for f in unit.facts if f.body is not None}
        visit = Visit(
            run,
            live,
            session.items,
            self._body_reader(run.key, known),
            self.loader.counter(run),
            while_paused=command.while_paused,
        )
        try:
            unit.draft = visit.build()
        except NoWindow as error:
            unit.outcome["error"] = outcome_of_error(error)
            unit.live = live
            return unit
        unit.outcome["iteration"] = unit.draft.state.iteration
        unit.while_paused = command.while_paused
        return unit

    def _windowed(self, unit: Unit, replayed: bool, base: c.Base | None) -> AppendAnswer:
        said = unit.outcome
        versions, omissions = tuple(said["versions"]), _omissions(said["omissions"])
        version = unit.run.version
        if "error" in said:
            error = error_of_outcome(said["error"])
            return AppendAnswer(version, replayed, versions, omissions, error=error)
        window = self._window_answer(unit, said["iteration"], base)
        return AppendAnswer(version, replayed, versions, omissions, window)

    def _window_answer(self, unit: Unit, iteration: int, base: c.Base | None) -> WindowAnswer:
        run = unit.run
        base_keys = self._base_keys(unit, base)
        if unit.draft is None:
            recorded = self.loader.replay(run, iteration)
            return self.answerer.window(run, recorded, base, base_keys, known={}, is_replay=True)
        draft = unit.draft
        known = {(LEDGER, f.originator_version): f.body for f in unit.facts if f.body is not None}
        known |= {(treated_stream(t.form.treatment), t.version): t.body for t in draft.treated if t.body is not None}
        assert unit.window is not None
        return self.answerer.window(
            run, Replayed(unit.window, draft.entries, {}), base, base_keys, known=known, is_replay=False
        )

    def _base_keys(self, unit: Unit, base: c.Base | None) -> Sequence[bytes] | None:
        """The items of the window that the caller holds; None where we know no such window."""
        run, before = unit.run, unit.before
        if base is None or not 1 <= base.iteration <= run.state.iteration:
            return None
        if before is not None and before.items is not None and base.iteration == before.run.state.iteration:
            return before.items.keys if base.digest == before.run.state.window_digest else None
        recorded = self.loader.replay(run, base.iteration)
        if recorded.window.digest != base.digest:
            return None
        return [entry.key for entry in recorded.entries]

    # Writing

    def _write(
        self,
        command: Any,
        decide: Callable[[Session, Stamp], Unit],
        answer: Callable[[Unit, bool], Answer],
        principal: str | None,
    ) -> Answer:
        """Decides on the run as it is held, writes, and answers; again where another writer was faster."""
        check_request_id(command.request_id)
        key = self.key(command.run_id)
        stamp = self._stamp(command, principal)
        with self.sessions.locked(key) as slot:
            for _ in range(ATTEMPTS_MAX):
                session = slot.session or self.loader.session(key)
                try:
                    unit = self._decide(slot, session, command, decide, stamp)
                    # A window that is on record already is answered without a write; any other answer is kept.
                    is_kept = command.request_id is not None and "iteration" not in unit.outcome
                    if unit.facts or unit.draft or is_kept:
                        slot.session = self._commit(unit, stamp, command)
                        return answer(unit, False)
                    slot.session = unit.before
                    return self._first_answer(key, command, answer, stamp) or answer(unit, False)
                except StaleHead:
                    slot.session = None
                except (RequestExists, TurnledgerError):
                    first = self._first_answer(key, command, answer, stamp)
                    if first is None:
                        raise
                    slot.session = None
                    return first
            head = self.loader.head(key)
        raise VersionConflict(command.run_id, session.run.version, head.ledger_version)

    def _decide(
        self, slot: Slot, session: Session, command: Any, decide: Callable[[Session, Stamp], Unit], stamp: Stamp
    ) -> Unit:
        """What to write. An error, or that there is nothing to write, is said only of a run as it stands now:
        raises :class:`StaleHead` where what was held of it is behind the store."""
        try:
            _check_expectation(session.run, command.expectation)
            unit = decide(session, stamp)
        except TurnledgerError:
            self._check_held(slot)
            raise
        if not (unit.facts or unit.draft):
            self._check_held(slot)
        return unit

    def _check_held(self, slot: Slot) -> None:
        held = slot.session
        if held is not None:
            head = self.store.select_head(held.run.key)
            if head is None or head.place != held.head.place:
                raise StaleHead(held.run.key)

    def _first_answer(
        self, key: str, command: Any, answer: Callable[[Unit, bool], Answer], stamp: Stamp
    ) -> Answer | None:
        """The first outcome of a request that is made again; None where it is new."""
        row = self.store.select_request(key, command.request_id) if command.request_id else None
        if row is None or row.has_expired(stamp.recorded_time):
            return None
        outcome = first_outcome(row, command, command.run_id)
        session = self.loader.session(key)
        run = replace(session.run, state=replace(session.run.state, version=outcome["version"]))
        return answer(Unit(session, run, outcome=outcome), True)

    def _commit(self, unit: Unit, stamp: Stamp, command: Any) -> Session:
        """Writes a unit, or nothing."""
        transaction = build_transaction(unit, stamp, cast("EventMapper", self.mapper))
        outcome = {**unit.outcome, "version": unit.run.version}
        key = unit.run.key
        request = request_row(key, command, outcome, stamp.recorded_time) if command is not None else None
        head = unit.before.head if unit.before else None
        # The rows as they were chained, straight to the recorder: the event store would encode the events again.
        self.store.insert_events(transaction.rows, commit=Commit(head, transaction.after.head, request))
        unit.window = transaction.window
        return transaction.after

    # Small things

    def _read(self, run_id: str, inputs: tuple[c.MessageInput, ...]) -> list[NewMessage]:
        """Parses messages and counts their tokens, before anything is locked."""
        check_limits(inputs)
        key = self.key(run_id)
        held = self.sessions.peek(key)
        head = held.head if held else self.loader.head(key)
        return read_messages(inputs, format_named(head.format), tokenizer_named(head.tokenizer))

    def _stamp(self, command: Any, principal: str | None) -> Stamp:
        return Stamp(self._clock(), principal, command.request_id)

    def _envelope_tokens(self, run: Run, envelope: Any) -> int | None:
        count = self.loader.counter(run)
        return count(envelope.texts) if count else None

    def _stored_body(self, key: str) -> Callable[[int], e.Body | None]:
        return lambda version: self.loader.bodies(key, LEDGER, [version]).get(version)

    def _body_reader(self, key: str, known: Mapping[int, e.Body]) -> Callable[[int], bytes]:
        def read(version: int) -> bytes:
            body = known.get(version) or self.loader.bodies(key, LEDGER, [version])[version]
            return body.content

        return read


_NO_LOOKUPS = Lookups(lambda iteration: 0, lambda call_id: False)


def _no_body(version: int) -> None:
    return None


def _uuid7() -> str:
    return str(uuid_utils.uuid7())


def _written(unit: Unit, replayed: bool) -> WriteAnswer:
    return WriteAnswer(unit.run.version, replayed)


def _check_expectation(run: Run, expectation: c.Expectation) -> None:
    if expectation.no_run:
        raise VersionConflict(run.id, 0, run.version)
    if expectation.version is not None and expectation.version != run.version:
        raise VersionConflict(run.id, expectation.version, run.version)


def _open_call(run: Run, ref: c.CallRef, name: str) -> CallKey:
    return run.open_call(name, call_id=ref.call_id, message_id=ref.message_id, index=ref.index)


def _omissions(rows: Sequence[Any]) -> tuple[Omission, ...]:
    return tuple(Omission(OmissionReason(reason), version) for reason, version in rows)
