"""WINDOW-RULES 4: the refusal engine."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from support.messages import LONG, blocks, call, chat
from support.runs import RUN, Story, budget, compact, sliding, stays
from turnledger.domain.errors import IterationOutOfRange, ResultDuplicate, RunPaused
from turnledger.domain.words import MendKind, NotEngaged, OmissionReason, Outcome, RefusalReason, Source
from turnledger.ledger.commands import MessageInput
from turnledger.projections import visit
from turnledger.projections.strategies import Decision, Drop, Rewrite, View

WINDOWS_PAGE = Path(__file__).parents[2] / "docs" / "windows.md"
ON = chat.user("on", source=Source.INJECTED)


def _reasons(story: Story, *messages: MessageInput, while_paused: bool = False) -> list[tuple[str, int, int]]:
    """The refusals of the next record: reason, first and last version."""
    record = story.step(*messages, while_paused=while_paused).record
    return [(reason, first, last) for reason, first, last, _ in stays(record)]


# 4.1


def test_4_1_the_newest_turns_refuse_only_as_that() -> None:
    """Whatever else could be said of them: request, system, open call, unread result."""
    story = Story(sliding(4), chat.user("one"), chat.user("two"), chat.system())
    story.append(chat.reply(None, call("a"), call("b")), chat.result("a"))
    sent = story.step(ON)
    assert stays(sent.record) == [("inside-keep-window", 3, 7, 4)]
    assert sent.record.removed == ((2, 2),)
    assert sent.record.keep_recent_turns == 4


def test_4_1_each_older_turn_refuses_by_its_reason() -> None:
    """One of each, oldest first; the pinned result is the only one that the model has read."""
    story = Story(sliding(1, pins=1), chat.user("the task"), *chat.exchange("p", "look"), chat.reply("seen"))
    story.step(ON)
    reasons = _reasons(
        story,
        chat.reply(None, call("u", "never")),
        chat.system(),
        chat.reply(None, call("r", "look")),
        chat.result("r"),
        ON,
    )
    assert reasons == [
        ("current-request", 2, 2),
        ("unresolved-tool-call", 7, 7),
        ("system-envelope", 8, 8),
        ("unread-result", 9, 10),
        ("inside-keep-window", 11, 11),
    ]


def test_4_1_a_pause_refuses_as_what_is_waited_for() -> None:
    """``pending-check-in`` where a person's decision is awaited, else ``paused-tool``."""
    for awaits_person, reason in [(True, "pending-check-in"), (False, "paused-tool")]:
        story = Story(sliding(1), chat.user("the task"), chat.reply(None, call("a")), ON)
        story.pause("a", awaits_person=awaits_person)
        with pytest.raises(RunPaused):
            story.step()
        assert _reasons(story, while_paused=True)[1] == (reason, 3, 3)
        story.resume()
        assert _reasons(story)[1] == ("unresolved-tool-call", 3, 3)


def test_4_1_each_call_is_paused_for_its_own_reason() -> None:
    """A second pause says nothing of what the first waits for."""
    story = Story(sliding(1), chat.user("the task"), chat.reply(None, call("a")), chat.reply(None, call("b")), ON)
    story.pause("a", awaits_person=True)
    story.pause("b")
    assert _reasons(story, while_paused=True)[1:3] == [("pending-check-in", 3, 3), ("paused-tool", 4, 4)]


def test_4_1_of_several_reasons_the_first_is_given() -> None:
    """The turn holds the request, a call that awaits a person, one that is open and a result that is unread."""
    turn = blocks.reply(None, call("a"), call("b"), call("c"), call("d"))
    result = blocks.results(("a", LONG), beside="the task", request=True)
    on = blocks.user("on", source=Source.INJECTED)

    story = Story(sliding(1), blocks.user(LONG), turn, result, on, form=blocks)
    story.pause("b")
    story.pause("c", awaits_person=True)
    assert _reasons(story, while_paused=True)[0] == ("current-request", 3, 4)
    story.append(blocks.user("next", request=True), on)
    assert _reasons(story, while_paused=True)[0] == ("pending-check-in", 3, 4)
    story.abandon("c")
    assert _reasons(story, while_paused=True)[0] == ("paused-tool", 3, 4)
    story.abandon("b")
    story.resume()
    assert _reasons(story)[0] == ("unresolved-tool-call", 3, 4)
    story.abandon("d")
    assert _reasons(story)[0] == ("unread-result", 3, 4)


def test_4_1_what_is_unread_is_not_called_pinned() -> None:
    """It would stay without its pin."""
    story = Story(sliding(1, pins=1), chat.user("the task"), *chat.exchange("a"))
    assert _reasons(story, ON)[1] == ("unread-result", 3, 4)
    assert _reasons(story, chat.reply("seen"), ON)[1] == ("last-tool-result", 3, 4)


