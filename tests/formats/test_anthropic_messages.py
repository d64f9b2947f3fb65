"""Format ``anthropic.messages``: what it reads, refuses, normalizes and writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from support.json_values import TEXTS, VALUES, bodies
from support.service import served
from turnledger.client import LedgerClient
from turnledger.domain.errors import BodyNotJson, BodyNotOfFormat, FieldInvalid
from turnledger.domain.formats import NotOfFormat, ReadCall, ReadResult, format_named
from turnledger.domain.usage import Usage
from turnledger.domain.words import Role, Source

FORMAT = format_named("anthropic.messages")
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
THINKING = {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
Body = dict[str, Any]


def _text(text: str) -> Body:
    return {"type": "text", "text": text}


def _use(**fields: Any) -> Body:
    return {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}, **fields}


def _result(content: Any = "ok", **fields: Any) -> Body:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}


def _user(*blocks: Any) -> Body:
    return {"role": "user", "content": list(blocks)}


def _reply(*blocks: Any) -> Body:
    return {"role": "assistant", "content": list(blocks)}


@pytest.fixture(scope="module")
def ledger() -> Iterator[LedgerClient]:
    """A service in memory."""
    with served() as client:
        yield client


# Reading

ROLES = {
    "user": ({"role": "user", "content": "hi"}, Role.USER, Source.PERSON),
    "blocks": (_user(_text("hi"), IMAGE), Role.USER, Source.PERSON),
    "assistant": ({"role": "assistant", "content": "hi"}, Role.MODEL, Source.MODEL),
    "results": (_user(_result()), Role.TOOL, Source.TOOL),
    "results-and-text": (_user(_result(), _text("And now?")), Role.TOOL, Source.TOOL),
}


@pytest.mark.parametrize(("body", "role", "source"), ROLES.values(), ids=ROLES)
def test_who_stands_behind_a_message(body: Body, role: Role, source: Source) -> None:
    """1.5, 1.6: a message with results is its tools', whatever stands beside them, until it is flagged."""
    reading = FORMAT.read(body)
    assert (reading.role, reading.source) == (role, source)


def test_calls_are_read() -> None:
    """1.2, 3.5: id, tool and input of every call, the input as text and as a value."""
    reading = FORMAT.read(_reply(THINKING, _text("Two files."), _use(), _use(id="toolu_2", input={})))
    assert reading.calls == (
        ReadCall("toolu_1", "read", '{"path":"a.py"}', {"path": "a.py"}),
        ReadCall("toolu_2", "read", "{}", {}),
    )
    assert not reading.is_empty


def test_a_tool_of_the_server_makes_no_call() -> None:
    """1.7: what the provider runs itself waits for no result of ours."""
    assert FORMAT.read(_reply(SEARCH)).calls == ()


RESULTS = {
    "text": (_result("ok\n"), ReadResult("toolu_1", "ok\n")),
    "empty": (_result(""), ReadResult("toolu_1", "")),
    "absent": ({"type": "tool_result", "tool_use_id": "toolu_1"}, ReadResult("toolu_1", "")),
    "blocks": (_result([_text("a"), _text("b")]), ReadResult("toolu_1", "a\nb")),
    "image": (_result([_text("a"), IMAGE]), ReadResult("toolu_1", "a")),
    "error": (_result("boom", is_error=True), ReadResult("toolu_1", "boom", is_error=True)),
    "no-error": (_result("ok", is_error=False), ReadResult("toolu_1", "ok")),
}


@pytest.mark.parametrize(("block", "expected"), RESULTS.values(), ids=RESULTS)
def test_a_result_is_read(block: Body, expected: ReadResult) -> None:
    """1.2: the call that a result names, all of its text, and whether it is an error."""
    assert FORMAT.read(_user(block)).results == (expected,)


MIXED = {
    "results-only": (_user(_result(), _result(tool_use_id="toolu_2")), False),
    "text": (_user(_result(), _text("And now?")), True),
    "image": (_user(_result(), IMAGE), True),
    "blank-text": (_user(_result(), _text(" \n")), True),
    "no-results": (_user(_text("hi"), IMAGE), False),
}


