"""Format ``openai.chat``: messages of the Chat Completions API.

Source of the rules: the API reference of Chat Completions (roles, tool_calls, tool_call_id), and its
error messages: a message of role tool must follow a message with tool_calls, and every tool_call_id must
have an answer before the next message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnledger.domain.formats.base import NotOfFormat, Profile, ReadCall, Reading, ReadResult
from turnledger.domain.jsonbytes import dump, parse
from turnledger.domain.usage import Usage, token_count
from turnledger.domain.words import Role, Source

_ROLES = {
    "system": (Role.SYSTEM, Source.INJECTED),
    "developer": (Role.SYSTEM, Source.INJECTED),
    "user": (Role.USER, Source.PERSON),
    "assistant": (Role.MODEL, Source.MODEL),
    "tool": (Role.TOOL, Source.TOOL),
}
# Reasoning has no place in the API itself; these are the names under which servers that speak it send it.
_REASONING = ("reasoning_content", "reasoning")


class OpenAIChat:
    """The Chat Completions API."""

    name = "openai.chat"
    profile = Profile(opens_with_user=False, joins_neighbors=False, allows_prefill=False, wants_tools_declared=False)

    def read(self, value: Any) -> Reading:
        """See :meth:`turnledger.domain.formats.base.Format.read`."""
        if not isinstance(value, dict):
            raise NotOfFormat("", "must be an object", value)
        role_name = value.get("role")
        if not isinstance(role_name, str) or role_name not in _ROLES:
            raise NotOfFormat("role", f"must be one of {', '.join(_ROLES)}", role_name)
        role, source = _ROLES[role_name]
        content = value.get("content")
        texts = _content_texts(content)
        if role is Role.TOOL:
            return self._read_result(value, role, source, texts)
        calls = self._read_calls(value) if role is Role.MODEL else ()
        for name in _REASONING:
            if isinstance(value.get(name), str):
                texts.append(value[name])
        refusal = value.get("refusal")
        if isinstance(refusal, str):
            texts.append(refusal)
        for call in calls:
            texts += (call.name, call.arguments)
        # An audio reply is repeated by its id alone.
        is_empty = content in (None, []) and not (calls or refusal or value.get("audio"))
        return Reading(role, source, tuple(texts), calls, is_empty=is_empty)

    def _read_result(self, value: dict[str, Any], role: Role, source: Source, texts: list[str]) -> Reading:
        call_id = value.get("tool_call_id", "")
        if not isinstance(call_id, str):
            raise NotOfFormat("tool_call_id", "must be a string", call_id)
        if value.get("content") in (None, []):
            raise NotOfFormat("content", "must be a string or a list of parts", value.get("content"))
        return Reading(role, source, tuple(texts), results=(ReadResult(call_id, "\n".join(texts)),))

    def _read_calls(self, value: dict[str, Any]) -> tuple[ReadCall, ...]:
        if value.get("function_call") is not None:
            raise NotOfFormat("function_call", "is deprecated: use tool_calls", value["function_call"])
        calls = value.get("tool_calls")
        if calls is None:
            return ()
        if not isinstance(calls, list):
            raise NotOfFormat("tool_calls", "must be a list", calls)
        return tuple(_read_call(call, f"tool_calls[{i}]") for i, call in enumerate(calls))

    def read_usage(self, report: dict[str, Any], field: str = "usage") -> Usage:
        """``prompt_tokens`` includes cached tokens."""
        return Usage(
            token_count(report.get("prompt_tokens"), f"{field}.prompt_tokens"),
            token_count(report.get("completion_tokens"), f"{field}.completion_tokens"),
        )

    def user_message(self, text: str) -> bytes:
        """See :meth:`turnledger.domain.formats.base.Format.user_message`."""
        return dump({"role": "user", "content": text})

    def model_message(self, text: str) -> bytes:
        """See :meth:`turnledger.domain.formats.base.Format.model_message`."""
        return dump({"role": "assistant", "content": text})

    def closing_result(self, call_id: str, text: str) -> bytes:
        """See :meth:`turnledger.domain.formats.base.Format.closing_result`."""
        return dump({"role": "tool", "tool_call_id": call_id, "content": text})

    def rewrite(self, value: Any, texts: Sequence[str]) -> bytes:
        """See :meth:`turnledger.domain.formats.base.Format.rewrite`."""
        (text,) = texts
        return dump({**value, "content": text})


def _content_texts(content: Any) -> list[str]:
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise NotOfFormat("content", "must be a string, a list of parts or null", content)
    texts = []
    for i, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise NotOfFormat(f"content[{i}]", "must be an object with a type", part)
        if part["type"] in ("tool_use", "tool_result"):
            # Taken for content that is not known here, calls and results would pair with nothing.
            raise NotOfFormat(f"content[{i}].type", "must be no block of anthropic.messages", part["type"])
        text = part.get(part["type"]) if part["type"] in ("text", "refusal") else ""
        if not isinstance(text, str):
            raise NotOfFormat(f"content[{i}].{part['type']}", "must be a string", text)
        if text:
            texts.append(text)
    return texts


def _read_call(call: Any, where: str) -> ReadCall:
    if not isinstance(call, dict):
        raise NotOfFormat(where, "must be an object", call)
    kind = call.get("type", "function")
    if kind not in ("function", "custom"):
        raise NotOfFormat(f"{where}.type", "must be function or custom", kind)
    called = call.get(kind)
    if not isinstance(called, dict) or not isinstance(called.get("name"), str):
        raise NotOfFormat(f"{where}.{kind}", "must be an object with a name", called)
    call_id = call.get("id", "")
    if not isinstance(call_id, str):
        raise NotOfFormat(f"{where}.id", "must be a string", call_id)
    field = "arguments" if kind == "function" else "input"
    arguments = called.get(field, "")
    if not isinstance(arguments, str):
        raise NotOfFormat(f"{where}.{kind}.{field}", "must be a string", arguments)
    return ReadCall(call_id, called["name"], arguments, _arguments_value(arguments))


def _arguments_value(arguments: str) -> object:
    # Models write arguments that are no JSON; then the text itself is what tells two calls apart.
    try:
        return parse(arguments.encode("utf-8", "surrogatepass"))
    except ValueError:
        return arguments
