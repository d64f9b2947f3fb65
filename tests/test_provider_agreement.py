"""Generated runs of every kind of disorder, judged by the rules of their provider.

``none`` sends them as they are and must report exactly what the provider would object to; with ``mend``, and
under every strategy, the provider must find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.provider_rules import CHECKERS
from support.service import served
from turnledger.client import LedgerClient, Run, Window
from turnledger.domain.errors import NothingToAnswer, NoWindow, WindowInvalid

IDS = st.sampled_from(["a", "b", "c", ""])
TEXT = st.sampled_from(["", "yes", "a longer answer, of some words", "x" * 400])
WORD = TEXT.filter(bool)
Body = dict[str, Any]


def _chat_call(call_id: str) -> Body:
    return {"id": call_id, "type": "function", "function": {"name": f"tool_{call_id}", "arguments": "{}"}}


def _chat_reply(text: str | None, calls: list[str]) -> Body:
    return {"role": "assistant", "content": text, **({"tool_calls": [_chat_call(c) for c in calls]} if calls else {})}


def _claude_reply(text: str, calls: list[str]) -> Body:
    uses = [{"type": "tool_use", "id": c, "name": f"tool_{c}", "input": {}} for c in calls]
    return {"role": "assistant", "content": [*([{"type": "text", "text": text}] if text else []), *uses]}


def _claude_results(ids: list[str], text: str, said: str) -> Body:
    results = [{"type": "tool_result", "tool_use_id": i, "content": text} for i in ids]
    return {"role": "user", "content": [*results, *([{"type": "text", "text": said}] if said else [])]}


CALLS = st.lists(IDS, max_size=3)
CHAT = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, st.none() | TEXT),
    st.builds(lambda text: {"role": "system", "content": text}, WORD),
    st.builds(_chat_reply, st.none() | TEXT, CALLS),
    st.builds(lambda i, text: {"role": "tool", "tool_call_id": i, "content": text}, IDS, TEXT),
    st.builds(lambda i, text: {"role": "tool", "tool_call_id": i, "content": text}, IDS, TEXT),
)
CLAUDE = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, TEXT),
    st.builds(_claude_reply, TEXT, CALLS),
    st.builds(_claude_results, st.lists(IDS, min_size=1, max_size=3), TEXT, TEXT),
    st.builds(_claude_results, st.lists(IDS, min_size=1, max_size=1), TEXT, st.just("")),
)
HISTORIES = st.one_of(
    st.tuples(st.just("openai.chat"), st.lists(CHAT, min_size=1, max_size=14)),
    st.tuples(st.just("anthropic.messages"), st.lists(CLAUDE, min_size=1, max_size=14)),
)
POLICIES = (
    {"strategy": "none", "mend": True},
    {"strategy": "sliding-window", "keep_recent_turns": 1},
    {"strategy": "sliding-window", "keep_recent_turns": 2, "keep_last_tool_results": 0},
    {"strategy": "compact-results", "keep_raw": 0},
)


@pytest.fixture(scope="module")
def ledger() -> Iterator[LedgerClient]:
    """A service in memory."""
    with served() as client:
        yield client


def _results(message: Body) -> list[Body]:
    """The results in a message that holds them as blocks."""
    blocks = message["content"] if isinstance(message["content"], list) else []
    return [block for block in blocks if block["type"] == "tool_result"]


def _step(run: Run, message: Body) -> Window | NoWindow:
    """The window after a message, or why there is none."""
    try:
        return run.step([message], imported=True)
    except NoWindow as error:
        return error


@settings(max_examples=300, deadline=None)
@given(case=HISTORIES)
def test_faults_are_what_the_provider_objects_to(ledger: LedgerClient, case: tuple[str, list[Body]]) -> None:
    """10: under ``none`` every fault has its rule and its message, and nothing else is a fault."""
    format, history = case
    history = [*history, {"role": "user", "content": "And now?"}]
    run = ledger.open_run(format=format)
    appended = run.append(history, imported=True)
    marked = {omission.message_id for omission in appended.omissions}
    # An import keeps a message apart as a whole, with those of its results that do answer a call.
    apart = [m for i, m in zip(appended.message_ids, history, strict=True) if i in marked]
    assume(all(len(_results(message)) < 2 for message in apart))
    window = run.build_window()
    complaints = CHECKERS[format](window.messages, has_tools=True)
    found = {(fault.rule, fault.message_id) for fault in window.faults}
    assert found == {(c.rule, window.items[c.index].id) for c in complaints}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: "-".join(map(str, policy.values())))
@settings(max_examples=80, deadline=None)
@given(case=HISTORIES)
def test_what_a_strategy_sends_is_valid(ledger: LedgerClient, policy: Body, case: tuple[str, list[Body]]) -> None:
    """10: nothing that the provider objects to is sent. Two things can't be mended: an opening that it refuses,
    and two messages that each carry a result and something else."""
    format, history = case
    hopeless = {"opens-with-user"} if format == "anthropic.messages" else set()
    if sum(bool(_results(message)) and len(_results(message)) < len(message["content"]) for message in history) > 1:
        hopeless.add("results-first")
    run = ledger.open_run(format=format, policy=policy)
    for message in history:
        window = _step(run, message)
        if isinstance(window, WindowInvalid):
            assert window.rule in hopeless
        elif isinstance(window, Window):
            left = {c.rule for c in CHECKERS[format](window.messages, has_tools=True)}
            assert left == {fault.rule for fault in window.faults}
            assert left <= hopeless
        else:
            assert isinstance(window, NothingToAnswer)
