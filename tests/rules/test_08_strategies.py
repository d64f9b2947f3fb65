"""WINDOW-RULES 8: strategies."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.messages import LONG, Blocks, Body, Chat, blocks, call, chat, said
from support.runs import MENDED, NONE, RUN, Sent, Story, budget, compact, mends, sliding, stays
from turnledger.domain.errors import NothingToAnswer, PolicyInvalid, RunExists
from turnledger.domain.policies import POLICY_CLASSES, parse_policy
from turnledger.domain.words import Source
from turnledger.ledger import commands as c
from turnledger.projections import strategies
from turnledger.projections.arrange import OPEN_TEXT

ON = chat.user("on", source=Source.INJECTED)


# none


def test_8_none_sends_every_body_in_order() -> None:
    """Nothing added, nothing mended, whatever its provider would say; that is reported. No record."""
    odd = said(b'{ "role":"assistant" , "content":null}')
    story = Story(NONE, chat.user("the task"), chat.reply(None, call("a")), chat.user(None), odd)
    story.append(chat.result("a"), chat.result("nobody"), imported=True)
    sent = story.step()
    assert sent.ids == ["2", "3", "4", "5", "6", "7"]
    assert set(sent.kinds) == {"message"}
    assert sent.raw[3] == odd.body
    assert sent.records == ()
    assert [(fault.rule, fault.version) for fault in sent.faults] == [
        ("call-unanswered", 3),
        ("empty-content", 4),
        ("empty-content", 5),
        ("result-without-call", 6),
        ("result-without-call", 7),
    ]


def test_8_none_drops_nothing_however_long_the_run_is() -> None:
    """Its window is the run; only its digest and its version tell it from the ledger."""
    story = Story(NONE, chat.user("the task"))
    for number in range(30):
        sent = story.step(*chat.exchange(f"c{number}", text=LONG))
    assert len(sent.ids) == 61
    assert len(sent.digest) == 32
    policy = story.ledger.loader.session(story.ledger.key(RUN)).run.policy
    assert (policy.strategy, policy.version) == ("none", 1)


def test_8_none_ends_with_something_to_answer() -> None:
    """That is no fault that could be reported: there would be no call to send it with."""
    with pytest.raises(NothingToAnswer):
        Story(NONE, chat.user("the task")).step(chat.reply("done"))


def test_8_none_mends_where_it_is_told_to() -> None:
    """Order, open calls and empty messages; still nothing is dropped, and there is no record."""
    story = Story(MENDED, chat.user(None), chat.reply(None, call("a"), call("b")), ON, chat.reply(None))
    sent = story.step(chat.result("a"))
    assert sent.ids == ["w1/0", "3", "6", "w1/3", "4"]
    assert sent.text("w1/3") == OPEN_TEXT
    assert (sent.records, sent.faults) == ((), ())


def test_8_none_is_what_a_run_without_a_policy_has() -> None:
    """Mending is off unless asked for."""
    assert parse_policy("") == parse_policy(NONE)
    assert parse_policy("").options == {"mend": False}
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy({"strategy": "none", "mend": 1})
    assert refused.value.field == "policy.mend"


# sliding-window


def test_8_sliding_window_acts_on_more_turns_than_the_keep_depth() -> None:
    """As many as are kept is not more."""
    story = Story(sliding(3), chat.user("the task"), chat.reply("one"))
    record = story.step(ON).record
    assert (record.outcome.value, record.outcome_reason and record.outcome_reason.value) == (
        "not-engaged",
        "few-turns",
    )
    assert stays(record) == [("inside-keep-window", 2, 4, 3)]
    record = story.step(chat.user("more", source=Source.INJECTED)).record
    assert (record.outcome.value, record.outcome_reason) == ("engaged", None)
    assert stays(record) == [("current-request", 2, 2, 1), ("inside-keep-window", 3, 5, 3)]


def test_8_sliding_window_drops_what_is_older() -> None:
    """Of the newest turns none leaves."""
    story = Story(sliding(2), chat.user("the task"), chat.reply("one"), chat.reply("two"), chat.reply("three"))
    sent = story.step(ON)
    assert sent.record.removed == ((3, 4),)
    assert sent.ids == ["2", "5", "6"]


# token-budget


def test_8_token_budget_acts_above_its_threshold() -> None:
    """And drops what is older than the keep depth, not only what brings it under."""
    story = Story(budget(100, keep_recent_turns=2), chat.user("the task"), chat.reply("one"), chat.reply("two"), ON)
    story.step()
    under = story.step(chat.reply("three", usage=(100, 1)), ON).record
    assert (under.outcome.value, under.removed, under.refusals) == ("not-engaged", (), ())
    over = story.step(chat.reply("four", usage=(101, 1)), ON).record
    assert (over.outcome.value, over.removed) == ("engaged", ((3, 7),))


def test_8_token_budget_keeps_six_turns_and_measures_reports_by_default() -> None:
    """Its threshold has no default."""
    assert parse_policy(budget(100)).options == {
        "threshold_tokens": 100,
        "keep_recent_turns": 6,
        "measure": "reported",
    }


def test_8_token_budget_measures_the_window_that_it_would_send() -> None:
    """By a tokenizer: a drop brings the next measure down."""
    story = Story(budget(50, measure="tokenizer", keep_recent_turns=1), chat.user("go"), tokenizer="o200k_base")
    first = story.step(chat.reply("word " * 60), ON).record
    second = story.step(chat.reply("ok"), ON).record
    assert second.measurement is not None
    assert (first.removed, second.measurement.tokens) == (((3, 3),), second.before.tokens)
    assert second.before.tokens is not None
    assert first.before.tokens is not None
    assert second.before.tokens < first.before.tokens


# compact-results


def _compacted(text: str, **options: Any) -> Sent:
    """The window in which a result of this text was rewritten, if it was."""
    story = Story(compact(keep_raw=0, **options), chat.user("the task"), *chat.exchange("a", text=text))
    return story.step(chat.reply("seen"), ON)


def _line(text: str, **options: Any) -> Any:
    sent = _compacted(text, **options)
    assert sent.kinds[2] == "treated"
    return sent.text("4")


def test_8_compact_results_acts_in_every_pass() -> None:
    """On whatever is old enough by then; no message leaves."""
    story = Story(compact(), chat.user("the task"))
    rewritten = [story.step(*chat.exchange(f"c{i}", text=LONG)).record.rewritten for i in range(4)]
    assert rewritten == [(), ((4, 4),), ((6, 6),), ((8, 8),)]


def test_8_compact_results_is_not_engaged_where_there_is_nothing_to_rewrite() -> None:
    """And says so."""
    record = Story(compact(), chat.user("the task")).step().record
    assert record.outcome_reason is not None
    assert (record.outcome.value, record.outcome_reason.value) == ("not-engaged", "nothing-to-rewrite")


def test_8_compact_results_keeps_one_raw_by_default() -> None:
    """And has a pattern of its own."""
    assert parse_policy(compact()).options == {"keep_raw": 1, "signal": None}


# 8.1


def test_8_1_a_run_has_exactly_one_strategy() -> None:
    """Two at the opening, or none that is known, are an error that names the field."""
    for wrong, field in [
        ([sliding(1), compact()], "policy"),
        ({"strategy": ["sliding-window", "none"]}, "policy.strategy"),
        ({"strategy": "sliding"}, "policy.strategy"),
        ({"keep_recent_turns": 1}, "policy.strategy"),
        ("sliding-window", "policy"),
        ('{"strategy":"none"}{"strategy":"none"}', "policy"),
        (sliding(1, threshold_tokens=5), "policy.threshold_tokens"),
    ]:
        with pytest.raises(PolicyInvalid) as refused:
            Story(wrong, chat.user())  # type: ignore[arg-type]
        assert refused.value.field == field


def test_8_1_it_is_fixed_when_the_run_is_opened() -> None:
    """Opening it again with another one changes nothing, and is an error."""
    story = Story(sliding(1), chat.user("the task"))
    again = c.OpenRun(run_id=RUN, format="openai.chat", policy=sliding(2), messages=(chat.user("the task"),))
    with pytest.raises(RunExists) as refused:
        story.ledger.open_run(again)
    assert refused.value.field == "policy"
    assert story.step().record.keep_recent_turns == 1


# 8.2

_WHOLE_FROM_1 = [0, -1, 1.5, 1.0, "3", True, None]


@pytest.mark.parametrize(
    ("policy", "option", "wrong"),
    [
        *((sliding(1), "keep_recent_turns", wrong) for wrong in _WHOLE_FROM_1),
        *((budget(1), "keep_recent_turns", wrong) for wrong in _WHOLE_FROM_1),
        *((budget(1), "threshold_tokens", wrong) for wrong in _WHOLE_FROM_1),
        *((budget(1), "measure", wrong) for wrong in ["guessed", "", None, True]),
        *((compact(), "keep_raw", wrong) for wrong in [-1, 1.5, "1", False, None]),
        *((compact(), "signal", wrong) for wrong in ["", "(", "(?=x)", r"(x)\1", "x" * 1001, 5, ["x"]]),
        *((compact(), "keep_last_tool_results", wrong) for wrong in [-1, True, "2"]),
        *((MENDED, "mend", wrong) for wrong in [1, "yes", None]),
        *((policy, "unknown", 1) for policy in (NONE, sliding(1), budget(1), compact())),
        *((policy, "version", wrong) for policy in (NONE, compact()) for wrong in [0, 2, "1", None]),
    ],
)
def test_8_2_every_option_is_validated_when_the_run_is_opened(policy: Body, option: str, wrong: object) -> None:
    """The error names it."""
    with pytest.raises(PolicyInvalid) as refused:
        Story({**policy, option: wrong}, chat.user())
    assert refused.value.field == f"policy.{option}"


@pytest.mark.parametrize(
    ("strategy", "option"), [("sliding-window", "keep_recent_turns"), ("token-budget", "threshold_tokens")]
)
def test_8_2_what_is_required_has_no_default(strategy: str, option: str) -> None:
    """How much past an agent needs is a fact about the agent."""
    with pytest.raises(PolicyInvalid) as refused:
        Story({"strategy": strategy}, chat.user())
    assert (refused.value.field, refused.value.rule) == (f"policy.{option}", "is required")


@pytest.mark.parametrize("policy", [sliding(1), sliding(10**6), budget(1), budget(10**12), compact(keep_raw=0)])
def test_8_2_a_limit_itself_is_accepted(policy: Body) -> None:
    """Thresholds are whole numbers from 1 on."""
    assert Story(policy, chat.user()).step().iteration == 1


# 8.3


def test_8_3_a_run_keeps_the_version_it_was_opened_with() -> None:
    """It is part of the opening and of every record."""
    story = Story(sliding(1), chat.user("the task"))
    run = story.ledger.loader.session(story.ledger.key(RUN)).run
    assert run.opening.policy["version"] == 1
    assert story.step().record.strategy_version == 1


def test_8_3_a_replay_needs_no_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent is on record: no strategy runs, however old its version."""
    story = Story(compact(keep_raw=0), chat.user("the task"), *chat.exchange("a", text=LONG))
    sent = story.step(chat.reply("seen"), ON)

    def fail(policy: object) -> None:
        raise AssertionError("a strategy ran")

    monkeypatch.setattr("turnledger.projections.visit.strategy_of", fail)
    again = story.build(1)
    assert again.replayed
    assert again.raw == sent.raw


