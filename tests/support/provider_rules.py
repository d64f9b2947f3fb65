"""What providers refuse, judged from the messages alone.

Written from the providers' documentation and the texts of their errors, on purpose without anything of
``turnledger.projections.validity``: the tests hold the two against each other. The names of the rules are
those of docs/windows.md; whether a model's message may be last is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Body = dict[str, Any]


class Complaint(NamedTuple):
    """A rule that a request breaks, and the message at which it does."""

    rule: str
    index: int


def openai_chat(messages: Sequence[Body], *, has_tools: bool) -> list[Complaint]:
    """What Chat Completions refuses.

    "An assistant message with 'tool_calls' must be followed by tool messages responding to each
    'tool_call_id'"; "messages with role 'tool' must be a response to a preceding message with
    'tool_calls'"; content is required, except of an assistant message with calls or a refusal.
    """
    complaints: list[Complaint] = []
    asked: list[Asked] = []
    for index, message in enumerate(messages):
        calls = message.get("tool_calls") or [] if message["role"] == "assistant" else []
        if message.get("content") in (None, []) and not calls and not message.get("refusal"):
            complaints.append(Complaint("empty-content", index))
        if message["role"] == "tool":
            if not _answer(asked, message.get("tool_call_id", "")):
                complaints.append(Complaint("result-without-call", index))
            continue
        complaints += _unanswered(asked)
        asked = [Asked(call.get("id", ""), index) for call in calls]
    return complaints + _unanswered(asked)


class Asked(NamedTuple):
    """A call, and the message that made it."""

    call_id: str
    index: int


def _answer(asked: list[Asked], call_id: str) -> bool:
    """Whether a result answers one of the calls, the latest where ids repeat; it then waits no longer."""
    place = next((i for i in reversed(range(len(asked))) if asked[i].call_id == call_id), None)
    if place is None:
        return False
    del asked[place]
    return True


def _unanswered(asked: Sequence[Asked]) -> list[Complaint]:
    return [Complaint("call-unanswered", call.index) for call in asked]


def anthropic_messages(messages: Sequence[Body], *, has_tools: bool) -> list[Complaint]:
    """What the Messages API refuses, after it has joined neighboring messages of one role.

    The first message must use the "user" role; "messages must have non-empty content"; each ``tool_use``
    block must have its ``tool_result`` block in the next message, where results come first; each
    ``tool_result`` block must have its ``tool_use`` block in the previous message; requests with such
    blocks must define tools.
    """
    complaints = [Complaint("empty-content", i) for i, m in enumerate(messages) if not _holds_something(m)]
    joined = list(_joined(messages))
    if joined and joined[0].role != "user":
        complaints.append(Complaint("opens-with-user", 0))
    asked: list[Asked] = []
    for side in (*joined, _Side("user", [])):
        complaints += _against(asked, side)
        asked = [Asked(block["id"], index) for index, block in side.of_type("tool_use")]
    if not has_tools:
        complaints += [
            Complaint("tools-declared", index)
            for side in joined
            for kind in ("tool_use", "tool_result")
            for index, _ in side.of_type(kind)
        ]
    return complaints


class _Side(NamedTuple):
    """Neighboring messages of one role as the one message that they are to the provider."""

    role: str
    blocks: list[tuple[int, Body]]
    """Each with the index of the message that it stands in."""

    def of_type(self, kind: str) -> list[tuple[int, Body]]:
        """Its blocks of a type."""
        return [(index, block) for index, block in self.blocks if block["type"] == kind]


def _blocks(message: Body) -> list[Body]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _holds_something(message: Body) -> bool:
    return any(block["type"] != "text" or block["text"].strip() for block in _blocks(message))


def _joined(messages: Sequence[Body]) -> Iterator[_Side]:
    side: _Side | None = None
    for index, message in enumerate(messages):
        if side is None or side.role != message["role"]:
            if side is not None:
                yield side
            side = _Side(message["role"], [])
        side.blocks.extend((index, block) for block in _blocks(message))
    if side is not None:
        yield side


def _against(asked: list[Asked], side: _Side) -> Iterator[Complaint]:
    """What is wrong with the side that follows these calls."""
    other_seen = False
    for index, block in side.blocks:
        if block["type"] != "tool_result":
            other_seen = True
            continue
        if other_seen:
            yield Complaint("results-first", index)
        if not _answer(asked, block["tool_use_id"]):
            yield Complaint("result-without-call", index)
    yield from _unanswered(asked)


CHECKERS: dict[str, Callable[..., list[Complaint]]] = {
    "openai.chat": openai_chat,
    "anthropic.messages": anthropic_messages,
}
"""By the name of the format; each takes the messages and ``has_tools``."""
