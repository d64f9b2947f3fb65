"""The engine: builds the window of one iteration. Every strategy goes through it; none can bypass it.

Linear in the turns of the window, and nothing in it depends on how long the run is (WINDOW-RULES 4.8).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Literal

from turnledger.domain.compositions import Composition
from turnledger.domain.digests import ItemKind, window_digest
from turnledger.domain.errors import CompactionUnmeasurable, NothingToAnswer, RunPaused, WindowInvalid
from turnledger.domain.events import Body
from turnledger.domain.ids import authored_id, message_id
from turnledger.domain.jsonbytes import parse, parse_exact
from turnledger.domain.messages import Message
from turnledger.domain.policies import NonePolicy
from turnledger.domain.records import Fault, Measurement, Mend, Omission, Pins, Record, Refusal, Span
from turnledger.domain.run import Run
from turnledger.domain.state import ABANDONED_REMEMBERED_MAX, PendingCall, RunState
from turnledger.domain.words import MendKind, NotEngaged, Outcome, RefusalReason, Role, RunStatus
from turnledger.projections import notices
from turnledger.projections.arrange import Arrangement, Arranger, arrange_verbatim, ends_with_model
from turnledger.projections.entries import CountTokens, Entry, TreatedForm, authored_entry, compose
from turnledger.projections.guards import Guard, Plan, Reasons, plan
from turnledger.projections.live import Live, Notice
from turnledger.projections.sizes import size_of, tokens_of
from turnledger.projections.strategies import Decision, Drop, ResultsView, Rewrite, strategy_of
from turnledger.projections.turns import Turn
from turnledger.projections.validity import faults
from turnledger.projections.windows import Items, itemize

ReadBody = Callable[[int], bytes]
"""The body of a message of the run, by version."""


@dataclass(frozen=True, slots=True)
class Treated:
    """A treated form that is new in this visit, and its body; None: unchanged for good."""

    version: int
    form: TreatedForm
    body: Body | None


@dataclass(frozen=True, slots=True)
class Draft:
    """A window, not yet recorded."""

    entries: tuple[Entry, ...]
    items: Items
    composition: Composition
    digest: bytes
    records: tuple[Record, ...]
    faults: tuple[Fault, ...]
    treated: tuple[Treated, ...]
    state: RunState
    live: Live


@dataclass(slots=True)
class _Changes:
    """What the operations of a visit did to the live part of the run."""

    live: Live
    state: RunState
    removed: tuple[Turn, ...] = ()
    observations: tuple[bytes, ...] = ()
    """The tools whose results were removed."""
    reasons: Reasons | None = None
    """Why each turn of the window before stays; None where no drop was planned."""
    span: range = range(0)
    plan: Plan | None = None
    treated: list[Treated] = field(default_factory=list)
    stays: dict[int, RefusalReason] = field(default_factory=dict)


class Visit:
    """One visit: what a strategy sees of the window, and what comes of its decision."""

    def __init__(
        self,
        run: Run,
        live: Live,
        previous: Items,
        read_body: ReadBody,
        count: CountTokens | None,
        *,
        while_paused: bool = False,
    ) -> None:
        self._run = run
        self._state = run.state
        self._live = live
        self._previous = previous
        self._read_body = read_body
        self._count = count
        self._while_paused = while_paused
        self._plans: dict[int, Plan] = {}
        self._results: dict[int, ResultsView] | None = None

    @cached_property
    def _standing(self) -> Arrangement:
        """What would be sent if nothing were done."""
        return self._arranger(self._state).arrange(self._live)

    @cached_property
    def _messages(self) -> dict[int, Message]:
        return {m.version: m for turn in self._live.turns for m in turn.messages}

    def _arranger(self, state: RunState) -> Arranger:
        return Arranger(state, self._run.format, self._count, while_paused=self._while_paused)

    def build(self) -> Draft:
        """The window. Raises a :class:`turnledger.domain.errors.NoWindow` where there is none."""
        if self._state.status is RunStatus.PAUSED and not self._while_paused:
            raise RunPaused(self._run.id)
        policy = self._run.policy
        strategy = strategy_of(policy)
        if strategy is None:
            return self._build_whole(mend=isinstance(policy, NonePolicy) and policy.mend)
        decision = strategy.decide(self)
        changes = self._apply(decision)
        arranged = self._arrange(changes)
        self._check(arranged.entries)
        return self._draft(arranged, changes, decision)

    # What a strategy sees

    @property
    def turn_count(self) -> int:
        """See :class:`turnledger.projections.strategies.base.View`."""
        return len(self._live.turns)

    def plan(self, recent: int) -> range:
        """See :class:`turnledger.projections.strategies.base.View`."""
        return self._plan(recent).span

    def measure(self, by: Literal["reported", "tokenizer"], threshold_tokens: int) -> Measurement:
        """See :class:`turnledger.projections.strategies.base.View`."""
        if by == "tokenizer":
            envelope = self._state.envelope.tokens or 0 if self._state.envelope else 0
            tokens = tokens_of(self._standing.pieces) + envelope
            return Measurement(self._run.opening.tokenizer or "", threshold_tokens, tokens, tokens > threshold_tokens)
        reported = self._reported()
        streak = 0 if reported is not None else self._state.not_measured_streak + 1
        over = reported is not None and reported > threshold_tokens
        return Measurement("reported", threshold_tokens, reported, over, streak)

    def results(self) -> Sequence[ResultsView]:
        """See :class:`turnledger.projections.strategies.base.View`."""
        if self._results is None:
            self._results = self._find_results()
        return tuple(self._results.values())

    def result_texts(self, version: int) -> Sequence[str]:
        """See :class:`turnledger.projections.strategies.base.View`."""
        return [result.text for result in self._run.format.read(parse(self._read_body(version))).results]

    def message_id(self, version: int) -> str:
        """See :class:`turnledger.projections.strategies.base.View`."""
        return message_id(self._run.id, version)

    def _find_results(self) -> dict[int, ResultsView]:
        guard = Guard(self._live.turns, self._state)
        pinned = set(self._plan(0).pinned.admitted)
        views = [
            ResultsView(m.version, len(m.results), guard.of_results(turn, m, is_pinned=index in pinned))
            for index, turn in enumerate(self._live.turns)
            for m in turn.messages
            if m.results and not self._is_settled(m.version)
        ]
        return {view.version: view for view in sorted(views, key=lambda view: -view.version)}

    def _is_settled(self, version: int) -> bool:
        form = self._live.forms.get(version)
        return form is not None and form.treatment == self._run.policy.treatment_id

    def _reported(self) -> int | None:
        """The input reported for the last window's call (6.4); it knows of all removals before it."""
        report = self._state.usage
        if report is None or report.iteration != self._state.iteration or not self._state.iteration:
            return None
        if report.usage.is_unmeasurable:
            raise CompactionUnmeasurable(self._run.id, self._run.format.name, report.iteration)
        return None if report.implausible else report.usage.input_tokens

    def _plan(self, recent: int) -> Plan:
        if recent not in self._plans:
            policy = self._run.policy
            self._plans[recent] = plan(
                self._live.turns,
                self._state,
                recent=recent,
                pin_limit=policy.pin_limit,
                pin_by_arguments=policy.pin_by == "tool-and-arguments",
            )
        return self._plans[recent]

    # What comes of its decision

    def _apply(self, decision: Decision) -> _Changes:
        changes = _Changes(self._live, self._state, stays=dict(decision.stays))
        if decision.recent is not None:
            changes.plan = self._plan(decision.recent)
            changes.reasons = list(changes.plan.reasons)
        for operation in decision.operations:
            match operation:
                case Drop(span):
                    self._drop(changes, span)
                case Rewrite():
                    self._rewrite(changes, operation)
        if changes.treated:
            forms = {**changes.live.forms, **{treated.version: treated.form for treated in changes.treated}}
            changes.live = replace(changes.live, forms=forms)
        return changes

    def _drop(self, changes: _Changes, span: range) -> None:
        planned = changes.plan
        assert planned is not None
        assert changes.reasons is not None
        # Whatever a strategy asks for, only what was planned leaves.
        if not span or span.start != planned.span.start or span.stop > planned.span.stop:
            raise AssertionError(f"a strategy asked for {span}, but the plan is {planned.span}")
        live = self._live
        removed = live.turns[span.start : span.stop]
        observations = notices.observations(removed)
        dropped = notices.with_removed(self._state.dropped, removed, observations)
        kept = live.turns[: span.start] + live.turns[span.stop :]
        reaches_front = all(reason in _NEVER_LEAVES for reason in planned.reasons[: span.start])
        position = self._notice_position(span, reaches_front)
        state = replace(self._state, dropped=dropped)
        notice = None if position is None else self._notice(state, span, kept, position)
        if notice is None and self._lacks_opening(kept):
            for index in span:
                changes.reasons[index] = RefusalReason.REPLACEMENT_NOT_SMALLER
            return
        forms = live.forms
        if forms:
            gone = {version for turn in removed for version in turn.versions}
            forms = {version: form for version, form in forms.items() if version not in gone}
        changes.live = replace(live, turns=kept, notice=notice, forms=forms)
        changes.state = replace(
            state,
            calls=_remembered(state.calls, kept),
            # What came since the last window is told at least once, whatever left around it.
            omissions=_still_told(state.omissions, kept, min(removed[-1].last, state.window_version)),
        )
        changes.removed, changes.span, changes.observations = removed, span, observations

    def _notice_position(self, span: range, reaches_front: bool) -> int | None:
        """How many kept turns stand before the notice; None where the window has none (5.1, 5.3)."""
        standing = self._live.notice
        if standing is None:
            return span.start if reaches_front else None
        if standing.position <= span.start:
            return standing.position
        return max(span.start, standing.position - len(span))

    def _notice(self, state: RunState, span: range, kept: Sequence[Turn], position: int) -> Notice | None:
        """The first wording that is smaller than what it replaces (5.4)."""
        standing = self._standing
        replaced = sum([piece.characters for piece in standing.turns[span.start : span.stop]])
        replaced += standing.notice.characters if standing.notice else 0
        above = any(turn.holds(state.request) for turn in kept[:position]) if state.request else False
        wordings = notices.texts(
            self._run.id,
            state.dropped,
            iteration=state.iteration + 1,
            strategy=self._run.policy.strategy,
            request=state.request if above else 0,
        )
        for text in wordings:
            if len(text) < replaced:
                format = self._run.format
                entry = authored_entry(ItemKind.NOTICE, format.user_message(text), format, self._count)
                return Notice(entry, position)
        return None

    def _lacks_opening(self, kept: Sequence[Turn]) -> bool:
        """Without a notice, the window would open with what its provider refuses there, and it does not now."""
        if not self._run.format.profile.opens_with_user or not kept:
            return False
        return kept[0].messages[0].role is not Role.USER and self._standing.entries[0].role is Role.USER

    def _rewrite(self, changes: _Changes, rewrite: Rewrite) -> None:
        version = rewrite.version
        if self._results is None or version not in self._results or self._results[version].refusal is not None:
            raise AssertionError(f"a strategy rewrote {version}, which may not be rewritten")
        form, body = self._treat(self._messages[version], rewrite.texts)
        if body is None:
            changes.stays[version] = RefusalReason.REPLACEMENT_NOT_SMALLER
        changes.treated.append(Treated(version, form, body))

    def _treat(self, message: Message, texts: Sequence[str]) -> tuple[TreatedForm, Body | None]:
        treatment = self._run.policy.treatment_id
        format = self._run.format
        content = format.rewrite(parse_exact(self._read_body(message.version)), texts)
        reading = format.read(parse(content))
        if reading.characters >= message.characters:
            return TreatedForm(treatment, None), None
        body = Body.of(content)
        tokens = self._count(reading.texts) if self._count else None
        return TreatedForm(treatment, body.commitment, len(content), reading.characters, tokens), body

    # The window

    def _arrange(self, changes: _Changes) -> Arrangement:
        if changes.live is self._live:
            return self._standing
        return self._arranger(changes.state).arrange(changes.live)

    def _build_whole(self, *, mend: bool) -> Draft:
        """Strategy ``none``: every message; it decides nothing, so there is no record."""
        changes = _Changes(self._live, self._state)
        arranged = self._arrange(changes) if mend else arrange_verbatim(self._live)
        self._check_answerable(arranged.entries)
        found = self._faults(arranged.entries)
        items, _ = itemize(arranged.entries, self._previous)
        return self._finish(arranged, items, changes, (), tuple(found))

    def _check(self, entries: list[Entry]) -> None:
        self._check_answerable(entries)
        for fault in self._faults(entries):
            where = message_id(self._run.id, fault.version) if fault.version else self._run.id
            raise WindowInvalid(self._run.id, fault.rule, where)

    def _check_answerable(self, entries: list[Entry]) -> None:
        if not entries or (ends_with_model(entries) and not self._run.format.profile.allows_prefill):
            last = message_id(self._run.id, entries[-1].version) if entries else ""
            raise NothingToAnswer(self._run.id, last)

    def _faults(self, entries: list[Entry]) -> list[Fault]:
        envelope = self._state.envelope
        return faults(entries, self._run.format.profile, envelope.has_tools if envelope else None)

    def _draft(self, arranged: Arrangement, changes: _Changes, decision: Decision) -> Draft:
        items, unchanged = itemize(arranged.entries, self._previous)
        record = self._record(arranged, changes, decision, items, unchanged)
        blocked = not record.removed and not record.rewritten and _names_pin(record.refusals)
        streaks: dict[str, Any] = {
            "blocked_streak": self._state.blocked_streak + 1 if blocked else 0,
            "not_measured_streak": decision.measurement.not_measured_streak if decision.measurement else 0,
        }
        return self._finish(arranged, items, changes, (record,), (), **streaks)

    def _finish(
        self,
        arranged: Arrangement,
        items: Items,
        changes: _Changes,
        records: tuple[Record, ...],
        found: tuple[Fault, ...],
        **streaks: Any,
    ) -> Draft:
        digest = self._digest(items)
        closed = arranged.closed
        state = replace(
            changes.state,
            iteration=self._state.iteration + 1,
            window_version=self._state.version,
            window_digest=digest,
            items_hash=items.final_hash,
            closings_replaced=(),
            **streaks,
            # A call with a late result is remembered only as long as its closing result is sent.
            calls=tuple(
                replace(call, closed=call.key in closed)
                for call in changes.state.calls
                if call.key in closed or not call.late
            ),
        )
        return Draft(
            tuple(arranged.entries),
            items,
            compose(arranged.entries),
            digest,
            records,
            found,
            tuple(changes.treated),
            state,
            changes.live,
        )

    def _digest(self, items: Items) -> bytes:
        envelope = self._state.envelope
        return window_digest(envelope.commitment if envelope else None, items.final_hash)

    def _record(
        self, arranged: Arrangement, changes: _Changes, decision: Decision, items: Items, unchanged: int
    ) -> Record:
        policy, state = self._run.policy, self._state
        counted = self._count is not None
        gone = changes.removed
        rewritten = [t.version for t in changes.treated if t.body is not None]
        return Record(
            strategy=policy.strategy,
            strategy_version=policy.version,
            options_digest=policy.options_digest,
            outcome=Outcome.NOT_ENGAGED if decision.not_engaged else Outcome.ENGAGED,
            outcome_reason=decision.not_engaged,
            iteration=state.iteration + 1,
            ledger_version=state.version,
            envelope_version=state.envelope.version if state.envelope else 0,
            before=size_of(self._standing.pieces, len(self._live.turns), counted=counted),
            after=size_of(arranged.pieces, len(changes.live.turns), counted=counted),
            digest=self._digest(items),
            keep_recent_turns=getattr(policy, "keep_recent_turns", 0),
            removed=_spans(gone),
            removed_count=sum([len(turn.messages) for turn in gone]),
            removed_stages=tuple(dict.fromkeys(chain.from_iterable([turn.writers for turn in gone]))),
            # The oldest turn comes first.
            removed_lived_max=state.iteration + 1 - gone[0].messages[0].iteration if gone else 0,
            rewritten=tuple((v, v) for v in rewritten),
            rewritten_count=len(rewritten),
            refusals=self._refusals(changes, decision),
            dropped_observations=changes.observations,
            pins=self._pins(changes.plan),
            omissions=changes.state.omissions,
            mends=(
                *arranged.mends,
                *(Mend(MendKind.CLOSING_RESULT_REPLACED, v) for v in changes.state.closings_replaced),
            ),
            authored=tuple(self._newly_authored(arranged.entries)),
            measurement=decision.measurement,
            unchanged_items=unchanged,
            unchanged_bytes=sum(items.sizes[:unchanged]),
            first_changed_id=self._item_id(arranged.entries, unchanged),
        )

    def _newly_authored(self, entries: Sequence[Entry]) -> Iterator[int]:
        """Indexes of authored items beyond those of the same bytes that the window before had."""
        authored = [(index, entry.key) for index, entry in enumerate(entries) if entry.content]
        keys = {key for _, key in authored}
        before = Counter(filter(keys.__contains__, self._previous.keys))
        for index, key in authored:
            before[key] -= 1
            if before[key] < 0:
                yield index

    def _item_id(self, entries: Sequence[Entry], index: int) -> str | None:
        if index >= len(entries):
            return None
        entry = entries[index]
        if entry.message is not None:
            return message_id(self._run.id, entry.version)
        return authored_id(self._run.id, self._state.iteration + 1, index)

    def _refusals(self, changes: _Changes, decision: Decision) -> tuple[Refusal, ...]:
        """Every candidate turn that stays, neighbours with one reason in one row (4.4)."""
        turns = self._live.turns
        if decision.recent is None and decision.not_engaged is not NotEngaged.FEW_TURNS:
            by_turn = [self._stay(turn, changes) for turn in turns]
        else:
            reasons = changes.reasons or [RefusalReason.INSIDE_KEEP_WINDOW] * len(turns)
            by_turn = [
                None if index in changes.span else reason or RefusalReason.BEYOND_SPAN
                for index, reason in enumerate(reasons)
            ]
        return tuple(_rows(turns, by_turn))

    def _stay(self, turn: Turn, changes: _Changes) -> RefusalReason | None:
        return next((changes.stays[m.version] for m in turn.messages if m.version in changes.stays), None)

    def _pins(self, planned: Plan | None) -> Pins:
        limit = self._run.policy.pin_limit
        if planned is None and self._results is None:
            return Pins(limit=limit)
        # A pinned result that is not rewritten holds nothing back: where results are rewritten, no pin stands down.
        pinned, stand_down = (planned.pinned, planned.stand_down) if planned else (self._plan(0).pinned, ())
        turns = self._live.turns
        admitted = [i for i in pinned.admitted if i not in stand_down]
        return Pins(
            tuple((turns[i].first, turns[i].last) for i in sorted(admitted)),
            pinned.yielded,
            limit,
            tuple((turns[i].first, turns[i].last) for i in stand_down),
        )


