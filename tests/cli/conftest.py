"""A run that was imported, for commands that read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import turnledger
from support.service import USER, reply, result, sqlite_store

MESSAGES = [
    USER,
    reply("c1"),
    result("c1", "because\x1b[31m of\x07 \u202eit\nline 2\nline 3"),
    reply("c2"),
    result("c2", "nothing"),
    {"role": "assistant", "content": "Because."},
    {"role": "user", "content": "Sure?"},
]
REQUEST = {"model": "m", "temperature": 0.5, "messages": MESSAGES}
POLICY = '{"strategy": "sliding-window", "keep_recent_turns": 1, "keep_last_tool_results": 0}'


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with the run ``brought``, of four iterations."""
    (tmp_path / "transcript.json").write_text(json.dumps(REQUEST))
    (tmp_path / "policy.json").write_text(POLICY)
    address = sqlite_store(tmp_path)
    given = ("--format", "openai.chat", "--run", "brought", "--policy", POLICY, "--label", "team=red")
    assert turnledger("import", tmp_path / "transcript.json", *given, "--store", address).code == 0
    return address
