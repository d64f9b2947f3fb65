"""One transaction: the facts and the window of a use case, their chains, and the directory row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from turnledger.domain import compositions
from turnledger.domain import events as e
from turnledger.domain.digests import chain_next, chain_start
from turnledger.domain.ids import CHECKPOINTS, LEDGER, WINDOWS, originator_id, step_id, treated_stream
from turnledger.domain.jsonbytes import canonical
from turnledger.domain.run import Run, Stamp
from turnledger.ledger.encoding import EventMapper, Row
from turnledger.ledger.recorder import RunHead
from turnledger.ledger.sessions import Session
from turnledger.projections.live import Live
from turnledger.projections.visit import Draft
from turnledger.projections.windows import NO_ITEMS

CHECKPOINT_FACTS = 256
"""Facts since the last window or checkpoint after which an append takes a checkpoint."""


@dataclass(slots=True)
class Unit:
    """What one use case writes, in one transaction."""

    before: Session | None
    """What it was decided on; None for an opening."""
    run: Run
    """After its facts."""
    facts: Sequence[e.RunEvent] = ()
    draft: Draft | None = None
    while_paused: bool = False
    outcome: dict[str, Any] = field(default_factory=dict)
    """What the answer can be made from again, for a retry."""
    live: Live | None = None
    """With its messages, where the turns are held."""
    window: e.WindowBuilt | None = None
    """The event of the draft, once it is written."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Rows in order, and the run after them."""

    rows: Sequence[Row]
    window: e.WindowBuilt | None
    after: Session


class _Chain:
    """The head of a stream's chain, and how it goes on."""

    def __init__(self, head: bytes, mapper: EventMapper) -> None:
        self.head = head
        self._mapper = mapper

    def add(self, event: e.RunEvent) -> Row:
        row = self._mapper.to_stored_event(event)
        self.head = chain_next(self.head, event.originator_version, row.topic, row.state)
        return row.chained(self.head)


def build_transaction(unit: Unit, stamp: Stamp, mapper: EventMapper) -> Transaction:
    """What is written for a unit: facts, window, treated texts and, where one is due, a checkpoint."""
    before, run = unit.before, unit.run
    ledger = _Chain(before.head.ledger_head if before else chain_start(run.id, LEDGER), mapper)
    windows = _Chain(before.head.windows_head if before else chain_start(run.id, WINDOWS), mapper)
    rows = [ledger.add(fact) for fact in unit.facts]
    anchor, checkpoints = (before.anchor, before.head.checkpoint_version) if before else (1, 0)
    live, items = unit.live, before.items if before else NO_ITEMS
    window = None
    if unit.draft is not None:
        window = _window_event(unit, unit.draft, stamp, ledger.head)
        rows.append(windows.add(window))
        rows += map(mapper.to_stored_event, _treated_events(run.key, unit.draft, stamp))
        run = run.apply(window)
        live, items, anchor = unit.draft.live, unit.draft.items, run.version
    if run.version - anchor >= CHECKPOINT_FACTS:
        checkpoints, anchor = checkpoints + 1, run.version
        rows.append(mapper.to_stored_event(_checkpoint_event(run, checkpoints, stamp)))
        # A run that appends without asking for windows does not gather its turns here.
        live, items = None, None
    opened_time = before.head.opened_time if before else stamp.recorded_time
    head = RunHead(
        run_key=run.key,
        status=run.state.status,
        format=run.opening.format,
        policy_json=canonical(run.opening.policy).decode(),
        tokenizer=run.opening.tokenizer,
        labels=run.opening.labels,
        ledger_version=run.version,
        ledger_head=ledger.head,
        windows_version=run.state.iteration,
        windows_head=windows.head,
        checkpoint_version=checkpoints,
        message_count=run.state.message_count,
        input_tokens=run.state.input_tokens,
        output_tokens=run.state.output_tokens,
        opened_time=opened_time,
        updated_time=stamp.recorded_time,
    )
    return Transaction(rows, window, Session(run, head, anchor, live, items))


def _window_event(unit: Unit, draft: Draft, stamp: Stamp, ledger_head: bytes) -> e.WindowBuilt:
    run = unit.run
    envelope = run.state.envelope
    iteration = draft.state.iteration
    return e.WindowBuilt(
        originator_id=originator_id(run.key, WINDOWS),
        originator_version=iteration,
        recorded_time=stamp.recorded_time,
        principal=stamp.principal,
        request_id=stamp.request_id,
        step_id=step_id(run.opening.step_base, iteration),
        while_paused=unit.while_paused,
        ledger_version=run.version,
        ledger_head=ledger_head,
        envelope_version=envelope.version if envelope else 0,
        envelope_commitment=envelope.commitment if envelope else None,
        composition=tuple(compositions.encode(draft.composition)),
        item_count=len(draft.entries),
        items_hash=draft.items.final_hash,
        digest=draft.digest,
        records=draft.records,
        faults=draft.faults,
        state=draft.state,
    )


def _treated_events(key: str, draft: Draft, stamp: Stamp) -> list[e.RunEvent]:
    return [
        e.MessageTreated(
            originator_id=originator_id(key, treated_stream(treated.form.treatment)),
            originator_version=treated.version,
            recorded_time=stamp.recorded_time,
            body=treated.body,
            commitment=treated.form.commitment,
            size_bytes=treated.form.size_bytes,
            characters=treated.form.characters,
            tokens=treated.form.tokens,
        )
        for treated in draft.treated
    ]


def _checkpoint_event(run: Run, version: int, stamp: Stamp) -> e.CheckpointTaken:
    return e.CheckpointTaken(
        originator_id=originator_id(run.key, CHECKPOINTS),
        originator_version=version,
        recorded_time=stamp.recorded_time,
        ledger_version=run.version,
        state=run.state,
    )