# 8.4


def _scenario(story: Story) -> list[Sent]:
    """Everything that can happen to a run, over some thirty windows."""
    windows = [story.step()]
    for number in range(24):
        tool = f"tool{number % 3}"
        text = f"line\nERROR {number}\n" + LONG if number % 4 else "short"
        windows.append(story.step(*chat.exchange(f"c{number}", tool, text, usage=number)))
        if number % 6 == 2:
            windows.append(story.step(chat.reply(None, call(f"o{number}", tool)), ON))
        if number % 6 == 4:
            windows.append(story.step(chat.result(f"o{number - 2}", LONG)))
        if number % 8 == 5:
            story.append(chat.reply(None, call(f"g{number}", tool)))
            story.abandon(f"g{number}")
            windows.append(story.step(chat.user("a new task")))
    return windows


@pytest.mark.parametrize(
    "policy", [sliding(4, pins=2), compact(), budget(60, measure="tokenizer", pins=1, keep_recent_turns=3), MENDED]
)
def test_8_4_what_was_sent_keeps_its_bytes_and_its_place(policy: Body) -> None:
    """Until a recorded change: a message is sent as it was, unless this record rewrote it; no two messages
    change places, unless this record moved one."""
    windows = _scenario(Story(policy, chat.user("the task"), tokenizer="o200k_base"))
    for before, after in pairwise(windows):
        was, now = dict(zip(before.ids, before.raw, strict=True)), dict(zip(after.ids, after.raw, strict=True))
        kept = [identifier for identifier in before.ids if identifier in now]
        changed = {identifier for identifier in kept if was[identifier] != now[identifier]}
        rewritten = {str(first) for first, _ in after.record.rewritten} if after.records else set()
        assert changed == rewritten & set(kept)
        moved = {str(version) for kind, version in mends(after.record) if kind == "reordered"} if after.records else ()
        assert [i for i in after.ids if i in was and i not in moved] == [i for i in kept if i not in moved]


