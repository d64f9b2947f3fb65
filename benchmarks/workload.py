"""The synthetic run that benchmarks drive: an agent that calls one tool at a time and reads what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

FORMAT = "openai.chat"
TOKENIZER = "o200k_base"
RESULT_LINES = 30
"""A result is about two thousand characters, as that of a search or of a test run is."""
_WORDS = [
    "the",
    "test",
    "of",
    "a",
    "cart",
    "price",
    "total",
    "tax",
    "rate",
    "module",
    "function",
    "call",
    "returned",
    "expected",
    "value",
    "line",
    "error",
    "path",
]


def request() -> bytes:
    """What the person asks for."""
    return _body({"role": "user", "content": "One test of the shop fails now and then. Find out why, and mend it."})


def exchange(number: int) -> tuple[bytes, bytes]:
    """A call and its result; for one number always the same bytes."""
    random = Random(number)
    call_id = f"call_{number:08}"
    arguments = json.dumps({"path": f"src/module_{number % 40}.py", "pattern": _line(random, 3)})
    function = {"name": ("search", "read_file", "run_tests")[number % 3], "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    reply = {"role": "assistant", "content": _line(random, 30), "tool_calls": [call]}
    lines = "\n".join(f"{at:4}: {_line(random, 10)}" for at in range(RESULT_LINES))
    return _body(reply), _body({"role": "tool", "tool_call_id": call_id, "content": lines})


def exchanges(count: int, start: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """So many exchanges."""
    return map(exchange, range(start, start + count))


def _line(random: Random, words: int) -> str:
    return " ".join(random.choices(_WORDS, k=words))


def _body(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()
