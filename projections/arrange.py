"""The order in which turns are sent, and what a provider needs beside them (WINDOW-RULES 1.3, 1.7, 10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from turnledger.domain.digests import ItemKind
from turnledger.domain.formats import Format
from turnledger.domain.ids import CallKey
from turnledger.domain.jsonbytes import bytes_text
from turnledger.domain.messages import Message
from turnledger.domain.records import Mend
from turnledger.domain.state import PendingCall, RunState
from turnledger.domain.words import MendKind, Role
from turnledger.projections.entries import CountTokens, Entry, authored_entry, message_entry
from turnledger.projections.live import Live
from turnledger.projections.turns import Turn

OPEN_TEXT = "[turnledger: this call has no result yet]"
WAITING_TEXT = "[turnledger: this call is waiting for a decision; it has no result yet]"
ABANDONED_TEXT = "[turnledger: this call was given up; no result will come]"
EMPTY_TEXT = "[turnledger: this message was empty]"


@dataclass(slots=True)
class Arrangement:
    """A window in the order it is sent, and what was mended for it."""

    entries: list[Entry] = field(default_factory=list)
    mends: list[Mend] = field(default_factory=list)
    closed: set[CallKey] = field(default_factory=set)


class Arranger:
    """Arranges the turns of one visit."""

    def __init__(self, state: RunState, format: Format, count: CountTokens | None, *, while_paused: bool) -> None:
        self._state = state
        self._format = format
        self._count = count
        self._while_paused = while_paused
        self._pending: dict[int, list[PendingCall]] = {}
        for call in state.calls:
            self._pending.setdefault(call.version, []).append(call)

    def arrange(self, live: Live) -> Arrangement:
        """Every turn of ``live``, results directly after their reply, and the notice at its place."""
        arranged = Arrangement()
        notice = live.notice
        for index, turn in enumerate(live.turns):
            if notice is not None and notice.position == index:
                arranged.entries.append(self._notice(live))
            self._add_turn(arranged, turn, live, is_last=index == len(live.turns) - 1)
        if notice is not None and notice.position >= len(live.turns):
            arranged.entries.append(self._notice(live))
        return arranged

    def _notice(self, live: Live) -> Entry:
        assert live.notice is not None
        return authored_entry(ItemKind.NOTICE, live.notice.content, self._format, self._count)

    def _add_turn(self, arranged: Arrangement, turn: Turn, live: Live, *, is_last: bool) -> None:
        pending = [c for m in turn.messages if m.version in self._pending for c in self._pending[m.version]]
        if len(turn.messages) == 1 and not pending:
            self._add_message(arranged, turn.messages[0], live, moved=False)
            return
        for replies, results in self._groups(turn):
            for message in replies:
                self._add_message(arranged, message, live, moved=_is_delayed(turn, message))
            versions = {message.version for message in replies}
            closings = self._closings([c for c in pending if c.version in versions], bool(turn.last_result), is_last)
            # Results come before anything else of the user's side, closing results included.
            before = [m for m in results if not m.mixes_content]
            for message in before:
                self._add_message(arranged, message, live, moved=_is_delayed(turn, message))
            for call in closings:
                self._add_closing(arranged, call)
            for message in results[len(before) :]:
                self._add_message(arranged, message, live, moved=_is_delayed(turn, message))

    def _groups(self, turn: Turn) -> Iterator[tuple[list[Message], list[Message]]]:
        """The parts of a reply with their results: one group where the provider joins neighbors, else one
        for each part."""
        replies = [m for m in turn.messages if not m.results]
        results = [m for m in turn.messages if m.results]
        if self._format.profile.joins_neighbors:
            results.sort(key=lambda m: m.mixes_content)
            yield replies, results
            return
        for reply in replies:
            yield [reply], [m for m in results if m.results[0].call_version == reply.version]

    def _closings(self, pending: list[PendingCall], has_results: bool, is_last: bool) -> list[PendingCall]:
        """The calls that are closed by an authored result: given up ones always, open ones if anything
        follows them in the window."""
        rendered = [c for c in pending if c.abandoned or (self._while_paused and c.paused)]
        if has_results or not is_last or rendered:
            return pending
        return []

    def _add_closing(self, arranged: Arrangement, call: PendingCall) -> None:
        if call.abandoned:
            text = ABANDONED_TEXT
        else:
            text = WAITING_TEXT if call.paused else OPEN_TEXT
        content = self._format.closing_result(bytes_text(call.id), text)
        arranged.entries.append(
            authored_entry(
                ItemKind.CLOSING_RESULT, content, self._format, self._count, version=call.version, closes=call.key
            )
        )
        arranged.closed.add(call.key)
        arranged.mends.append(Mend(MendKind.CLOSING_RESULT, call.version))

    def _add_message(self, arranged: Arrangement, message: Message, live: Live, *, moved: bool) -> None:
        if message.is_empty:
            self._add_placeholder(arranged, message)
            return
        arranged.entries.append(message_entry(message, live.forms.get(message.version), moved=moved))
        if moved:
            arranged.mends.append(Mend(MendKind.REORDERED, message.version))

    def _add_placeholder(self, arranged: Arrangement, message: Message) -> None:
        content = self._format.user_message(EMPTY_TEXT)
        arranged.entries.append(
            authored_entry(ItemKind.PLACEHOLDER, content, self._format, self._count, version=message.version)
        )
        arranged.mends.append(Mend(MendKind.PLACEHOLDER, message.version))


def arrange_verbatim(live: Live) -> Arrangement:
    """Every message in the order of the ledger, nothing added, nothing mended (strategy ``none``)."""
    messages = [m for turn in live.turns for m in turn.messages]
    messages += live.marked
    messages.sort(key=lambda m: m.version)
    return Arrangement([message_entry(message, None) for message in messages])


def _is_delayed(turn: Turn, message: Message) -> bool:
    """It arrived after a message of another turn."""
    place = next(i for i, m in enumerate(turn.messages) if m.version == message.version)
    return message.ordinal - turn.messages[0].ordinal != place


def ends_with_model(entries: list[Entry]) -> bool:
    """The last message is the model's own: there is nothing for it to answer."""
    return bool(entries) and entries[-1].role is Role.MODEL
