"""To continue a run, no more is read than what its next window needs; and it continues as if never forgotten."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.counting import counting_ledger, rows_read
from support.messages import Blocks, Body, Chat, blocks, chat
from support.runs import EVERY_POLICY, RUN, budget, compact, sliding
from support.varied import Worker, told
from turnledger.domain import compositions
from turnledger.domain import events as e
from turnledger.domain.errors import NothingToAnswer
from turnledger.domain.messages import MESSAGES_PER_APPEND_MAX
from turnledger.domain.run import Run, project_run
from turnledger.ledger import commands as c
from turnledger.ledger.application import Ledger
from turnledger.ledger.stores import open_ledger
from turnledger.ledger.writing import CHECKPOINT_FACTS
from turnledger.projections.replay import needs

KEY = f"default/{RUN}"
TAIL = 20
"""Messages that are appended in steps, after those that are appended in bulk."""
BESIDES_MAX = 7
"""Rows read beside the messages of the last window: two of the directory, the opening, the last checkpoint, and the
window, for the state, for its items and for the answer as a difference."""

POLICIES: dict[str, tuple[Body, str]] = {
    "sliding-window": (sliding(6, 2), ""),
    "token-budget": (budget(200, 2, measure="tokenizer", keep_recent_turns=6), "o200k_base"),
    "compact-results": (compact(keep_raw=1), ""),
}


# What is read


def bulk(numbers: Iterator[int], messages: int) -> Iterator[tuple[c.MessageInput, ...]]:
    """So many messages, in appends as large as they may be."""
    while messages:
        size = min(messages, MESSAGES_PER_APPEND_MAX)
        yield tuple(m for _ in range(size // 2) for m in exchange(next(numbers)))
        messages -= size


def exchange(number: int) -> tuple[c.MessageInput, ...]:
    """A call and its result; every result of one size."""
    return tuple(chat.exchange(f"call_{number:06}", text=f"result {number:06} " + "of some length " * 8))


def open_run(ledger: Ledger, policy: Body, tokenizer: str = "") -> None:
    """A run with its request."""
    request = chat.user("Find the bug, please, and tell me what it was.")
    ledger.open_run(c.OpenRun(run_id=RUN, format=chat.format, policy=policy, tokenizer=tokenizer, messages=(request,)))


def step(ledger: Ledger, *messages: c.MessageInput, held: e.WindowBuilt | None = None) -> e.WindowBuilt:
    """A step's window, answered as a difference to the one that is held."""
    base = c.Base(held.iteration, held.digest) if held else None
    answer = ledger.step(c.Step(run_id=RUN, messages=messages, base=base))
    assert answer.window is not None
    return answer.window.window


def append(ledger: Ledger, messages: tuple[c.MessageInput, ...]) -> None:
    """Appends messages."""
    ledger.append(c.Append(run_id=RUN, messages=messages))


@dataclass(frozen=True)
class Continued:
    """What a fresh process read to continue a run."""

    rows: int
    items: int
    """Items of the window that it went on from."""


