"""Waiting on conditions, never for a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from time import monotonic
from typing import TypeVar

SECONDS_MAX = 30.0
"""No test waits longer for anything."""

Given = TypeVar("Given")
Made = TypeVar("Made")


def at_once(work: Callable[[Given], Made], givens: Iterable[Given]) -> list[Made]:
    """What ``work`` makes of each given thing, all started at the same moment, in a thread each."""
    listed = list(givens)
    start = Barrier(len(listed))

    def run(given: Given) -> Made:
        start.wait(SECONDS_MAX)
        return work(given)

    with ThreadPoolExecutor(len(listed)) as pool:
        return [future.result(SECONDS_MAX) for future in [pool.submit(run, given) for given in listed]]


def wait_until(condition: Callable[[], bool], *, seconds: float = SECONDS_MAX) -> None:
    """Returns once the condition holds; fails where it does not in time."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, f"not within {seconds} s"
        Event().wait(0.02)
