"""WINDOW-RULES 7: the record."""

from __future__ import annotations

import hashlib

import pytest

from support.messages import LONG, Body, blocks, call, chat
from support.runs import NONE, RUN, Story, budget, compact, mends, omissions, sliding, stays
from turnledger.domain import events as e
from turnledger.domain.errors import ResultDuplicate
from turnledger.domain.jsonbytes import canonical
from turnledger.domain.policies import parse_policy
from turnledger.domain.state import ABANDONED_REMEMBERED_MAX
from turnledger.domain.words import Source

ON = chat.user("on", source=Source.INJECTED)


@pytest.mark.parametrize("policy", [sliding(1), sliding(9), budget(100), compact()])
def test_7_there_is_one_for_every_window_of_a_run_with_a_strategy(policy: Body) -> None:
    """Also where nothing was removed; a window that is asked for again has the record that it had."""
    story = Story(policy, chat.user("the task"))
    first = story.step()
    assert len(first.records) == 1
    assert story.build(1).records == first.records
    assert len(story.step(chat.reply("fine"), ON).records) == 1
    assert Story(NONE, chat.user()).step().records == ()


def test_7_it_says_which_strategy_decided_on_what() -> None:
    """Strategy, version, options, iteration, and the facts and the envelope that it saw."""
    policy = sliding(2, pins=1)
    story = Story(policy, chat.user("the task"), tools=True)
    story.step()
    story.envelope(system=b'"careful"')
    record = story.step(chat.reply("fine"), ON).record
    digest = hashlib.sha256(canonical(parse_policy(policy).model_dump(mode="json"))).digest()
    assert (record.strategy, record.strategy_version, record.options_digest) == ("sliding-window", 1, digest)
    assert (record.iteration, record.ledger_version, record.envelope_version) == (2, 6, 4)
    assert (record.keep_recent_turns, record.persist) == (2, True)


def test_7_options_that_differ_have_another_digest() -> None:
    """Those of the pins too; defaults that are spelled out are no difference."""
    digests = {
        parse_policy({"strategy": "sliding-window", "keep_recent_turns": 2, **more}).options_digest
        for more in ({}, {"keep_last_tool_results": 2}, {"keep_last_tool_results": 1}, {"pin_by": "tool-and-arguments"})
    }
    assert len(digests) == 3


def test_7_it_names_what_left() -> None:
    """Ranges of ids, how many, who wrote them, and how long they were in the run."""
    story = Story(sliding(1), chat.user("the task"), chat.reply("brought along", stage_id="before"))
    story.append(*chat.exchange("a"), chat.reply("seen", stage_id="plan"))
    record = story.step(ON).record
    assert record.removed == ((3, 6),)
    assert record.removed_count == 4
    assert record.removed_stages == ("before", "model", "tool", "plan")
    assert record.removed_lived_max == 1


def test_7_how_long_is_counted_in_iterations() -> None:
    """Of the oldest message that left: from the iteration at which it was appended."""
    story = Story(sliding(2), chat.user("the task"))
    story.step()
    story.step(chat.reply("one"), ON)
    assert story.step(chat.reply("two"), ON).record.removed_lived_max == 2


def test_7_ranges_pass_over_facts_that_are_no_messages() -> None:
    """And end where a message between stays; a message that left is in one of them."""
    story = Story(sliding(1, pins=1), chat.user("the task"), chat.reply("one"))
    story.envelope(system=b'"careful"')
    story.append(chat.reply(None, call("a")), ON)
    story.append(chat.result("a"), chat.reply("seen"))
    record = story.step(ON).record
    assert record.removed == ((3, 3),)
    assert stays(record)[1] == ("last-tool-result", 5, 7, 1)

    story = Story(sliding(1), chat.user("the task"), chat.reply("one"))
    story.envelope(system=b'"careful"')
    story.append(chat.reply("two"), chat.reply("three"))
    record = story.step(ON).record
    assert (record.removed, record.removed_count) == (((3, 6),), 3)
    facts = [fact for _, fact in story.ledger.loader.facts(story.ledger.key(RUN), 3, 6, bodies=False)]
    assert sum(isinstance(fact, e.MessageAppended) for fact in facts) == record.removed_count


def test_7_it_names_every_tool_whose_results_left() -> None:
    """All of them, latest first, whatever their names look like."""
    names = ["a", "b", "two words", "c", "größe", "x" * 60, "a"]
    story = Story(sliding(1), chat.user("the task"))
    for number, name in enumerate(names):
        story.append(*chat.exchange(str(number), name))
    record = story.step(chat.reply("seen"), ON).record
    expected = ["a", "x" * 60, "größe", "c", "two words", "b"]
    assert [name.decode() for name in record.dropped_observations] == expected


def test_7_sizes_before_and_after() -> None:
    """Turns, items, bytes and characters; what left and what came in its place is the difference."""
    story = Story(sliding(1), chat.user("the task"), chat.reply(LONG))
    sent = story.step(ON)
    before, after = sent.record.before, sent.record.after
    assert (before.turns, before.items, after.turns, after.items) == (3, 3, 2, 3)
    assert before.characters == len("the task") + len(LONG) + len("on")
    assert after.characters == len("the task") + len(sent.texts[1]) + len("on")
    assert after.bytes == sum(map(len, sent.raw))


