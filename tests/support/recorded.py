"""Recorded runs of real agents, as the messages that their worker would have appended.

The recordings lie beside the project, not in it; :data:`CORPUS` says where. A recording is read either in
its own format, where that is one of ours, or from its neutral form, from which the messages of a provider
are written the way that a worker of that provider writes them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from turnledger.client import Envelope, Message

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
Json = dict[str, Any]
Refused = Literal["RESULT_ORPHAN", "RESULT_DUPLICATE"]


@dataclass(frozen=True)
class Recorded:
    """One message of a recording."""

    role: str
    """``person``, ``injected``, ``model`` or ``tool``."""
    body: bytes
    calls: tuple[str, ...] = ()
    """Ids of the calls that it makes."""
    results: tuple[str, ...] = ()
    """Ids of the calls that its results answer."""
    usage: Json | None = None
    holds_nothing: bool = False
    """Its provider would refuse it as empty."""

    @property
    def to_append(self) -> Message:
        """The message as a worker appends it."""
        return Message(self.body, source="injected" if self.role == "injected" else None, usage=self.usage)


@dataclass(frozen=True)
class Recording:
    """A recorded run."""

    name: str
    format: str
    messages: tuple[Recorded, ...]
    envelope: Envelope | None = None
    characters: int = 0
    """About what a model reads of it."""
    inputs: tuple[int, ...] = field(default=())
    """Input tokens of each reply that reports them, cached ones included."""

    @property
    def replies(self) -> int:
        """How many replies it holds."""
        return sum(message.role == "model" for message in self.messages)

    def batches(self) -> Iterator[tuple[Recorded, ...]]:
        """What is appended before each reply, everything since the reply before it, and what is left."""
        since: list[Recorded] = []
        for message in self.messages:
            if message.role == "model":
                yield tuple(since)
                since = []
            since.append(message)
        yield tuple(since)


class Calls:
    """The calls of a run as its worker knows them: which were made, and which of them still wait."""

    def __init__(self) -> None:
        self._made: set[str] = set()
        self._waiting: Counter[str] = Counter()
        self._messages = 0
        self.unpaired: set[int] = set()
        """Indexes of the messages with a result that answers nothing."""

    def refusal(self, batch: Iterable[Recorded]) -> Refused | None:
        """Why a strict append refuses a batch, by the first result that it refuses; counts the batch in."""
        found: Refused | None = None
        for message in batch:
            for call_id in message.results:
                if not self._waiting[call_id]:
                    found = found or ("RESULT_DUPLICATE" if call_id in self._made else "RESULT_ORPHAN")
                    self.unpaired.add(self._messages)
                self._waiting[call_id] -= self._waiting[call_id] > 0
            self._waiting.update(message.calls)
            self._made.update(message.calls)
            self._messages += 1
        return found


# Reading


def recordings() -> list[str]:
    """The recordings as ``<form>/<name>``: raw ones that have a format of ours, and all neutral ones."""
    names = sorted(path.stem for path in (CORPUS / "neutral").glob("*.jsonl"))
    written = [f"{format}/{name}" for name in names for format in _WRITERS]
    return [f"raw/{name}" for name in _RAW] + written if names else []


@cache
def recording(label: str) -> Recording:
    """The recording of a label of :func:`recordings`."""
    form, _, name = label.partition("/")
    if form == "raw":
        return _RAW[name](name)
    lines = (CORPUS / "neutral" / f"{name}.jsonl").read_bytes().splitlines()
    return _WRITERS[form](name, [json.loads(line) for line in lines])


def _raw_chat(name: str) -> Recording:
    bodies: list[Json] = json.loads((CORPUS / "raw" / f"{name}.json").read_bytes())["traj"]
    return _chat(name, bodies, [None] * len(bodies))


def _raw_cline(name: str) -> Recording:
    session = json.loads((CORPUS / "raw" / f"{name}.json").read_bytes())
    bodies = [_as_sent(body) for body in session["messages"]]
    reports = [_tokens(body.get("metrics")) for body in bodies]
    return _anthropic(name, [(body, False) for body in bodies], reports, session["system_prompt"])


def _as_sent(body: Json) -> Json:
    """The editor keeps the results of its tools as JSON, and sends them as text."""
    content = [
        {**block, "content": json.dumps(block["content"], ensure_ascii=False)}
        if block["type"] == "tool_result" and not isinstance(block["content"], str)
        else block
        for block in body["content"]
    ]
    return {**body, "content": content}


_RAW: dict[str, Callable[[str], Recording]] = {
    "tau_gpt4o_airline_052": _raw_chat,
    "tau_grok3_retail_054": _raw_chat,
    "cline_session": _raw_cline,
}


# Writing, as a worker of Chat Completions does


def _write_chat(name: str, lines: Sequence[Json]) -> Recording:
    return _chat(name, [_chat_body(line) for line in lines], [_tokens(line.get("usage")) for line in lines])


def _chat_body(line: Json) -> Json:
    body: Json = {"role": line["role"], "content": line["content"]}
    if line["role"] == "tool":
        body["tool_call_id"] = line.get("tool_call_id") or ""
    if line["role"] == "assistant":
        if line.get("reasoning"):
            body["reasoning_content"] = line["reasoning"]
        calls = line.get("tool_calls") or []
        if calls:
            body["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                for c in calls
            ]
        if not line["content"]:
            body["content"] = None
    return body


def _chat(name: str, bodies: Sequence[Json], reports: Sequence[tuple[int, int] | None]) -> Recording:
    messages = []
    for body, report in zip(bodies, reports, strict=True):
        calls = tuple(call["id"] for call in body.get("tool_calls") or [])
        role = {"user": "person", "assistant": "model", "tool": "tool"}.get(body["role"], "injected")
        usage = {"prompt_tokens": report[0], "completion_tokens": report[1]} if report else None
        messages.append(
            Recorded(
                role,
                _json(body),
                calls,
                (body["tool_call_id"],) if role == "tool" else (),
                usage if role == "model" else None,
                holds_nothing=body["content"] is None and not calls,
            )
        )
    return _recording(name, "openai.chat", messages, reports, None)


# Writing, as a worker of the Messages API does


def _write_anthropic(name: str, lines: Sequence[Json]) -> Recording:
    system = lines[0]["content"] if lines[0]["role"] == "system" else None
    rest = lines if system is None else lines[1:]
    bodies: list[tuple[Json, bool]] = []
    reports: list[tuple[int, int] | None] = []
    if rest[0]["role"] != "user":
        # A worker of this provider has to let a person's side open the run.
        bodies.append(({"role": "user", "content": "Begin."}, True))
        reports.append(None)
    for line in rest:
        if line["role"] == "tool" and bodies and _is_results(bodies[-1][0]):
            bodies[-1][0]["content"].append(_result_block(line))
            continue
        bodies.append((_anthropic_body(line), line["role"] == "system"))
        reports.append(_tokens(line.get("usage")))
    return _anthropic(name, bodies, reports, system)


def _is_results(body: Json) -> bool:
    return isinstance(body["content"], list) and any(block["type"] == "tool_result" for block in body["content"])


def _anthropic_body(line: Json) -> Json:
    if line["role"] == "tool":
        return {"role": "user", "content": [_result_block(line)]}
    if line["role"] != "assistant":
        return {"role": "user", "content": line["content"]}
    content: list[Json] = []
    if line.get("reasoning"):
        content.append({"type": "thinking", "thinking": line["reasoning"], "signature": "c2ln"})
    if line["content"]:
        content.append({"type": "text", "text": line["content"]})
    content += [
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": _input(call["arguments"])}
        for call in line.get("tool_calls") or []
    ]
    return {"role": "assistant", "content": content}


def _result_block(line: Json) -> Json:
    block = {"type": "tool_result", "tool_use_id": line.get("tool_call_id") or "", "content": line["content"]}
    return {**block, "is_error": True} if line.get("is_error") else block


def _input(arguments: str) -> Json:
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": arguments}


def _anthropic(
    name: str, bodies: Sequence[tuple[Json, bool]], reports: Sequence[tuple[int, int] | None], system: str | None
) -> Recording:
    messages = []
    tools: dict[str, None] = {}
    for (body, is_injected), report in zip(bodies, reports, strict=True):
        content = body["content"]
        blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        uses = [block for block in blocks if block["type"] == "tool_use"]
        tools |= dict.fromkeys(use["name"] for use in uses)
        results = tuple(block["tool_use_id"] for block in blocks if block["type"] == "tool_result")
        role = "model" if body["role"] == "assistant" else "tool" if results else "person"
        usage = {"input_tokens": report[0], "output_tokens": report[1]} if report else None
        messages.append(
            Recorded(
                "injected" if is_injected else role,
                _json(body),
                tuple(use["id"] for use in uses),
                results,
                usage if role == "model" else None,
                holds_nothing=not any(block["type"] != "text" or block["text"].strip() for block in blocks),
            )
        )
    declared = [{"name": tool, "input_schema": {"type": "object"}} for tool in tools]
    return _recording(name, "anthropic.messages", messages, reports, Envelope(system=system, tools=declared))


_WRITERS: dict[str, Callable[[str, Sequence[Json]], Recording]] = {
    "openai.chat": _write_chat,
    "anthropic.messages": _write_anthropic,
}


# Both


def _recording(
    name: str,
    format: str,
    messages: Sequence[Recorded],
    reports: Sequence[tuple[int, int] | None],
    envelope: Envelope | None,
) -> Recording:
    pairs = zip(messages, reports, strict=True)
    inputs = tuple(report[0] for message, report in pairs if report and message.role == "model")
    characters = sum(len(message.body) for message in messages)
    return Recording(name, format, tuple(messages), envelope, characters, inputs)


def _json(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


_INPUT = ("prompt_tokens", "input_tokens", "inputTokens", "input")
_OUTPUT = ("completion_tokens", "output_tokens", "outputTokens", "output")
# Providers whose input does not include what was read from their cache or written to it.
_CACHED_APART = (
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "input_tokens_cache_read",
    "input_tokens_cache_write",
    "cacheRead",
    "cacheWrite",
)


def _tokens(usage: Json | None) -> tuple[int, int] | None:
    """Input, cached ones included, and output of a recorded report; None for a reply that reports zeros
    because it was broken off."""
    if not usage:
        return None
    given = next(usage[name] for name in _INPUT if name in usage)
    total = given + sum(usage.get(name) or 0 for name in _CACHED_APART)
    output = next(usage[name] for name in _OUTPUT if name in usage)
    return (total, output) if total else None
