"""Reading what a run needs to go on: its opening, its last window or checkpoint, and what came since.

The cost does not depend on how long the run is, but on the window that it goes on from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from turnledger.domain import compositions
from turnledger.domain import events as e
from turnledger.domain.errors import RunNotFound
from turnledger.domain.ids import CHECKPOINTS, LEDGER, WINDOWS, originator_id, treated_stream
from turnledger.domain.messages import Message
from turnledger.domain.run import Run, opened
from turnledger.ledger.encoding import EventMapper, Row
from turnledger.ledger.recorder import LedgerRecorder, RunHead
from turnledger.ledger.sessions import Session
from turnledger.ledger.tokenizers import tokenizer_named
from turnledger.projections.entries import CountTokens, Entry, TreatedForm
from turnledger.projections.live import Live
from turnledger.projections.replay import expand, live_of, needs
from turnledger.projections.windows import NO_ITEMS, itemize

PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Replayed:
    """A window as it is on record."""

    window: e.WindowBuilt
    entries: tuple[Entry, ...]
    messages: dict[int, Message]


class Loader:
    """Reads runs from a store."""

    def __init__(self, recorder: LedgerRecorder, mapper: EventMapper) -> None:
        self._recorder = recorder
        self._mapper = mapper

    def head(self, key: str) -> RunHead:
        """Where a run stands. Raises :class:`RunNotFound`."""
        head = self._recorder.select_head(key)
        if head is None:
            raise RunNotFound(key.partition("/")[2])
        return head

    def session(self, key: str) -> Session:
        """A run from its opening, its last window or checkpoint, and the facts since."""
        head = self.head(key)
        (first,) = self._events(key, LEDGER, [(1, 1)], bodies=True)
        run = opened(cast("e.RunOpened", first))
        anchor = 1
        if head.windows_version:
            window = self.window(key, head.windows_version)
            run, anchor = replace(run, state=window.state), window.ledger_version
        if head.checkpoint_version:
            (checkpoint,) = self._events(key, CHECKPOINTS, [(head.checkpoint_version, head.checkpoint_version)])
            assert isinstance(checkpoint, e.CheckpointTaken)
            if checkpoint.ledger_version > anchor:
                run, anchor = replace(run, state=checkpoint.state), checkpoint.ledger_version
        for event in self._events(key, LEDGER, [(anchor + 1, head.ledger_version)]):
            run = run.apply(event)
        return Session(run, head, anchor)

    def with_live(self, session: Session) -> Session:
        """The session with the turns of its next window."""
        if session.live is not None:
            return session
        run, head = session.run, session.head
        live, items, seen = Live(), NO_ITEMS, 1
        if head.windows_version:
            replayed = self.replay(run, head.windows_version)
            live = live_of(replayed.entries, replayed.messages)
            items, _ = itemize(replayed.entries)
            seen = replayed.window.ledger_version
        since = self._messages(run.key, [(seen + 1, run.version)])
        return replace(session, live=live.add(since), items=items)

    def window(self, key: str, iteration: int) -> e.WindowBuilt:
        """The event of a window that exists."""
        (window,) = self._events(key, WINDOWS, [(iteration, iteration)])
        assert isinstance(window, e.WindowBuilt)
        return window

    def replay(self, run: Run, iteration: int) -> Replayed:
        """A window as it is on record: no strategy runs."""
        window = self.window(run.key, iteration)
        composition = compositions.decode(window.composition)
        named = needs(composition)
        messages = {m.version: m for m in self._messages(run.key, named.ranges)}
        forms = {
            (treatment, row.originator_version): self._form(treatment, row)
            for treatment, first, last in named.treated
            for row in self._rows(run.key, treated_stream(treatment), [(first, last)])
        }
        count = self.counter(run)
        entries = tuple(expand(composition, messages, forms, run.format, count))
        return Replayed(window, entries, messages)

    def counter(self, run: Run) -> CountTokens | None:
        """Counts tokens as the run does; None where it counts none."""
        tokenizer = tokenizer_named(run.opening.tokenizer)
        return tokenizer.count if tokenizer else None

    def bodies(self, key: str, stream: str, versions: Iterable[int]) -> dict[int, e.Body]:
        """The contents of events, by version; without those that have none."""
        rows = self._rows(key, stream, _ranges(sorted(versions)), bodies=True)
        return {row.originator_version: row.body for row in rows if row.body is not None}

    def has_call(self, key: str, last: int, call_id: bytes) -> bool:
        """Whether any message up to a version made a call with this id; reads the ledger backwards.

        Only a result that answers nothing asks for it.
        """
        while last >= 1:
            first = max(1, last - PAGE_ROWS + 1)
            if any(call.id == call_id for m in self._messages(key, [(first, last)]) for call in m.calls):
                return True
            last = first - 1
        return False

    def facts(self, key: str, first: int, last: int, *, bodies: bool) -> Sequence[tuple[Row, e.RunEvent]]:
        """Facts of the ledger with their rows."""
        rows = self._rows(key, LEDGER, [(first, last)], bodies=bodies)
        return [(row, cast("e.RunEvent", self._mapper.to_domain_event(row))) for row in rows]

    def _form(self, treatment: str, row: Row) -> TreatedForm:
        event = cast("e.MessageTreated", self._mapper.to_domain_event(row))
        return TreatedForm(treatment, event.commitment, event.size_bytes, event.characters, event.tokens)

    def _messages(self, key: str, ranges: Iterable[tuple[int, int]]) -> list[Message]:
        events = self._events(key, LEDGER, ranges, topic=e.MessageAppended.TOPIC)
        return [event.message for event in events if isinstance(event, e.MessageAppended)]

    def _events(
        self, key: str, stream: str, ranges: Iterable[tuple[int, int]], *, bodies: bool = False, topic: str = ""
    ) -> list[e.RunEvent]:
        rows = self._rows(key, stream, ranges, bodies=bodies)
        return [self._mapper.to_domain_event(row) for row in rows if not topic or row.topic == topic]

    def _rows(self, key: str, stream: str, ranges: Iterable[tuple[int, int]], *, bodies: bool = False) -> Sequence[Row]:
        return self._recorder.select_rows(originator_id(key, stream), ranges, bodies=bodies)


def _ranges(versions: Sequence[int]) -> list[tuple[int, int]]:
    """Versions in order as ranges of neighbours, so that few statements read them."""
    ranges: list[tuple[int, int]] = []
    for version in versions:
        if ranges and version == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], version)
        else:
            ranges.append((version, version))
    return ranges