@pytest.mark.parametrize(("body", "mixes"), MIXED.values(), ids=MIXED)
def test_what_stands_beside_results(body: Body, mixes: bool) -> None:
    """1.5: a message may carry results and something else."""
    assert FORMAT.read(body).mixes_content is mixes


@pytest.mark.parametrize(
    ("body", "misordered"),
    [
        (_user(_result(), _text("And now?")), False),
        (_user(_text("See."), _result()), True),
        (_user(_result(), IMAGE, _result(tool_use_id="toolu_2")), True),
    ],
)
def test_results_come_first(body: Body, misordered: bool) -> None:
    """10: the provider wants them before anything else of the message."""
    assert FORMAT.read(body).is_misordered is misordered


TEXT_READ = {
    "result-of-parts": (_user(_result([_text("ab"), _text("cd")])), ("ab", "cd")),
    "string": ({"role": "user", "content": "hi"}, ("hi",)),
    "blocks": (_user(_text("a"), _text(""), _text("b")), ("a", "b")),
    "image": (_user(_text("a"), IMAGE), ("a",)),
    "thinking": (_reply(THINKING, REDACTED, _text("4")), ("Look first.", "4")),
    "call": (_reply(_use()), ("read", '{"path":"a.py"}')),
    "results": (_user(_result("ok"), _text("And now?")), ("ok", "And now?")),
    "unknown-block": (_user({"type": "hologram", "hologram": "x"}), ()),
    "astral": ({"role": "user", "content": "\N{CAT FACE}\0\ud800"}, ("\N{CAT FACE}\0\ud800",)),
}


@pytest.mark.parametrize(("body", "texts"), TEXT_READ.values(), ids=TEXT_READ)
def test_what_is_text_to_a_model(body: Body, texts: tuple[str, ...]) -> None:
    """6.1: text, reasoning, tool names, inputs and results count, by code points; images do not."""
    reading = FORMAT.read(body)
    assert reading.texts == texts
    assert reading.characters == sum(len(text) for text in texts)


EMPTY = {
    "empty-text": ({"role": "user", "content": ""}, True),
    "blank-text": ({"role": "user", "content": " \n\t"}, True),
    "no-blocks": (_reply(), True),
    "empty-blocks": (_reply(_text(""), _text("  ")), True),
    "text": (_reply(_text("."), _text("")), False),
    "thinking": (_reply({**THINKING, "thinking": ""}), False),
    "redacted": (_reply(REDACTED), False),
    "image": (_user(IMAGE), False),
    "call": (_reply(_use()), False),
    "empty-result": (_user(_result("")), False),
}


@pytest.mark.parametrize(("body", "is_empty"), EMPTY.values(), ids=EMPTY)
def test_what_holds_nothing(body: Body, is_empty: bool) -> None:
    """10: text that is empty or blank is no content to the provider; an empty result is one."""
    assert FORMAT.read(body).is_empty is is_empty


def test_no_reply_id_is_read() -> None:
    """1.1: messages as they are sent carry none; the worker may give it."""
    assert FORMAT.read({"id": "msg_1", "role": "assistant", "content": "hi"}).reply_id is None


# Refusing

