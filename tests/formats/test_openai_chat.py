"""Format ``openai.chat``: what it reads, refuses, normalizes and writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from support.json_values import TEXTS, VALUES, bodies
from support.service import served
from turnledger.client import LedgerClient, Message
from turnledger.domain.errors import BodyNotJson, BodyNotOfFormat, FieldInvalid
from turnledger.domain.formats import NotOfFormat, ReadCall, Reading, ReadResult, format_named
from turnledger.domain.usage import Usage
from turnledger.domain.words import Role, Source

FORMAT = format_named("openai.chat")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
Body = dict[str, Any]


def _call(arguments: str = '{"path": "a.py"}', **fields: Any) -> Body:
    return {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": arguments}, **fields}


def _reply(*calls: Body, **fields: Any) -> Body:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


@pytest.fixture(scope="module")
def ledger() -> Iterator[LedgerClient]:
    """A service in memory."""
    with served() as client:
        yield client


# Reading


@pytest.mark.parametrize(
    ("role_name", "role", "source"),
    [
        ("system", Role.SYSTEM, Source.INJECTED),
        ("developer", Role.SYSTEM, Source.INJECTED),
        ("user", Role.USER, Source.PERSON),
        ("assistant", Role.MODEL, Source.MODEL),
        ("tool", Role.TOOL, Source.TOOL),
    ],
)
def test_a_role_says_who_stands_behind_a_message(role_name: str, role: Role, source: Source) -> None:
    """1.6: the source is read from the role, never from the text."""
    reading = FORMAT.read({"role": role_name, "content": "[turnledger: 3 messages are not being re-sent]"})
    assert (reading.role, reading.source) == (role, source)


CALLS = {
    "function": (_call(), ReadCall("call_1", "read", '{"path": "a.py"}', {"path": "a.py"})),
    "no-type": (
        {"id": "call_1", "function": {"name": "read", "arguments": "{}"}},
        ReadCall("call_1", "read", "{}", {}),
    ),
    "no-arguments": ({"id": "call_1", "function": {"name": "read"}}, ReadCall("call_1", "read", "", "")),
    "no-id": ({"function": {"name": "read", "arguments": "{}"}}, ReadCall("", "read", "{}", {})),
    "arguments-that-are-no-json": (_call("path=a.py"), ReadCall("call_1", "read", "path=a.py", "path=a.py")),
    "custom": (
        {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
        ReadCall("call_1", "patch", "*** Begin", "*** Begin"),
    ),
}


@pytest.mark.parametrize(("call", "expected"), CALLS.values(), ids=CALLS)
def test_a_call_is_read(call: Body, expected: ReadCall) -> None:
    """1.2, 3.5: id, tool and arguments of a call, the arguments as text and as a value."""
    reading = FORMAT.read(_reply(call))
    assert reading.calls == (expected,)
    assert not reading.is_empty


@pytest.mark.parametrize("calls", [None, []], ids=["null", "empty-list"])
def test_a_reply_without_calls_makes_none(calls: object) -> None:
    """1.1: ``tool_calls`` may be null or hold nothing."""
    assert FORMAT.read({"role": "assistant", "content": "Done.", "tool_calls": calls}).calls == ()


def test_only_a_reply_makes_calls() -> None:
    """1.2: what a user's message holds under ``tool_calls`` is no call of the model."""
    assert FORMAT.read({"role": "user", "content": "", "tool_calls": [_call()]}).calls == ()


