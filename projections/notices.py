"""The notice: one authored message that says what is not being re-sent (WINDOW-RULES 5.1).

The wording is constant and carries no text of the run but names of tools. Everything it says stays true
while it stands: it speaks of the iteration of the drop, and names messages by id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from turnledger.domain.ids import message_id
from turnledger.domain.state import DROPPED_TOOLS_MAX, Dropped
from turnledger.projections.turns import Turn

NAMED_TOOLS_MAX = 4
_TOOL_NAME = re.compile(rb"[A-Za-z0-9_.:-]{1,48}")


def texts(run_id: str, dropped: Dropped, *, iteration: int, strategy: str, request: int) -> Iterator[str]:
    """The wordings to try, longest first. ``request`` is the request's version where it stands above the
    notice, else 0."""
    first, last = message_id(run_id, dropped.first), message_id(run_id, dropped.last)
    count = "1 earlier message" if dropped.messages == 1 else f"{dropped.messages} earlier messages"
    verb = "is" if dropped.messages == 1 else "are"
    base = (
        f"[turnledger: since iteration {iteration}, {count} of this run {verb} not being re-sent (strategy "
        f"{strategy}). Nothing was summarized; everything is kept in the ledger, from {first} to {last}."
    )
    if request:
        base += f" The request {message_id(run_id, request)} still stands above."
    if dropped.tools:
        named = f" Results that left came from: {_named(dropped.tools)}."
        yield base + named + " Call a tool again rather than reconstruct its result.]"
    yield base + "]"


def _named(tools: tuple[bytes, ...]) -> str:
    named = ", ".join(tool.decode("ascii") for tool in tools[:NAMED_TOOLS_MAX])
    return named + ", …" if len(tools) > NAMED_TOOLS_MAX else named


def with_removed(dropped: Dropped, removed: Sequence[Turn], observations: Iterable[bytes]) -> Dropped:
    """What is not being re-sent once these turns, oldest first, and their results have left too."""
    nameable = [name for name in observations if _TOOL_NAME.fullmatch(name)]
    tools = list(dict.fromkeys([*nameable, *dropped.tools]))
    first = removed[0].first
    return Dropped(
        messages=dropped.messages + sum([len(turn.messages) for turn in removed]),
        first=min(first, dropped.first) if dropped.first else first,
        last=max(dropped.last, *[turn.last for turn in removed]),
        tools=tuple(tools[:DROPPED_TOOLS_MAX]),
    )


def observations(turns: Sequence[Turn]) -> tuple[bytes, ...]:
    """The tools whose results the turns hold, latest first, each once."""
    return tuple(dict.fromkeys(chain.from_iterable([turn.tools for turn in reversed(turns)])))
