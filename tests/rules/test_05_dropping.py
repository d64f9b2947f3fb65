"""WINDOW-RULES 5: dropping."""

from __future__ import annotations

from typing import Any

import pytest

from support.messages import LONG, blocks, call, chat
from support.runs import Story, budget, mends, sliding, stays
from turnledger.domain.words import Source
from turnledger.projections.arrange import ABANDONED_TEXT, EMPTY_TEXT

ON = chat.user("on", source=Source.INJECTED)
AGAIN = "Call a tool again rather than reconstruct its result."


def _notice(
    count: str,
    first: int,
    last: int,
    *,
    iteration: int = 1,
    strategy: str = "sliding-window",
    request: int = 0,
    tools: str = "",
) -> str:
    """The notice, word for word."""
    text = (
        f"[turnledger: since iteration {iteration}, {count} not being re-sent (strategy {strategy}). "
        f"Nothing was summarized; everything is kept in the ledger, from r/{first} to r/{last}."
    )
    text += f" The request r/{request} still stands above." if request else ""
    text += f" Results that left came from: {tools}. {AGAIN}" if tools else ""
    return text + "]"


# 5.1


def test_5_1_a_notice_stands_where_the_front_left() -> None:
    """Behind the request, which may not leave: it says all there is to say, and that the request is there."""
    story = Story(sliding(1), chat.user("the task"), *chat.exchange("a", "look", LONG), *chat.exchange("b", "read"))
    sent = story.step(chat.reply("seen"), ON)
    assert sent.kinds == ["message", "notice", "message"]
    assert sent.ids == ["2", "w1/1", "8"]
    expected = _notice("5 earlier messages of this run are", 3, 7, request=2, tools="read, look")
    assert sent.bodies[1] == {"role": "user", "content": expected}
    assert sent.record.authored == (1,)


def test_5_1_it_stands_first_where_nothing_stays_before_it() -> None:
    """Then nothing is said of the request, which stands below; one message is one."""
    story = Story(sliding(2), chat.user(LONG), chat.user("the task"))
    sent = story.step(ON)
    assert sent.ids == ["w1/0", "3", "4"]
    assert sent.texts[0] == _notice("1 earlier message of this run is", 2, 2)


def test_5_1_system_messages_and_the_request_are_no_part_of_the_front() -> None:
    """They may never leave, so what comes behind them is the front of what may."""
    story = Story(sliding(1), chat.system("be brief"), chat.user("the task"), chat.reply(LONG))
    sent = story.step(ON)
    assert sent.kinds == ["message", "message", "notice", "message"]


def test_5_1_it_is_a_users_message_in_every_format() -> None:
    """Also where no other shape exists for it."""
    story = Story(budget(100, keep_recent_turns=1), blocks.user(LONG), blocks.user("the task"), form=blocks)
    story.step()
    sent = story.step(blocks.reply("on it", usage=(101, 5)), blocks.user("on", source=Source.INJECTED))
    text = _notice("1 earlier message of this run is", 2, 2, iteration=2, strategy="token-budget")
    assert sent.bodies[0] == {"role": "user", "content": text}


def _after_tools(*names: str) -> str:
    """The notice after one result of each tool left, in this order, in one drop."""
    story = Story(sliding(1), chat.user("the task"))
    for number, name in enumerate(names):
        story.append(*chat.exchange(str(number), name, LONG))
    text: str = story.step(chat.reply("seen"), ON).texts[1]
    return text


def test_5_1_it_names_the_tools_latest_to_leave_first() -> None:
    """Each once; the latest sighting counts."""
    assert "came from: read, look. " in _after_tools("look", "read")
    assert "came from: look, read. " in _after_tools("look", "read", "look")


def test_5_1_it_names_at_most_four() -> None:
    """An ellipsis says that there were more."""
    assert "came from: d, c, b, a. " in _after_tools("a", "b", "c", "d")
    assert "came from: e, d, c, b, …. " in _after_tools("a", "b", "c", "d", "e")
    assert "came from: g, f, e, d, …. " in _after_tools("a", "b", "c", "d", "e", "f", "g")


@pytest.mark.parametrize("name", ["two words", "x" * 49, "größe", "a\nb", "", "look; rm", "<b>", "ok\n"])
def test_5_1_names_of_another_shape_are_left_out(name: str) -> None:
    """Never cut, and never in place of another; alone, no tools are spoken of."""
    assert "came from: read, look. " in _after_tools("look", name, "read")
    assert _after_tools(name) == _notice("3 earlier messages of this run are", 3, 5, request=2)


@pytest.mark.parametrize("name", ["x" * 48, "Ns.tool:v1-2_3", "0"])
def test_5_1_names_of_its_shape_are_given_whole(name: str) -> None:
    """Letters, digits, and ``_ . : -``, up to 48."""
    assert f"came from: {name}. " in _after_tools(name)


