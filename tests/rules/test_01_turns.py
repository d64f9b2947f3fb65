"""WINDOW-RULES 1: turns."""

from __future__ import annotations

import pytest

from support.messages import LONG, blocks, call, chat, said
from support.runs import MENDED, NONE, Story, compact, mends, omissions, sliding, stays
from turnledger.domain.errors import (
    FieldInvalid,
    NothingToAnswer,
    ResultDuplicate,
    ResultOrphan,
    ResultsMixed,
    ToolCallNotOpen,
)
from turnledger.domain.words import Source
from turnledger.projections.arrange import ABANDONED_TEXT, OPEN_TEXT, WAITING_TEXT

# 1.1


def test_1_1_a_turn_is_one_reply_with_all_its_results() -> None:
    """It leaves as one: the reply and both results, though only the newest turn is kept."""
    story = Story(sliding(1), chat.user())
    story.append(chat.reply("both", call("a"), call("b")), chat.result("a"), chat.result("b"))
    sent = story.step(chat.reply("seen"), chat.user(source=Source.INJECTED))
    assert sent.record.before.turns == 4
    assert sent.record.removed == ((3, 6),)
    assert sent.ids == ["2", "7"]


def test_1_1_it_stays_as_one() -> None:
    """What keeps a part of it keeps all of it."""
    story = Story(sliding(1), chat.user())
    sent = story.step(chat.reply(None, call("a"), call("b")), chat.result("a"), chat.user(source=Source.INJECTED))
    assert stays(sent.record)[1] == ("unresolved-tool-call", 3, 4, 1)
    assert sent.record.removed == ()


def test_1_1_everything_with_one_reply_id_is_one_reply() -> None:
    """Text and calls that come as messages of their own are one turn, and one record row names it."""
    story = Story(sliding(2), chat.user())
    sent = story.step(
        chat.reply("first", reply_id="A"),
        chat.reply(None, call("a"), reply_id="A"),
        chat.result("a"),
        chat.user(source=Source.INJECTED),
    )
    assert sent.record.before.turns == 3
    assert stays(sent.record) == [("current-request", 2, 2, 1), ("inside-keep-window", 3, 6, 2)]


def test_1_1_a_part_that_comes_late_belongs_to_its_reply() -> None:
    """After another message, or between the parts of another reply; it stands with the others."""
    story = Story(sliding(9), chat.user())
    sent = story.step(
        chat.reply("A1", reply_id="A"),
        chat.reply("B1", reply_id="B"),
        chat.user(source=Source.INJECTED),
        chat.reply("A2", reply_id="A"),
        chat.reply("B2", reply_id="B"),
    )
    assert sent.texts == ["hello", "A1", "A2", "B1", "B2", "hello"]
    assert sent.record.before.turns == 4
    assert mends(sent.record) == [("reordered", 6), ("reordered", 7)]


def test_1_1_without_a_reply_id_each_message_is_a_reply() -> None:
    """Neighboring messages of the model are two turns where nothing says that they are one."""
    story = Story(sliding(1), chat.user())
    sent = story.step(chat.reply("one"), chat.reply("two"), chat.user(source=Source.INJECTED))
    assert sent.record.before.turns == 4


def test_1_1_any_other_message_is_a_turn() -> None:
    """Messages of a person, of the system and injected ones are turns of their own."""
    story = Story(sliding(9), chat.user())
    sent = story.step(chat.system(), chat.user(source=Source.INJECTED), chat.user())
    assert sent.record.before.turns == 4
    assert stays(sent.record) == [("inside-keep-window", 2, 5, 4)]


