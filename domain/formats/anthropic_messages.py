"""Format ``anthropic.messages``: messages of the Anthropic Messages API.

Source of the rules: the API reference of Messages and the guides on tool use and extended thinking.
Neighboring messages of one role are joined by the API; the results of all calls of a reply must come
first in the user message that follows it; the first message must be a user's; text must not be empty or
blank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnledger.domain.formats.base import NotOfFormat, Profile, ReadCall, Reading, ReadResult
from turnledger.domain.jsonbytes import dump
from turnledger.domain.usage import Usage, token_count
from turnledger.domain.words import Role, Source


class AnthropicMessages:
    """The Anthropic Messages API."""

    name = "anthropic.messages"
    profile = Profile(opens_with_user=True, joins_neighbors=True, allows_prefill=False, wants_tools_declared=True)

    def read(self, value: Any) -> Reading:
        """See :meth:`turnledger.domain.formats.base.Format.read`."""
        if not isinstance(value, dict):
            raise NotOfFormat("", "must be an object", value)
        role_name = value.get("role")
        if role_name not in ("user", "assistant"):
            raise NotOfFormat("role", "must be user or assistant (a system prompt goes into the envelope)", role_name)
        if value.get("type") == "message":
            raise NotOfFormat("type", "must be absent: of a response, only role and content are sent back", "message")
        if value.get("tool_calls") is not None:
            raise NotOfFormat("tool_calls", "must be absent: calls are blocks of type tool_use", value["tool_calls"])
        blocks = _blocks(value.get("content"))
        texts: list[str] = []
        calls: list[ReadCall] = []
        results: list[ReadResult] = []
        others = 0
        is_misordered = False
        for i, block in enumerate(blocks):
            where = f"content[{i}]"
            if block["type"] == "tool_use" and role_name == "assistant":
                calls.append(_read_call(block, where))
                texts += (calls[-1].name, calls[-1].arguments)
            elif block["type"] == "tool_result" and role_name == "user":
                is_misordered |= bool(i > len(results))
                results.append(_read_result(block, where))
                texts += _result_texts(block, where)
            elif block["type"] in ("tool_use", "tool_result"):
                raise NotOfFormat(f"{where}.type", f"must not stand in a message of role {role_name}", block["type"])
            else:
                text = _block_text(block, where)
                texts.append(text)
                others += bool(text.strip()) or block["type"] != "text"
        has_results = bool(results)
        if role_name == "assistant":
            role, source = Role.MODEL, Source.MODEL
        else:
            role = Role.TOOL if has_results else Role.USER
            source = Source.TOOL if has_results else Source.PERSON
        return Reading(
            role,
            source,
            tuple(t for t in texts if t),
            tuple(calls),
            tuple(results),
            is_empty=not (others or calls or has_results),
            mixes_content=has_results and len(blocks) > len(results),
            is_misordered=is_misordered,
        )

    def read_usage(self, report: dict[str, Any], field: str = "usage") -> Usage:
        """``input_tokens`` excludes what was read from the cache or written to it; all three are input."""
        parts = [
            token_count(report.get(name), f"{field}.{name}")
            for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        ]
        total = None if parts[0] is None else sum(p or 0 for p in parts)
        return Usage(total, token_count(report.get("output_tokens"), f"{field}.output_tokens"))

    def user_message(self, text: str) -> bytes:
        """See :meth:`turnledger.domain.formats.base.Format.user_message`."""
        return dump({"role": "user", "content": text})

    def model_message(self, text: str) -> bytes:
        """See :meth:`turnledger.domain.formats.base.Format.model_message`."""
        return dump({"role": "assistant", "content": text})

    def closing_result(self, call_id: str, text: str) -> bytes:
        """See :meth:`turnledger.domain.formats.base.Format.closing_result`."""
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        return dump({"role": "user", "content": [block]})

    def rewrite(self, value: Any, texts: Sequence[str]) -> bytes:
        """See :meth:`turnledger.domain.formats.base.Format.rewrite`."""
        remaining = iter(texts)
        content = [
            {**block, "content": next(remaining)} if block["type"] == "tool_result" else block
            for block in value["content"]
        ]
        return dump({**value, "content": content})


def _blocks(content: Any, where: str = "content") -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise NotOfFormat(where, "must be a string or a list of blocks", content)
    for i, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise NotOfFormat(f"{where}[{i}]", "must be an object with a type", block)
    return content


def _block_text(block: dict[str, Any], where: str) -> str:
    # Blocks of other types (images, documents, server-side tools, redacted thinking) hold no text of ours
    # to count.
    if block["type"] not in ("text", "thinking"):
        return ""
    text = block.get(block["type"])
    if not isinstance(text, str):
        raise NotOfFormat(f"{where}.{block['type']}", "must be a string", text)
    return text


def _read_call(block: dict[str, Any], where: str) -> ReadCall:
    for field in ("id", "name"):
        if not isinstance(block.get(field), str):
            raise NotOfFormat(f"{where}.{field}", "must be a string", block.get(field))
    arguments = block.get("input", {})
    if not isinstance(arguments, dict):
        raise NotOfFormat(f"{where}.input", "must be an object", arguments)
    return ReadCall(block["id"], block["name"], dump(arguments).decode(), arguments)


def _read_result(block: dict[str, Any], where: str) -> ReadResult:
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        raise NotOfFormat(f"{where}.tool_use_id", "must be a string", call_id)
    return ReadResult(call_id, "\n".join(_result_texts(block, where)), bool(block.get("is_error")))


def _result_texts(block: dict[str, Any], where: str) -> list[str]:
    if block.get("content") is None:
        return []
    parts = _blocks(block["content"], f"{where}.content")
    return [_block_text(part, f"{where}.content[{i}]") for i, part in enumerate(parts) if part["type"] == "text"]