def test_5_1_only_results_that_left_are_spoken_of() -> None:
    """A call without a result left nothing to call for again."""
    story = Story(sliding(1), chat.user("the task"), chat.reply(LONG, call("a", "look")))
    story.abandon("a")
    assert story.step(ON).texts[1] == _notice("1 earlier message of this run is", 3, 3, request=2)


def test_5_1_it_counts_over_the_whole_run() -> None:
    """First and last id, tools and the number are of all drops so far."""
    story = Story(sliding(1), chat.user("the task"), chat.reply("one", call("a", "look")), chat.result("a", LONG))
    story.step(chat.reply("seen"), ON)
    for number, tool in enumerate(["read", "list", "grep", "tree"]):
        sent = story.step(*chat.exchange(f"b{number}", tool, LONG), chat.reply("seen"), ON)
    tools = "tree, grep, list, read, …"
    assert sent.texts[1] == _notice("19 earlier messages of this run are", 3, 21, iteration=5, request=2, tools=tools)


# 5.2


def test_5_2_there_is_one_notice() -> None:
    """The next drop replaces it by one that covers both."""
    story = Story(sliding(1), chat.user("the task"), chat.reply(LONG))
    first = story.step(ON)
    assert first.texts[1] == _notice("1 earlier message of this run is", 3, 3, request=2)
    second = story.step(chat.reply(LONG), ON)
    assert second.kinds == ["message", "notice", "message"]
    assert second.texts[1] == _notice("3 earlier messages of this run are", 3, 5, iteration=2, request=2)
    assert second.record.authored == (1,)


def test_5_2_it_is_never_a_reason_to_act() -> None:
    """A window of as many turns as are kept, and the notice, is left alone; the notice keeps its bytes."""
    story = Story(sliding(2), chat.user(LONG), chat.user("the task"))
    first = story.step(ON)
    assert first.kinds == ["notice", "message", "message"]
    story.append(chat.reply(None))
    second = story.step()
    reason = second.record.outcome_reason
    assert (second.record.outcome.value, reason and reason.value) == ("not-engaged", "few-turns")
    assert second.raw == first.raw
    assert second.record.authored == ()


def test_5_2_a_new_request_leaves_it_where_it_stands() -> None:
    """The old request may leave then, and with it the words about it."""
    story = Story(sliding(1), chat.user("one"), chat.reply(LONG))
    story.step(ON)
    sent = story.step(chat.reply(LONG), chat.user("two"), ON)
    assert sent.record.removed == ((2, 2), (4, 5))
    assert sent.kinds == ["notice", "message", "message"]
    assert sent.texts[0] == _notice("4 earlier messages of this run are", 2, 5, iteration=2)


# 5.3


def test_5_3_further_inside_nothing_is_inserted() -> None:
    """A pinned turn stays before what left: it could leave one day, so this is not the front."""
    story = Story(sliding(1, pins=1), chat.user("the task"), *chat.exchange("a"), chat.reply(LONG))
    sent = story.step(ON)
    assert sent.record.removed == ((5, 5),)
    assert sent.kinds == ["message"] * 4


def test_5_3_a_notice_that_stands_is_brought_up_to_date() -> None:
    """At its place, in the same visit, though what left stood further inside."""
    story = Story(sliding(1, pins=1), chat.user("the task"), chat.reply(LONG), *chat.exchange("a"))
    first = story.step(chat.reply("seen"), ON)
    assert first.texts[1] == _notice("1 earlier message of this run is", 3, 3, request=2)
    second = story.step(chat.reply("on"), ON)
    assert second.record.removed == ((6, 8),)
    assert second.ids == ["2", "w2/1", "4", "5", "9"]
    assert second.texts[1] == _notice("4 earlier messages of this run are", 3, 8, iteration=2, request=2)


def test_5_3_the_record_names_what_left() -> None:
    """Whether or not a notice says so."""
    story = Story(sliding(1, pins=1), chat.user("the task"), *chat.exchange("a"), chat.reply(LONG))
    record = story.step(ON).record
    assert (record.removed, record.removed_count, record.authored) == (((5, 5),), 1, ())


# 5.4


def _drop_of(characters: int, form: Any = chat) -> Any:
    """The window after a drop of one exchange with so many code points: tool, arguments and result."""
    story = Story(sliding(1), form.user("the task"), form=form)
    in_arguments = {"path": "p" * 100}
    fixed = len("look") + len('{"path": ""}' if form is chat else '{"path":""}') + 100 + len("seen")
    result = "é" * (characters - fixed)
    story.append(*form.exchange("a", "look", result, **in_arguments))
    return story.step(form.reply("seen"), form.user("on", source=Source.INJECTED))


WITH_TOOLS = _notice("3 earlier messages of this run are", 3, 5, request=2, tools="look")
WITHOUT = _notice("3 earlier messages of this run are", 3, 5, request=2)