def test_1_1_reasoning_is_never_altered() -> None:
    """A reply's reasoning keeps its bytes beside a result that is rewritten, and leaves with its reply."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    body = {"role": "assistant", "content": [thinking, {"type": "tool_use", "id": "a", "name": "look", "input": {}}]}
    reply = said(b'{"content" : ' + str(body["content"]).replace("'", '"').encode() + b', "role":"assistant"}')

    story = Story(compact(keep_raw=0), blocks.user(), reply, blocks.result("a", LONG), form=blocks)
    story.step()
    sent = story.step(blocks.reply("seen"), blocks.user(source=Source.INJECTED))
    assert sent.kinds[:3] == ["message", "message", "treated"]
    assert sent.raw[1] == reply.body

    story = Story(sliding(1), blocks.user(), reply, blocks.result("a", LONG), form=blocks)
    story.step()
    sent = story.step(blocks.reply("seen"), blocks.user(source=Source.INJECTED))
    assert sent.record.removed == ((3, 5),)


# 1.2


def test_1_2_ids_that_repeat_pair_with_the_latest_open_call() -> None:
    """Every reply calls its tool ``call_0``; each result stands behind its own."""
    story = Story(sliding(1), chat.user())
    sent = story.step(
        *chat.exchange("call_0", "look"),
        *chat.exchange("call_0", "read"),
        chat.reply("seen"),
        chat.user(source=Source.INJECTED),
    )
    assert mends(sent.record) == []
    assert sent.record.removed == ((3, 7),)
    assert sent.record.dropped_observations == (b"read", b"look")


def test_1_2_the_most_recent_open_call_comes_first() -> None:
    """Of two open calls with one id the later takes the first result, the earlier the second."""
    story = Story(sliding(9), chat.user(), chat.reply(None, call("x", "old")), chat.user())
    first = story.step(chat.reply(None, call("x", "new")), chat.result("x", "of the new"))
    assert first.ids == ["2", "3", "w1/2", "4", "5", "6"]
    assert mends(first.record) == [("closing-result", 3)]
    second = story.step(chat.result("x", "of the old"))
    assert second.ids == ["2", "3", "7", "4", "5", "6"]
    assert mends(second.record) == [("reordered", 7), ("closing-result-replaced", 7)]


def test_1_2_empty_ids_pair_like_any_other() -> None:
    """A provider without call ids: the empty id repeats in every reply."""
    story = Story(sliding(1), chat.user())
    sent = story.step(
        *chat.exchange("", "look"), *chat.exchange("", "read"), chat.reply("seen"), chat.user(source=Source.INJECTED)
    )
    assert sent.record.dropped_observations == (b"read", b"look")
    assert mends(sent.record) == []


def test_1_2_calls_of_one_reply_with_one_id_are_answered_in_their_order() -> None:
    """They were made at once, so none is more recent: what is open yet is the last of them."""
    story = Story(sliding(9), chat.user())
    story.append(chat.reply(None, call("", "look"), call("", "read"), call("", "list")), chat.result(""))
    story.abandon(version=3, index=2)
    story.append(chat.result(""))
    sent = story.step()
    assert sent.kinds == ["message"] * 4 + ["closing-result"]
    with pytest.raises(ToolCallNotOpen):
        story.abandon(version=3, index=0)


def test_1_2_results_pair_by_id_not_by_place() -> None:
    """Results out of the order of their calls, in one message or in several."""
    story = Story(sliding(1), blocks.user(), form=blocks)
    sent = story.step(
        blocks.reply(None, call("a", "look"), call("b", "read")),
        blocks.results(("b", "of read"), ("a", "of look")),
        blocks.reply("seen"),
        blocks.user(LONG, source=Source.INJECTED),
    )
    assert sent.faults == ()
    assert mends(sent.record) == []

    story = Story(sliding(1), chat.user())
    sent = story.step(
        chat.reply(None, call("a", "look"), call("b", "read")),
        chat.result("b"),
        chat.result("a"),
        chat.reply("seen"),
        chat.user(source=Source.INJECTED),
    )
    assert sent.record.dropped_observations == (b"look", b"read")


def test_1_2_an_open_call_goes_before_an_abandoned_one() -> None:
    """A result is no late one as long as an open call has its id."""
    story = Story(sliding(9), chat.user(), chat.reply(None, call("x")))
    story.abandon("x")
    answer = story.append(chat.reply(None, call("x")), chat.result("x"))
    assert answer.omissions == ()
    assert story.step().ids == ["2", "3", "w1/2", "5", "6"]


def test_1_2_of_abandoned_calls_the_latest_comes_first() -> None:
    """Two given up calls with one id take one late result each; a third result is a second one."""
    story = Story(sliding(1), chat.user(), chat.reply(None, call("x")))
    story.abandon("x")
    story.append(chat.reply(None, call("x"), call("y")), chat.result("y"))
    story.abandon("x")
    assert omissions(story.append(chat.result("x")).omissions) == [("late-result", 8)]
    assert omissions(story.append(chat.result("x")).omissions) == [("late-result", 9)]
    with pytest.raises(ResultDuplicate):
        story.append(chat.result("x"))


# 1.3


def test_1_3_a_delayed_result_is_placed_behind_its_reply() -> None:
    """The ledger keeps the order of arrival; the window the provider's."""
    story = Story(sliding(9), chat.user())
    answer = story.append(chat.reply(None, call("a")), chat.user("wait"), chat.result("a"))
    assert answer.versions == (3, 4, 5)
    sent = story.step()
    assert sent.ids == ["2", "3", "5", "4"]
    assert mends(sent.record) == [("reordered", 5)]
    assert sent.composition == [["range", 2, 3], ["moved", 5], ["range", 4, 4]]


