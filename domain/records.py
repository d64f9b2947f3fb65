"""The record of a visit: what left the window, what refused to and why (WINDOW-RULES 7).

Messages are named by their version in the ledger; on the wire by id.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnledger.domain.words import MendKind, NotEngaged, OmissionReason, Outcome, RefusalReason

Span = tuple[int, int]
"""First and last version of neighbouring messages, both included."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Neighbouring turns that stay for one reason."""

    reason: RefusalReason
    first: int
    last: int
    turns: int


@dataclass(frozen=True, slots=True)
class Omission:
    """A message that is in the ledger but not sent."""

    reason: OmissionReason
    version: int


@dataclass(frozen=True, slots=True)
class Mend:
    """Something the window needed to be valid."""

    kind: MendKind
    version: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule of the provider that a window breaks."""

    rule: str
    version: int
    """The message at fault; 0 for the window as a whole."""
    detail: str


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a window: exact, whatever measures the budget."""

    turns: int
    items: int
    bytes: int
    characters: int
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """The input that a budget was compared with."""

    source: str
    """``reported`` or the name of the tokenizer; the two are never mixed."""
    threshold_tokens: int
    tokens: int | None = None
    over_budget: bool = False
    not_measured_streak: int = 0


@dataclass(frozen=True, slots=True)
class Pins:
    """The latest tool results (WINDOW-RULES 3)."""

    pinned: tuple[Span, ...] = ()
    """Pinned turns outside the recent ones."""
    yielded: int = 0
    limit: int = 0
    stand_down: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """What one strategy decided in one visit."""

    strategy: str
    strategy_version: int
    options_digest: bytes
    outcome: Outcome
    iteration: int
    ledger_version: int
    envelope_version: int
    before: Size
    after: Size
    digest: bytes
    outcome_reason: NotEngaged | None = None
    keep_recent_turns: int = 0
    removed: tuple[Span, ...] = ()
    removed_count: int = 0
    removed_stages: tuple[str, ...] = ()
    removed_lived_max: int = 0
    rewritten: tuple[Span, ...] = ()
    rewritten_count: int = 0
    refusals: tuple[Refusal, ...] = ()
    dropped_observations: tuple[bytes, ...] = ()
    pins: Pins = Pins()
    omissions: tuple[Omission, ...] = ()
    mends: tuple[Mend, ...] = ()
    authored: tuple[int, ...] = ()
    """Indexes of authored items that the window before did not have."""
    measurement: Measurement | None = None
    unchanged_items: int = 0
    unchanged_bytes: int = 0
    first_changed_id: str | None = None
    """Id of the first item that differs from the window before; None where none does."""
    view_only: bool = False
    """What left is back in the next visit."""

    @property
    def persist(self) -> bool:
        """What left stays out of later windows."""
        return not self.view_only
