"""Recorded runs of real agents through the real service, as their worker would have sent them.

Before every recorded reply a window is built, by one step with everything since the reply before it. The
recordings hold what simple schemas get wrong: ids that repeat, results that come late, twice or for no
call, calls without a result, empty messages, two replies in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from support.provider_rules import CHECKERS, Complaint
from support.recorded import CORPUS, Calls, Recorded, Recording, recording, recordings
from support.service import served
from turnledger.client import LedgerClient, Run, Window
from turnledger.client.models import MessageRange
from turnledger.domain.errors import NothingToAnswer, ResultDuplicate, ResultOrphan

LABELS = recordings()
pytestmark = pytest.mark.skipif(not LABELS, reason=f"the recorded runs are not there: {CORPUS}")
KEEP = 4
REFUSED = {"RESULT_ORPHAN": ResultOrphan, "RESULT_DUPLICATE": ResultDuplicate}


@dataclass(frozen=True)
class Services:
    """Two services on one SQLite file: what one wrote, the other never held in memory."""

    worker: LedgerClient
    auditor: LedgerClient


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """The services, for all runs of this module."""
    store = f"sqlite:///{tmp_path_factory.mktemp('recorded') / 'runs.db'}"
    with served(store) as worker, served(store) as auditor:
        yield Services(worker, auditor)


def _sliding_window(recorded: Recording) -> dict[str, Any]:
    return {"policy": {"strategy": "sliding-window", "keep_recent_turns": KEEP}}


def _budget_by_report(recorded: Recording) -> dict[str, Any]:
    threshold = max(recorded.inputs, default=2) // 2
    policy = {"strategy": "token-budget", "threshold_tokens": threshold, "keep_recent_turns": KEEP}
    return {"policy": policy}


def _budget_by_tokenizer(recorded: Recording) -> dict[str, Any]:
    # Four characters are about one token: this is some two fifths of the run.
    policy = {
        "strategy": "token-budget",
        "threshold_tokens": recorded.characters // 10,
        "keep_recent_turns": KEEP,
        "measure": "tokenizer",
    }
    return {"policy": policy, "tokenizer": "o200k_base"}


def _compact_results(recorded: Recording) -> dict[str, Any]:
    return {"policy": {"strategy": "compact-results"}}


STRATEGIES = {
    "sliding-window": _sliding_window,
    "token-budget-reported": _budget_by_report,
    "token-budget-tokenizer": _budget_by_tokenizer,
    "compact-results": _compact_results,
}


@dataclass(frozen=True)
class Visit:
    """A window, and how much of the recording had been appended when it was built."""

    window: Window
    appended: int


class Worker:
    """Appends a recording to a run and takes a window before every reply."""

    def __init__(self, run: Run, recorded: Recording, *, sends_all: bool) -> None:
        self.run = run
        self.recorded = recorded
        self.ids: list[str] = []
        self.visits: list[Visit] = []
        self.refused = 0
        self._sends_all = sends_all
        self._calls = Calls()
        self._parsed: dict[bytes, Any] = {}

    @property
    def unsent(self) -> set[str]:
        """Ids of what no window may hold: results that answer nothing, and what holds nothing."""
        return {self.ids[index] for index in self._calls.unpaired | self._empty}

    @property
    def _empty(self) -> set[int]:
        messages = self.recorded.messages
        return {i for i, m in enumerate(messages[: len(self.ids)]) if m.holds_nothing and m.role != "person"}

    def values(self, window: Window) -> list[Any]:
        """The messages of a window; each body is parsed once for all windows of the run."""
        for item in window.items:
            if item.body not in self._parsed:
                self._parsed[item.body] = item.message
        return [self._parsed[item.body] for item in window.items]

    def drive(self) -> None:
        """The whole recording."""
        for batch in self.recorded.batches():
            self._step(batch)

    def _step(self, batch: Sequence[Recorded]) -> None:
        reason = self._calls.refusal(batch)
        try:
            if reason is not None:
                self._expect_refusal(batch, REFUSED[reason])
            window = self.run.step([m.to_append for m in batch], imported=reason is not None)
        except NothingToAnswer:
            self._appended(batch)
            assert self._ends_with_model()
            return
        self._appended(batch)
        assert not self._ends_with_model()
        self.visits.append(Visit(window, len(self.ids)))

    def _expect_refusal(self, batch: Sequence[Recorded], error: type[Exception]) -> None:
        """A strict append names the reason and writes nothing."""
        with pytest.raises(error):
            self.run.step([m.to_append for m in batch])
        self.refused += 1

    def _appended(self, batch: Sequence[Recorded]) -> None:
        first = self.run.version - len(batch) + 1
        self.ids += [f"{self.run.id}/{version}" for version in range(first, self.run.version + 1)]

    def _ends_with_model(self) -> bool:
        """There is nothing that a model could answer."""
        left_out = set() if self._sends_all else self._calls.unpaired | self._empty
        sent = [m for i, m in enumerate(self.recorded.messages[: len(self.ids)]) if i not in left_out]
        return not sent or sent[-1].role == "model"


def _driven(services: Services, label: str, strategy: str, options: dict[str, Any]) -> Worker:
    recorded = recording(label)
    run = services.worker.open_run(
        run_id=f"{label.replace('/', ':')}.{strategy}",
        format=recorded.format,
        envelope=recorded.envelope,
        **options,
    )
    worker = Worker(run, recorded, sends_all=strategy == "none")
    worker.drive()
    return worker


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("label", LABELS)
def test_a_recorded_run(services: Services, label: str, strategy: str) -> None:
    """Whatever a strategy does to a recorded run: every window is valid (10), holds the request (2.2), accounts
    for every message (4.4, 7), is replayed byte for byte, and what left it is still there (8.5)."""
    worker = _driven(services, label, strategy, STRATEGIES[strategy](recording(label)))
    for visit in worker.visits:
        assert _complaints(worker, visit.window) == []
        _assert_request_is_sent(worker, visit)
    _assert_it_acted(worker, strategy)
    _assert_all_is_accounted_for(worker)
    _assert_originals_are_kept(worker)
    _assert_replays(services, worker)


@pytest.mark.parametrize("label", LABELS)
def test_a_recorded_run_under_none(services: Services, label: str) -> None:
    """``none`` sends byte for byte what was appended, and reports what the provider would object to (8, 10)."""
    worker = _driven(services, label, "none", {})
    for visit in worker.visits:
        sent = [item.body for item in visit.window.items]
        assert sent == [message.body for message in worker.recorded.messages[: visit.appended]]
        assert visit.window.records == ()
        reported = {(fault.rule, fault.message_id) for fault in visit.window.faults}
        items = visit.window.items
        assert reported == {(c.rule, items[c.index].id) for c in _complaints(worker, visit.window)}
    _assert_replays(services, worker)


def _complaints(worker: Worker, window: Window) -> list[Complaint]:
    envelope = worker.recorded.envelope
    return CHECKERS[worker.recorded.format](worker.values(window), has_tools=bool(envelope and envelope.tools))


def _assert_it_acted(worker: Worker, strategy: str) -> None:
    """A long run gives every strategy something to do; without reports there is nothing to measure (6.4)."""
    records = [record for visit in worker.visits for record in visit.window.records]
    if strategy == "token-budget-reported" and len(worker.recorded.inputs) < KEEP:
        assert {record.outcome_reason for record in records} == {"not-measured"}
    elif worker.recorded.replies > 2 * KEEP:
        assert any(record.removed or record.rewritten for record in records)


def _assert_request_is_sent(worker: Worker, visit: Visit) -> None:
    """The latest message of a person, or the placeholder of an empty one."""
    persons = [i for i, m in enumerate(worker.recorded.messages[: visit.appended]) if m.role == "person"]
    assert not persons or worker.ids[persons[-1]] in _sent(visit.window)


def _sent(window: Window) -> set[str]:
    """Ids of the messages that a window holds, treated or not, or has a placeholder for."""
    (record,) = window.records
    placeholders = {mend.message_id for mend in record.mends if mend.kind == "placeholder"}
    return placeholders | {item.id for item in window.items if item.kind in ("message", "treated")}


def _assert_all_is_accounted_for(worker: Worker) -> None:
    """Every message is sent, or named as one that left or is omitted; and records say what was sent."""
    left: set[str] = set()
    for visit in worker.visits:
        (record,) = visit.window.records
        left |= _ids(worker, record.removed)
        sent = _sent(visit.window)
        assert sent | left | worker.unsent >= set(worker.ids[: visit.appended])
        assert not sent & (left | worker.unsent)
        assert {omission.message_id for omission in record.omissions} <= worker.unsent
        assert record.digest == visit.window.digest
        assert (record.after.items, record.after.bytes) == _sizes(visit.window)


def _sizes(window: Window) -> tuple[int, int]:
    return len(window.items), sum(len(item.body) for item in window.items)


def _ids(worker: Worker, ranges: Sequence[MessageRange]) -> set[str]:
    """The messages that ranges name; that each end is one of the run is checked."""
    places = {identifier: index for index, identifier in enumerate(worker.ids)}
    return {i for r in ranges for i in worker.ids[places[r.first_id] : places[r.last_id] + 1]}


def _assert_originals_are_kept(worker: Worker) -> None:
    """What left a window or was rewritten in it is read verbatim by its id."""
    changed = {
        identifier
        for visit in worker.visits
        for record in visit.window.records
        for identifier in _ids(worker, (*record.removed, *record.rewritten))
    }
    named = sorted(changed, key=worker.ids.index)
    kept = worker.run.messages(named)
    bodies = dict(zip(worker.ids, (m.body for m in worker.recorded.messages), strict=True))
    assert [(m.id, m.body) for m in kept] == [(identifier, bodies[identifier]) for identifier in named]


def _assert_replays(services: Services, worker: Worker) -> None:
    """Another process, which holds nothing of the run, gives the same windows, byte for byte."""
    replayed = services.auditor.run(worker.run.id).replay_all()
    for visit, again in zip(worker.visits, replayed, strict=True):
        assert again.digest == visit.window.digest
        assert [item.body for item in again.items] == [item.body for item in visit.window.items]
        assert [item.id for item in again.items] == [item.id for item in visit.window.items]
        assert again.records == visit.window.records
        assert again.faults == visit.window.faults
        assert again.envelope == worker.recorded.envelope