def _remembered(calls: tuple[PendingCall, ...], kept: Sequence[Turn]) -> tuple[PendingCall, ...]:
    """The calls without those that were given up long ago and stand in no turn of the window."""
    abandoned = [call for call in calls if call.abandoned]
    if len(abandoned) <= ABANDONED_REMEMBERED_MAX:
        return calls
    standing = {version for turn in kept for version in turn.versions}
    left = [call.key for call in abandoned if call.version not in standing]
    forgotten = set(left[:-ABANDONED_REMEMBERED_MAX])
    return tuple(call for call in calls if call.key not in forgotten) if forgotten else calls


def _still_told(omissions: tuple[Omission, ...], kept: Sequence[Turn], until: int) -> tuple[Omission, ...]:
    """Of what came up to a version, what lies between the messages of a turn that stays is still told; it is why
    they stand as they do."""
    if not omissions:
        return omissions
    firsts = [turn.first for turn in kept]
    reach = list(accumulate((turn.last for turn in kept), max, initial=0))
    return tuple(o for o in omissions if o.version > until or o.version <= reach[bisect_right(firsts, o.version)])


_NEVER_LEAVES = (RefusalReason.CURRENT_REQUEST, RefusalReason.SYSTEM_ENVELOPE)


def _names_pin(refusals: Iterable[Refusal]) -> bool:
    return any(refusal.reason is RefusalReason.LAST_TOOL_RESULT for refusal in refusals)


def _spans(turns: Sequence[Turn]) -> tuple[Span, ...]:
    """Versions of the messages of turns, oldest turn first, as ranges of neighbours."""
    if not turns:
        return ()
    first, last = turns[0].messages[0], max(turns, key=lambda turn: turn.last).messages[-1]
    if sum([len(turn.messages) for turn in turns]) == last.ordinal - first.ordinal + 1:
        return ((first.version, last.version),)
    spans: list[Span] = []
    ordinal = 0
    for message in sorted((m for turn in turns for m in turn.messages), key=lambda m: m.version):
        if spans and message.ordinal == ordinal + 1:
            spans[-1] = (spans[-1][0], message.version)
        else:
            spans.append((message.version, message.version))
        ordinal = message.ordinal
    return tuple(spans)


def _rows(turns: Sequence[Turn], by_turn: Sequence[RefusalReason | None]) -> Iterable[Refusal]:
    row: list[Any] | None = None
    for turn, reason in zip(turns, by_turn, strict=True):
        if row and row[0] is reason:
            row[2:] = [max(row[2], turn.last), row[3] + 1]
            continue
        if row:
            yield Refusal(*row)
        row = [reason, turn.first, turn.last, 1] if reason else None
    if row:
        yield Refusal(*row)
