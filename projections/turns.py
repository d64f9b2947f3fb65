"""Turns: the unit in which messages stay in a window or leave it (WINDOW-RULES 1).

What a visit asks of every turn is gathered once, when the turn is put together, and kept between visits (4.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnledger.domain.messages import Message
from turnledger.domain.words import Role
from turnledger.projections.entries import Piece, message_entry

Observed = tuple[bytes, bytes]
"""A tool's name and the tag of the arguments it was called with."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One model reply with every result that answers its calls, or any other single message."""

    messages: tuple[Message, ...]
    """In order of arrival."""
    first: int = field(init=False)
    """Version of its first message: the turn's name and place."""
    last: int = field(init=False)
    """Version of the last message to arrive."""
    last_result: int = field(init=False)
    """Version of its last message with results; 0 where it has none."""
    versions: tuple[int, ...] = field(init=False)
    """Of its messages."""
    is_system: bool = field(init=False)
    """A system or developer message inside the run."""
    observed: tuple[Observed, ...] = field(init=False)
    """What its results are results of, latest first."""
    tools: tuple[bytes, ...] = field(init=False)
    """The tools of these."""
    writers: tuple[str, ...] = field(init=False)
    """Who wrote each message."""
    piece: Piece | None = field(init=False)
    """What is sent of it where none of it is closed, moved, treated or replaced; None where its own messages say
    already that it is sent otherwise than it arrived."""

    def __post_init__(self) -> None:
        messages = self.messages
        put = object.__setattr__
        versions = tuple([m.version for m in messages])
        put(self, "versions", versions)
        put(self, "first", versions[0])
        put(self, "last", versions[-1])
        with_results = [m for m in messages if m.results]
        put(self, "last_result", with_results[-1].version if with_results else 0)
        put(self, "is_system", messages[0].role is Role.SYSTEM)
        observed = [(r.name, r.arguments_tag) for m in reversed(with_results) for r in reversed(m.results)]
        put(self, "observed", tuple(observed))
        put(self, "tools", tuple([name for name, _ in observed]))
        put(self, "writers", tuple([m.writer for m in messages]))
        put(self, "piece", Piece.of([message_entry(m, None) for m in messages]) if _is_as_sent(messages) else None)

    def holds(self, version: int) -> bool:
        """Whether the message is part of the turn."""
        return version in self.versions


def _is_as_sent(messages: Sequence[Message]) -> bool:
    """One message that is not empty, or a reply with its results directly behind it, other content last."""
    if messages[0].is_empty:
        return False
    if len(messages) == 1:
        return True
    is_unbroken = messages[-1].ordinal - messages[0].ordinal == len(messages) - 1
    is_reply_with_results = not messages[0].results and all(m.results for m in messages[1:])
    return is_unbroken and is_reply_with_results and not any(m.mixes_content for m in messages[:-1])


Turns = tuple[Turn, ...]
NO_TURNS: Final[Turns] = ()


def add_messages(turns: Turns, messages: Iterable[Message]) -> Turns:
    """The turns with more messages, each a part of the turn that it belongs to, or a turn of its own.

    The messages are given in order of the ledger, and none is marked.
    """
    growing = _Growing(turns)
    for message in messages:
        growing.add(message)
    return growing.turns


class _Growing:
    """Turns to which messages are added: each is put together once, however many are added to it."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._count = len(turns)
        self._grown: dict[int, list[Message]] = {}
        self._places: dict[int, int] | None = None
        """Index of the turn of each message of a model; made once the newest turn is not the one looked for."""

    @property
    def turns(self) -> Turns:
        """As they are now."""
        if not self._grown:
            return self._turns
        first = min(self._grown)
        later = [Turn(tuple(self._grown[i])) if i in self._grown else self._turns[i] for i in range(first, self._count)]
        return (*self._turns[:first], *later)

    def add(self, message: Message) -> None:
        index = self._place_of(message)
        if index is None:
            index = self._count
            self._count += 1
        if index not in self._grown:
            self._grown[index] = list(self._messages(index)) if index < len(self._turns) else []
        self._grown[index].append(message)
        if self._places is not None:
            self._note(index, message)

    def _place_of(self, message: Message) -> int | None:
        """The index of the turn that the message is a part of; None where it begins one."""
        reply = message.results[0].call_version if message.results else message.reply
        if reply is None or not self._count:
            return None
        if any(reply in (m.version, m.reply) for m in self._messages(self._count - 1)):
            return self._count - 1
        if self._places is None:
            self._places = {}
            for index in range(self._count):
                for known in self._messages(index):
                    self._note(index, known)
        return self._places.get(reply)

    def _note(self, index: int, message: Message) -> None:
        assert self._places is not None
        if message.role is Role.MODEL:
            self._places[message.version] = index
            if message.reply is not None:
                # Its first part may not be sent, and then the turn is found by the others.
                self._places[message.reply] = index

    def _messages(self, index: int) -> Sequence[Message]:
        return self._grown[index] if index in self._grown else self._turns[index].messages


def turn_index(turns: Turns, version: int) -> int | None:
    """The index of the turn that holds the message, searched from the newest."""
    return next((i for i in reversed(range(len(turns))) if turns[i].holds(version)), None)
