"""Messages in few words, in the formats that runs are told in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from turnledger.domain.jsonbytes import dump
from turnledger.ledger import commands as c

Body = dict[str, Any]

LONG = "long " * 200
"""A text that is longer than any notice."""


@dataclass(frozen=True)
class Called:
    """A tool call to be made."""

    id: str
    name: str
    arguments: Body


def call(call_id: str, name: str = "look", **arguments: Any) -> Called:
    """A call of a tool."""
    return Called(call_id, name, arguments)


def said(body: Body | bytes, usage: tuple[int | None, int | None] | None = None, **claims: Any) -> c.MessageInput:
    """A message, and what the worker says of it."""
    reported = c.UsageInput(input_tokens=usage[0], output_tokens=usage[1]) if usage else None
    return c.MessageInput(body if isinstance(body, bytes) else dump(body), usage=reported, **claims)


class Chat:
    """Messages of ``openai.chat``."""

    format = "openai.chat"

    def user(self, text: str | None = "hello", **claims: Any) -> c.MessageInput:
        """A user's message."""
        return said({"role": "user", "content": text}, **claims)

    def system(self, text: str = "be brief", **claims: Any) -> c.MessageInput:
        """A system message inside the run."""
        return said({"role": "system", "content": text}, **claims)

    def reply(self, text: str | None = None, *calls: Called, **claims: Any) -> c.MessageInput:
        """A model's message."""
        made = [
            {"id": x.id, "type": "function", "function": {"name": x.name, "arguments": json.dumps(x.arguments)}}
            for x in calls
        ]
        return said({"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}, **claims)

    def result(self, call_id: str, text: str = "done", **claims: Any) -> c.MessageInput:
        """The result of a call."""
        return said({"role": "tool", "tool_call_id": call_id, "content": text}, **claims)

    def exchange(self, call_id: str, name: str = "look", text: str = "done", **arguments: Any) -> list[c.MessageInput]:
        """A reply that calls one tool, and the result."""
        return [self.reply(None, call(call_id, name, **arguments)), self.result(call_id, text)]


class Blocks:
    """Messages of ``anthropic.messages``."""

    format = "anthropic.messages"

    def user(self, text: str = "hello", **claims: Any) -> c.MessageInput:
        """A user's message."""
        return said({"role": "user", "content": text}, **claims)

    def reply(self, text: str | None = None, *calls: Called, **claims: Any) -> c.MessageInput:
        """A model's message."""
        blocks: list[Body] = [{"type": "text", "text": text}] if text is not None else []
        blocks += [{"type": "tool_use", "id": x.id, "name": x.name, "input": x.arguments} for x in calls]
        return said({"role": "assistant", "content": blocks}, **claims)

    def result(self, call_id: str, text: str = "done", **claims: Any) -> c.MessageInput:
        """A user's message with the result of a call."""
        return self.results((call_id, text), **claims)

    def results(self, *pairs: tuple[str, str], beside: str | None = None, **claims: Any) -> c.MessageInput:
        """A user's message with results, and text beside them."""
        blocks: list[Body] = [{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in pairs]
        blocks += [{"type": "text", "text": beside}] if beside is not None else []
        return said({"role": "user", "content": blocks}, **claims)

    def exchange(self, call_id: str, name: str = "look", text: str = "done", **arguments: Any) -> list[c.MessageInput]:
        """A reply that calls one tool, and the result."""
        return [self.reply(None, call(call_id, name, **arguments)), self.result(call_id, text)]


chat = Chat()
blocks = Blocks()
