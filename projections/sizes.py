"""Sizes of windows: exact, in bytes as sent and in code points (WINDOW-RULES 6.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnledger.domain.records import Size
from turnledger.projections.entries import Entry
from turnledger.projections.live import Live, TreatedForm
from turnledger.projections.turns import Turn


def size_sent(entries: list[Entry], turns: int, *, counted: bool) -> Size:
    """The size of a window as it is handed out."""
    return Size(
        turns,
        len(entries),
        sum(e.size_bytes for e in entries),
        sum(e.characters for e in entries),
        sum(e.tokens or 0 for e in entries) if counted else None,
    )


def size_before(live: Live, *, counted: bool) -> Size:
    """The size of what a visit starts from: every turn, and the notice if there is one."""
    turns, notice = live.turns, live.notice
    return Size(
        len(turns),
        sum(len(t.messages) for t in turns) + (1 if notice else 0),
        sum(t.size_bytes for t in turns)
        + _gain(live.forms, turns, "size_bytes")
        + (len(notice.content) if notice else 0),
        characters_of(turns, live.forms) + (notice.characters if notice else 0),
        tokens_of(live) if counted else None,
    )


def characters_of(turns: Iterable[Turn], forms: Mapping[int, TreatedForm]) -> int:
    """Code points of turns as they are sent."""
    listed = list(turns)
    return sum(t.characters for t in listed) + _gain(forms, listed, "characters")


def tokens_of(live: Live) -> int:
    """Tokens of a window's turns and notice as they are sent, without the envelope."""
    notice = live.notice.tokens or 0 if live.notice else 0
    return sum(t.tokens for t in live.turns) + _gain(live.forms, live.turns, "tokens") + notice


def _gain(forms: Mapping[int, TreatedForm], turns: Iterable[Turn], measure: str) -> int:
    """What treated forms add to the raw sum: a negative number."""
    if not forms:
        return 0
    return sum(
        (getattr(forms[m.version], measure) or 0) - (getattr(m, measure) or 0)
        for turn in turns
        for m in turn.messages
        if m.version in forms and forms[m.version].commitment is not None
    )