_BLOCKS = "must be a string or a list of blocks"
REFUSED = {
    "whole-response": (
        {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"},
        "type",
        "must be absent: of a response, only role and content are sent back",
    ),
    "calls-of-openai": (
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]},
        "tool_calls",
        "must be absent: calls are blocks of type tool_use",
    ),
    "string": ("hi", "", "must be an object"),
    "no-role": ({"content": "hi"}, "role", "must be user or assistant (a system prompt goes into the envelope)"),
    "system": (
        {"role": "system", "content": "hi"},
        "role",
        "must be user or assistant (a system prompt goes into the envelope)",
    ),
    "role-list": ({"role": ["user"]}, "role", "must be user or assistant (a system prompt goes into the envelope)"),
    "no-content": ({"role": "user"}, "content", _BLOCKS),
    "null": ({"role": "user", "content": None}, "content", _BLOCKS),
    "block-string": (_user("hi"), "content[0]", "must be an object with a type"),
    "block-untyped": (_user(IMAGE, {"text": "hi"}), "content[1]", "must be an object with a type"),
    "text-null": (_user({"type": "text", "text": None}), "content[0].text", "must be a string"),
    "thinking-absent": (_reply({"type": "thinking"}), "content[0].thinking", "must be a string"),
    "use-of-a-user": (_user(_use()), "content[0].type", "must not stand in a message of role user"),
    "result-of-a-model": (_reply(_result()), "content[0].type", "must not stand in a message of role assistant"),
    "use-id": (_reply(_text("a"), _use(id=None)), "content[1].id", "must be a string"),
    "use-name": (_reply(_use(name=7)), "content[0].name", "must be a string"),
    "use-input": (_reply(_use(input='{"path": "a.py"}')), "content[0].input", "must be an object"),
    "result-id": (_user(_result(tool_use_id=None)), "content[0].tool_use_id", "must be a string"),
    "result-content": (_user(_result(7)), "content[0].content", _BLOCKS),
    "result-block": (
        _user(_result(), _result([_text("a"), {"query": "x"}])),
        "content[1].content[1]",
        "must be an object with a type",
    ),
    "result-text": (_user(_result([{"type": "text"}])), "content[0].content[0].text", "must be a string"),
}