def test_4_1_a_system_message_inside_the_run_stays() -> None:
    """Developer messages are of the same kind."""
    developer = MessageInput(b'{"role":"developer","content":"be brief"}')
    story = Story(sliding(1), chat.user("one"), chat.system(), developer, chat.user("two"))
    assert _reasons(story, ON)[0] == ("system-envelope", 3, 4)


# 4.2


def _with_unread(*after: MessageInput) -> Story:
    """Window 1, then a result, and whatever comes after it."""
    story = Story(sliding(1), chat.user("the task"), chat.reply(None, call("a")), ON)
    story.step()
    story.append(chat.result("a"), *after)
    return story


def _is_unread(story: Story, *messages: MessageInput) -> bool:
    return "unread-result" in [reason for reason, *_ in _reasons(story, *messages, ON)]


def test_4_2_a_result_is_read_once_a_reply_to_a_window_with_it_followed() -> None:
    """Not when it arrives, not when it is handed out: when the model replied."""
    story = _with_unread()
    assert _is_unread(story)
    assert _is_unread(story)
    assert not _is_unread(story, chat.reply("seen"))


def test_4_2_a_reply_answers_the_last_window_unless_it_says_otherwise() -> None:
    """Window 2 held the result; the reply names it or names nothing."""
    for claims in ({}, {"answers_iteration": 2}):
        story = _with_unread()
        story.step()
        assert not _is_unread(story, chat.reply("seen", **claims))


def test_4_2_a_reply_to_an_older_window_has_not_read_what_came_after_it() -> None:
    """It names the window that it answers."""
    story = _with_unread()
    story.step()
    assert _is_unread(story, chat.reply("late", answers_iteration=1))
    assert not _is_unread(story, chat.reply("seen", answers_iteration=3))


def test_4_2_a_window_that_was_passed_over_can_still_be_answered() -> None:
    """A reply to window 1 that comes after one to window 2 has read what window 1 held."""
    story = _with_unread()
    story.step()
    story.append(chat.reply(None, call("b")), chat.result("b"))
    story.append(chat.reply("from before", answers_iteration=1))
    assert ("unread-result", 6, 7) in _reasons(story, ON)


def test_4_2_a_reply_to_a_window_that_is_answered_has_read_everything() -> None:
    """The worker called the model without asking for a window: nobody knows better."""
    story = _with_unread(chat.reply("seen"))
    assert _is_unread(story)
    story = _with_unread(chat.reply("first"), chat.reply("second"))
    assert not _is_unread(story)
    story = _with_unread(chat.reply("first"), chat.reply("second", answers_iteration=1))
    assert not _is_unread(story)


def test_4_2_history_that_is_brought_along_was_read() -> None:
    """A reply before any window has read everything before it; what came after the last one is unread."""
    story = Story(sliding(1), chat.user("the task"), *chat.exchange("a"), *chat.exchange("b"))
    assert _reasons(story, ON) == [
        ("current-request", 2, 2),
        ("unread-result", 5, 6),
        ("inside-keep-window", 7, 7),
    ]


def test_4_2_a_further_part_of_a_reply_has_read_no_more_than_the_first() -> None:
    """Parts of one reply came from one call."""
    parts = [chat.reply("one", reply_id="A"), chat.reply(None, call("b"), reply_id="A")]
    story = Story(sliding(1), chat.user("the task"), chat.reply(None, call("a")), ON)
    story.step()
    story.append(parts[0], chat.result("a"), parts[1])
    assert _is_unread(story)


def test_4_2_an_empty_reply_is_a_reply() -> None:
    """It is never sent, but it was the model's answer to a window."""
    story = _with_unread()
    story.step()
    assert not _is_unread(story, chat.reply(None))


def test_4_2_a_reply_names_a_window_that_there_is() -> None:
    """Neither 0 nor one that is to come."""
    story = _with_unread()
    for iteration in (0, 2):
        with pytest.raises(IterationOutOfRange) as refused:
            story.append(chat.reply("x", answers_iteration=iteration))
        assert (refused.value.field, refused.value.iteration) == ("messages[0].answers_iteration", 1)


def test_4_2_what_was_not_read_is_not_rewritten() -> None:
    """Neither by age."""
    story = Story(compact(keep_raw=0), chat.user("the task"), *chat.exchange("a", text=LONG))
    sent = story.step()
    assert stays(sent.record) == [("unread-result", 3, 4, 1)]
    assert sent.record.rewritten == ()
    assert story.step(chat.reply("seen"), ON).record.rewritten == ((4, 4),)


# 4.3


def _steps_over() -> Story:
    """Request, open call, two that may leave, a pinned one, one more that may leave, the newest."""
    story = Story(sliding(1, pins=1), chat.user("the task"), chat.reply(None, call("open", "never")))
    story.append(chat.reply("one"), chat.reply("two"), *chat.exchange("p"), chat.reply("three"))
    return story


