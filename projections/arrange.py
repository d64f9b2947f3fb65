"""The order in which turns are sent, and what a provider needs beside them (WINDOW-RULES 1.3, 1.7, 10)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from turnledger.domain.digests import ItemKind
from turnledger.domain.formats import Format
from turnledger.domain.ids import CallKey
from turnledger.domain.jsonbytes import bytes_text
from turnledger.domain.messages import Message
from turnledger.domain.records import Mend
from turnledger.domain.state import PendingCall, RunState
from turnledger.domain.words import MendKind, Role
from turnledger.projections.entries import CountTokens, Entry, Piece, authored_entry, message_entry
from turnledger.projections.live import Live
from turnledger.projections.turns import Turn

OPEN_TEXT = "[turnledger: this call has no result yet]"
WAITING_TEXT = "[turnledger: this call is waiting for a decision; it has no result yet]"
ABANDONED_TEXT = "[turnledger: this call was given up; no result will come]"
EMPTY_TEXT = "[turnledger: this message was empty]"

_MENDS = {ItemKind.CLOSING_RESULT: MendKind.CLOSING_RESULT, ItemKind.PLACEHOLDER: MendKind.PLACEHOLDER}


@dataclass(frozen=True)
class Arrangement:
    """A window in the order it is sent."""

    turns: list[Piece]
    """One for each turn."""
    notice: Piece | None = None
    position: int = 0
    """How many turns stand before the notice."""

    @cached_property
    def pieces(self) -> list[Piece]:
        """All of it, the notice at its place."""
        if self.notice is None:
            return self.turns
        return [*self.turns[: self.position], self.notice, *self.turns[self.position :]]

    @cached_property
    def entries(self) -> list[Entry]:
        """Every item."""
        return [entry for piece in self.pieces for entry in piece.entries]

    @property
    def closed(self) -> set[CallKey]:
        """The calls that an authored result closes."""
        return {entry.closes for entry in self.entries if entry.closes is not None}

    @property
    def mends(self) -> list[Mend]:
        """What was mended, in the order of the window."""
        reordered = _sent_before_earlier(self.entries)
        mends: list[Mend] = []
        for entry in self.entries:
            if entry.version in reordered and entry.closes is None:
                mends.append(Mend(MendKind.REORDERED, entry.version))
            if entry.kind in _MENDS:
                mends.append(Mend(_MENDS[entry.kind], entry.version))
        return mends


def _sent_before_earlier(entries: list[Entry]) -> set[int]:
    """The messages that stand before one that arrived earlier."""
    found: set[int] = set()
    earliest_behind = 0
    for entry in reversed(entries):
        if not entry.version or entry.closes is not None:
            continue
        if earliest_behind and entry.version > earliest_behind:
            found.add(entry.version)
        else:
            earliest_behind = entry.version
    return found


class Arranger:
    """Arranges the turns of one visit."""

    def __init__(self, state: RunState, format: Format, count: CountTokens | None, *, while_paused: bool) -> None:
        self._format = format
        self._count = count
        self._while_paused = while_paused
        self._omitted = [omission.version for omission in state.omissions]
        self._pending: dict[int, list[PendingCall]] = {}
        for call in state.calls:
            self._pending.setdefault(call.version, []).append(call)

    def arrange(self, live: Live) -> Arrangement:
        """Every turn of ``live``, results directly after their reply, and the notice at its place."""
        apart = self._pending.keys() | live.forms.keys()
        last = len(live.turns) - 1
        turns = [
            turn.piece
            if turn.piece is not None and (not apart or apart.isdisjoint(turn.versions))
            else Piece.of(self._turn(turn, live, is_last=index == last))
            for index, turn in enumerate(live.turns)
        ]
        if live.notice is None:
            return Arrangement(turns)
        return Arrangement(turns, Piece.of([live.notice.entry]), live.notice.position)

    def _turn(self, turn: Turn, live: Live, *, is_last: bool) -> Iterator[Entry]:
        pending = [c for m in turn.messages for c in self._pending.get(m.version, ())]
        if len(turn.messages) == 1 and not pending:
            yield self._message(turn.messages[0], live, moved=False)
            return
        delayed = self._delayed(turn)
        groups = list(self._groups(turn))
        # A call is closed if anything follows it, and what is given up or waits is always shown as such.
        is_closed = bool(turn.last_result) or not is_last or any(map(self._is_rendered, pending))
        for number, (replies, results) in enumerate(groups, 1):
            for message in replies:
                yield self._message(message, live, moved=message.version in delayed)
            # Results come before anything else of the user's side, closing results included.
            for message in results:
                if not message.mixes_content:
                    yield self._message(message, live, moved=message.version in delayed)
            if is_closed or number < len(groups):
                versions = {message.version for message in replies}
                yield from (self._closing(call) for call in pending if call.version in versions)
            for message in results:
                if message.mixes_content:
                    yield self._message(message, live, moved=message.version in delayed)

    def _groups(self, turn: Turn) -> Iterator[tuple[list[Message], list[Message]]]:
        """The parts of a reply with their results: one group where the provider joins neighbors, else one
        for each part."""
        replies = [m for m in turn.messages if not m.results]
        results = [m for m in turn.messages if m.results]
        if self._format.profile.joins_neighbors:
            yield replies, results
            return
        answers: dict[int, list[Message]] = {}
        for message in results:
            answers.setdefault(message.results[0].call_version, []).append(message)
        for reply in replies:
            yield [reply], answers.get(reply.version, [])

    def _delayed(self, turn: Turn) -> set[int]:
        """The messages of a turn that arrived after one of another turn."""
        first = turn.messages[0]
        omitted = bisect_left(self._omitted, first.version)
        return {
            message.version
            for place, message in enumerate(turn.messages)
            if message.ordinal - first.ordinal - place > bisect_left(self._omitted, message.version) - omitted
        }

    def _is_rendered(self, call: PendingCall) -> bool:
        return call.abandoned or (self._while_paused and call.paused)

    def _closing(self, call: PendingCall) -> Entry:
        text = ABANDONED_TEXT if call.abandoned else WAITING_TEXT if call.paused else OPEN_TEXT
        content = self._format.closing_result(bytes_text(call.id), text)
        return authored_entry(
            ItemKind.CLOSING_RESULT, content, self._format, self._count, version=call.version, closes=call.key
        )

    def _message(self, message: Message, live: Live, *, moved: bool) -> Entry:
        if message.is_empty:
            content = self._format.user_message(EMPTY_TEXT)
            return authored_entry(ItemKind.PLACEHOLDER, content, self._format, self._count, version=message.version)
        return message_entry(message, live.forms.get(message.version), moved=moved)


def arrange_verbatim(live: Live) -> Arrangement:
    """Every message in the order of the ledger, nothing added, nothing mended (strategy ``none``)."""
    messages = [m for turn in live.turns for m in turn.messages]
    messages += live.marked
    messages.sort(key=lambda m: m.version)
    return Arrangement([Piece.of([message_entry(message, None) for message in messages])])


def ends_with_model(entries: list[Entry]) -> bool:
    """The last message is the model's own: there is nothing for it to answer."""
    return bool(entries) and entries[-1].role is Role.MODEL
