"""Sizes of windows: exact, in bytes as sent and in code points (WINDOW-RULES 6.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turnledger.domain.records import Size
from turnledger.projections.entries import Entry


def size_of(entries: Sequence[Entry], turns: int, *, counted: bool) -> Size:
    """The size of a window as it is sent."""
    return Size(
        turns,
        len(entries),
        sum(e.size_bytes for e in entries),
        characters_of(entries),
        tokens_of(entries) if counted else None,
    )


def characters_of(entries: Iterable[Entry]) -> int:
    """Code points of what is sent."""
    return sum(e.characters for e in entries)


def tokens_of(entries: Iterable[Entry]) -> int:
    """Tokens of what is sent, without the envelope."""
    return sum(e.tokens or 0 for e in entries)