def test_4_3_the_plan_is_the_first_run_of_turns_that_may_leave() -> None:
    """Refused turns before it are stepped over, the first refused turn after it ends it."""
    sent = _steps_over().step(ON)
    assert sent.record.removed == ((4, 5),)
    assert stays(sent.record) == [
        ("current-request", 2, 2, 1),
        ("unresolved-tool-call", 3, 3, 1),
        ("last-tool-result", 6, 7, 1),
        ("beyond-span", 8, 8, 1),
        ("inside-keep-window", 9, 9, 1),
    ]


def test_4_3_the_next_visit_plans_anew() -> None:
    """What was beyond the span is then the first that may leave."""
    story = _steps_over()
    story.step(ON)
    assert story.step(chat.reply("four"), ON).record.removed == ((8, 10),)


# 4.4


def test_4_4_every_candidate_turn_is_accounted_for() -> None:
    """Removed turns and the turns of all rows are all turns there were."""
    story = _steps_over()
    record = story.step(ON).record
    removed_turns = record.before.turns - record.after.turns
    assert removed_turns + sum(row.turns for row in record.refusals) == record.before.turns == 7


def test_4_4_neighbors_with_one_reason_are_one_row() -> None:
    """First and last id; a result that came late counts to its turn."""
    story = Story(sliding(3), chat.user("the task"))
    story.append(chat.reply(None, call("a")), chat.reply(None, call("b")), ON, chat.result("a"), chat.result("b"))
    assert stays(story.step().record) == [("current-request", 2, 2, 1), ("inside-keep-window", 3, 7, 3)]
    story.append(chat.reply(None, call("c")), chat.reply(None, call("d")), chat.reply("x"), chat.reply("y"))
    assert ("unresolved-tool-call", 8, 9, 2) in stays(story.step(ON).record)


@pytest.mark.parametrize("policy", [sliding(3, pins=2), budget(1, pins=2, keep_recent_turns=3), compact()])
def test_4_4_a_records_size_does_not_grow_with_the_run(policy: dict[str, Any]) -> None:
    """The rows after 40 iterations are as many as after 15."""
    story = Story(policy, chat.user("the task"))
    rows: list[int] = []
    for number in range(40):
        reply = chat.reply(None, call(f"c{number}", f"tool{number % 3}"), usage=(100, 1))
        record = story.step(reply, chat.result(f"c{number}", LONG)).record
        rows.append(len(record.refusals) + len(record.removed) + len(record.rewritten) + len(record.pins.pinned))
    assert rows[39] == rows[24] == rows[14]


# 4.5


def _words(heading: str) -> set[str]:
    """The words in code in one section of the page on windows."""
    page = WINDOWS_PAGE.read_text()
    section = page[page.index(heading) :].split("\n## ")[0]
    return set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", section))


def test_4_5_the_words_are_one_closed_published_set() -> None:
    """The page on windows has every word that a record can use."""
    assert {reason.value for reason in RefusalReason} <= _words("## What refuses")
    assert {reason.value for reason in NotEngaged} | {"not-engaged"} <= _words("## The record")
    assert {reason.value for reason in OmissionReason} <= _words("## Turns")
    assert {kind.value for kind in MendKind} - {"placeholder", "reordered"} <= _words("## Validity")
    assert {outcome.value for outcome in Outcome} == {"engaged", "not-engaged"}


