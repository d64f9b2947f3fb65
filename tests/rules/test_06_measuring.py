"""WINDOW-RULES 6: measuring."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.messages import LONG, blocks, call, chat, said
from support.runs import RUN, Sent, Story, budget, sliding
from turnledger.domain import events as e
from turnledger.domain.errors import CompactionUnmeasurable, FieldInvalid, PolicyInvalid
from turnledger.domain.ids import LEDGER
from turnledger.domain.words import Source
from turnledger.ledger import commands as c
from turnledger.ledger.tokenizers import tokenizer_named
from turnledger.projections.arrange import OPEN_TEXT

ON = chat.user("on", source=Source.INJECTED)
COUNTED = budget(100, measure="tokenizer", keep_recent_turns=1)


def _measured(sent: Sent) -> tuple[str, int | None, int | None, bool]:
    """Why nothing was done ("" where something was), what was measured, how often it was not, over budget."""
    measurement = sent.record.measurement
    assert measurement is not None
    assert measurement.source == "reported"
    reason = sent.record.outcome_reason
    return reason.value if reason else "", measurement.tokens, measurement.not_measured_streak, measurement.over_budget


def _reporting(usage: tuple[int | None, int | None] | None = None, threshold: int = 100, **opening: Any) -> Sent:
    """The second window of a run whose first call reported this."""
    story = Story(budget(threshold, keep_recent_turns=1), chat.user("the task"), chat.reply(LONG), **opening)
    story.step(ON)
    return story.step(chat.reply("seen", usage=usage), ON)


# 6.1


def test_6_1_sizes_are_exact() -> None:
    """UTF-8 bytes of the bodies as sent; code points of text, tool names, arguments and results."""
    story = Story(sliding(9), chat.user("größe 🙂"))
    sent = story.step(chat.reply("text", call("a", "look", path="ü")), chat.result("a", "naïve"))
    assert sent.record.after.bytes == sum(map(len, sent.raw))
    arguments = json.dumps({"path": "ü"})
    assert sent.record.after.characters == len("größe 🙂" + "text" + "look" + arguments + "naïve")
    assert (sent.record.after.items, sent.record.after.turns, sent.record.after.tokens) == (3, 2, None)


def test_6_1_reasoning_and_every_block_count() -> None:
    """Also what stands beside a result; not ids, not the JSON around it."""
    thinking = {"type": "thinking", "thinking": "hmm", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}}
    story = Story(sliding(9), blocks.user("hi"), form=blocks)
    sent = story.step(
        said({"role": "assistant", "content": [thinking, {"type": "text", "text": "ok"}, use]}),
        blocks.results(("a", "done"), beside="and this"),
    )
    assert sent.record.after.characters == len("hi" + "hmm" + "ok" + "look" + '{"x":1}' + "done" + "and this")


def test_6_1_what_is_authored_counts_as_sent() -> None:
    """Before and after are equal where nothing was done, whatever the window was mended with."""
    story = Story(sliding(9), chat.user(None), chat.reply(None, call("a")))
    sent = story.step(ON)
    assert sent.kinds == ["placeholder", "message", "closing-result", "message"]
    assert sent.record.before == sent.record.after
    assert sent.record.after.bytes == sum(map(len, sent.raw))
    assert sent.record.after.characters == sum(map(len, [sent.texts[0], "look", "{}", OPEN_TEXT, "on"]))


# 6.2


def test_6_2_the_record_says_which_source_was_used() -> None:
    """The report, or the tokenizer by name."""
    measurement = _reporting((50, 1)).record.measurement
    assert measurement is not None
    assert (measurement.source, measurement.tokens) == ("reported", 50)
    for name in ("o200k_base", "cl100k_base"):
        measurement = Story(COUNTED, chat.user("the task"), tokenizer=name).step().record.measurement
        assert measurement is not None
        assert (measurement.source, measurement.tokens) == (name, 2)


def test_6_2_the_two_are_never_mixed() -> None:
    """A report says nothing to a tokenizer's budget, nor the count to a reported one."""
    sent = _reporting((50, 1), tokenizer="o200k_base")
    assert _measured(sent) == ("under-threshold", 50, 0, False)
    assert sent.record.after.tokens is not None

    story = Story(COUNTED, chat.user("the task"), tokenizer="o200k_base")
    story.step()
    measurement = story.step(chat.reply("fine", usage=(99_999, 1)), ON).record.measurement
    assert measurement is not None
    assert (measurement.tokens, measurement.over_budget) == (4, False)


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_6_2_a_message_counts_as_its_texts_do(name: str) -> None:
    """Text, tool names, arguments and results, and the system prompt and tools of the envelope."""
    tokenizer = tokenizer_named(name)
    assert tokenizer is not None
    story = Story(COUNTED, chat.user("the task"), tokenizer=name)
    system, tools = b'"You are a careful agent."', b'[{"name":"look","description":"Looks around."}]'
    story.envelope(system=system, tools=tools, model=b"m", parameters=b'{"max_tokens":100}')
    sent = story.step(chat.reply("text", call("a", "look", path="src/main.py")), chat.result("a", "found it"))
    messages = tokenizer.count(["the task", "text", "look", '{"path": "src/main.py"}', "found it"])
    around = tokenizer.count([system.decode(), tools.decode()])
    assert sent.record.after.tokens == messages
    assert sent.record.measurement is not None
    assert sent.record.measurement.tokens == messages + around