def test_1_3_a_delayed_result_leaves_with_its_turn() -> None:
    """It belongs to the call's turn, whatever arrived between."""
    story = Story(sliding(2), chat.user())
    story.append(chat.reply(None, call("a")), chat.user("wait", source=Source.INJECTED), chat.result("a"))
    sent = story.step(chat.reply("seen"), chat.user("go", source=Source.INJECTED))
    assert sent.record.removed == ((3, 5),)
    story = Story(sliding(3), chat.user())
    story.append(chat.reply(None, call("a")), chat.user("wait", source=Source.INJECTED), chat.result("a"))
    sent = story.step(chat.reply("seen"), chat.user("go", source=Source.INJECTED))
    assert sent.record.removed == ((3, 3), (5, 5))
    assert sent.ids == ["2", "4", "6", "7"]


def test_1_3_several_delayed_results_keep_the_order_of_their_arrival() -> None:
    """Interleaved results of two replies stand behind the reply that each answers."""
    story = Story(sliding(9), chat.user())
    sent = story.step(
        chat.reply(None, call("a"), call("b")),
        chat.reply(None, call("c"), call("d")),
        chat.result("d"),
        chat.result("b"),
        chat.result("c"),
        chat.result("a"),
    )
    assert sent.ids == ["2", "3", "6", "8", "4", "5", "7"]
    assert mends(sent.record) == [("reordered", 6), ("reordered", 8)]


def test_1_3_what_is_not_sent_delays_nothing() -> None:
    """An orphan between a call and its result leaves both where they are."""
    story = Story(sliding(9), chat.user())
    story.append(chat.reply(None, call("a")), chat.result("nobody"), chat.result("a"), imported=True)
    sent = story.step()
    assert sent.ids == ["2", "3", "5"]
    assert mends(sent.record) == []
    assert sent.composition == [["range", 2, 3], ["range", 5, 5]]


def test_1_3_parts_of_a_split_reply_have_their_own_results_behind_them() -> None:
    """Where a provider does not join neighbors, each message with calls is followed by their results."""
    story = Story(sliding(9), chat.user())
    sent = story.step(
        chat.reply(None, call("a"), reply_id="A"),
        chat.reply(None, call("b"), reply_id="A"),
        chat.result("a"),
        chat.result("b"),
    )
    assert sent.ids == ["2", "3", "5", "4", "6"]
    assert mends(sent.record) == [("reordered", 5)]
    assert sent.composition == [["range", 2, 3], ["range", 5, 5], ["range", 4, 4], ["range", 6, 6]]


def test_1_3_parts_of_a_split_reply_stand_together_where_neighbors_are_joined() -> None:
    """To such a provider they are one message, and the results of all calls come next."""
    story = Story(sliding(9), blocks.user(), form=blocks)
    sent = story.step(
        blocks.reply("first", call("a"), reply_id="A"),
        blocks.result("a"),
        blocks.reply("then", call("b"), reply_id="A"),
        blocks.result("b"),
    )
    assert sent.ids == ["2", "3", "5", "4", "6"]
    assert mends(sent.record) == [("reordered", 5)]


