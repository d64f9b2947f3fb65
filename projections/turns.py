"""Turns: the unit in which messages stay in a window or leave it (WINDOW-RULES 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from turnledger.domain.messages import Message
from turnledger.domain.words import Role


@dataclass(frozen=True, slots=True)
class Turn:
    """One model reply with every result that answers its calls, or any other single message.

    The sums are kept because every visit adds them up over the whole window.
    """

    messages: tuple[Message, ...]
    """In order of arrival."""
    first: int = field(init=False)
    """Version of its first message: the turn's name and place."""
    last: int = field(init=False)
    """Version of the last message to arrive."""
    last_result: int = field(init=False)
    """Version of its last message with results; 0 where it has none."""
    size_bytes: int = field(init=False)
    characters: int = field(init=False)
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        messages = self.messages
        put = object.__setattr__
        put(self, "first", messages[0].version)
        put(self, "last", messages[-1].version)
        put(self, "last_result", max((m.version for m in messages if m.results), default=0))
        put(self, "size_bytes", sum(m.size_bytes for m in messages))
        put(self, "characters", sum(m.characters for m in messages))
        put(self, "tokens", sum(m.tokens or 0 for m in messages))

    @property
    def is_system(self) -> bool:
        """A system or developer message inside the run."""
        return self.messages[0].role is Role.SYSTEM

    def holds(self, version: int) -> bool:
        """Whether the message is part of the turn."""
        return self.first <= version <= self.last and any(m.version == version for m in self.messages)

    def with_message(self, message: Message) -> Turn:
        """The turn with one more message, at its place in the order of arrival."""
        if message.version > self.last:
            return Turn((*self.messages, message))
        return Turn(tuple(sorted((*self.messages, message), key=lambda m: m.version)))


Turns = tuple[Turn, ...]
NO_TURNS: Final[Turns] = ()


def add_message(turns: Turns, message: Message) -> Turns:
    """The turns with one more message: a part of the turn that it belongs to, or a turn of its own."""
    index = _turn_of(turns, message)
    if index is None:
        return (*turns, Turn((message,)))
    return (*turns[:index], turns[index].with_message(message), *turns[index + 1 :])


def build_turns(messages: Iterable[Message]) -> Turns:
    """The turns of messages, which are given in order of the ledger and none of which is marked."""
    turns: list[Turn] = []
    for message in messages:
        index = _turn_of(turns, message)
        if index is None:
            turns.append(Turn((message,)))
        else:
            turns[index] = turns[index].with_message(message)
    return tuple(turns)


def _turn_of(turns: Turns | list[Turn], message: Message) -> int | None:
    if message.results:
        call = message.results[0].call_version
        return next((i for i in reversed(range(len(turns))) if turns[i].holds(call)), None)
    if message.reply_id is not None:
        return next(
            (i for i in reversed(range(len(turns))) if turns[i].messages[0].reply_id == message.reply_id),
            None,
        )
    return None


def turn_index(turns: Turns, version: int) -> int | None:
    """The index of the turn that holds the message, searched from the newest."""
    return next((i for i in reversed(range(len(turns))) if turns[i].holds(version)), None)