@pytest.mark.parametrize("policy", [sliding(4, pins=2), compact()])
def test_8_4_a_window_that_nothing_changed_is_the_same(policy: Body) -> None:
    """An empty reply changes no message: the bytes are equal, ours included, and so is the digest."""
    story = Story(policy, chat.user("the task"))
    *_, last = _scenario(story)
    story.append(chat.reply(None))
    again = story.step()
    assert again.iteration == last.iteration + 1
    assert (again.raw, again.digest) == (last.raw, last.digest)


def test_8_4_what_was_rewritten_stays_as_it_is() -> None:
    """Over later windows, with newer results rewritten beside it."""
    story = Story(compact(), chat.user("the task"), *chat.exchange("a", text="ERROR one\n" + LONG))
    windows = [story.step(*chat.exchange(f"c{number}", text=LONG)) for number in range(5)]
    assert {window.text("4") for window in windows[1:]} == {"[1 line left out, kept as r/4] ERROR one"}


# 8.6


def test_8_6_the_newest_results_stay_raw() -> None:
    """``keep_raw`` of them; the one before them is rewritten."""
    story = Story(compact(keep_raw=2), chat.user("the task"))
    story.append(*(message for i in range(4) for message in chat.exchange(f"c{i}", text=LONG)))
    record = story.step(chat.reply("seen"), ON).record
    assert record.rewritten == ((6, 6), (4, 4))
    assert stays(record) == [("inside-keep-raw", 7, 10, 2)]