def test_1_3_results_come_before_text_beside_a_result() -> None:
    """A message that mixes results with text stands behind the pure results of its turn, which is on record."""
    story = Story(sliding(9), blocks.user(), form=blocks)
    sent = story.step(
        blocks.reply(None, call("a"), call("b")),
        blocks.results(("a", "done"), beside="and this"),
        blocks.result("b"),
    )
    assert sent.ids == ["2", "3", "5", "4"]
    assert mends(sent.record) == [("reordered", 5)]


# 1.4


def test_1_4_an_orphan_is_refused_by_name() -> None:
    """A normal append refuses a result that answers no call of the run, and writes nothing."""
    story = Story(sliding(9), chat.user())
    with pytest.raises(ResultOrphan) as refused:
        story.append(chat.reply("fine"), chat.result("nobody"))
    assert (refused.value.field, refused.value.call_id) == ("messages[1]", "nobody")
    assert story.append(chat.user()).versions == (3,)


@pytest.mark.parametrize("apart", [True, False])
def test_1_4_a_second_result_is_refused_by_name(apart: bool) -> None:
    """Whether the first came with the same append or long before."""
    story = Story(sliding(9), chat.user())
    first, second = [*chat.exchange("a")], [chat.result("a")]
    if apart:
        story.append(*first)
    with pytest.raises(ResultDuplicate) as refused:
        story.append(*second) if apart else story.append(*first, *second)
    assert refused.value.field == ("messages[0]" if apart else "messages[2]")


def test_1_4_two_results_for_one_call_in_one_message_are_refused() -> None:
    """The second of them is a second result."""
    story = Story(sliding(9), blocks.user(), form=blocks)
    story.append(blocks.reply(None, call("a")))
    with pytest.raises(ResultDuplicate):
        story.append(blocks.results(("a", "one"), ("a", "two")))


def test_1_4_a_late_result_of_an_abandoned_call_is_kept_and_not_sent() -> None:
    """It really happened; the record names it, once each window. A second one is refused."""
    story = Story(sliding(9), chat.user(), chat.reply(None, call("a")))
    story.abandon("a")
    story.step()
    answer = story.append(chat.result("a", "too late"))
    assert omissions(answer.omissions) == [("late-result", 5)]
    sent = story.step(chat.user())
    assert sent.ids == ["2", "3", "w2/2", "6"]
    assert sent.text("w2/2") == ABANDONED_TEXT
    assert omissions(sent.record.omissions) == [("late-result", 5)]
    with pytest.raises(ResultDuplicate):
        story.append(chat.result("a"))


def test_1_4_a_late_result_takes_nothing_else_out_of_sight() -> None:
    """Beside another call's result or a person's words it is refused, since the message could not be sent."""
    story = Story(sliding(9), blocks.user(), blocks.reply(None, call("a"), call("b")), form=blocks)
    story.abandon("a")
    with pytest.raises(ResultsMixed) as refused:
        story.append(blocks.results(("b", "in time"), ("a", "too late")))
    assert refused.value.call_id == "a"
    with pytest.raises(ResultsMixed):
        story.append(blocks.results(("a", "too late"), beside="and please hurry"))
    answer = story.append(blocks.result("b", "in time"), blocks.result("a", "too late"))
    assert omissions(answer.omissions) == [("late-result", 6)]
    assert story.step().texts[2:] == ["in time", ABANDONED_TEXT]


def test_1_4_an_import_keeps_all_of_them_marked() -> None:
    """Orphans stay orphans however often their id comes; a second result is late."""
    story = Story(sliding(9), chat.user())
    answer = story.append(
        *chat.exchange("a"),
        chat.result("a", "again"),
        chat.result("nobody"),
        chat.result("nobody"),
        imported=True,
    )
    expected = [("late-result", 5), ("orphan-result", 6), ("orphan-result", 7)]
    assert omissions(answer.omissions) == expected
    sent = story.step()
    assert sent.ids == ["2", "3", "4"]
    assert omissions(sent.record.omissions) == expected
    assert omissions(story.append(chat.result("a"), imported=True).omissions) == [("late-result", 8)]


def test_1_4_an_import_marks_a_message_as_a_whole() -> None:
    """With an orphan in it, or results of two replies, or two for one call, none of its results is sent."""
    story = Story(sliding(9), blocks.user(), form=blocks)
    story.append(blocks.reply(None, call("a")), blocks.reply(None, call("b")), blocks.reply(None, call("c")))
    answer = story.append(
        blocks.results(("a", "done"), ("b", "done")),
        blocks.results(("a", "done"), ("nobody", "done")),
        blocks.results(("c", "one"), ("c", "two")),
        imported=True,
    )
    assert omissions(answer.omissions) == [("orphan-result", 6), ("orphan-result", 7), ("late-result", 8)]