@pytest.mark.parametrize("form", [chat, blocks])
@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        (len(WITH_TOOLS) + 1, [WITH_TOOLS]),
        (len(WITH_TOOLS), [WITHOUT]),
        (len(WITHOUT) + 1, [WITHOUT]),
        (len(WITHOUT), []),
    ],
)
def test_5_4_the_first_wording_that_is_smaller(characters: int, expected: list[str], form: Any) -> None:
    """With tools, else without, else none: each only if it has fewer code points than what it replaces."""
    sent = _drop_of(characters, form)
    assert sent.record.removed == ((3, 5),)
    assert sent.texts[1:-1] == expected
    before, after = sent.record.before.characters, sent.record.after.characters
    assert before - after == characters - sum(map(len, expected))


@pytest.mark.parametrize("is_smaller", [True, False])
def test_5_4_what_we_wrote_counts_as_well(is_smaller: bool) -> None:
    """Closing results and placeholders that leave were sent, and the notice stands for them too."""
    text = _notice("2 earlier messages of this run are", 3, 4)
    ours = len(ABANDONED_TEXT) + len(EMPTY_TEXT) + len("look") + len("{}")
    story = Story(sliding(1), chat.system(), chat.reply("x" * (len(text) + is_smaller - ours), call("a")))
    story.append(chat.user(None), chat.user("the task"))
    story.abandon("a")
    sent = story.step(ON)
    assert sent.record.removed == ((3, 4),)
    assert sent.texts == ["be brief", *[text] * is_smaller, "the task", "on"]


def _small_front(front: str) -> Story:
    """The front that would leave is a user's message, and behind it stands one of the model."""
    story = Story(sliding(2), blocks.user(front), blocks.reply("two"), form=blocks)
    story.append(blocks.user("the task", request=True))
    return story


def test_5_4_where_the_provider_needs_a_message_there_the_drop_is_abandoned() -> None:
    """The window would open with the model, and no notice is smaller than what it would replace."""
    sent = _small_front("one").step()
    assert sent.record.removed == ()
    assert stays(sent.record) == [("replacement-not-smaller", 2, 2, 1), ("inside-keep-window", 3, 4, 2)]
    assert sent.record.outcome.value == "engaged"
    assert _small_front(LONG).step().kinds == ["notice", "message", "message"]


def test_5_4_also_where_a_notice_stands_there() -> None:
    """The one that would cover both is no smaller than the one before and what would leave."""
    story = Story(sliding(4), blocks.user(LONG), *(blocks.reply(x) for x in "abc"), form=blocks)
    first = story.step(blocks.user("the task"))
    assert first.ids == ["w1/0", "3", "4", "5", "6"]
    second = story.step(blocks.reply("d"), blocks.user("on", source=Source.INJECTED))
    assert second.record.removed == ()
    assert stays(second.record)[0] == ("replacement-not-smaller", 3, 4, 2)
    assert second.raw[0] == first.raw[0]
    story = Story(sliding(4), blocks.user(LONG), *(blocks.reply(x) for x in ["a", "bb", "c"]), form=blocks)
    story.step(blocks.user("the task"))
    second = story.step(blocks.reply("d"), blocks.user("on", source=Source.INJECTED))
    assert second.record.removed == ((3, 4),)
    assert second.texts[0] == _notice("3 earlier messages of this run are", 2, 4, iteration=2)


def test_5_4_where_it_does_not_the_turns_leave_without_a_notice() -> None:
    """The request opens the window, or the provider asks for no opening at all."""
    story = Story(sliding(1), blocks.user("the task"), blocks.reply("x"), form=blocks)
    assert story.step(blocks.user("on", source=Source.INJECTED)).ids == ["2", "4"]
    story = Story(sliding(1), chat.user("x"), chat.reply("y"), chat.user("the task"))
    assert story.step(ON).ids == ["4", "5"]


def test_5_4_a_notice_that_would_not_be_smaller_does_not_stay_as_it_was() -> None:
    """It would no longer be true; what left is on record."""
    story = Story(sliding(2), chat.user(LONG), chat.user("the task"))
    assert story.step(ON).kinds == ["notice", "message", "message"]
    sent = story.step(chat.reply("a"), ON)
    assert sent.record.removed == ((4, 4),)
    assert sent.kinds == ["message", "message", "message"]
    assert mends(sent.record) == []


def test_5_4_a_later_notice_covers_what_left_without_one() -> None:
    """It speaks of the whole run."""
    story = Story(sliding(1), chat.user("the task"), chat.reply("x"))
    assert story.step(ON).kinds == ["message", "message"]
    sent = story.step(chat.reply(LONG), ON)
    assert sent.texts[1] == _notice("3 earlier messages of this run are", 3, 5, iteration=2, request=2)
