"""Turns: the unit in which messages stay in a window or leave it (WINDOW-RULES 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnledger.domain.messages import Message
from turnledger.domain.words import Role


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

    def __post_init__(self) -> None:
        messages = self.messages
        put = object.__setattr__
        put(self, "first", messages[0].version)
        put(self, "last", messages[-1].version)
        put(self, "last_result", max((m.version for m in messages if m.results), default=0))

    @property
    def is_system(self) -> bool:
        """A system or developer message inside the run."""
        return self.messages[0].role is Role.SYSTEM

    def spans(self, version: int) -> bool:
        """Whether the version lies between the turn's first message and its last."""
        return self.first <= version <= self.last

    def holds(self, version: int) -> bool:
        """Whether the message is part of the turn."""
        return self.spans(version) and any(m.version == version for m in self.messages)


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
        return tuple(Turn(tuple(self._grown[i])) if i in self._grown else self._turns[i] for i in range(self._count))

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
