"""The outcomes of a visit: what is committed, and what is answered.

An error in the append writes nothing. An error in the build never undoes a valid append: the facts really
happened. Each test is a row of the table in the design; what is in the store is counted before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.messages import blocks, call, chat
from support.runs import RUN, budget, compact, sliding
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import (
    BodyNotJson,
    BodyNotOfFormat,
    CompactionUnmeasurable,
    FieldInvalid,
    IterationOutOfRange,
    NothingToAnswer,
    NoWindow,
    ResultDuplicate,
    ResultOrphan,
    ResultsMixed,
    RunClosed,
    RunNotFound,
    RunPaused,
    TurnledgerError,
    VersionConflict,
    WindowInvalid,
)
from turnledger.domain.ids import LEDGER, WINDOWS
from turnledger.domain.words import RunStatus
from turnledger.ledger import commands as c
from turnledger.ledger.answers import AppendAnswer
from turnledger.ledger.application import Ledger
from turnledger.ledger.stores import open_ledger

POLICIES = [sliding(1), budget(100), compact(), {"strategy": "none"}]


@dataclass
class Given:
    """A run, and how many events of each stream were written to it."""

    policy: dict[str, Any]
    messages: tuple[c.MessageInput, ...] = (chat.user("the task"),)
    format: str = "openai.chat"
    ledger: Ledger = field(default_factory=lambda: open_ledger("memory:"))

    def __post_init__(self) -> None:
        self.ledger.open_run(c.OpenRun(run_id=RUN, format=self.format, policy=self.policy, messages=self.messages))

    def step(self, *messages: c.MessageInput, **options: Any) -> AppendAnswer:
        """Appends and builds."""
        return self.ledger.step(c.Step(run_id=RUN, messages=messages, **options))

    def build(self, **options: Any) -> AppendAnswer:
        """Builds."""
        return self.ledger.build_window(c.BuildWindow(run_id=RUN, **options))

    def append(self, *messages: c.MessageInput) -> None:
        """Appends."""
        self.ledger.append(c.Append(run_id=RUN, messages=messages))

    def pause(self) -> None:
        """A call that the run is paused on."""
        self.append(chat.reply(None, call("a")))
        self.ledger.pause_run(c.PauseRun(run_id=RUN, calls=(c.CallRef(call_id=b"a"),)))

    @contextmanager
    def writes(self, *, facts: int, windows: int = 0) -> Iterator[None]:
        """What happens inside writes so many facts and windows, and nothing else; at most one transaction."""
        before, transactions = self._written(), []
        insert = self.ledger.store.insert_events

        def counted(*args: Any, **options: Any) -> Any:
            transactions.append(1)
            return insert(*args, **options)

        self.ledger.store.insert_events = counted  # type: ignore[method-assign]
        yield
        self.ledger.store.insert_events = insert  # type: ignore[method-assign]
        after = self._written()
        assert (after[LEDGER] - before[LEDGER], after[WINDOWS] - before[WINDOWS]) == (facts, windows)
        assert after["all"] - before["all"] == facts + windows
        assert len(transactions) == bool(facts + windows)

    def _written(self) -> dict[str, int]:
        notes = list(self.ledger.store.select_notifications(start=None, limit=10_000))
        streams = [str(note.originator_id).rsplit("/", 1)[1] for note in notes]
        return {LEDGER: streams.count(LEDGER), WINDOWS: streams.count(WINDOWS), "all": len(notes)}


# Built: facts and window N


@pytest.mark.parametrize("policy", POLICIES)
def test_built(policy: dict[str, Any]) -> None:
    """Facts and window in one transaction; the answer is the window."""
    run = Given(policy)
    with run.writes(facts=0, windows=1):
        answer = run.build()
    assert answer.window is not None
    assert (answer.window.window.iteration, answer.window.replayed, answer.error) == (1, False, None)
    with run.writes(facts=2, windows=1):
        answer = run.step(chat.reply("fine"), chat.user("go on"))
    assert answer.window is not None
    assert (answer.versions, answer.window.window.iteration, answer.window.window.ledger_version) == ((3, 4), 2, 4)


# No fact since the last window, or iteration N asked again: nothing


@pytest.mark.parametrize("policy", POLICIES)
def test_no_fact_since_the_last_window(policy: dict[str, Any]) -> None:
    """The recorded window is answered, marked as replayed; a usage report makes no difference."""
    run = Given(policy)
    first = run.step()
    with run.writes(facts=0):
        again = [run.step(), run.build(), run.step(while_paused=True)]
    run.ledger.report_usage(c.ReportUsage(run_id=RUN, usage=c.UsageInput(input_tokens=5, output_tokens=1)))
    with run.writes(facts=0):
        again += [run.step(), run.build()]
    for answer in again:
        assert answer.window is not None
        assert first.window is not None
        assert answer.window.replayed
        assert answer.window.window.model_dump() == first.window.window.model_dump()
        assert answer.window.whole == first.window.whole


def test_an_iteration_that_is_asked_for_again() -> None:
    """Whatever came since, also where the run is paused or closed by now."""
    run = Given(sliding(1))
    first = run.step()
    second = run.step(chat.reply("fine"), chat.user("go on"))
    run.pause()

    def ask() -> None:
        with run.writes(facts=0):
            for iteration, then in ((1, first), (2, second)):
                answer = run.build(iteration=iteration)
                assert answer.window is not None
                assert then.window is not None
                assert (answer.window.replayed, answer.window.whole) == (True, then.window.whole)

    ask()
    run.ledger.close_run(c.CloseRun(run_id=RUN, status=RunStatus.FAILED))
    ask()


def test_the_next_iteration_may_be_named() -> None:
    """It is built; one beyond it is an error."""
    run = Given(sliding(1))
    with run.writes(facts=0, windows=1):
        assert run.build(iteration=1).window is not None
    for iteration in (0, 3, -1):
        with run.writes(facts=0), pytest.raises(IterationOutOfRange):
            run.build(iteration=iteration)


# Unmeasurable, not mendable, nothing to answer: facts


def _unmeasurable() -> tuple[Given, tuple[c.MessageInput, ...]]:
    run = Given(budget(100))
    run.step()
    return run, (chat.reply("fine", usage=(0, 0)), chat.user("go on"))


def _opens_with_the_model() -> tuple[Given, tuple[c.MessageInput, ...]]:
    return Given(sliding(9), (blocks.reply("hello"),), "anthropic.messages"), (blocks.user("hi"),)


def _no_tools() -> tuple[Given, tuple[c.MessageInput, ...]]:
    run = Given(sliding(9), (blocks.user("the task"),), "anthropic.messages")
    run.ledger.set_envelope(c.SetEnvelope(run_id=RUN, envelope=Envelope(tools=b"[]")))
    return run, tuple(blocks.exchange("a"))


def _model_last() -> tuple[Given, tuple[c.MessageInput, ...]]:
    return Given(sliding(9)), (chat.reply("done"),)


def _open_call_last() -> tuple[Given, tuple[c.MessageInput, ...]]:
    return Given({"strategy": "none"}), (chat.reply(None, call("a")),)


def _empty() -> tuple[Given, tuple[c.MessageInput, ...]]:
    return Given(sliding(9), ()), (chat.reply(None),)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (_unmeasurable, CompactionUnmeasurable(RUN, "openai.chat", 1)),
        (_opens_with_the_model, WindowInvalid(RUN, "opens-with-user", "r/2")),
        (_no_tools, WindowInvalid(RUN, "tools-declared", "r/4")),
        (_model_last, NothingToAnswer(RUN, "r/3")),
        (_open_call_last, NothingToAnswer(RUN, "r/3")),
        (_empty, NothingToAnswer(RUN, "")),
    ],
)
def test_no_window_comes_of_it(
    given: Callable[[], tuple[Given, tuple[c.MessageInput, ...]]], expected: NoWindow
) -> None:
    """The facts are written and the answer says why there is no window; asked again, nothing more is written."""
    run, messages = given()
    with run.writes(facts=len(messages)):
        answer = run.step(*messages)
    assert answer.window is None
    assert len(answer.versions) == len(messages)
    assert (type(answer.error), answer.error and answer.error.metadata) == (type(expected), expected.metadata)
    for again in (run.step, run.build):
        with run.writes(facts=0):
            answer = again()
        assert (type(answer.error), answer.error and answer.error.metadata) == (type(expected), expected.metadata)


def test_a_failed_build_is_made_up_for() -> None:
    """The next append gives the window what it lacked; its facts are not written twice."""
    run = Given(sliding(9))
    run.step(chat.reply("done"))
    with run.writes(facts=1, windows=1):
        answer = run.step(chat.user("thanks"))
    assert answer.window is not None
    assert (answer.window.window.iteration, answer.window.window.item_count) == (1, 3)


# Run paused: facts


@pytest.mark.parametrize("policy", POLICIES)
def test_run_paused(policy: dict[str, Any]) -> None:
    """Facts are taken, and no window is built; with ``while_paused`` one is."""
    run = Given(policy)
    run.pause()
    with run.writes(facts=1):
        answer = run.step(chat.user("well?"))
    assert answer.window is None
    assert isinstance(answer.error, RunPaused)
    with run.writes(facts=0):
        assert isinstance(run.build().error, RunPaused)
    with run.writes(facts=1, windows=1):
        answer = run.step(chat.user("hello?"), while_paused=True)
    assert answer.window is not None
    assert answer.window.window.while_paused is True


# Run closed, append refused, version conflict: nothing


def test_run_closed() -> None:
    """Neither facts nor windows are taken."""
    run = Given(sliding(1))
    run.ledger.close_run(c.CloseRun(run_id=RUN, status=RunStatus.FINISHED))
    for ask in (lambda: run.step(chat.user("hi")), run.step, run.build, lambda: run.append(chat.user("hi"))):
        with run.writes(facts=0), pytest.raises(RunClosed):
            ask()


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([chat.result("nobody")], ResultOrphan),
        ([*chat.exchange("a"), chat.result("a")], ResultDuplicate),
        ([c.MessageInput(b"{")], BodyNotJson),
        ([c.MessageInput(b'{"role":"nobody"}')], BodyNotOfFormat),
        ([chat.reply("x", answers_iteration=2)], IterationOutOfRange),
        ([chat.reply("x", usage=(-1, 0))], FieldInvalid),
        ([chat.user("x", reply_id="A")], FieldInvalid),
    ],
)
def test_append_refused(messages: list[c.MessageInput], error: type[TurnledgerError]) -> None:
    """One bad message, and none of them is written, whether a window was asked for or not."""
    run = Given(sliding(9))
    run.step()
    for ask in (run.step, run.append):
        with run.writes(facts=0), pytest.raises(error):
            ask(chat.user("fine"), *messages)


def test_append_of_mixed_results_refused() -> None:
    """Results of two replies in one message."""
    run = Given(sliding(9), (blocks.user("the task"),), "anthropic.messages")
    with run.writes(facts=0), pytest.raises(ResultsMixed):
        run.step(blocks.reply(None, call("a")), blocks.reply(None, call("b")), blocks.results(("a", "x"), ("b", "y")))


def test_version_conflict() -> None:
    """The run stands elsewhere than was expected: the answer says where."""
    run = Given(sliding(9))
    run.append(chat.user("one more"))
    for expectation, expected in ((c.Expectation(version=2), 2), (c.Expectation(no_run=True), 0)):
        with run.writes(facts=0), pytest.raises(VersionConflict) as refused:
            run.step(chat.user("hi"), expectation=expectation)
        assert (refused.value.expected_version, refused.value.actual_version) == (expected, 3)
    with run.writes(facts=1, windows=1):
        assert run.step(chat.user("hi"), expectation=c.Expectation(version=3)).version == 4


def test_unknown_run() -> None:
    """There is nothing to write to."""
    run = Given(sliding(9))
    with run.writes(facts=0), pytest.raises(RunNotFound):
        run.ledger.step(c.Step(run_id="another", messages=(chat.user("hi"),)))