def test_6_2_what_is_authored_is_counted_too() -> None:
    """It is sent like the rest."""
    story = Story(COUNTED, chat.user("the task"), chat.reply(None, call("a")), tokenizer="o200k_base")
    sent = story.step(ON)
    tokenizer = tokenizer_named("o200k_base")
    assert tokenizer is not None
    assert sent.record.measurement is not None
    expected = tokenizer.count(["the task", "look", "{}", OPEN_TEXT, "on"])
    assert (sent.record.measurement.tokens, sent.record.after.tokens) == (expected, expected)


def test_6_2_a_tokenizers_budget_drops_above_its_threshold() -> None:
    """What is measured is the window before the drop."""
    story = Story(COUNTED, chat.user("the task"), chat.reply("word " * 200), tokenizer="o200k_base")
    sent = story.step(ON)
    assert sent.record.removed == ((3, 3),)
    assert sent.record.measurement is not None
    assert sent.record.measurement.tokens == sent.record.before.tokens == 204
    assert sent.record.after.tokens is not None
    assert sent.record.after.tokens < 100


# 6.3


@pytest.mark.parametrize("option", ["target_tokens", "minimum_reclaim_tokens", "at_least_tokens"])
def test_6_3_options_that_need_the_size_of_single_turns_are_refused_with_reports(option: str) -> None:
    """When the run is opened, by name."""
    with pytest.raises(PolicyInvalid) as refused:
        Story(budget(100, measure="reported", **{option: 10}), chat.user())
    assert refused.value.field == f"policy.{option}"


def test_6_3_a_tokenizers_budget_needs_a_run_with_a_tokenizer() -> None:
    """And a tokenizer that there is."""
    with pytest.raises(PolicyInvalid) as refused:
        Story(COUNTED, chat.user())
    assert refused.value.field == "policy.measure"
    with pytest.raises(FieldInvalid) as unknown:
        Story(COUNTED, chat.user(), tokenizer="p50k_base")
    assert unknown.value.field == "tokenizer"


# 6.4


def test_6_4_a_report_is_valid_for_the_iteration_right_after_its_call() -> None:
    """However it comes: with the reply, or on its own."""
    assert _measured(_reporting((101, 1))) == ("", 101, 0, True)
    story = Story(budget(100, keep_recent_turns=1), chat.user("the task"), chat.reply(LONG))
    story.step(ON)
    story.report(101)
    assert _measured(story.step(chat.reply("seen"), ON)) == ("", 101, 0, True)