def test_8_6_unread_results_are_counted_among_the_newest() -> None:
    """The newest is unread, so the one before it, which was read, is not kept raw for being newest."""
    story = Story(compact(keep_raw=1), chat.user("the task"), *chat.exchange("a", text=LONG))
    sent = story.step(*chat.exchange("b", text=LONG))
    assert sent.record.rewritten == ((4, 4),)
    assert stays(sent.record) == [("inside-keep-raw", 5, 6, 1)]


def test_8_6_unread_results_always_stay_raw() -> None:
    """However many there are, and though none is kept for being new."""
    story = Story(compact(keep_raw=0), chat.user("the task"))
    calls = [chat.reply(None, call("a"), call("b"), call("c"))]
    sent = story.step(*calls, *(chat.result(i, LONG) for i in "abc"))
    assert stays(sent.record) == [("unread-result", 3, 6, 1)]
    assert story.step(chat.reply("seen"), ON).record.rewritten == ((6, 6), (5, 5), (4, 4))


def test_8_6_newest_is_by_ledger_version() -> None:
    """A delayed result of an early call is newer than one of a later call."""
    story = Story(compact(keep_raw=1), chat.user("the task"))
    story.append(chat.reply(None, call("a")), chat.reply(None, call("b")), chat.result("b", LONG))
    sent = story.step(chat.result("a", LONG), chat.reply("seen"), ON)
    assert sent.record.rewritten == ((5, 5),)
    assert stays(sent.record) == [("inside-keep-raw", 3, 6, 1)]