def test_1_4_results_of_several_replies_in_one_message_are_refused() -> None:
    """They could stand behind neither."""
    story = Story(sliding(9), blocks.user(), form=blocks)
    with pytest.raises(ResultsMixed) as refused:
        story.append(
            blocks.reply(None, call("a")), blocks.reply(None, call("b")), blocks.results(("a", "x"), ("b", "y"))
        )
    assert (refused.value.field, refused.value.call_id) == ("messages[2]", "b")


def test_1_4_results_for_parts_of_one_reply_may_share_a_message() -> None:
    """The reply id makes its parts one reply."""
    story = Story(sliding(9), blocks.user(), form=blocks)
    sent = story.step(
        blocks.reply(None, call("a"), reply_id="A"),
        blocks.reply(None, call("b"), reply_id="A"),
        blocks.results(("a", "x"), ("b", "y")),
    )
    assert sent.ids == ["2", "3", "4", "5"]


def test_1_4_none_sends_them_and_reports_them() -> None:
    """Under ``none`` nothing is omitted; the provider's rule that they break is reported."""
    story = Story(NONE, chat.user())
    story.append(*chat.exchange("a"), chat.result("a"), chat.result("nobody"), imported=True)
    sent = story.step()
    assert sent.ids == ["2", "3", "4", "5", "6"]
    assert sent.records == ()
    assert [(fault.rule, fault.version) for fault in sent.faults] == [
        ("result-without-call", 5),
        ("result-without-call", 6),
    ]


def test_1_4_a_window_that_is_mended_sends_none_of_them() -> None:
    """``none`` with ``mend`` leaves out what its provider would refuse."""
    story = Story(MENDED, chat.user())
    story.append(*chat.exchange("a"), chat.result("a"), chat.result("nobody"), imported=True)
    assert story.step().ids == ["2", "3", "4"]


def test_1_4_an_omission_is_listed_as_long_as_what_is_around_it_stays() -> None:
    """So that records do not grow with the run: it goes with the turns before and behind it."""
    story = Story(sliding(2), chat.user())
    story.append(*chat.exchange("a"), chat.result("nobody"), chat.reply("seen"), imported=True)
    assert omissions(story.step(chat.user(source=Source.INJECTED)).record.omissions) == [("orphan-result", 5)]
    sent = story.step(chat.reply("on"), chat.user(source=Source.INJECTED))
    assert sent.record.removed == ((6, 7),)
    assert omissions(sent.record.omissions) == []


def test_1_4_an_omission_is_listed_though_what_came_after_it_left_at_once() -> None:
    """No window ever held what was brought along with it; the record of the visit that drops that still tells."""
    story = Story(sliding(1), chat.user(LONG))
    story.step()
    sent = story.step(chat.result("x"), chat.reply(LONG), chat.user("two"), imported=True)
    assert sent.record.removed == ((2, 2), (4, 4))
    assert omissions(sent.record.omissions) == [("orphan-result", 3)]
    assert omissions(story.step(chat.reply(LONG), chat.user("four")).record.omissions) == []


# 1.5


def test_1_5_text_beside_a_result_belongs_to_the_calls_turn() -> None:
    """It leaves with the reply whose call it answers."""
    story = Story(sliding(1), blocks.user(), form=blocks)
    story.append(blocks.reply(None, call("a")), blocks.results(("a", LONG), beside="and this"))
    sent = story.step(blocks.reply("seen"), blocks.user(source=Source.INJECTED))
    assert sent.record.before.turns == 4
    assert sent.record.removed == ((3, 5),)


def test_1_5_text_beside_a_result_is_not_the_person_speaking() -> None:
    """Not even where the worker says so: only the flag makes it the request."""
    story = Story(sliding(1), blocks.user(), form=blocks)
    sent = story.step(
        blocks.reply(None, call("a")),
        blocks.results(("a", "done"), beside="and this", source=Source.PERSON),
        blocks.reply("seen"),
        blocks.user(source=Source.INJECTED),
    )
    assert stays(sent.record)[0] == ("current-request", 2, 2, 1)