@pytest.mark.parametrize(("body", "where", "rule"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_message_of_the_format(body: Any, where: str, rule: str) -> None:
    """A refusal names the place in the body and the rule that it breaks."""
    with pytest.raises(NotOfFormat) as caught:
        FORMAT.read(body)
    assert (caught.value.where, caught.value.rule) == (where, rule)


def test_a_refused_body_is_named_to_the_worker(ledger: LedgerClient) -> None:
    """The worker is told which message, where in it, and which rule; nothing is written."""
    run = ledger.open_run(format="anthropic.messages")
    with pytest.raises(BodyNotOfFormat) as caught:
        run.append([_user(_text("hi")), _reply(_use(input=[]))])
    assert caught.value.field == "messages[1].body.content[0].input"
    assert (caught.value.rule, caught.value.value) == ("must be an object", "[]")
    assert caught.value.format == "anthropic.messages"
    assert run.get().run.message_count == 0


# Usage

USAGE = {
    "plain": ({"input_tokens": 12, "output_tokens": 3}, Usage(12, 3)),
    "read-from-cache": ({"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 3}, Usage(12, 3)),
    "written-to-cache": (
        {"input_tokens": 2, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 6, "output_tokens": 3},
        Usage(12, 3),
    ),
    "null-cache": ({"input_tokens": 12, "cache_read_input_tokens": None, "output_tokens": 3}, Usage(12, 3)),
    "detailed": (
        {
            "input_tokens": 2,
            "cache_creation_input_tokens": 10,
            "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 3,
        },
        Usage(12, 3),
    ),
    "zeros": ({"input_tokens": 0, "output_tokens": 0}, Usage(0, 0)),
    "output-only": ({"output_tokens": 3}, Usage(None, 3)),
    "of-another": ({"prompt_tokens": 12, "completion_tokens": 3}, Usage(None, None)),
}


@pytest.mark.parametrize(("report", "expected"), USAGE.values(), ids=USAGE)
def test_usage_is_normalized(report: Body, expected: Usage) -> None:
    """6.4: the provider's input does not include what came from its cache or went into it; ours does."""
    assert FORMAT.read_usage(report) == expected


@pytest.mark.parametrize("value", [-1, 1.5, "12", True, 10**13])
def test_absurd_usage_is_refused(value: object) -> None:
    """6.4: what is no whole number >= 0 is refused by name."""
    with pytest.raises(FieldInvalid) as caught:
        FORMAT.read_usage({"input_tokens": 1, "cache_read_input_tokens": value})
    assert caught.value.field == "usage.cache_read_input_tokens"


# Writing

PARAM: TypeAdapter[Any] = TypeAdapter(MessageParam)
AUTHORED = {
    "user": (FORMAT.user_message("a \ud800 note"), Role.USER),
    "model": (FORMAT.model_message("a note"), Role.MODEL),
    "closing-result": (FORMAT.closing_result("toolu_1", "waiting"), Role.TOOL),
}


@pytest.mark.parametrize(("body", "role"), AUTHORED.values(), ids=AUTHORED)
def test_what_is_authored_is_what_the_provider_takes(body: bytes, role: Role) -> None:
    """10: authored messages are valid for the provider's own types, and read back as what they are."""
    value = json.loads(body)
    assert _validated(value) == value
    assert FORMAT.read(value).role is role


def _validated(value: Body) -> Body:
    """The message as the SDK's types have it; they check blocks only when these are gone through."""
    validated: Body = PARAM.validate_python(value)
    content = validated["content"]
    return {**validated, "content": content if isinstance(content, str) else list(content)}


def test_a_closing_result_answers_its_call() -> None:
    """1.7: whatever characters the id has."""
    body = FORMAT.closing_result("call \0\ud800", "waiting")
    assert FORMAT.read(json.loads(body)).results == (ReadResult("call \0\ud800", "waiting"),)


def test_rewriting_keeps_all_but_the_content_of_results() -> None:
    """8.6: ids, error flags, other blocks, the worker's own fields and the order of fields stay."""
    first = {"cache_control": {"type": "ephemeral"}, **_result([_text("long"), IMAGE], is_error=True)}
    second = _result("long too", tool_use_id="toolu_2", note="\ud800")
    body = {"ts": 1, **_user(first, second, _text("And now?"), IMAGE)}
    rewritten = json.loads(FORMAT.rewrite(body, ["short", "brief"]))
    expected = [{**first, "content": "short"}, {**second, "content": "brief"}, _text("And now?"), IMAGE]
    assert rewritten == {**body, "content": expected}
    assert list(rewritten) == list(body)
    assert [list(block) for block in rewritten["content"]] == [list(block) for block in expected]


# Losing nothing

MESSAGES = st.builds(
    lambda role, text, more: {"role": role, "content": text, "x": more},
    st.sampled_from(["user", "assistant"]),
    TEXTS,
    VALUES,
)


@settings(max_examples=150, deadline=None)
@given(body=bodies(MESSAGES))
def test_a_body_is_kept_byte_for_byte(ledger: LedgerClient, body: bytes) -> None:
    """Whatever JSON a message holds, and however it is written, the bytes given are the bytes kept and sent."""
    run = ledger.open_run(format="anthropic.messages", tokenizer="o200k_base")
    appended = run.append([body, {"role": "user", "content": "?"}])
    assert run.messages(appended.message_ids)[0].body == body
    assert run.build_window().items[0].body == body


@settings(max_examples=100, deadline=None)
@given(name=TEXTS, call_id=TEXTS, value=st.dictionaries(TEXTS, VALUES, max_size=3), result=TEXTS)
def test_any_call_and_result_find_each_other(
    ledger: LedgerClient, name: str, call_id: str, value: Body, result: str
) -> None:
    """1.2: ids, names and inputs of any characters; an open call of that id can be closed."""
    run = ledger.open_run(format="anthropic.messages", policy={"strategy": "compact-results", "keep_raw": 0})
    run.append([_user(_text("go")), _reply(_use(id=call_id, name=name, input=value))])
    assert run.step([_user(_text("and?"))]).items[2].kind == "closing-result"
    window = run.step([_user(_result(result, tool_use_id=call_id))])
    assert window.messages[2] == _user(_result(result, tool_use_id=call_id))
    assert run.get().open_calls == ()


DEEP = {
    "lists": b"[" * 100_000 + b"]" * 100_000,
    "objects": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
}


@pytest.mark.parametrize("value", DEEP.values(), ids=DEEP)
def test_what_is_nested_too_deeply_is_refused(ledger: LedgerClient, value: bytes) -> None:
    """A body that can't be read is refused by name."""
    run = ledger.open_run(format="anthropic.messages")
    use = b'{"type":"tool_use","id":"toolu_1","name":"read","input":{"x":' + value + b"}}"
    with pytest.raises(BodyNotJson) as caught:
        run.append([b'{"role":"assistant","content":[' + use + b"]}"])
    assert caught.value.field == "messages[0].body"
