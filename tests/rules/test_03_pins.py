"""WINDOW-RULES 3: the latest tool results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from support.messages import LONG, blocks, call, chat
from support.runs import Sent, Story, budget, compact, sliding, stays
from turnledger.domain.errors import PolicyInvalid
from turnledger.domain.policies import parse_policy
from turnledger.domain.words import Source
from turnledger.ledger.commands import MessageInput


def _after(policy: dict[str, Any], *loop: Sequence[MessageInput]) -> Sent:
    """The window after a request, a loop of exchanges, and a reply that has read them all."""
    story = Story(policy, chat.user("the task"))
    story.append(*(message for exchange in loop for message in exchange))
    return story.step(chat.reply("seen"), chat.user("on", source=Source.INJECTED))


# 3.1


def test_3_1_two_are_kept_unless_said_otherwise() -> None:
    """The default of every policy but ``compact-results``."""
    assert parse_policy({"strategy": "sliding-window", "keep_recent_turns": 1}).pin_limit == 2
    assert parse_policy({"strategy": "token-budget", "threshold_tokens": 1}).pin_limit == 2
    assert parse_policy({"strategy": "none"}).pin_limit == 2
    assert parse_policy({"strategy": "compact-results"}).pin_limit == 0
    sent = _after(
        {"strategy": "sliding-window", "keep_recent_turns": 1},
        chat.exchange("a", "look"),
        chat.exchange("b", "read"),
        chat.exchange("c", "list"),
    )
    assert sent.record.pins.pinned == ((5, 6), (7, 8))
    assert sent.record.pins.limit == 2


@pytest.mark.parametrize("off", [0, False])
def test_3_1_zero_and_false_turn_it_off(off: object) -> None:
    """Then nothing is pinned and nothing counted."""
    policy = {"strategy": "sliding-window", "keep_recent_turns": 1, "keep_last_tool_results": off}
    sent = _after(policy, chat.exchange("a", "look"), chat.exchange("b", "read"))
    assert sent.record.removed == ((3, 7),)
    assert (sent.record.pins.pinned, sent.record.pins.yielded, sent.record.pins.limit) == ((), 0, 0)


@pytest.mark.parametrize("wrong", [-1, 1.5, 2.0, "2", True, None, [2]])
def test_3_1_anything_else_is_refused(wrong: object) -> None:
    """By name, when the run is opened."""
    with pytest.raises(PolicyInvalid) as refused:
        Story({"strategy": "sliding-window", "keep_recent_turns": 1, "keep_last_tool_results": wrong})
    assert refused.value.field == "policy.keep_last_tool_results"


# 3.2


def test_3_2_the_latest_result_of_each_tool_is_pinned() -> None:
    """The first sighting from the newest claims the name; earlier results of that tool may leave."""
    sent = _after(
        sliding(1, pins=9),
        chat.exchange("a", "look"),
        chat.exchange("b", "read"),
        chat.exchange("c", "look"),
    )
    assert sent.record.pins.pinned == ((5, 6), (7, 8))
    assert sent.record.removed == ((3, 4),)
    assert stays(sent.record) == [
        ("current-request", 2, 2, 1),
        ("last-tool-result", 5, 8, 2),
        ("beyond-span", 9, 9, 1),
        ("inside-keep-window", 10, 10, 1),
    ]


def test_3_2_a_parallel_batch_costs_one_slot() -> None:
    """A turn is pinned at most once, however many tools are in it."""
    batch = [
        chat.reply(None, call("b", "read"), call("c", "list"), call("d", "grep")),
        chat.result("b"),
        chat.result("c"),
        chat.result("d"),
    ]
    sent = _after(sliding(1, pins=2), chat.exchange("a", "look"), batch)
    assert sent.record.pins.pinned == ((3, 4), (5, 8))
    assert sent.record.pins.yielded == 0


def test_3_2_a_batch_is_pinned_for_the_one_tool_that_no_later_turn_has() -> None:
    """It stays for that tool, though the others were seen later."""
    batch = [chat.reply(None, call("a", "look"), call("b", "read")), chat.result("a"), chat.result("b")]
    sent = _after(sliding(1, pins=2), batch, chat.exchange("c", "read"))
    assert sent.record.pins.pinned == ((3, 5), (6, 7))


def test_3_2_a_call_without_a_result_claims_nothing() -> None:
    """Only a result is a sighting."""
    story = Story(sliding(1, pins=2), chat.user("the task"), *chat.exchange("a", "look"))
    story.append(chat.reply(None, call("b", "look")))
    story.abandon("b")
    sent = story.step(chat.reply("seen"), chat.user("on", source=Source.INJECTED))
    assert sent.record.pins.pinned == ((3, 4),)


# 3.3


def test_3_3_a_new_request_releases_the_previous_loop() -> None:
    """Nothing at or before the current request can be pinned."""
    story = Story(sliding(1, pins=9), chat.user("one"), *chat.exchange("a", "look"), *chat.exchange("b", "read"))
    sent = story.step(chat.reply("seen"), chat.user("two"), chat.reply("on it"), chat.user(source=Source.INJECTED))
    assert sent.record.pins.pinned == ()
    assert sent.record.removed == ((2, 7),)


def test_3_3_a_turn_that_holds_the_request_is_not_pinned() -> None:
    """Its own result is at the request."""
    story = Story(sliding(1, pins=9), blocks.user(LONG), form=blocks)
    story.append(blocks.reply(None, call("a")), blocks.results(("a", "done"), beside="next task", request=True))
    sent = story.step(blocks.reply("on it"), blocks.user(source=Source.INJECTED))
    assert sent.record.pins.pinned == ()


def test_3_3_a_call_made_before_the_request_is_before_it() -> None:
    """Also where its result came after: the turn stands before the request."""
    story = Story(sliding(1, pins=9), chat.user("one"), chat.reply(None, call("a")))
    story.append(chat.user("two"), chat.result("a"))
    sent = story.step(chat.reply("seen"), chat.user(source=Source.INJECTED))
    assert sent.record.pins.pinned == ()
    assert sent.record.removed == ((2, 3), (5, 5))


# 3.4


def test_3_4_pins_inside_the_recent_turns_are_free() -> None:
    """They stay anyway, so they take none of the slots; but their tools are seen."""
    sent = _after(
        sliding(3, pins=1),
        chat.exchange("a", "look"),
        chat.exchange("b", "read"),
        chat.exchange("c", "list"),
    )
    assert sent.record.pins.pinned == ((5, 6),)
    assert sent.record.pins.yielded == 1
    sent = _after(sliding(3, pins=1), chat.exchange("a", "look"), chat.exchange("b", "look"))
    assert sent.record.pins.pinned == ()
    assert sent.record.removed == ((3, 4),)


def test_3_4_the_newest_are_admitted_and_the_rest_yield() -> None:
    """Of three outside, one slot admits the newest."""
    sent = _after(
        sliding(1, pins=1),
        chat.exchange("a", "look"),
        chat.exchange("b", "read"),
        chat.exchange("c", "list"),
    )
    assert sent.record.pins.pinned == ((7, 8),)
    assert (sent.record.pins.yielded, sent.record.pins.limit) == (2, 1)
    assert sent.record.removed == ((3, 6),)


# 3.5


def test_3_5_by_tool_all_arguments_are_one_thing() -> None:
    """The default."""
    sent = _after(sliding(1, pins=9), chat.exchange("a", "read", path="x"), chat.exchange("b", "read", path="y"))
    assert sent.record.pins.pinned == ((5, 6),)


def test_3_5_by_tool_and_arguments_two_files_are_two_things() -> None:
    """And the same file read again is one; the order of the arguments does not matter."""
    by_arguments = sliding(1, pins=9, pin_by="tool-and-arguments")
    sent = _after(by_arguments, chat.exchange("a", "read", path="x"), chat.exchange("b", "read", path="y"))
    assert sent.record.pins.pinned == ((3, 4), (5, 6))
    sent = _after(
        by_arguments, chat.exchange("a", "read", path="x", line=1), chat.exchange("b", "read", line=1, path="x")
    )
    assert sent.record.pins.pinned == ((5, 6),)


def test_3_5_another_thing_is_refused() -> None:
    """The option is one of two words."""
    with pytest.raises(PolicyInvalid) as refused:
        Story(sliding(1, pin_by="arguments"))
    assert refused.value.field == "policy.pin_by"


# 3.6


def _blocked(*loop: Sequence[MessageInput], recent: int = 1, pins: int = 9) -> Story:
    """A run in which every turn but the recent ones is pinned, with two records that say so."""
    story = Story(sliding(recent, pins=pins), chat.user("the task"))
    story.append(*(message for exchange in loop for message in exchange))
    for _ in range(2):
        # An empty reply is a fact, but adds nothing to the window.
        sent = story.step(chat.reply(None))
        assert sent.record.removed == ()
        assert "last-tool-result" in [reason for reason, *_ in stays(sent.record)]
        assert sent.record.pins.stand_down == ()
    return story


def test_3_6_after_two_blocked_records_the_oldest_pin_is_released() -> None:
    """Only one, since that is all that a plan needs; the record names it."""
    story = _blocked(*(chat.exchange(str(i), f"tool{i}", LONG) for i in range(4)))
    sent = story.step(chat.reply(None))
    assert sent.record.removed == ((3, 4),)
    assert sent.record.pins.stand_down == ((3, 4),)
    assert sent.record.pins.pinned == ((5, 6), (7, 8))
    assert stays(sent.record) == [
        ("current-request", 2, 2, 1),
        ("last-tool-result", 5, 8, 2),
        ("inside-keep-window", 9, 10, 1),
    ]


def test_3_6_the_next_is_released_only_after_two_more() -> None:
    """A record that removed something begins the count anew."""
    story = _blocked(*(chat.exchange(str(i), f"tool{i}", LONG) for i in range(4)))
    removed = [story.step(chat.reply(None)).record.removed for _ in range(4)]
    assert removed == [((3, 4),), (), (), ((5, 6),)]


def test_3_6_one_blocked_record_is_not_enough() -> None:
    """Two in a row, or the pins hold."""
    story = Story(sliding(1, pins=9), chat.user("the task"))
    story.append(*chat.exchange("a", "look"), *chat.exchange("b", "read"))
    assert story.step().record.removed == ()
    assert story.step(chat.reply(None)).record.pins.stand_down == ()


def test_3_6_both_records_must_name_a_pin() -> None:
    """Records of visits in which nothing was planned name none."""
    story = Story(budget(100, pins=9, keep_recent_turns=1), chat.user("the task"))
    story.append(*chat.exchange("a", "look"), *chat.exchange("b", "read"))
    story.step()
    for tokens, stand_down in [(500, ()), (50, ()), (500, ()), (500, ()), (500, ((3, 4),))]:
        assert story.step(chat.reply(None, usage=(tokens, 1))).record.pins.stand_down == stand_down


def test_3_6_a_plan_that_can_make_progress_keeps_its_pins() -> None:
    """Something else may leave: the pins hold, however long they were in the way before."""
    story = _blocked(chat.exchange("a", "look", LONG), chat.exchange("b", "read"))
    sent = story.step(chat.reply("seen"), chat.user("on", source=Source.INJECTED))
    assert sent.record.removed == ((9, 9),)
    assert sent.record.pins.stand_down == ()
    assert sent.record.pins.pinned == ((3, 4), (5, 6))


def test_3_6_no_pin_is_released_where_that_would_not_help() -> None:
    """The pinned turn waits for another of its calls, so a plan without pins is empty too."""
    waiting = [chat.reply(None, call("a", "look"), call("b", "never")), chat.result("a")]
    story = Story(sliding(1, pins=9), chat.user("the task"), *waiting, *chat.exchange("c", "read"))
    for _ in range(4):
        sent = story.step(chat.reply(None))
        assert sent.record.pins.stand_down == ()
        assert sent.record.pins.pinned == ((3, 4),)


def test_3_6_a_pin_that_holds_nothing_back_is_not_given_up() -> None:
    """The oldest pinned turn waits for a call anyway: the one behind it is released, and only that."""
    waiting = [chat.reply(None, call("a", "look"), call("b", "never")), chat.result("a")]
    story = _blocked(waiting, chat.exchange("c", "read", LONG), chat.exchange("d", "list"))
    sent = story.step(chat.reply(None))
    assert sent.record.pins.stand_down == ((5, 6),)
    assert sent.record.pins.pinned == ((3, 4),)
    assert sent.record.removed == ((5, 6),)


def test_3_6_a_pinned_result_that_is_not_rewritten_blocks_nothing() -> None:
    """Where results are rewritten in place, pins never stand down; the record still names them."""
    story = Story(compact(keep_raw=0, keep_last_tool_results=1), chat.user("the task"), *chat.exchange("a", text=LONG))
    for _ in range(4):
        sent = story.step(chat.reply(None), chat.user(source=Source.INJECTED))
        assert (sent.record.rewritten, sent.record.pins.stand_down) == ((), ())
        assert sent.record.pins.pinned == ((3, 4),)
    assert stays(sent.record) == [("last-tool-result", 3, 4, 1)]