def test_1_5_flagged_as_the_request_it_is_the_person_speaking() -> None:
    """And then the whole turn is held by it, and the request before it may leave."""
    story = Story(sliding(1), blocks.user(LONG), form=blocks)
    sent = story.step(
        blocks.reply(None, call("a")),
        blocks.results(("a", "done"), beside="new task", request=True),
        blocks.user(source=Source.INJECTED),
    )
    assert stays(sent.record)[0] == ("current-request", 3, 4, 1)
    assert sent.record.removed == ((2, 2),)


def test_1_5_one_message_of_a_turn_may_carry_words() -> None:
    """Results come before anything else, so a second such message could not be sent: it is refused."""
    story = Story(sliding(9), blocks.user(), blocks.reply(None, call("a"), call("b")), form=blocks)
    story.append(blocks.results(("a", "done"), beside="and this"))
    with pytest.raises(ResultsMixed) as refused:
        story.append(blocks.results(("b", "done"), beside="and that"))
    assert (refused.value.field, refused.value.call_id) == ("messages[0]", "b")
    assert story.step(blocks.result("b"), blocks.user("and that")).ids == ["2", "3", "5", "4", "6"]


def test_1_5_results_alone_are_never_the_request() -> None:
    """There is nothing in them that a person could have said."""
    story = Story(sliding(1), blocks.user(), form=blocks)
    with pytest.raises(FieldInvalid) as refused:
        story.append(blocks.reply(None, call("a")), blocks.result("a", request=True))
    assert refused.value.field == "messages[1].request"


# 1.6


def test_1_6_every_message_has_a_source() -> None:
    """The one that its role implies, or the one that the worker states; the record names them."""
    story = Story(sliding(1), chat.user())
    story.append(chat.user(source=Source.INJECTED), *chat.exchange("a"), chat.user())
    story.append(chat.reply("seen"))
    sent = story.step(chat.user(request=True))
    assert sent.record.removed_stages == ("person", "injected", "model", "tool")


def test_1_6_nothing_is_recognized_by_its_text() -> None:
    """A person whose text starts like a notice of ours is still a person."""
    notice = "[turnledger: since iteration 3, 2 earlier messages of this run are not being re-sent"
    story = Story(sliding(1), chat.user(notice))
    sent = story.step(chat.reply(notice), chat.user(notice, source=Source.INJECTED))
    assert stays(sent.record) == [("current-request", 2, 2, 1), ("inside-keep-window", 4, 4, 1)]
    assert sent.record.removed == ((3, 3),)
    assert sent.kinds == ["message", "message"]


def test_1_6_only_the_service_authors() -> None:
    """A worker can't pass a message off as ours."""
    story = Story(sliding(1), chat.user())
    with pytest.raises(FieldInvalid) as refused:
        story.append(chat.user(source=Source.AUTHORED))
    assert refused.value.field == "messages[0].source"


# 1.7


def test_1_7_an_open_call_that_nothing_follows_is_not_closed() -> None:
    """Then the model's own message is last, and there is nothing to answer."""
    story = Story(sliding(9), chat.user())
    with pytest.raises(NothingToAnswer):
        story.step(chat.reply(None, call("a")))


def test_1_7_an_open_call_is_closed_where_a_message_follows() -> None:
    """By an authored result with the call's id, directly behind its reply."""
    story = Story(sliding(9), chat.user())
    sent = story.step(chat.reply(None, call("a")), chat.user("well?"))
    assert sent.kinds == ["message", "message", "closing-result", "message"]
    assert sent.ids == ["2", "3", "w1/2", "4"]
    assert sent.bodies[2] == {"role": "tool", "tool_call_id": "a", "content": OPEN_TEXT}
    assert mends(sent.record) == [("closing-result", 3)]
    assert sent.record.authored == (2,)


def test_1_7_a_result_of_its_sibling_follows_it_too() -> None:
    """The closing result comes after the results that exist."""
    story = Story(sliding(9), chat.user())
    sent = story.step(chat.reply(None, call("a"), call("b")), chat.result("b"))
    assert sent.ids == ["2", "3", "4", "w1/3"]
    assert sent.bodies[3]["tool_call_id"] == "a"


