"""Neutral transcripts: JSON lines, one message a line, told in Chat Completions.

A line has ``role`` and ``content``, and where they apply ``tool_calls`` [{id, name, arguments}],
``tool_call_id``, ``reasoning``, ``is_error`` and ``usage`` as its provider reported it. Chat Completions has no
place for ``is_error``; it is left out.
"""

from __future__ import annotations

from typing import Any

from turnledger.cli.transcripts.base import Damage, Line, Transcript, Unreadable, text_of
from turnledger.cli.transcripts.provider import line_of
from turnledger.domain.jsonbytes import dump, parse

FORMAT = "openai.chat"
_ROLES = ("system", "developer", "user", "assistant", "tool")
_INPUT = ("prompt_tokens", "input_tokens", "inputTokens", "input")
_OUTPUT = ("completion_tokens", "output_tokens", "outputTokens", "output")
_CACHED_APART = (
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "input_tokens_cache_read",
    "input_tokens_cache_write",
    "cacheRead",
    "cacheWrite",
)
"""What some providers report of their cache beside the input, not as a part of it."""


class NotAMessage(ValueError):
    """What a line lacks to be a message."""


def read_lines(data: bytes) -> Transcript:
    """The messages of a file of JSON lines. Raises :class:`Unreadable` naming every line that is none."""
    lines: list[Line] = []
    damages: list[Damage] = []
    for number, text in enumerate(text_of(data).split("\n"), 1):
        if not text.strip():
            continue
        try:
            line = parse(text.encode())
            lines.append(line_of(dump(_body(line)), number, _usage(line.get("usage"))))
        except ValueError as error:
            damages.append(Damage(number, str(error)))
    if damages:
        raise Unreadable(*damages)
    return Transcript(FORMAT, tuple(lines))


def _body(line: Any) -> dict[str, Any]:
    if not isinstance(line, dict):
        raise NotAMessage(f"a line must be an object, but it is a {type(line).__name__}")
    if line.get("role") not in _ROLES:
        raise NotAMessage(f"role must be one of {', '.join(_ROLES)}, but it is {line.get('role')!r}")
    body: dict[str, Any] = {"role": line["role"], "content": line.get("content")}
    if line["role"] == "tool":
        body["tool_call_id"] = line.get("tool_call_id") or ""
    if line["role"] == "assistant":
        if line.get("reasoning"):
            body["reasoning_content"] = line["reasoning"]
        if line.get("tool_calls"):
            body["tool_calls"] = [_call(call) for call in line["tool_calls"]]
        body["content"] = body["content"] or None
    return body


def _call(call: Any) -> dict[str, Any]:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise NotAMessage("tool_calls must be objects with id, name and arguments")
    arguments = call.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else dump(arguments).decode()
    return {"id": call.get("id") or "", "type": "function", "function": {"name": call["name"], "arguments": text}}


def _usage(reported: Any) -> bytes | None:
    """The report with its numbers under the names of Chat Completions, beside its own."""
    if not isinstance(reported, dict):
        return None
    given = next((reported[name] for name in _INPUT if name in reported), None)
    output = next((reported[name] for name in _OUTPUT if name in reported), None)
    cached = sum(reported.get(name) or 0 for name in _CACHED_APART)
    numbers = {"prompt_tokens": None if given is None else given + cached, "completion_tokens": output}
    return dump({**reported, **{name: value for name, value in numbers.items() if value is not None}})
