"""WINDOW-RULES 10: validity."""

from __future__ import annotations

import pytest

from support.messages import LONG, Blocks, Body, Chat, blocks, call, chat, said
from support.runs import MENDED, NONE, Sent, Story, budget, compact, mends, omissions, sliding
from turnledger.domain.errors import NothingToAnswer, ResultsMixed, WindowInvalid
from turnledger.domain.formats import FORMATS
from turnledger.domain.words import Source
from turnledger.ledger.commands import MessageInput
from turnledger.projections.arrange import EMPTY_TEXT, OPEN_TEXT

ON = chat.user("on", source=Source.INJECTED)
STRATEGIES = [sliding(9), budget(100), compact(), MENDED]


def _rules(sent: Sent) -> list[tuple[str, int]]:
    return [(fault.rule, fault.version) for fault in sent.faults]


def test_10_what_the_providers_want() -> None:
    """Of the formats that there are; no model takes a message of its own as the last one."""
    wanted = {name: form.profile for name, form in FORMATS.items()}
    assert wanted["openai.chat"].opens_with_user is False
    assert wanted["openai.chat"].joins_neighbors is False
    assert wanted["openai.chat"].wants_tools_declared is False
    assert wanted["anthropic.messages"].opens_with_user is True
    assert wanted["anthropic.messages"].joins_neighbors is True
    assert wanted["anthropic.messages"].wants_tools_declared is True
    assert not any(profile.allows_prefill for profile in wanted.values())


def test_10_it_opens_with_a_user_where_the_provider_wants_it() -> None:
    """What can't be mended is an error that names rule and message; under ``none`` it is reported."""
    messages = [blocks.reply("hello"), blocks.user("hi")]
    with pytest.raises(WindowInvalid) as refused:
        Story(sliding(9), *messages, form=blocks).step()
    assert (refused.value.rule, refused.value.message_id) == ("opens-with-user", "r/2")
    assert _rules(Story(NONE, *messages, form=blocks).step()) == [("opens-with-user", 2)]
    assert Story(sliding(9), chat.reply("hello"), chat.user("hi")).step().ids == ["2", "3"]


@pytest.mark.parametrize("policy", STRATEGIES)
def test_10_every_result_stands_directly_behind_its_call(policy: Body) -> None:
    """A delayed one is put there, on record."""
    story = Story(policy, chat.user("the task"), chat.reply(None, call("a")), chat.user("well?"))
    sent = story.step(chat.result("a"))
    assert sent.ids == ["2", "3", "5", "4"]
    assert [mends(record) for record in sent.records] == [[("reordered", 5)]] * len(sent.records)
    assert sent.faults == ()


@pytest.mark.parametrize("policy", STRATEGIES)
def test_10_every_call_is_answered(policy: Body) -> None:
    """An open one by a closing result, on record."""
    sent = Story(policy, chat.user("the task"), chat.reply(None, call("a"))).step(chat.user("well?"))
    assert sent.texts[2] == OPEN_TEXT
    assert [mends(record) for record in sent.records] == [[("closing-result", 3)]] * len(sent.records)


def test_10_none_reports_what_it_does_not_mend() -> None:
    """Each rule that is broken, and at which message, in the order of the window."""
    story = Story(NONE, chat.user("the task"), chat.reply(None, call("a")), chat.user(None))
    assert _rules(story.step(chat.result("a"))) == [
        ("call-unanswered", 3),
        ("empty-content", 4),
        ("result-without-call", 5),
    ]
    assert [fault.detail != "" for fault in story.build(1).faults] == [True] * 3


def test_10_results_come_first_where_the_provider_wants_it() -> None:
    """Text of another message between a call and its result is moved behind it; verbatim it is a fault."""
    messages = [
        blocks.user("the task"),
        blocks.reply(None, call("a"), call("b")),
        blocks.results(("a", "done"), beside="and this"),
        blocks.result("b"),
    ]
    assert Story(sliding(9), *messages, form=blocks).step().ids == ["2", "3", "5", "4"]
    assert _rules(Story(NONE, *messages, form=blocks).step()) == [("results-first", 5)]


@pytest.mark.parametrize("policy", STRATEGIES)
@pytest.mark.parametrize(("form", "empty"), [(chat, chat.user(None)), (blocks, blocks.user(""))])
def test_10_an_empty_message_of_a_person_is_a_placeholder(
    policy: Body, form: Chat | Blocks, empty: MessageInput
) -> None:
    """It was sent, so the model is told; on record. It keeps its place among the ids of the window."""
    story = Story(policy, form.user("the task"), form.reply("yes?"), form=form)
    sent = story.step(empty)
    assert sent.kinds == ["message", "message", "placeholder"]
    assert sent.ids[2] == "w1/2"
    assert sent.bodies[2] == {"role": "user", "content": EMPTY_TEXT}
    assert [mends(record) for record in sent.records] == [[("placeholder", 4)]] * len(sent.records)