def test_1_7_a_further_part_of_its_reply_follows_it_too() -> None:
    """In a provider that does not join neighbors, a call in an earlier part is closed behind that part."""
    story = Story(sliding(9), chat.user())
    story.append(chat.reply(None, call("a"), reply_id="A"), chat.reply(None, call("b"), reply_id="A"))
    story.abandon("b")
    sent = story.step()
    assert sent.ids == ["2", "3", "w1/2", "4", "w1/4"]
    assert [sent.text("w1/2"), sent.text("w1/4")] == [OPEN_TEXT, ABANDONED_TEXT]


def test_1_7_it_comes_before_text_beside_a_result() -> None:
    """Such a provider wants all results first."""
    story = Story(sliding(9), blocks.user(), form=blocks)
    sent = story.step(
        blocks.reply(None, call("a"), call("b"), call("c")),
        blocks.result("c"),
        blocks.results(("b", "done"), beside="and this"),
    )
    assert sent.ids == ["2", "3", "4", "w1/3", "5"]
    closing = {"type": "tool_result", "tool_use_id": "a", "content": OPEN_TEXT}
    assert sent.bodies[3] == {"role": "user", "content": [closing]}


def test_1_7_an_abandoned_call_is_closed_even_if_nothing_follows() -> None:
    """So the model is told, and can go on."""
    story = Story(sliding(9), chat.user(), chat.reply(None, call("a")))
    story.abandon("a")
    sent = story.step()
    assert sent.ids == ["2", "3", "w1/2"]
    assert sent.text("w1/2") == ABANDONED_TEXT


def test_1_7_an_abandoned_call_no_longer_refuses_to_leave() -> None:
    """Open, it holds its turn; given up, it does not, and its closing result leaves with it."""
    story = Story(sliding(1), chat.user(), chat.reply(None, call("a")))
    sent = story.step(chat.user(source=Source.INJECTED))
    assert stays(sent.record)[1] == ("unresolved-tool-call", 3, 3, 1)
    story.abandon("a")
    sent = story.step()
    assert sent.record.removed == ((3, 3),)
    assert sent.ids == ["2", "4"]


def test_1_7_the_real_result_takes_the_closing_results_place() -> None:
    """It is sent where the authored one stood, and the record says so once."""
    story = Story(sliding(9), chat.user())
    story.step(chat.reply(None, call("a"), call("b")), chat.result("a"))
    sent = story.step(chat.result("b", "at last"))
    assert sent.ids == ["2", "3", "4", "5"]
    assert mends(sent.record) == [("closing-result-replaced", 5)]
    assert mends(story.step(chat.reply("on"), chat.user()).record) == []


def test_1_7_nothing_is_replaced_that_was_not_sent() -> None:
    """A result that comes before any window closed its call is an ordinary one."""
    story = Story(sliding(9), chat.user(), chat.reply(None, call("a")), chat.user("well?"))
    assert mends(story.step(chat.result("a")).record) == [("reordered", 5)]


def test_1_7_a_paused_call_is_closed_as_waiting() -> None:
    """In a window that is asked for while the run is paused; also where nothing follows."""
    story = Story(sliding(9), chat.user(), chat.reply(None, call("a"), call("b")))
    story.pause("a")
    sent = story.step(while_paused=True)
    assert sent.ids == ["2", "3", "w1/2", "w1/3"]
    assert [sent.text("w1/2"), sent.text("w1/3")] == [WAITING_TEXT, OPEN_TEXT]
    story.resume()
    sent = story.step(chat.result("a"), chat.result("b"))
    assert mends(sent.record) == [("closing-result-replaced", 6), ("closing-result-replaced", 7)]


def test_1_7_a_call_that_waited_can_be_given_up() -> None:
    """Then it is abandoned, and pauses nothing any more."""
    story = Story(sliding(1), chat.user(), chat.reply(None, call("a")), chat.user(source=Source.INJECTED))
    story.pause("a")
    story.abandon("a")
    story.resume()
    assert story.step().record.removed == ((3, 3),)
    with pytest.raises(ToolCallNotOpen):
        story.pause("a")
