"""Requests that are made again: the first outcome for a day, whatever the run has come to since.

What a retry must be like over the wire is in ``test_service.py``; here the clock is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, cast

import pytest

from support.clock import Clock
from support.messages import Blocks, Body, Chat, blocks, chat
from support.runs import NONE, RUN, compact, sliding
from support.varied import Worker, told
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import FieldInvalid, RequestIdReused, RunClosed, RunExists, VersionConflict
from turnledger.domain.words import RunStatus, Source
from turnledger.ledger import commands as c
from turnledger.ledger.application import Ledger
from turnledger.ledger.stores import open_ledger

ADDED = chat.user("more")


@pytest.fixture
def clock() -> Clock:
    """The ledger's clock."""
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    """A ledger with one run of one message."""
    ledger = open_ledger("memory:", clock=clock)
    ledger.open_run(c.OpenRun(run_id=RUN, format="openai.chat", policy=NONE, messages=(chat.user("task"),)))
    return ledger


def _append(request_id: str = "a", **options: object) -> c.Append:
    return replace(c.Append(run_id=RUN, request_id=request_id, messages=(ADDED,)), **options)


def test_a_retry_is_answered_though_the_run_has_gone_on(ledger: Ledger) -> None:
    """Its expectation holds no longer and the run is closed, but it is no new request."""
    first = ledger.append(_append(expectation=c.Expectation(version=2)))
    ledger.append(_append("b"))
    again = ledger.append(_append(expectation=c.Expectation(version=2)))
    assert (again.version, again.versions, again.replayed) == (first.version, first.versions, True)
    ledger.close_run(c.CloseRun(run_id=RUN, status=RunStatus.FINISHED))
    assert ledger.append(_append(expectation=c.Expectation(version=2))).versions == first.versions


@pytest.mark.parametrize("fresh", [False, True], ids=["held", "fresh"])
def test_a_retry_with_nothing_left_to_write_is_compared_too(ledger: Ledger, fresh: bool) -> None:
    """A window that is on record by now is no way around the comparison with the first request."""
    asked = c.BuildWindow(run_id=RUN, request_id="w")
    first = ledger.build_window(asked)
    ledger.append(_append())
    ledger.build_window(c.BuildWindow(run_id=RUN))
    if fresh:
        ledger.sessions.clear()
    again = ledger.build_window(asked)
    assert first.window is not None and again.window is not None
    assert again.window.window.digest == first.window.window.digest
    with pytest.raises(RequestIdReused) as raised:
        ledger.build_window(replace(asked, iteration=2))
    assert raised.value.field == "iteration"


def test_an_id_is_free_again_after_a_day(ledger: Ledger, clock: Clock) -> None:
    """A moment before it gives the first answer; a moment after, whatever the run says to a new request."""
    command = _append(expectation=c.Expectation(version=2))
    ledger.append(command)
    clock.now += timedelta(hours=24)
    assert ledger.append(command).replayed
    clock.now += timedelta(microseconds=1)
    with pytest.raises(VersionConflict):
        ledger.append(command)
    ledger.close_run(c.CloseRun(run_id=RUN, status=RunStatus.FINISHED))
    with pytest.raises(RunClosed):
        ledger.append(_append())


def test_a_retry_of_what_changed_nothing_changes_nothing(ledger: Ledger) -> None:
    """An envelope that was in force already is not set again later by a late retry."""
    first, second = Envelope(model=b"one"), Envelope(model=b"two")
    ledger.set_envelope(c.SetEnvelope(run_id=RUN, envelope=first))
    late = c.SetEnvelope(run_id=RUN, envelope=first, request_id="late")
    answer = ledger.set_envelope(late)
    ledger.set_envelope(c.SetEnvelope(run_id=RUN, envelope=second))
    again = ledger.set_envelope(late)
    assert (again.version, again.commitment) == (answer.version, answer.commitment)
    assert ledger.loader.head(f"default/{RUN}").ledger_version == 4
    with pytest.raises(RequestIdReused):
        ledger.set_envelope(replace(late, envelope=second))


