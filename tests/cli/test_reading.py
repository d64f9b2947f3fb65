"""``runs``, ``show``, ``window`` and ``message``: what is in a ledger, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import turnledger
from support.service import sqlite_store
from turnledger.client import LedgerClient
from turnledger.grpc import server

BODY = '{"role": "tool", "tool_call_id": "c1", "content": "because\\u001b[31m of\\u0007 \\u202eit\\nline 2\\nline 3"}'


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), ["r2", "r1", "r0"]),
        (("--limit", "2"), ["r2", "r1"]),
        (("--limit", "0"), ["r2", "r1", "r0"]),
        (("--status", "finished"), ["r1"]),
        (("--label", "n=2"), ["r2"]),
        (("--label", "n=2", "--status", "finished"), []),
    ],
)
def test_runs_are_listed_as_asked(tmp_path: Path, options: tuple[str, ...], found: list[str]) -> None:
    """Latest first, filtered, and no more than asked for; whether there are more is said."""
    store = sqlite_store(tmp_path)
    with server.start(store) as service, LedgerClient(service.address) as ledger:
        for number in range(3):
            ledger.open_run(run_id=f"r{number}", format="openai.chat", labels={"n": str(number)})
        ledger.run("r1").close()
    document = turnledger("runs", *options, "--store", store, "-o", "json").document
    assert [run["run_id"] for run in document["runs"]] == found
    assert document["more"] is (options == ("--limit", "2"))
    shown = turnledger("runs", *options, "--store", store).out
    assert all(run_id in shown for run_id in found)
    assert ("No run fits." in shown) is not found
    assert ("--limit 0 lists all" in shown) is document["more"]


def test_no_runs_yet(tmp_path: Path) -> None:
    """An empty ledger is said to be empty."""
    store = sqlite_store(tmp_path)
    with server.start(store):
        pass
    assert "No runs yet." in turnledger("runs", "--store", store).out
    assert turnledger("runs", "--store", store, "-o", "json").document == {"runs": [], "more": False}


def test_a_timeline_has_a_line_for_each_iteration(store: str) -> None:
    """What came, what left and what refused to, by number."""
    lines = turnledger("show", "brought", "--store", store).out.splitlines()
    timeline = lines[next(i for i, line in enumerate(lines) if line.startswith("it ")) + 1 :]
    assert [line.split()[0] for line in timeline] == ["1", "2", "3", "4"]
    assert "model, tool" in timeline[2]
    steps = turnledger("show", "brought", "--store", store, "-o", "json").document["timeline"]
    assert [step["iteration"] for step in steps] == [1, 2, 3, 4]
    assert any(record["removed"] for step in steps for record in step["window"]["records"])


def test_a_request_is_what_its_worker_sent(store: str) -> None:
    """Byte for byte: each message as the file has it, with its envelope."""
    asked = ("window", "brought", "--at", "2", "--request", "--store", store)
    piped = turnledger(*asked)
    assert BODY.encode() in piped.raw
    assert piped.document["model"] == "m"
    assert piped.document["temperature"] == 0.5
    assert turnledger(*asked, "-o", "json").document["request"] == piped.document


def test_a_record_comes_in_place_of_the_messages(store: str) -> None:
    """And is the one that its window was sent with."""
    asked = ("window", "brought", "--at", "3", "--record", "--store", store)
    document = turnledger(*asked, "-o", "json").document
    assert "messages" not in document
    assert document["records"][0]["strategy"] == "sliding-window"
    assert "sliding-window, version 1" in turnledger(*asked).out
    assert turnledger(*asked, "--request").code == 2


@pytest.mark.parametrize(("lines", "shown"), [(0, True), (2, False), (20, True)])
def test_long_messages_are_cut_as_asked(store: str, lines: int, shown: bool) -> None:
    """What is left out is counted."""
    out = turnledger("window", "brought", "--at", "2", "--lines", lines, "--store", store).out
    assert ("line 3" in out) is shown
    assert ("1 more line: --lines 0 shows all" in out) is not shown


def test_the_last_window_is_shown_unless_told_otherwise(store: str) -> None:
    """In both outputs, with every message."""
    document = turnledger("window", "brought", "--store", store, "-o", "json").document
    assert document["iteration"] == 4
    assert document["messages"][-1]["message"] == {"role": "user", "content": "Sure?"}
    assert "brought, iteration 4" in turnledger("window", "brought", "--store", store).out


def test_a_message_comes_back_byte_for_byte(store: str) -> None:
    """Raw as it was given; in a document as the same JSON."""
    assert turnledger("message", "brought/5", "--raw", "--store", store).raw == BODY.encode()
    assert turnledger("message", "brought/5", "--store", store, "-o", "json").document["message"] == json.loads(BODY)


@pytest.mark.parametrize("command", [("message", "brought/5"), ("window", "brought", "--at", "2")], ids=lambda c: c[0])
def test_what_a_terminal_would_obey_is_shown(store: str, command: tuple[str, ...]) -> None:
    """Escapes, bells and turned text inside a message are harmless."""
    out = turnledger(*command, "--store", store).out
    assert "because␛[31m of␇ \\u202eit" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