def test_6_4_and_for_no_later_one() -> None:
    """A report from before a removal, or of a call before the last, is not used again."""
    story = Story(budget(100, keep_recent_turns=1), chat.user("the task"), chat.reply(LONG))
    story.step(ON)
    assert story.step(chat.reply("seen", usage=(101, 1)), ON).record.removed == ((3, 5),)
    sent = story.step(chat.reply("more"), ON)
    assert _measured(sent) == ("not-measured", None, 1, False)
    assert sent.record.removed == ()


def test_6_4_a_late_report_of_an_earlier_call_takes_nothing_from_the_last() -> None:
    """It is kept, and what was reported for the last call still counts."""
    story = Story(budget(100, keep_recent_turns=1), chat.user("the task"), chat.reply(LONG))
    story.step(ON)
    story.step(chat.reply("one"), ON)
    story.append(chat.reply("two", usage=(101, 1)), ON)
    story.report(7, iteration=1)
    assert _measured(story.step()) == ("", 101, 0, True)


def test_6_4_the_latest_report_of_a_call_counts() -> None:
    """A report can be corrected."""
    story = Story(budget(100, keep_recent_turns=1), chat.user("the task"), chat.reply(LONG))
    story.step(ON)
    story.append(chat.reply("seen", usage=(500, 1)), ON)
    story.report(99)
    assert _measured(story.step()) == ("under-threshold", 99, 0, False)