def test_7_pins_omissions_and_mends_are_in_it() -> None:
    """What was kept as the latest of its tool, what is not sent, and what the window needed."""
    story = Story(sliding(1, pins=1), chat.user("the task"), *chat.exchange("a"), *chat.exchange("b", "read"))
    story.append(chat.result("nobody"), imported=True)
    story.append(chat.reply(None, call("c")))
    record = story.step(ON).record
    assert (record.pins.pinned, record.pins.yielded, record.pins.limit) == (((5, 6),), 1, 1)
    assert record.pins.stand_down == ()
    assert omissions(record.omissions) == [("orphan-result", 7)]
    assert mends(record) == [("closing-result", 8)]


def test_7_it_lists_what_was_authored_in_this_visit() -> None:
    """By index; what stood there before, byte for byte, is not new."""
    story = Story(sliding(9), chat.user(None), chat.reply(None, call("a")))
    assert story.step(ON).record.authored == (0, 2)
    assert story.step(chat.reply("fine"), ON).record.authored == ()
    story.abandon("a")
    assert story.step().record.authored == (2,)


def test_7_equal_bytes_do_not_make_an_authored_item_an_old_one() -> None:
    """Ids repeat: a second call with the same id is closed by the same bytes, and that item is new."""
    story = Story(sliding(9), chat.user("the task"), chat.reply(None, call("call_0")), ON)
    assert story.step().record.authored == (2,)
    sent = story.step(chat.reply(None, call("call_0")), ON)
    assert sent.kinds.count("closing-result") == 2
    assert sent.record.authored == (5,)


def test_7_the_unchanged_prefix_is_what_a_cache_can_still_use() -> None:
    """Items, bytes, and the first id that differs; the first window has no prefix."""
    story = Story(sliding(2), chat.user("the task"))
    first = story.step(chat.reply("one"), ON)
    assert (first.record.unchanged_items, first.record.unchanged_bytes) == (0, 0)
    assert first.record.first_changed_id == "r/2"
    grown = story.step(chat.user("more", source=Source.INJECTED))
    assert grown.record.removed == ((3, 3),)
    assert (grown.record.unchanged_items, grown.record.first_changed_id) == (1, "r/4")
    assert grown.record.unchanged_bytes == len(grown.raw[0])
    story.append(chat.reply(None))
    same = story.step()
    assert same.raw == grown.raw
    assert (same.record.unchanged_items, same.record.first_changed_id) == (3, None)


def test_7_the_first_changed_item_may_be_ours() -> None:
    """A notice that is brought up to date changes at its place."""
    story = Story(sliding(1), chat.user("the task"), chat.reply(LONG), ON)
    story.step()
    record = story.step(chat.reply(LONG), ON).record
    assert (record.unchanged_items, record.first_changed_id) == (1, "r/w2/1")


def test_7_a_rewritten_result_is_where_the_prefix_ends() -> None:
    """Everything before it keeps its bytes."""
    story = Story(compact(keep_raw=0), chat.user("the task"), *chat.exchange("a", text=LONG))
    story.step()
    record = story.step(chat.reply("seen"), ON).record
    assert (record.unchanged_items, record.first_changed_id) == (2, "r/4")
    assert (record.rewritten, record.rewritten_count) == (((4, 4),), 1)


def test_7_a_budget_has_its_facts() -> None:
    """What was measured, by which source, the threshold, and whether it is over: a sliding window has none."""
    story = Story(budget(100, keep_recent_turns=1), blocks.user("the task"), form=blocks)
    story.step()
    measurement = story.step(blocks.reply("fine", usage=(101, 5)), blocks.user("on")).record.measurement
    assert measurement is not None
    assert (measurement.tokens, measurement.source, measurement.threshold_tokens) == (101, "reported", 100)
    assert (measurement.over_budget, measurement.not_measured_streak) == (True, 0)
    assert Story(sliding(1), chat.user()).step().record.measurement is None


def test_7_what_leaves_stays_out() -> None:
    """Every shipped strategy goes on from the window as it was sent."""
    story = Story(sliding(1), chat.user("the task"), chat.reply("one"))
    assert story.step(ON).record.persist is True
    assert "3" not in story.step(chat.reply(None)).ids


def test_7_an_omission_inside_a_turn_that_stays_is_told_after_a_drop() -> None:
    """It is why the turn's messages stand as they do: none of them is delayed."""
    story = Story(sliding(1, 2), chat.user("task " * 50, request=True))
    story.append(chat.reply(None, call("a"), call("b")), chat.result("a"), chat.result("nobody"), imported=True)
    story.append(chat.result("b"))
    story.step()
    on = chat.user("more " * 300, source=Source.INJECTED)
    sent = story.step(chat.reply("seen " * 300), on)
    sent = story.step(chat.reply("seen " * 300), on)
    assert sent.record.removed_count > 0
    assert sent.ids[:4] == ["2", "3", "4", "6"]
    assert not any(part[0] == "moved" for part in sent.composition)
    assert omissions(sent.record.omissions) == [("orphan-result", 5)]


def test_7_what_is_remembered_of_calls_that_were_given_up_is_bounded() -> None:
    """Those whose turns have left; the latest of them still take a late result."""
    count = ABANDONED_REMEMBERED_MAX + 10
    story = Story(sliding(1, 0), chat.user("task " * 50, request=True))
    for n in range(count):
        story.append(chat.reply("x" * 300, call(f"c{n}")), chat.user("on", source=Source.INJECTED))
        story.abandon(f"c{n}")
        story.step()
    calls = story.ledger.loader.session(f"default/{RUN}").run.state.calls
    assert ABANDONED_REMEMBERED_MAX <= len(calls) <= ABANDONED_REMEMBERED_MAX + 2
    late = story.append(chat.result(f"c{count - 5}"))
    assert omissions(late.omissions) == [("late-result", late.versions[0])]
    with pytest.raises(ResultDuplicate):
        story.append(chat.result("c0"))
