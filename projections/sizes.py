"""Sizes of windows: exact, in bytes as sent and in code points (WINDOW-RULES 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

from turnledger.domain.records import Size
from turnledger.projections.entries import Piece


def size_of(pieces: Sequence[Piece], turns: int, *, counted: bool) -> Size:
    """The size of a window as it is sent."""
    return Size(
        turns,
        sum([len(piece.entries) for piece in pieces]),
        sum([piece.bytes for piece in pieces]),
        sum([piece.characters for piece in pieces]),
        tokens_of(pieces) if counted else None,
    )


def tokens_of(pieces: Sequence[Piece]) -> int:
    """Tokens of what is sent, without the envelope."""
    return sum([piece.tokens for piece in pieces])