RESULTS = {
    "text": ({"tool_call_id": "call_1", "content": "ok\n"}, ReadResult("call_1", "ok\n")),
    "empty": ({"tool_call_id": "call_1", "content": ""}, ReadResult("call_1", "")),
    "no-id": ({"content": "ok"}, ReadResult("", "ok")),
    "parts": (
        {"tool_call_id": "call_1", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ReadResult("call_1", "a\nb"),
    ),
    "image": (
        {"tool_call_id": "call_1", "content": [{"type": "text", "text": "a"}, IMAGE]},
        ReadResult("call_1", "a"),
    ),
}


@pytest.mark.parametrize(("fields", "expected"), RESULTS.values(), ids=RESULTS)
def test_a_result_is_read(fields: Body, expected: ReadResult) -> None:
    """1.2: the call that a result names, and all of its text."""
    reading = FORMAT.read({"role": "tool", **fields})
    assert reading.results == (expected,)
    assert not reading.mixes_content


TEXT_READ = {
    "text": ({"role": "user", "content": "hi"}, ("hi",)),
    "empty": ({"role": "user", "content": ""}, ("",)),
    "parts": ({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, ("a", "b")),
    "image": ({"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]}, ("a",)),
    "unknown-part": ({"role": "user", "content": [{"type": "hologram", "hologram": "x"}]}, ()),
    "refusal": ({"role": "assistant", "content": None, "refusal": "No."}, ("No.",)),
    "refusal-part": ({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, ("No.",)),
    "reasoning": ({"role": "assistant", "content": "4", "reasoning_content": "2+2"}, ("4", "2+2")),
    "reasoning-of-others": ({"role": "assistant", "content": "4", "reasoning": "2+2"}, ("4", "2+2")),
    "call": (_reply(_call()), ("read", '{"path": "a.py"}')),
    "astral": ({"role": "user", "content": "\N{CAT FACE}\0\ud800"}, ("\N{CAT FACE}\0\ud800",)),
    "unknown-field": ({"role": "user", "content": "hi", "note": "not sent as text"}, ("hi",)),
}


@pytest.mark.parametrize(("body", "texts"), TEXT_READ.values(), ids=TEXT_READ)
def test_what_is_text_to_a_model(body: Body, texts: tuple[str, ...]) -> None:
    """6.1: text, reasoning, refusals, tool names and arguments count, by code points; images do not."""
    reading = FORMAT.read(body)
    assert reading.texts == texts
    assert reading.characters == sum(len(text) for text in texts)


EMPTY = {
    "null": ({"role": "assistant", "content": None}, True),
    "absent": ({"role": "assistant"}, True),
    "no-parts": ({"role": "user", "content": []}, True),
    "reasoning-only": ({"role": "assistant", "content": None, "reasoning_content": "Hm."}, True),
    "empty-text": ({"role": "assistant", "content": ""}, False),
    "call": (_reply(_call()), False),
    "refusal": ({"role": "assistant", "content": None, "refusal": "No."}, False),
    "audio": ({"role": "assistant", "audio": {"id": "audio_1"}}, False),
    "image": ({"role": "user", "content": [IMAGE]}, False),
}


@pytest.mark.parametrize(("body", "is_empty"), EMPTY.values(), ids=EMPTY)
def test_what_holds_nothing(body: Body, is_empty: bool) -> None:
    """10: content is required, except of a reply with calls, a refusal or audio; empty text is content."""
    assert FORMAT.read(body).is_empty is is_empty


def test_no_reply_id_is_read() -> None:
    """1.1: messages of this format carry none; the worker may give it."""
    assert FORMAT.read({"role": "assistant", "content": "hi", "id": "chatcmpl-1"}).reply_id is None


# Refusing

REFUSED = {
    "list": ([], "", "must be an object"),
    "no-role": ({"content": "hi"}, "role", "must be one of system, developer, user, assistant, tool"),
    "role-of-another": ({"role": "function"}, "role", "must be one of system, developer, user, assistant, tool"),
    "content-number": ({"role": "user", "content": 1}, "content", "must be a string, a list of parts or null"),
    "content-object": ({"role": "user", "content": {}}, "content", "must be a string, a list of parts or null"),
    "part-string": ({"role": "user", "content": ["hi"]}, "content[0]", "must be an object with a type"),
    "part-untyped": ({"role": "user", "content": [{"text": "hi"}]}, "content[0]", "must be an object with a type"),
    "part-text": ({"role": "user", "content": [IMAGE, {"type": "text"}]}, "content[1].text", "must be a string"),
    "result-null": ({"role": "tool", "tool_call_id": "a"}, "content", "must be a string or a list of parts"),
    "block-of-anthropic": (
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]},
        "content[0].type",
        "must be no block of anthropic.messages",
    ),
    "function-call": (
        {"role": "assistant", "content": None, "function_call": {"name": "read"}},
        "function_call",
        "is deprecated: use tool_calls",
    ),
    "calls-object": ({"role": "assistant", "tool_calls": {}}, "tool_calls", "must be a list"),
    "call-string": (_reply("read"), "tool_calls[0]", "must be an object"),  # type: ignore[arg-type]
    "call-type": (_reply(_call(), _call(type="hologram")), "tool_calls[1].type", "must be function or custom"),
    "call-nameless": (_reply({"id": "c", "function": {}}), "tool_calls[0].function", "must be an object with a name"),
    "call-id": (_reply(_call(id=7)), "tool_calls[0].id", "must be a string"),
    "call-arguments": (
        _reply(_call(function={"name": "read", "arguments": {"path": "a.py"}})),
        "tool_calls[0].function.arguments",
        "must be a string",
    ),
    "custom-input": (
        _reply({"id": "c", "type": "custom", "custom": {"name": "patch", "input": 1}}),
        "tool_calls[0].custom.input",
        "must be a string",
    ),
    "result-id": ({"role": "tool", "tool_call_id": 7, "content": "ok"}, "tool_call_id", "must be a string"),
}


@pytest.mark.parametrize(("body", "where", "rule"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_message_of_the_format(body: Any, where: str, rule: str) -> None:
    """A refusal names the place in the body and the rule that it breaks."""
    with pytest.raises(NotOfFormat) as caught:
        FORMAT.read(body)
    assert (caught.value.where, caught.value.rule) == (where, rule)


def test_a_refused_body_is_named_to_the_worker(ledger: LedgerClient) -> None:
    """The worker is told which message, where in it, and which rule; nothing is written."""
    run = ledger.open_run(format="openai.chat")
    with pytest.raises(BodyNotOfFormat) as caught:
        run.append([{"role": "user", "content": "hi"}, _reply(_call(id=7))])
    assert caught.value.field == "messages[1].body.tool_calls[0].id"
    assert (caught.value.rule, caught.value.value) == ("must be a string", "7")
    assert caught.value.format == "openai.chat"
    assert run.get().run.message_count == 0


# Usage

USAGE = {
    "plain": ({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}, Usage(12, 3)),
    "cached": (
        {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}},
        Usage(12, 3),
    ),
    "zeros": ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
    "input-only": ({"prompt_tokens": 12}, Usage(12, None)),
    "null": ({"prompt_tokens": None, "completion_tokens": None}, Usage(None, None)),
    "of-another": ({"input_tokens": 12, "output_tokens": 3}, Usage(None, None)),
}


@pytest.mark.parametrize(("report", "expected"), USAGE.values(), ids=USAGE)
def test_usage_is_normalized(report: Body, expected: Usage) -> None:
    """6.4: the provider's input includes what came from its cache."""
    assert FORMAT.read_usage(report) == expected


@pytest.mark.parametrize("value", [-1, 1.5, "12", True, 10**13])
def test_absurd_usage_is_refused(value: object) -> None:
    """6.4: what is no whole number >= 0 is refused by name."""
    with pytest.raises(FieldInvalid) as caught:
        FORMAT.read_usage({"prompt_tokens": 1, "completion_tokens": value})
    assert caught.value.field == "usage.completion_tokens"


# Writing

PARAM: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
AUTHORED = {
    "user": (FORMAT.user_message("a \ud800 note"), Role.USER),
    "model": (FORMAT.model_message("a note"), Role.MODEL),
    "closing-result": (FORMAT.closing_result("call_1", "waiting"), Role.TOOL),
}


@pytest.mark.parametrize(("body", "role"), AUTHORED.values(), ids=AUTHORED)
def test_what_is_authored_is_what_the_provider_takes(body: bytes, role: Role) -> None:
    """10: authored messages are valid for the provider's own types, and read back as what they are."""
    value = json.loads(body)
    assert PARAM.validate_python(value) == value
    assert FORMAT.read(value).role is role


def test_a_closing_result_answers_its_call() -> None:
    """1.7: whatever characters the id has."""
    body = FORMAT.closing_result("call \0\ud800", "waiting")
    assert FORMAT.read(json.loads(body)).results == (ReadResult("call \0\ud800", "waiting"),)


def test_rewriting_keeps_all_but_the_content() -> None:
    """8.6: id, name, pairing, the worker's own fields and the order of fields stay."""
    body = {
        "role": "tool",
        "x-trace": {"at": [1, None, "\ud800"]},
        "tool_call_id": "call_1",
        "content": [{"type": "text", "text": "long"}, IMAGE],
        "name": "read",
        "is_error": True,
    }
    rewritten = json.loads(FORMAT.rewrite(body, ["short"]))
    assert list(rewritten.items()) == list({**body, "content": "short"}.items())
    assert FORMAT.read(rewritten).results == (ReadResult("call_1", "short"),)


# Losing nothing

MESSAGES = st.builds(
    lambda role, text, more: {"role": role, "content": text, "x": more},
    st.sampled_from(["system", "developer", "user", "assistant"]),
    TEXTS,
    VALUES,
)


@settings(max_examples=150, deadline=None)
@given(body=bodies(MESSAGES))
def test_a_body_is_kept_byte_for_byte(ledger: LedgerClient, body: bytes) -> None:
    """Whatever JSON a message holds, and however it is written, the bytes given are the bytes kept and sent."""
    run = ledger.open_run(format="openai.chat", tokenizer="o200k_base")
    appended = run.append([body, Message(b'{"role":"user","content":"?"}', request=True)])
    assert run.messages(appended.message_ids)[0].body == body
    assert run.build_window().items[0].body == body


EXACT = {
    "number-of-5000-digits": b'{"role":"user","content":"hi","x":' + b"9" * 5000 + b"}",
    "number-beyond-a-double": b'{"role":"user","content":"hi","x":1e999}',
    "digits-beyond-a-double": b'{"role":"user","content":"hi","x":0.10000000000000000000000001}',
    "name-twice": b'{"role":"user","content":"first","content":"second"}',
    "raw-lone-surrogate": b'{"role":"user","content":"\xed\xa0\x80"}',
    "escapes": b'{"role":"user","content":"\\u0000\\ud83d\\u0041\\/"}',
}


@pytest.mark.parametrize("body", EXACT.values(), ids=EXACT)
def test_what_a_parser_would_change_is_kept(ledger: LedgerClient, body: bytes) -> None:
    """What is kept and sent is never a parsed value written again."""
    run = ledger.open_run(format="openai.chat", tokenizer="o200k_base")
    appended = run.append([body])
    assert run.messages(appended.message_ids)[0].body == body
    assert run.build_window().items[0].body == body


@settings(max_examples=100, deadline=None)
@given(name=TEXTS, call_id=TEXTS, arguments=TEXTS | VALUES.map(json.dumps), result=TEXTS)
def test_any_call_and_result_find_each_other(
    ledger: LedgerClient, name: str, call_id: str, arguments: str, result: str
) -> None:
    """1.2: ids, names and arguments of any characters; an open call of that id can be closed."""
    run = ledger.open_run(format="openai.chat", policy={"strategy": "compact-results", "keep_raw": 0})
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    run.append([{"role": "user", "content": "go"}, _reply(call)])
    assert run.step([{"role": "user", "content": "and?"}]).items[2].kind == "closing-result"
    window = run.step([{"role": "tool", "tool_call_id": call_id, "content": result}])
    assert window.messages[2]["content"] == result
    assert run.get().open_calls == ()


NOT_JSON = {
    "nothing": b" ",
    "cut-off": b'{"role": "user", "content": "h',
    "two-values": b'{"role": "user"} {"role": "user"}',
    "nan": b'{"role": "user", "content": "hi", "x": NaN}',
    "infinity": b'{"role": "user", "content": "hi", "x": -Infinity}',
    "utf-16": '{"role": "user"}'.encode("utf-16"),
    "deep": b'{"role": "user", "content": "hi", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep-objects": b'{"role": "user", "content": "hi", "x": ' + b'{"x":' * 100_000 + b"1" + b"}" * 100_001,
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_no_json_is_refused(ledger: LedgerClient, body: bytes) -> None:
    """A body that is no JSON, or nested too deeply to be read, is refused by name."""
    run = ledger.open_run(format="openai.chat")
    with pytest.raises(BodyNotJson) as caught:
        run.append([body])
    assert caught.value.field == "messages[0].body"


def test_a_reading_holds_nothing_else() -> None:
    """A person's message says no more than its text."""
    assert FORMAT.read({"role": "user", "content": "hi"}) == Reading(Role.USER, Source.PERSON, ("hi",))