def test_4_5_no_two_words_are_spelled_alike() -> None:
    """But where they mean the same: of a message that is not sent, of a turn that stays, of a mend."""
    words = [word.value for word in chain(RefusalReason, NotEngaged, OmissionReason, MendKind, Outcome)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("policy", [sliding(1), budget(1, keep_recent_turns=1)])
def test_4_5_a_word_means_the_same_under_every_strategy(policy: dict[str, Any]) -> None:
    """The same run has the same reasons, whichever strategy drops."""
    story = Story(policy, chat.user("the task"))
    story.step()
    reply = chat.reply(None, call("a"), call("b"), usage=(100, 1))
    assert _reasons(story, reply, chat.result("a"), chat.system(), ON) == [
        ("current-request", 2, 2),
        ("unresolved-tool-call", 3, 4),
        ("system-envelope", 5, 5),
        ("inside-keep-window", 6, 6),
    ]


# 4.6


def test_4_6_our_notice_counts_for_nothing() -> None:
    """Neither as a turn that is recent, nor as a message that left, nor as a reason to act."""
    story = Story(sliding(2), chat.user("the task"), chat.reply(LONG), chat.reply("two"))
    first = story.step(ON)
    assert first.kinds == ["message", "notice", "message", "message"]
    assert (first.record.before.turns, first.record.after.turns, first.record.removed_count) == (4, 3, 1)
    second = story.step(chat.reply("three"), ON)
    assert (second.record.before.turns, second.record.after.turns) == (5, 3)
    assert (second.record.removed_count, second.record.removed) == (2, ((4, 5),))


def test_4_6_a_pin_counts_as_a_turn() -> None:
    """A pinned turn inside the recent ones takes one of their places."""
    story = Story(sliding(2, pins=1), chat.user("the task"), chat.reply("one"), *chat.exchange("a"))
    sent = story.step(ON)
    assert sent.record.removed == ((3, 3),)
    assert stays(sent.record)[-1] == ("inside-keep-window", 4, 6, 2)


# 4.7


class _Greedy:
    """A strategy that asks for what it was not offered."""

    def __init__(self, ask: Callable[[View], Decision]) -> None:
        self.decide = ask


def test_4_7_a_strategy_sees_the_plan_and_never_the_guards() -> None:
    """What it is given has no way to a turn, a call or the state of the run."""
    assert {name for name in vars(View) if not name.startswith("_")} == {
        "turn_count",
        "plan",
        "measure",
        "results",
        "result_texts",
        "message_id",
    }


@pytest.mark.parametrize(
    "ask",
    [
        lambda view: Decision(recent=1, operations=(Drop(range(view.turn_count)),)),
        lambda view: Decision(recent=1, operations=(Drop(range(1, 2)),)),
        lambda view: Decision(recent=1, operations=(Drop(range(2, view.turn_count)),)),
        lambda view: Decision(operations=(Rewrite(view.results()[0].version, ("short",)),)),
        lambda view: Decision(operations=(Rewrite(4, ("short",)),)),
    ],
)
def test_4_7_what_was_not_planned_does_not_happen(
    ask: Callable[[View], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strategy that forgot the rules is stopped by the engine, and nothing is written."""
    story = Story(sliding(1), chat.user("the task"), *chat.exchange("a", text=LONG), chat.reply("x"), ON)
    story.step(chat.reply(None, call("b")), chat.result("b", LONG), ON)
    monkeypatch.setattr(visit, "strategy_of", lambda policy: _Greedy(ask))
    with pytest.raises(AssertionError, match="strategy"):
        story.step(chat.user("two"))
    monkeypatch.undo()
    assert story.step(chat.user("two")).iteration == 2


# 4.8


def _calls_of(work: Callable[[], Any]) -> int:
    """How many functions are called, generators resumed included: what work costs, without a clock."""
    count = 0

    def see(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _history(turns: int, reply_ids: bool) -> Iterable[MessageInput]:
    for number in range(turns):
        claims = {"reply_id": f"R{number}"} if reply_ids else {}
        yield chat.reply(None, call(f"c{number}", f"tool{number % 7}"), **claims)
        yield chat.result(f"c{number}", LONG)


def _cost_of_a_step(policy: dict[str, Any], turns: int, reply_ids: bool) -> int:
    story = Story(policy, chat.user("the task"))
    story.append(*_history(turns, reply_ids), chat.reply("seen"))
    story.ledger.loader.with_live(story.ledger.loader.session(story.ledger.key(RUN)))
    return _calls_of(lambda: story.step(chat.user("on")))


@pytest.mark.parametrize("reply_ids", [False, True])
@pytest.mark.parametrize("policy", [sliding(1), sliding(1000), budget(1), compact(keep_raw=0)])
def test_4_8_the_engine_is_linear_in_the_turns_of_the_window(policy: dict[str, Any], reply_ids: bool) -> None:
    """Four times the turns cost at most little more than four times the work."""
    small, large = (_cost_of_a_step(policy, turns, reply_ids) for turns in (30, 120))
    assert large < 4.2 * small


def test_4_8_the_cost_of_a_visit_does_not_depend_on_how_long_the_run_is() -> None:
    """Neither where the run is held nor where it is read anew."""
    story = Story(sliding(3), chat.user("the task"))
    costs = [_calls_of(lambda: story.step(*chat.exchange("c", text=LONG))) for _ in range(40)]
    assert abs(costs[39] - costs[14]) < 0.02 * costs[14]


def test_4_8_what_is_settled_is_not_carried_along() -> None:
    """A call that was given up and whose late result came is forgotten with its turn, in whatever order."""
    story = Story(sliding(1), chat.user("the task"))
    for late_first in (True, False):
        story.append(chat.reply(None, call("a")))
        story.abandon("a")
        if late_first:
            story.append(chat.result("a"))
        story.step(ON)
        if not late_first:
            story.append(chat.result("a"))
            story.step(ON)
        with pytest.raises(ResultDuplicate):
            story.append(chat.result("a"))
        assert story.ledger.loader.session(story.ledger.key(RUN)).run.state.calls == ()