def test_8_6_a_message_is_rewritten_as_a_whole() -> None:
    """Where one of its results is among the newest, all stay raw; later all are rewritten at once."""
    story = Story(compact(keep_raw=2), blocks.user("the task"), form=blocks)
    story.append(blocks.reply(None, call("a"), call("b"), call("c")))
    story.append(blocks.results(("a", LONG), ("b", LONG), ("c", LONG)))
    on = blocks.user("on", source=Source.INJECTED)
    first = story.step(*blocks.exchange("d", text=LONG), blocks.reply("seen"), on)
    assert first.record.rewritten == ()
    assert stays(first.record) == [("inside-keep-raw", 3, 6, 2)]
    second = story.step(*blocks.exchange("e", text=LONG), blocks.reply("seen"), on)
    assert second.record.rewritten == ((4, 4),)
    texts = [block["content"] for block in second.text("4")]
    assert texts == ["[part of this line left out, kept as r/4] " + LONG[:80]] * 3


def test_8_6_a_rewrite_keeps_everything_but_the_text() -> None:
    """Id, name, pairing, the error flag, fields that nobody knows, and what stands beside the results."""
    result = {"type": "tool_result", "tool_use_id": "a", "content": LONG, "is_error": True, "cache_control": {"x": 1}}
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}
    beside = {"type": "text", "text": "and this"}
    body = {"role": "user", "content": [result, picture, beside], "extra": [1.5, None]}
    story = Story(compact(keep_raw=0), blocks.user("the task"), blocks.reply(None, call("a")), said(body), form=blocks)
    sent = story.step(blocks.reply("seen"), blocks.user("on", source=Source.INJECTED))
    short = {**result, "content": "[part of this line left out, kept as r/4] " + LONG[:80]}
    assert sent.bodies[2] == {**body, "content": [short, picture, beside]}

    tool = {"role": "tool", "tool_call_id": "a", "name": "look", "content": [{"type": "text", "text": LONG}]}
    story = Story(compact(keep_raw=0), chat.user("the task"), chat.reply(None, call("a")), said(tool))
    sent = story.step(chat.reply("seen"), ON)
    assert sent.bodies[2] == {**tool, "content": "[part of this line left out, kept as r/4] " + LONG[:80]}


def test_8_6_a_rewrite_keeps_numbers_digit_for_digit() -> None:
    """Of fields that nobody knows, also those that Python can't hold or would write otherwise."""
    odd = b'"seed":0.30000000000000004441,"t":1.50,"score":1e999'
    result = b'{"role":"tool","tool_call_id":"a",' + odd + b',"content":"' + LONG.encode() + b'"}'
    story = Story(compact(keep_raw=0), chat.user("the task"), chat.reply(None, call("a")), said(result))
    sent = story.step(chat.reply("seen"), ON)
    assert sent.kinds[2] == "treated"
    assert sent.raw[2].startswith(b'{"role":"tool","tool_call_id":"a",' + odd + b',"content":"[part of this line')


@pytest.mark.parametrize("form", [chat, blocks], ids=lambda form: form.format)
def test_8_6_arguments_of_any_number_are_told_apart(form: Chat | Blocks) -> None:
    """A number beyond what Python holds is no reason to refuse a call."""
    if isinstance(form, Chat):
        made = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"x":1e999}'}}
        body = said({"role": "assistant", "content": None, "tool_calls": [made]})
    else:
        use = b'{"type":"tool_use","id":"a","name":"look","input":{"x":1e999}}'
        body = said(b'{"role":"assistant","content":[' + use + b"]}")
    story = Story(compact(keep_raw=0), form.user("the task"), form=form)
    assert story.step(body, form.result("a", "done")).kinds == ["message"] * 3