@pytest.mark.parametrize(
    ("form", "report", "expected"),
    [
        (chat, {"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}}, 90),
        (blocks, {"input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 9}, 89),
        (blocks, {"input_tokens": 10, "output_tokens": 5}, 10),
    ],
)
def test_6_4_reports_are_normalized_and_kept_as_they_were(form: Any, report: dict[str, Any], expected: int) -> None:
    """OpenAI's input includes cached tokens, Anthropic's does not."""
    raw = json.dumps(report).encode()
    story = Story(budget(100, keep_recent_turns=1), form.user("the task"), form=form)
    story.step()
    reply = form.reply("fine")
    message = c.MessageInput(reply.body, usage=c.UsageInput(raw=raw))
    sent = story.step(message, form.user("on", source=Source.INJECTED))
    assert _measured(sent) == ("under-threshold", expected, 0, False)
    (row, fact), *_ = story.ledger.loader.facts(story.ledger.key(RUN), 3, 3, bodies=False)
    assert isinstance(fact, e.MessageAppended)
    assert (row.originator_id, fact.usage_raw) == (f"default/{RUN}/{LEDGER}", raw)


@pytest.mark.parametrize("wrong", ["-1", "1.5", '"5"', "true", "[]", "99999999999999"])
def test_6_4_what_is_no_whole_number_is_refused(wrong: str) -> None:
    """By the name of the field, and nothing is written."""
    story = Story(budget(100), chat.user("the task"))
    story.step()
    usage = c.UsageInput(raw=b'{"prompt_tokens": %s}' % wrong.encode())
    with pytest.raises(FieldInvalid) as refused:
        story.append(c.MessageInput(chat.reply("fine").body, usage=usage))
    assert refused.value.field.endswith("usage.prompt_tokens")
    assert story.append(ON).versions == (3,)


def test_6_4_more_than_the_models_window_is_kept_flagged_and_not_used() -> None:
    """The model's window is still not a report: equal to it is plausible."""
    story = Story(budget(100, keep_recent_turns=1), chat.user("the task"), context_limit_tokens=1000)
    story.step()
    assert story.report(1001) is True
    assert _measured(story.step(chat.reply("fine"), ON)) == ("not-measured", None, 2, False)
    assert story.report(1000) is False
    assert _measured(story.step(chat.reply("fine"), ON)) == ("", 1000, 0, True)
    story.append(chat.reply("fine", usage=(1001, 1)), ON)
    (_, fact), *_ = story.ledger.loader.facts(story.ledger.key(RUN), 9, 9, bodies=False)
    assert isinstance(fact, e.MessageAppended)
    assert (fact.usage and fact.usage.input_tokens, fact.usage_implausible) == (1001, True)
    assert _measured(story.step()) == ("not-measured", None, 1, False)


# 6.5


@pytest.mark.parametrize("output", [0, None])
def test_6_5_a_report_of_zeros_makes_a_reported_strategy_unmeasurable(output: int | None) -> None:
    """A typed, terminal error that names the provider: it is given again until something real is reported."""
    story = Story(budget(100, keep_recent_turns=1), blocks.user(LONG), form=blocks)
    story.step()
    story.append(blocks.reply("fine", usage=(0, output)), blocks.user("on"))
    for _ in range(2):
        with pytest.raises(CompactionUnmeasurable) as refused:
            story.step()
        assert (refused.value.format, refused.value.iteration) == ("anthropic.messages", 1)
    story.report(50)
    assert _measured(story.step()) == ("under-threshold", 50, 0, False)


def test_6_5_zeros_matter_only_where_reports_are_measured() -> None:
    """A tokenizer's budget and a sliding window go on."""
    for policy, tokenizer in [(COUNTED, "o200k_base"), (sliding(1), "")]:
        story = Story(policy, chat.user("the task"), tokenizer=tokenizer)
        story.step()
        assert story.step(chat.reply("fine", usage=(0, 0)), ON).iteration == 2


def test_6_5_no_input_but_output_is_a_report() -> None:
    """Of 0 tokens in, which is under every threshold."""
    assert _measured(_reporting((0, 5))) == ("under-threshold", 0, 0, False)


def test_6_5_without_a_report_nothing_is_measured() -> None:
    """Not engaged, and the record counts how many times in a row: from three on it warns."""
    story = Story(budget(100, keep_recent_turns=1), chat.user("the task"), chat.reply(LONG))
    streaks = [_measured(story.step(chat.reply("fine"), ON)) for _ in range(4)]
    assert streaks == [("not-measured", None, streak, False) for streak in (1, 2, 3, 4)]
    assert _measured(story.step(chat.reply("fine", usage=(50, 1)), ON)) == ("under-threshold", 50, 0, False)
    assert _measured(story.step(chat.reply("fine"), ON)) == ("not-measured", None, 1, False)


def test_6_5_a_report_without_the_input_is_none() -> None:
    """What it does not say can't be measured."""
    assert _measured(_reporting((None, 5))) == ("not-measured", None, 2, False)


# 6.6


def test_6_6_equal_to_the_threshold_is_under_it() -> None:
    """One more is over it."""
    assert _measured(_reporting((100, 1))) == ("under-threshold", 100, 0, False)
    assert _measured(_reporting((101, 1))) == ("", 101, 0, True)


@pytest.mark.parametrize(("threshold", "reason"), [(4, "under-threshold"), (3, None)])
def test_6_6_equal_to_the_threshold_is_under_it_for_a_tokenizer_too(threshold: int, reason: str | None) -> None:
    """The task is two tokens, and so is what goes on."""
    policy = budget(threshold, measure="tokenizer", keep_recent_turns=1)
    story = Story(policy, chat.user("the task"), tokenizer="o200k_base")
    record = story.step(chat.user("go on")).record
    assert (record.outcome_reason and record.outcome_reason.value) == reason


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_6_6_what_looks_like_a_special_token_is_text(name: str) -> None:
    """It is counted as the letters it is made of, and breaks nothing."""
    tokenizer = tokenizer_named(name)
    assert tokenizer is not None
    text = "<|endoftext|><|endofprompt|><|fim_prefix|>"
    story = Story(COUNTED, chat.user(text), tokenizer=name)
    tokens = story.step().record.after.tokens
    assert tokens == tokenizer.count([text])
    assert tokens is not None
    assert tokens > 10