def continued(address: str, name: str, length: int) -> Continued:
    """A run of so many messages, of which the last are steps, and one more step by a fresh process."""
    policy, tokenizer = POLICIES[name]
    numbers = count(1)
    with counting_ledger(address) as ledger:
        open_run(ledger, policy, tokenizer)
        for messages in bulk(numbers, length - TAIL):
            ledger.sessions.clear()
            append(ledger, messages)
            step(ledger)
        windows = [step(ledger, *exchange(next(numbers))) for _ in range(TAIL // 2)]
        ledger.sessions.clear()
        before = rows_read(ledger)
        step(ledger, *exchange(next(numbers)), held=windows[-1])
        return Continued(rows_read(ledger) - before, windows[-1].item_count)


@cache
def in_memory(name: str, length: int) -> Continued:
    """Likewise, in memory."""
    return continued("memory:", name, length)


LONG = [pytest.param(2_000), pytest.param(20_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("length", LONG)
@pytest.mark.parametrize("name", ["sliding-window", "token-budget"])
def test_what_is_read_does_not_grow_with_the_run(name: str, length: int) -> None:
    """A fresh process that continues a run reads the messages of its last window, at most twice (to go on from and
    to answer by difference), and a handful of rows: as many after 20 messages as after thousands."""
    short, long = in_memory(name, TAIL), in_memory(name, length)
    assert long.rows <= short.rows + 1, "one more: the checkpoint that the bulk made"
    for read in (short, long):
        assert read.rows <= 2 * read.items + BESIDES_MAX


def test_what_is_read_is_the_window_where_results_are_rewritten() -> None:
    """A rewritten message costs two rows, its facts and its shorter form; nothing else is read but the body that is
    rewritten now."""
    read = in_memory("compact-results", 200)
    assert read.rows <= 2 * 2 * read.items + BESIDES_MAX + 1


def test_the_file_gives_out_as_many_rows_as_memory(tmp_path: Path) -> None:
    """What is read is decided above the store."""
    for name in POLICIES:
        assert continued(f"sqlite:///{tmp_path}/{name}.db", name, 60) == in_memory(name, 60)


def appended(length: int, tail: int) -> int:
    """Rows that a fresh process reads to append to a run without windows, whose last checkpoint is ``tail`` facts
    ago."""
    numbers = count(1)
    with counting_ledger("memory:") as ledger:
        open_run(ledger, sliding(6))
        for messages in bulk(numbers, length - tail):
            ledger.sessions.clear()
            append(ledger, messages)
        for _ in range(tail // 2):
            append(ledger, exchange(next(numbers)))
        held = ledger.sessions.peek(KEY)
        ledger.sessions.clear()
        before = rows_read(ledger)
        append(ledger, exchange(next(numbers)))
        read = rows_read(ledger) - before
        assert held is not None
        assert ledger.loader.session(KEY).run.version == held.run.version + 2
        return read


@pytest.mark.parametrize("length", LONG)
def test_a_worker_that_only_appends_goes_on_from_its_checkpoint(length: int) -> None:
    """Without windows, a checkpoint bounds what is read: its row and the facts since, whatever the run's length."""
    # Two of the directory, the opening and the checkpoint.
    assert appended(length, TAIL) == appended(500, TAIL) == TAIL + 4
    largest = CHECKPOINT_FACTS - 2
    assert appended(length, largest) == largest + 4


def test_checkpoints_are_taken_at_their_distance() -> None:
    """The append that makes 256 facts since the last window or checkpoint takes one, in its own transaction."""
    numbers = count(1)
    with open_ledger("memory:") as ledger:
        open_run(ledger, sliding(6))  # Two facts, of which the opening is no distance.
        append(ledger, tuple(m for _ in range(127) for m in exchange(next(numbers))))
        assert ledger.loader.head(KEY).checkpoint_version == 0
        append(ledger, exchange(next(numbers)))
        assert ledger.loader.head(KEY).checkpoint_version == 1
        step(ledger, *exchange(next(numbers)))
        append(ledger, tuple(m for _ in range(127) for m in exchange(next(numbers))))
        assert ledger.loader.head(KEY).checkpoint_version == 1
        append(ledger, exchange(next(numbers)))
        assert ledger.loader.head(KEY).checkpoint_version == 2


def test_a_checkpoint_holds_what_the_facts_come_to() -> None:
    """A checkpoint is a cache: its state is that of folding every fact up to it."""
    numbers = count(1)
    with open_ledger("memory:") as ledger:
        open_run(ledger, sliding(6))
        for messages in bulk(numbers, 600):
            append(ledger, messages)
        (checkpoint,) = ledger.events.get(f"{KEY}/checkpoints")
        assert isinstance(checkpoint, e.CheckpointTaken)
        assert checkpoint.state == _folded(ledger).state
        assert ledger.loader.session(KEY).run.state == checkpoint.state


def _folded(ledger: Ledger) -> Run:
    run = project_run(None, ledger.events.get(f"{KEY}/ledger"))
    assert run is not None
    return run


# How it continues

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))]


@pytest.fixture
def fixed_salts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one content are equal to the last byte."""
    monkeypatch.setattr(secrets, "token_bytes", bytes)


def whole_store(ledger: Ledger) -> list[Any]:
    """Everything that is stored, in order: rows with bodies and chains, and the directory."""
    written = ledger.store.select_notifications(None, 10**6)
    streams = dict.fromkeys(str(n.originator_id) for n in written)
    rows = [row for s in streams for row in ledger.store.select_rows(s, [(1, 2**62)], bodies=True)]
    return [*written, *rows, ledger.store.select_head(KEY)]


@pytest.mark.usefixtures("fixed_salts")
@pytest.mark.parametrize("form", [chat, blocks], ids=lambda form: form.format)
@pytest.mark.parametrize("name", EVERY_POLICY)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_continues_as_if_never_forgotten(name: str, form: Chat | Blocks, seed: int) -> None:
    """A process that forgets all between two calls, and one that does so now and then, answer them, and store what
    they store, to the byte as one that never does: facts, windows with composition and record, shorter forms, chains.
    """
    noon, moments = datetime(2026, 1, 2, 12, tzinfo=UTC), Random(seed)
    with ExitStack() as stack:
        remembering, forgetful, restarted = (
            stack.enter_context(open_ledger("memory:", clock=lambda: noon)) for _ in range(3)
        )
        worker = Worker(Random(seed), form)
        opening = worker.opening(EVERY_POLICY[name])
        for ledger in (remembering, forgetful, restarted):
            ledger.open_run(opening)
        for ask in worker.calls(60):
            forgetful.sessions.clear()
            if moments.random() < 0.3:
                restarted.sessions.clear()
            assert told(forgetful, ask) == told(restarted, ask) == told(remembering, ask)
        assert whole_store(forgetful) == whole_store(restarted) == whole_store(remembering)
        assert forgetful.loader.head(KEY).windows_version > 15


def test_a_fresh_process_goes_on_from_a_step_without_a_window() -> None:
    """What it read for the window that could not be built serves the next one."""
    with open_ledger("memory:") as ledger:
        open_run(ledger, sliding(6))
        before = step(ledger, chat.user("a question"))
        ledger.sessions.clear()
        answer = ledger.step(c.Step(run_id=RUN, messages=(chat.reply("an answer"),)))
        assert isinstance(answer.error, NothingToAnswer)
        window = step(ledger, chat.user("another"))
        assert window.records[0].unchanged_items == before.item_count


@pytest.mark.usefixtures("fixed_salts")
def test_a_first_window_after_a_checkpoint_is_the_same() -> None:
    """A run that only appended for long gets the same first window from a fresh process."""
    windows = []
    for forgets in (False, True):
        numbers = count(1)
        with open_ledger("memory:") as ledger:
            open_run(ledger, sliding(6, 2))
            for messages in bulk(numbers, 700):
                append(ledger, messages)
            if forgets:
                ledger.sessions.clear()
            window = step(ledger, *exchange(next(numbers)))
            windows.append((window.digest, window.composition, window.records, window.state))
    assert windows[0] == windows[1]


def test_what_a_window_names_is_all_that_it_needs() -> None:
    """The composition of the last window names no version before its oldest item but the request."""
    numbers = count(1)
    with open_ledger("memory:") as ledger:
        open_run(ledger, sliding(3))
        for _ in range(10):
            window = step(ledger, *exchange(next(numbers)))
        named = needs(compositions.decode(window.composition))
        assert named.ranges == ((2, 2), (17, 22))
        assert named.treated == ()
