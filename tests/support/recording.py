"""A whole run as it happened: every window that was handed out, and what was stored before and after each call."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from support.messages import Blocks, Body, Chat
from support.runs import RUN
from support.varied import Worker, told
from turnledger.domain import events as e
from turnledger.ledger.answers import AppendAnswer, Item
from turnledger.ledger.application import Ledger
from turnledger.ledger.encoding import Row

KEY = f"default/{RUN}"
LEDGER_STREAM = f"{KEY}/ledger"


@dataclass(frozen=True)
class Recorded:
    """A window with its bodies, and the rows of the ledger around the call that handed it out."""

    window: e.WindowBuilt
    items: tuple[Item, ...]
    before: list[Row]
    after: list[Row]

    @property
    def versions(self) -> list[int]:
        """Ledger versions of the messages that it holds; authored items have none."""
        return [version_of(item) for item in self.items if item.kind.is_salted]


def version_of(item: Item) -> int:
    """The ledger version that an item's id names."""
    return int(item.id.removeprefix(f"{RUN}/"))


def record(ledger: Ledger, random: Random, form: Chat | Blocks, policy: Body, calls: int) -> list[Recorded]:
    """Drives a run; gives every window that was new, in order."""
    worker = Worker(random, form)
    ledger.open_run(worker.opening(policy))
    windows = []
    before = ledger_rows(ledger)
    for ask in worker.calls(calls):
        answer, _ = told(ledger, ask)
        after = ledger_rows(ledger)
        if window := _new_window(answer):
            windows.append(Recorded(window.window, window.whole, before, after))
        before = after
    return windows


def ledger_rows(ledger: Ledger) -> list[Row]:
    """The run's facts as they are stored, with bodies and chains."""
    return list(ledger.store.select_rows(LEDGER_STREAM, [(1, 2**62)], bodies=True))


def _new_window(answer: Any) -> Any:
    if isinstance(answer, AppendAnswer) and answer.window is not None and not answer.window.replayed:
        return answer.window
    return None