@pytest.mark.parametrize(
    ("form", "empty"),
    [
        (chat, chat.reply(None)),
        (chat, chat.user(None, source=Source.INJECTED)),
        (blocks, blocks.reply(None)),
        (blocks, blocks.reply("")),
        (blocks, blocks.user("", source=Source.INJECTED)),
    ],
)
def test_10_a_wholly_empty_message_of_anyone_else_is_left_out(form: Chat | Blocks, empty: MessageInput) -> None:
    """Marked when it is appended, listed in the record, never sent but under ``none``."""
    story = Story(sliding(9), form.user("the task"), form=form)
    answer = story.append(empty)
    assert [(o.reason.value, o.version) for o in answer.omissions] == [("left-out-empty", 3)]
    sent = story.step(form.user("well?"))
    assert sent.ids == ["2", "4"]
    assert [(o.reason.value, o.version) for o in sent.record.omissions] == [("left-out-empty", 3)]
    assert mends(sent.record) == []

    verbatim = Story(NONE, form.user("the task"), empty, form=form)
    sent = verbatim.step(form.user("well?"))
    assert sent.ids == ["2", "3", "4"]
    assert _rules(sent) == [("empty-content", 3)]


def test_10_reasoning_alone_is_not_empty() -> None:
    """A part that carries a signature is never left out, though it has no text."""
    thinking = b'{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2ln"}]}'
    story = Story(sliding(9), blocks.user("the task"), form=blocks)
    assert story.step(said(thinking), blocks.user("well?")).raw[1] == thinking


@pytest.mark.parametrize("policy", [*STRATEGIES, NONE])
def test_10_no_message_of_the_model_is_last(policy: Body) -> None:
    """There is nothing to answer, which is an error that names it; the next message mends that."""
    story = Story(policy, chat.user("the task"))
    with pytest.raises(NothingToAnswer) as refused:
        story.step(chat.reply("done"))
    assert refused.value.message_id == "r/3"
    assert story.step(chat.user("thanks")).ids == ["2", "3", "4"]


@pytest.mark.parametrize("policy", [*STRATEGIES, NONE])
def test_10_a_window_holds_something(policy: Body) -> None:
    """A run without a message has nothing to answer either."""
    with pytest.raises(NothingToAnswer):
        Story(policy).step()


def test_10_tool_parts_only_with_tools_in_the_envelope() -> None:
    """Where the provider wants them declared and an envelope without them is known; then each is named."""
    messages = [blocks.user("the task"), *blocks.exchange("a")]
    assert Story(sliding(9), *messages, form=blocks).step().ids == ["2", "3", "4"]
    assert Story(sliding(9), *messages, form=blocks, tools=True).step().ids == ["3", "4", "5"]

    story = Story(sliding(9), *messages, form=blocks)
    story.envelope(system=b'"careful"')
    with pytest.raises(WindowInvalid) as refused:
        story.step()
    assert (refused.value.rule, refused.value.message_id) == ("tools-declared", "r/3")
    story.envelope(system=b'"careful"', tools=b'[{"name":"look"}]')
    assert story.step().ids == ["2", "3", "4"]

    story = Story(NONE, *messages, form=blocks)
    story.envelope(tools=b"[]")
    assert _rules(story.step()) == [("tools-declared", 3), ("tools-declared", 4)]

    story = Story(sliding(9), chat.user("the task"), *chat.exchange("a"))
    story.envelope(tools=b"[]")
    assert story.step().ids == ["2", "3", "4"]


def test_10_every_mend_is_on_record() -> None:
    """In the order of the window; what replaced a closing result comes last."""
    story = Story(sliding(9), chat.user(None), chat.reply(None, call("a"), call("b"), call("c")), ON)
    story.step()
    sent = story.step(chat.result("b"), chat.reply(None, call("d")), ON)
    assert sent.ids == ["w2/0", "3", "5", "w2/3", "w2/4", "4", "6", "w2/7", "7"]
    assert mends(sent.record) == [
        ("placeholder", 2),
        ("reordered", 5),
        ("closing-result", 3),
        ("closing-result", 3),
        ("closing-result", 6),
        ("closing-result-replaced", 5),
    ]


def test_10_a_window_that_is_mended_has_no_faults() -> None:
    """And one that needed nothing has neither."""
    sent = Story(sliding(9), chat.user("the task"), *chat.exchange("a", text=LONG)).step()
    assert (sent.faults, mends(sent.record)) == ((), [])


def test_10_results_behind_other_content_of_their_message_are_refused() -> None:
    """The provider wants them first. An import keeps the message, does not send it, and closes the call."""
    late = said(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "tool_result", "tool_use_id": "a", "content": "x"},
            ],
        }
    )
    story = Story(sliding(5), blocks.user("the task"), blocks.reply(None, call("a")), form=blocks)
    with pytest.raises(ResultsMixed):
        story.append(late)
    story.append(late, imported=True)
    sent = story.step(blocks.user("on"))
    assert sent.kinds == ["message", "message", "closing-result", "message"]
    assert omissions(sent.record.omissions) == [("orphan-result", 4)]
