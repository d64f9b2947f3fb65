"""WINDOW-RULES 2: the current request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.messages import LONG, blocks, call, chat
from support.runs import Story, budget, sliding, stays
from turnledger.domain.errors import FieldInvalid
from turnledger.domain.words import Source
from turnledger.ledger.commands import MessageInput


def _request(story: Story) -> int:
    """The message that the next record calls the current request, with one recent turn kept."""
    (version,) = [first for reason, first, _, _ in stays(story.step().record) if reason == "current-request"]
    return version


def test_2_1_it_is_the_latest_flagged_message() -> None:
    """A later message of a person that is not flagged changes nothing."""
    story = Story(sliding(1), chat.user("one", request=True), chat.user("two", request=True), chat.user("three"))
    story.append(chat.reply("fine"), chat.user("four", source=Source.INJECTED))
    assert _request(story) == 3


def test_2_1_where_none_is_flagged_it_is_the_latest_of_a_person() -> None:
    """Neither the model, nor a tool, nor what was injected is a person."""
    story = Story(sliding(1), chat.user("one"), chat.user("two"))
    story.append(*chat.exchange("a"), chat.system("three"), chat.user("four", source=Source.INJECTED))
    assert _request(story) == 3


def test_2_1_a_flag_outranks_a_person_whatever_comes_first() -> None:
    """The flag is a fact; the source is what is gone by without one."""
    story = Story(sliding(1), chat.user("one"), chat.user("two", request=True), chat.user("three"))
    story.append(chat.user("four", source=Source.INJECTED))
    assert _request(story) == 3


def test_2_1_a_message_of_a_person_that_is_empty_can_be_the_request() -> None:
    """It is sent as a placeholder and held like any request."""
    story = Story(sliding(1), chat.user("one"), chat.user(None))
    story.append(chat.user("two", source=Source.INJECTED))
    assert _request(story) == 3


def test_2_1_an_injected_message_never_is() -> None:
    """Flagging one is refused."""
    story = Story(sliding(1), chat.user())
    with pytest.raises(FieldInvalid) as refused:
        story.append(chat.user(source=Source.INJECTED, request=True))
    assert refused.value.field == "messages[0].request"


@pytest.mark.parametrize("message", [chat.reply("me"), chat.system("it"), chat.result("a")])
def test_2_1_only_a_users_message_can_be_flagged(message: MessageInput) -> None:
    """The model, a tool and the system ask for nothing."""
    story = Story(sliding(1), chat.user(), chat.reply(None, call("a")))
    with pytest.raises(FieldInvalid) as refused:
        story.append(replace(message, request=True))
    assert refused.value.field == "messages[0].request"


def test_2_1_the_prompt_given_at_the_opening_is_the_request() -> None:
    """It is the first message, from the person, and the request until another comes."""
    story = Story(sliding(1), chat.user("the prompt", request=True))
    sent = story.step(*chat.exchange("a"), *chat.exchange("b"))
    assert stays(sent.record)[0] == ("current-request", 2, 2, 1)


def test_2_2_its_turn_never_leaves() -> None:
    """However many turns come after it."""
    story = Story(sliding(1), chat.user("the task"))
    for number in range(20):
        sent = story.step(*chat.exchange(f"c{number}", text=LONG))
        assert sent.ids[0] == "2"
    assert sent.texts[0] == "the task"


def test_2_2_an_earlier_request_may_leave() -> None:
    """A new one takes its place."""
    story = Story(sliding(1), chat.user("one"))
    sent = story.step(chat.reply("fine"), chat.user("two"), chat.reply("fine"), chat.user(source=Source.INJECTED))
    assert sent.record.removed == ((2, 3),)
    assert stays(sent.record) == [
        ("current-request", 4, 4, 1),
        ("beyond-span", 5, 5, 1),
        ("inside-keep-window", 6, 6, 1),
    ]


def test_2_3_what_can_not_fit_stays_and_the_record_says_why() -> None:
    """Over the budget with nothing but the request and recent turns: nothing is removed."""
    story = Story(budget(100, keep_recent_turns=1), chat.user(LONG))
    story.step()
    sent = story.step(chat.reply(LONG, call("a"), usage=(5000, 10)), chat.result("a", LONG))
    record = sent.record
    assert (record.outcome.value, record.measurement and record.measurement.over_budget) == ("engaged", True)
    assert record.removed == ()
    assert stays(record) == [("current-request", 2, 2, 1), ("inside-keep-window", 3, 4, 1)]


def test_2_3_a_request_inside_the_recent_turns_is_one_of_them() -> None:
    """Then that is the only reason given (4.1)."""
    story = Story(budget(100, keep_recent_turns=2), blocks.user(LONG), form=blocks)
    story.step()
    sent = story.step(blocks.reply("on it", call("a"), usage=(5000, 10)), blocks.result("a"))
    assert stays(sent.record) == [("inside-keep-window", 2, 4, 2)]
