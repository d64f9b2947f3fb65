"""What a strategy is given, and what it may answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from turnledger.domain.records import Measurement
from turnledger.domain.words import NotEngaged, RefusalReason


@dataclass(frozen=True, slots=True)
class ResultsView:
    """A message with tool results that is not rewritten yet."""

    version: int
    count: int
    """How many results it holds."""
    refusal: RefusalReason | None
    """Why it may not be rewritten for age; None where it may."""


class View(Protocol):
    """A window as a strategy sees it: the plan, never the guards."""

    @property
    def turn_count(self) -> int:
        """Turns in the window."""

    def plan(self, recent: int) -> range:
        """Indexes of the turns that may leave while the newest ``recent`` stay: one contiguous span."""

    def measure(self, by: Literal["reported", "tokenizer"], threshold_tokens: int) -> Measurement:
        """The measured input. Raises :class:`turnledger.domain.errors.CompactionUnmeasurable`."""

    def results(self) -> Sequence[ResultsView]:
        """Messages with results, newest first; those that are rewritten already are left out."""

    def result_texts(self, version: int) -> Sequence[str]:
        """The text of each result of a message, from its original body."""

    def message_id(self, version: int) -> str:
        """The id of a message."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Turns that shall leave: part of the plan, given by index."""

    span: range


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The texts that shall replace the results of a message, one for each."""

    version: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a strategy wants done. The engine checks every operation against the rules."""

    not_engaged: NotEngaged | None = None
    recent: int | None = None
    """The keep depth that was planned with; None where the strategy plans no drop."""
    operations: tuple[Drop | Rewrite, ...] = ()
    stays: tuple[tuple[int, RefusalReason], ...] = ()
    """Messages whose results stay as they are by the strategy's own choice."""
    measurement: Measurement | None = None


class Strategy(Protocol):
    """Chooses when to act and how much. Deterministic: no clock, no randomness, no model."""

    def decide(self, view: View) -> Decision:
        """The decision of one visit."""