def test_8_6_pinned_and_paused_results_refuse_by_their_reasons() -> None:
    """A pinned one as the latest of its tool; a paused turn as what it waits for."""
    story = Story(compact(keep_raw=0, keep_last_tool_results=1), chat.user("the task"))
    story.append(*chat.exchange("a", text=LONG), *chat.exchange("b", text=LONG), chat.reply("seen"))
    record = story.step(ON).record
    assert record.rewritten == ((4, 4),)
    assert stays(record) == [("last-tool-result", 5, 6, 1)]
    assert (record.pins.pinned, record.pins.limit) == (((5, 6),), 1)

    for awaits_person, reason in [(True, "pending-check-in"), (False, "paused-tool")]:
        story = Story(compact(keep_raw=0), chat.user("the task"), chat.reply(None, call("a"), call("b")))
        story.append(chat.result("a", LONG), chat.reply("seen"))
        story.pause("b", awaits_person=awaits_person)
        assert stays(story.step(ON, while_paused=True).record) == [(reason, 3, 4, 1)]
        story.resume()
        assert story.step().record.rewritten == ((4, 4),)


def test_8_6_the_first_line_that_speaks_of_an_error_is_the_signal() -> None:
    """Trimmed, with the number of lines left out and the message's id in front of it."""
    text = f"{LONG}\n   all fine\n\t  Test FAILED: x != y  \nERROR: second\n"
    assert _line(text) == "[3 lines left out, kept as r/4] Test FAILED: x != y"


@pytest.mark.parametrize(
    "signal",
    ["an Error", "it FAILED", "failure", "Exception in thread", "TRACEBACK", "fatal: no", "panic!", "Access denied"],
)
def test_8_6_the_default_signal_ignores_case(signal: str) -> None:
    """It knows the usual words."""
    assert _line(f"{LONG}\n{signal}\n{LONG}") == f"[2 lines left out, kept as r/4] {signal}"


def test_8_6_a_signal_is_at_most_200_code_points() -> None:
    """Code points, not bytes; cut behind the trimming."""
    line = "error " + "é🙂" * 97
    assert len(line) == 200
    assert _line(f"  {line}\n{LONG}") == f"[1 line left out, kept as r/4] {line}"
    assert _line(f"  {line}x\n{LONG}") == f"[1 line and part of this one left out, kept as r/4] {line}"


def test_8_6_a_signal_far_into_its_line_is_kept() -> None:
    """Of a long line what is kept holds the match, though not the beginning of the line."""
    line = "  " + "é" * 300 + "an error: 17" + "y" * 50
    (kept,) = [_line(line).removeprefix("[part of this line left out, kept as r/4] ")]
    assert len(kept) == 200
    assert kept == "é" * 192 + "an error"
    wide = "x" * 10 + "error" + "z" * 300
    assert (
        _line(wide, signal="error.*").removeprefix("[part of this line left out, kept as r/4] ") == "error" + "z" * 195
    )


def test_8_6_else_the_first_80_code_points_are_kept() -> None:
    """Of the text without the blanks around it; a line of which a part is kept is not left out, and that is said."""
    assert _line("\n\n   \nabc\n" + LONG) == "[3 lines and part of this one left out, kept as r/4] abc\n" + LONG[:76]
    head = "é🙂" * 40
    assert _line(f"{head}x" + LONG) == f"[part of this line left out, kept as r/4] {head}"
    text = "one\n" + "two " * 19 + "\nthree\n" + LONG
    assert _line(text) == "[2 lines left out, kept as r/4] one\n" + "two " * 19


def test_8_6_lines_are_counted_as_people_do() -> None:
    """What ends the last line begins no other; either line ending ends one."""
    assert _line(LONG + "\nan error\n") == "[1 line left out, kept as r/4] an error"
    assert _line(LONG + "\r\nan error\r\nmore\r\n") == "[2 lines left out, kept as r/4] an error"


def test_8_6_a_users_pattern_finds_the_signal() -> None:
    """In RE2's syntax, as it stands: case matters, and it sees lines without what ends them."""
    text = f"{LONG}\nresult: 1\nResult: 2\r\nResult: 3"
    assert _line(text, signal=r"^Result: \d$") == "[3 lines left out, kept as r/4] Result: 2"
    assert _line(text, signal=r"(?i)^result") == "[3 lines left out, kept as r/4] result: 1"
    assert (
        _line("an error\n" + LONG, signal="never") == "[part of this line left out, kept as r/4] an error\n" + LONG[:71]
    )


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(.*)*,(.*)*,x"])
def test_8_6_a_users_pattern_runs_in_linear_time(pattern: str) -> None:
    """Patterns that take other engines for ever on a text that almost matches."""
    text = "a" * 50_000 + "!"
    assert _line(text, signal=pattern) == "[part of this line left out, kept as r/4] " + "a" * 80


