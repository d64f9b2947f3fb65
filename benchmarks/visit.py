"""``visit``: the engine alone, without store, wire and tokens: what a window costs by how many turns it has."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from statistics import median
from time import perf_counter

import msgspec

from benchmarks import workload
from benchmarks.report import Aim, Report, Say, milliseconds
from turnledger.domain.messages import MESSAGES_PER_APPEND_MAX
from turnledger.ledger import commands as c
from turnledger.ledger.application import Ledger
from turnledger.ledger.encoding import plain
from turnledger.ledger.stores import open_ledger
from turnledger.projections.visit import Draft, Visit

THRESHOLD_TOKENS = 1_000_000
TURNS = (100, 1_000, 10_000)
STAYING_TURNS = 7
"""Turns that stay where the rest leaves: the recent ones and the request."""
POLICY = {"strategy": "token-budget", "threshold_tokens": THRESHOLD_TOKENS, "keep_recent_turns": STAYING_TURNS - 1}
DROPPED_MESSAGES = 10_000
DROP_AIM_MS = 20.0
RECORD_AIM = 1.1
"""A record names ranges, so it grows by the digits of their numbers."""
LINEAR_AIM = 1.5
RUN_ID = "run"


def run(say: Say, *, quick: bool) -> Report:
    """Measures visits that leave the window as it is, and one that drops most of it."""
    repeats = 10 if quick else 50
    standing: dict[int, list[float]] = {}
    records: dict[int, int] = {}
    for turns in TURNS:
        say(f"a window of {turns:,} turns")
        standing[turns], draft = _measured(_visit(turns, over_budget=False), repeats)
        records[turns] = len(msgspec.msgpack.encode(plain(draft.records[0])))
    say(f"a drop of {DROPPED_MESSAGES:,} messages")
    dropping = _visit(DROPPED_MESSAGES // 2 + STAYING_TURNS, over_budget=True)
    drops, dropped = _measured(dropping, repeats)
    first, middle, last = TURNS
    (record,) = dropped.records
    assert record.removed_count == DROPPED_MESSAGES
    per_turn = {turns: median(seconds) / turns for turns, seconds in standing.items()}
    return Report(
        "visit",
        measured="the median time of the engine's visit of a window of calls with their results, the window before at "
        "hand: one that leaves it as it is, and one that drops ten thousand messages at once",
        against="fixed bounds, and the same visit of a shorter window",
        figures={
            "visit_by_turns": {str(turns): milliseconds(seconds) for turns, seconds in standing.items()},
            "drop": milliseconds(drops),
            "dropped_messages": record.removed_count,
            "record_bytes_by_turns": {str(turns): size for turns, size in records.items()},
            "record_bytes_of_drop": len(msgspec.msgpack.encode(plain(record))),
        },
        aims=(
            Aim(f"drop of {DROPPED_MESSAGES:,} messages, milliseconds", round(median(drops) * 1000, 2), DROP_AIM_MS),
            Aim(
                f"bytes of the record at {last:,} turns over those at {first:,}",
                round(records[last] / records[first], 3),
                RECORD_AIM,
            ),
            Aim(
                f"visit per turn at {last:,} turns over that at {middle:,}",
                round(per_turn[last] / per_turn[middle], 3),
                LINEAR_AIM,
            ),
        ),
    )


def _measured(visit: Callable[[], Draft], repeats: int) -> tuple[list[float], Draft]:
    """Seconds of a visit, again and again from the same window, and what comes of it."""
    seconds = []
    for _ in range(repeats):
        started = perf_counter()
        draft = visit()
        seconds.append(perf_counter() - started)
    return seconds, draft


def _visit(turns: int, *, over_budget: bool) -> Callable[[], Draft]:
    """The next visit of a window of so many turns, whose last call was reported over its budget or under it."""
    with open_ledger("memory:") as ledger:
        first = c.MessageInput(workload.request())
        ledger.open_run(c.OpenRun(run_id=RUN_ID, format=workload.FORMAT, policy=POLICY, messages=(first,)))
        # One turn is the request, and one comes after the window.
        _append(ledger, turns - 2)
        ledger.build_window(c.BuildWindow(run_id=RUN_ID))
        call, result = workload.exchange(turns)
        usage = c.UsageInput(input_tokens=THRESHOLD_TOKENS + over_budget)
        messages = (c.MessageInput(call, usage=usage), c.MessageInput(result))
        ledger.append(c.Append(run_id=RUN_ID, messages=messages))
        session = ledger.sessions.peek(ledger.key(RUN_ID))
    assert session is not None
    live, items, state = session.live, session.items, session.run
    assert live is not None and items is not None
    assert len(live.turns) == turns
    return lambda: Visit(state, live, items, _no_body, None).build()


def _append(ledger: Ledger, turns: int) -> None:
    messages = (c.MessageInput(body) for body in chain.from_iterable(workload.exchanges(turns)))
    while batch := tuple(islice(messages, MESSAGES_PER_APPEND_MAX)):
        ledger.append(c.Append(run_id=RUN_ID, messages=batch))


def _no_body(version: int) -> bytes:
    raise AssertionError("no message is rewritten")