@pytest.mark.parametrize(
    "claim",
    [{"request": True}, {"stage_id": "z"}, {"source": Source.INJECTED}, {"usage": c.UsageInput(input_tokens=1)}],
    ids=lambda claim: next(iter(claim)),
)
def test_an_opening_with_other_claims_is_another(ledger: Ledger, claim: dict[str, Any]) -> None:
    """What the worker says of a message is content too."""
    said = chat.reply("hello") if "usage" in claim else chat.user("hello")
    command = c.OpenRun(run_id="claims", format="openai.chat", messages=(said,))
    ledger.open_run(command)
    assert ledger.open_run(command).replayed
    with pytest.raises(RunExists) as raised:
        ledger.open_run(replace(command, messages=(replace(said, **claim),)))
    assert raised.value.field == "messages"


class Repeating:
    """A ledger whose every call is made again at once, at times by a process that has just started."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self._ledger = ledger
        self._moments = Random(seed)
        self._made = 0

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        def twice(command: Any) -> Any:
            self._made += 1
            asked = replace(command, request_id=f"request-{self._made}")
            first = told(self._ledger, lambda ledger: getattr(ledger, name)(asked))
            written = self._ledger.store.max_notification_id()
            if self._moments.random() < 0.5:
                self._ledger.sessions.clear()
            second = told(self._ledger, lambda ledger: getattr(ledger, name)(asked))
            assert _essence(second) == _essence(first)
            assert self._ledger.store.max_notification_id() == written
            return getattr(self._ledger, name)(asked)

        return twice


def _essence(said: tuple[Any, Any]) -> tuple[Any, ...]:
    """An answer but for whether it is a repetition."""
    answer, error = said
    window = getattr(answer, "window", None)
    names = ("version", "versions", "omissions", "commitment", "usage")
    return (*(getattr(answer, n, None) for n in names), error, window and (window.window, window.whole))


@pytest.mark.parametrize("form", [chat, blocks], ids=lambda form: form.format)
@pytest.mark.parametrize("policy", [NONE, sliding(2, 1), compact(keep_raw=0)], ids=lambda policy: policy["strategy"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_whatever_is_asked_can_be_asked_again(form: Chat | Blocks, policy: Body, seed: int) -> None:
    """The same answer or the same error, and nothing is written."""
    with open_ledger("memory:") as ledger:
        worker, repeating = Worker(Random(seed), form), Repeating(ledger, seed)
        repeating.open_run(worker.opening(policy))
        for ask in worker.calls(60):
            told(cast("Ledger", repeating), ask)
        assert ledger.loader.head(f"default/{RUN}").windows_version > 10


LONE = "lone \ud800"


@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("request_id", lambda ledger: ledger.append(_append(LONE))),
        ("messages[0].reply_id", lambda ledger: ledger.append(_append(messages=(chat.reply("x", reply_id=LONE),)))),
        ("messages[0].stage_id", lambda ledger: ledger.append(_append(messages=(replace(ADDED, stage_id=LONE),)))),
        ("reason", lambda ledger: ledger.close_run(c.CloseRun(run_id=RUN, status=RunStatus.FAILED, reason=LONE))),
        ("labels", lambda ledger: ledger.open_run(c.OpenRun(format="openai.chat", labels={LONE: ""}))),
        ("labels.k", lambda ledger: ledger.open_run(c.OpenRun(format="openai.chat", labels={"k": LONE}))),
        ("step_base", lambda ledger: ledger.open_run(c.OpenRun(format="openai.chat", step_base=LONE))),
    ],
)
def test_names_must_be_text(ledger: Ledger, field: str, act: Callable[[Ledger], object]) -> None:
    """Content may hold lone surrogates; names can't, since neither stores nor wires take them."""
    with pytest.raises(FieldInvalid) as raised:
        act(ledger)
    assert (raised.value.field, raised.value.value) == (field, r"lone \ud800")
    assert ledger.store.max_notification_id() == 2