def test_8_6_text_that_is_no_utf_8_is_searched_as_well() -> None:
    """Lone surrogates, NUL and other odd content survive."""
    body = said(b'{"role":"tool","tool_call_id":"a","content":"\\ud800\\u0000 error\\n' + b"x" * 300 + b'"}')
    story = Story(compact(keep_raw=0), chat.user("the task"), chat.reply(None, call("a")), body)
    sent = story.step(chat.reply("seen"), ON)
    assert sent.text("4") == "[1 line left out, kept as r/4] \ud800\0 error"


@pytest.mark.parametrize("longer", [0, 1])
def test_8_6_what_would_not_be_smaller_is_left_raw(longer: int) -> None:
    """Fewer code points, or nothing; equal is not fewer."""
    rewritten = "[part of this line left out, kept as r/4] " + "x" * 80
    sent = _compacted("x" * (len(rewritten) + longer))
    assert sent.kinds[2] == ("treated" if longer else "message")
    assert sent.record.rewritten == (((4, 4),) if longer else ())
    assert stays(sent.record) == ([] if longer else [("replacement-not-smaller", 3, 4, 1)])


def test_8_6_it_is_left_raw_for_good() -> None:
    """It is not tried again: later records don't speak of it."""
    story = Story(compact(keep_raw=0), chat.user("the task"), *chat.exchange("a", text="short"))
    first = story.step(chat.reply("seen"), ON)
    assert first.record.outcome.value == "engaged"
    for _ in range(2):
        later = story.step(chat.reply("on"), ON)
        assert stays(later.record) == []
        assert later.record.outcome.value == "not-engaged"
        assert later.text("4") == "short"


def test_8_6_smaller_is_decided_for_the_message_as_a_whole() -> None:
    """A short result beside a long one is rewritten too."""
    story = Story(compact(keep_raw=0), blocks.user("the task"), blocks.reply(None, call("a"), call("b")), form=blocks)
    story.append(blocks.results(("a", LONG), ("b", "ok")))
    sent = story.step(blocks.reply("seen"), blocks.user("on", source=Source.INJECTED))
    assert [block["content"] for block in sent.text("4")] == [
        "[part of this line left out, kept as r/4] " + LONG[:80],
        "[0 lines left out, kept as r/4] ok",
    ]


def test_8_6_a_delayed_result_is_rewritten_at_its_place() -> None:
    """It is moved and treated."""
    story = Story(compact(keep_raw=0), chat.user("the task"), chat.reply(None, call("a")), ON, chat.result("a", LONG))
    sent = story.step(chat.reply("seen"), ON)
    assert sent.ids == ["2", "3", "5", "4", "6", "7"]
    assert sent.kinds[2] == "treated"
    assert sent.composition[1][:2] == ["moved", 5]


def test_8_6_a_result_that_is_not_sent_is_not_counted() -> None:
    """A late one is none of the newest."""
    story = Story(compact(keep_raw=1), chat.user("the task"), *chat.exchange("a", text=LONG))
    story.append(chat.result("nobody", LONG), imported=True)
    record = story.step(chat.reply("seen"), ON).record
    assert stays(record) == [("inside-keep-raw", 3, 4, 1)]


# 8.7


def test_8_7_a_strategy_is_one_module_and_knows_no_other() -> None:
    """It imports what strategies are given, and no other strategy's machinery."""
    folder = Path(strategies.__file__).parent
    modules = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "base"))
    assert modules == sorted(name.replace("-", "_") for name in POLICY_CLASSES if name != "none")
    for module in modules:
        imported = re.findall(
            r"^from turnledger\.projections\.(\S+)", (folder / f"{module}.py").read_text(), re.MULTILINE
        )
        assert set(imported) == {"strategies.base"}
