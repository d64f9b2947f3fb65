"""The live part of a run: the turns that its next window can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from turnledger.domain.messages import Message
from turnledger.projections.entries import Entry, TreatedForm
from turnledger.projections.turns import NO_TURNS, Turns, add_messages


@dataclass(frozen=True, slots=True)
class Notice:
    """The one authored notice of a window, and how many turns stand before it."""

    entry: Entry
    position: int


@dataclass(frozen=True, slots=True)
class Live:
    """What the last window held, and what came since."""

    turns: Turns = NO_TURNS
    forms: Mapping[int, TreatedForm] = field(default_factory=dict)
    """The treated form of messages that have one, by version."""
    notice: Notice | None = None
    marked: tuple[Message, ...] = ()
    """Messages that only ``none`` sends: orphan and late results."""

    def add(self, messages: Iterable[Message]) -> Live:
        """With messages that came, in order of the ledger."""
        listed = list(messages)
        return replace(
            self,
            turns=add_messages(self.turns, (m for m in listed if m.mark is None)),
            marked=(*self.marked, *(m for m in listed if m.mark is not None)),
        )
