"""``turnledger import``: a transcript becomes the run that its worker would have made, or nothing does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import turnledger
from support.recorded import CORPUS
from support.service import served
from turnledger.client import LedgerClient, Run
from turnledger.grpc import server

SLIDING = '{"strategy": "sliding-window", "keep_recent_turns": 2}'
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "because"},
    {"role": "assistant", "content": "Because."},
    {"role": "user", "content": "Sure?"},
]
BLOCKS: list[dict[str, Any]] = [
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "because"}]},
]


@pytest.fixture
def ledger() -> Iterator[LedgerClient]:
    """A service to import into."""
    with served() as client:
        yield client


def _file(folder: Path, content: Any) -> Path:
    path = folder / "transcript.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def _imported(ledger: LedgerClient, path: Path, format: str, *more: object) -> Run:
    ended = turnledger("import", path, "--format", format, "--run", "brought", "--server", ledger.address, *more)
    assert (ended.code, ended.err) == (0, "")
    return ledger.run("brought")


def _bodies(run: Run) -> list[bytes]:
    return [fact.body for fact in run.ledger() if fact.topic == "turnledger.MessageAppended:1"]


# What a worker would have sent


def test_a_window_stands_before_every_reply(ledger: LedgerClient, tmp_path: Path) -> None:
    """Before each reply stands what its model was sent; a model that was still to answer has a window too."""
    run = _imported(ledger, _file(tmp_path, CHAT), "openai.chat")
    assert [window.messages for window in run.replay_all()] == [CHAT[:1], CHAT[:3], CHAT]


def test_a_transcript_that_ends_with_a_reply_ends_without_a_window(ledger: LedgerClient, tmp_path: Path) -> None:
    """Nothing follows the last reply, so its worker asked for no window."""
    run = _imported(ledger, _file(tmp_path, CHAT[:4]), "openai.chat")
    details = run.get().run
    assert (details.message_count, details.iteration) == (4, 2)


def test_bodies_are_kept_as_they_are_written(ledger: LedgerClient, tmp_path: Path) -> None:
    """Spaces, the order of keys, digits of numbers, escapes and unknown fields are those of the file."""
    bodies = [
        b'{ "content" : "caf\\u00e9 \\ud83d\\ude00 \\ud800" ,"role":"user","x": [1.10, 1e5, -0, 12345678901234567890]}',
        '{"role":"assistant",\n  "content":"naïve\\u0000"}'.encode(),
    ]
    run = _imported(ledger, _file(tmp_path, b"\n[" + b" ,\r\n\t".join(bodies) + b" ]\n"), "openai.chat")
    assert _bodies(run) == bodies


@pytest.mark.parametrize(
    ("format", "messages"), [("openai.chat", CHAT), ("anthropic.messages", BLOCKS)], ids=lambda v: str(v)[:9]
)
def test_a_request_body_brings_its_envelope(
    ledger: LedgerClient, tmp_path: Path, format: str, messages: list[dict[str, Any]]
) -> None:
    """What a request holds beside its messages goes with every window, and comes back as the same request."""
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    request = {"model": "m", "temperature": 0.10, "system": "Be brief.", "tools": tools, "messages": messages}
    run = _imported(ledger, _file(tmp_path, request), format)
    ended = turnledger("window", run.id, "--request", "--server", ledger.address)
    assert ended.document == request


def test_a_neutral_transcript_is_told_in_chat_completions(ledger: LedgerClient, tmp_path: Path) -> None:
    """Calls, results, reasoning and usage find their places."""
    lines = [
        {"role": "user", "content": "Why?"},
        {
            "role": "assistant",
            "content": "",
            "reasoning": "hm",
            "tool_calls": [{"id": "c1", "name": "look", "arguments": {"at": 1}}],
            "usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 2},
        },
        {"role": "tool", "content": "because", "tool_call_id": "c1", "is_error": True},
    ]
    content = "\n\n".join(json.dumps(line) for line in lines) + "\n"
    run = _imported(ledger, _file(tmp_path, content.encode()), "neutral")
    function = {"name": "look", "arguments": '{"at":1}'}
    assert [json.loads(body) for body in _bodies(run)] == [
        {"role": "user", "content": "Why?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "because", "tool_call_id": "c1"},
    ]
    details = run.get().run
    assert (details.format, details.input_tokens, details.output_tokens) == ("openai.chat", 10, 2)


def test_a_policy_tokenizer_and_labels_are_those_of_the_run(ledger: LedgerClient, tmp_path: Path) -> None:
    """The options open the run, a policy from a file too."""
    policy = tmp_path / "policy.json"
    policy.write_text(SLIDING)
    options = ("--policy", f"@{policy}", "--tokenizer", "cl100k_base", "--label", "team=a", "--label", "b=x=y")
    details = _imported(ledger, _file(tmp_path, CHAT), "openai.chat", *options).get().run
    assert details.policy["keep_recent_turns"] == 2
    assert (details.tokenizer, details.labels) == ("cl100k_base", {"team": "a", "b": "x=y"})


def test_what_a_strict_append_refuses_is_kept_and_reported(ledger: LedgerClient, tmp_path: Path) -> None:
    """A result that answers nothing, one that comes twice, and a message that holds nothing."""
    empty = {"role": "assistant", "content": None}
    odd = [*CHAT[:3], CHAT[2], {**CHAT[2], "tool_call_id": "nobody's"}, empty, *CHAT[3:]]
    path = _file(tmp_path, odd)
    command = ("import", path, "--format", "openai.chat", "--policy", SLIDING, "--server", ledger.address)
    ended = turnledger(*command, "--run", "odd", "--output", "json")
    assert ended.code == 0
    assert [omission["message_id"] for omission in ended.document["omissions"]] == ["odd/5", "odd/6", "odd/7"]
    assert len(_bodies(ledger.run("odd"))) == len(odd)
    assert "kept, never sent" in turnledger(*command, "--run", "odd2").out


def test_a_long_stretch_without_replies_is_one_iteration(ledger: LedgerClient, tmp_path: Path) -> None:
    """More messages than one call takes go with several, and the last of them builds the window."""
    run = _imported(ledger, _file(tmp_path, [CHAT[0]] * 2500), "openai.chat")
    details = run.get().run
    assert (details.message_count, details.iteration) == (2500, 1)


def test_standard_input_is_a_file_too(ledger: LedgerClient) -> None:
    """A dash reads it."""
    arguments = ("import", "-", "--format", "openai.chat", "--run", "piped", "--server", ledger.address)
    assert turnledger(*arguments, stdin=json.dumps(CHAT).encode()).code == 0
    assert ledger.run("piped").get().run.message_count == len(CHAT)


@pytest.mark.skipif(not CORPUS.exists(), reason=f"the recorded runs are not there: {CORPUS}")
@pytest.mark.parametrize("path", sorted((CORPUS / "neutral").glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_recorded_run_is_imported(tmp_path: Path, path: Path) -> None:
    """Every message is there, and every window is replayed from the store's file as it was sent."""
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    arguments = ("--format", "neutral", "--run", "r", "--policy", SLIDING, "--store", store, "--output", "json")
    ended = turnledger("import", path, *arguments)
    assert (ended.code, ended.err) == (0, "")
    made = ended.document
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    assert made["messages"] == len(lines)
    assert made["iterations"] + len(made["without_window"]) >= sum(line["role"] == "assistant" for line in lines) // 2
    replayed = turnledger("replay", "r", "--store", store, "--output", "json").document
    assert (replayed["holds"], len(replayed["iterations"])) == (True, made["iterations"])


# Nothing half


DAMAGED: dict[str, tuple[str, bytes, list[str]]] = {
    "no JSON": ("openai.chat", b'[\n{"role": "user",\n"content" "x"}]', ["3: no JSON: Expecting ':' delimiter"]),
    "cut off": ("openai.chat", b'[\n{"role": "user", "content": "x"},\n{"role": "us', ["3: no JSON: Unterminated"]),
    "empty file": ("openai.chat", b"", ["1: no JSON: Expecting value"]),
    "two documents": ("openai.chat", b"[]\n[]", ["2: no JSON: something follows the document"]),
    "no UTF-8": ("openai.chat", b'[\n{"role": "user", "content": "\xff"}]', ["2: no UTF-8 at byte 31"]),
    "no list": ("openai.chat", b'{"messages": {}}', ["1: must be a JSON list of messages, or an object"]),
    "too deep": ("openai.chat", b"[" * 100_000, ["1: no JSON: nested too deeply"]),
    "two bad messages": (
        "openai.chat",
        b'[\n{"role": "user", "content": "x"},\n{"role": "wizard", "content": "x"},\n7\n]',
        ["3: body.role: no message of format openai.chat", "4: body: no message of format openai.chat"],
    ),
    "the other format": (
        "anthropic.messages",
        json.dumps(CHAT, indent=1).encode(),
        ["6: body", "20: body.role: no message of format anthropic.messages"],
    ),
    "a number that is none": (
        "openai.chat",
        b'[{"role": "user", "content": "x", "y": NaN}]',
        ["1: body: must be JSON"],
    ),
    "a bad line": (
        "neutral",
        b'{"role": "user", "content": "x"}\n{"role": \n\n[1]\n',
        ["2: Expecting", "4: a line must"],
    ),
    "a bad role": ("neutral", b'{"role": "wizard"}', ["1: role must be one of system, developer, user"]),
    "a bad call": ("neutral", b'{"role": "assistant", "tool_calls": [3]}', ["1: tool_calls must be objects"]),
    "absurd usage": (
        "neutral",
        b'{"role": "user", "content": "x"}\n{"role": "assistant", "content": "y", "usage": {"input_tokens": -1}}',
        ["2: usage.prompt_tokens: must be a whole number"],
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_reported_by_line_and_not_imported(ledger: LedgerClient, tmp_path: Path, damage: str) -> None:
    """Every damage with its line, as an editor takes it; no run is opened."""
    format, content, said = DAMAGED[damage]
    path = _file(tmp_path, content)
    ended = turnledger("import", path, "--format", format, "--run", "r", "--server", ledger.address)
    assert (ended.code, ended.out) == (5, "")
    told = ended.err.splitlines()
    assert told[0] == "turnledger: nothing was imported:"
    for line, expected in zip(told[1:], said, strict=True):
        assert line.startswith(f"{path}:{expected}")
    assert list(ledger.list_runs()) == []


def test_of_many_damages_the_first_are_shown(tmp_path: Path) -> None:
    """And how many more there are."""
    ended = turnledger("import", _file(tmp_path, b"{}\n" * 50), "--format", "neutral", "--dry-run")
    assert ended.err.splitlines()[-1] == "and 30 more"


def test_a_message_over_the_limit_is_named(tmp_path: Path) -> None:
    """By its line, with the limit and its size."""
    path = _file(tmp_path, [CHAT[0], {"role": "user", "content": "x" * 16 * 1024 * 1024}])
    ended = turnledger("import", path, "--format", "openai.chat", "--dry-run")
    assert ended.code == 5
    assert ":1: body: at most 16777216" in ended.err


def test_a_dry_run_writes_nothing_and_needs_no_service(tmp_path: Path) -> None:
    """It says what would come of it."""
    command = ("import", _file(tmp_path, CHAT), "--format", "openai.chat", "--policy", SLIDING, "--dry-run")
    made = turnledger(*command, "--output", "json").document
    assert (made["dry_run"], made["messages"], made["iterations"], made["removed"]) == (True, 5, 3, 3)
    assert turnledger(*command).out.startswith("Nothing was written.")
    assert [path.name for path in tmp_path.iterdir()] == ["transcript.json"]


# Again


def test_an_import_that_stopped_half_way_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command goes on where it stopped; nothing is there twice."""
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    path = _file(tmp_path, CHAT)
    command = ("import", path, "--format", "openai.chat", "--run", "r", "--policy", SLIDING)
    made: list[str] = []
    with server.start(store) as service:
        whole = Run.step

        def fails(self: Run, *args: Any, **options: Any) -> Any:
            made.append(self._client.address)
            if made.count(service.address) == 2:
                service.stop(0)
            return whole(self, *args, **options)

        monkeypatch.setattr(Run, "step", fails)
        stopped = turnledger(*command, "--server", service.address, "--timeout", "2")
        monkeypatch.setattr(Run, "step", whole)
    assert stopped.code == 3
    assert "the same command goes on where it stopped" in stopped.err
    assert turnledger(*command, "--store", store).code == 0
    assert turnledger(*command, "--store", store).code == 0
    shown = turnledger("show", "r", "--store", store, "--output", "json").document
    assert (shown["run"]["message_count"], shown["run"]["iteration"]) == (5, 3)


def test_a_run_that_went_on_is_left_alone(ledger: LedgerClient, tmp_path: Path) -> None:
    """An import into a run that somebody else writes to is refused."""
    path = _file(tmp_path, CHAT)
    ledger.open_run(run_id="brought", format="openai.chat").append([CHAT[0]])
    command = ("import", path, "--format", "openai.chat", "--run", "brought", "--server", ledger.address)
    ended = turnledger(*command)
    assert ended.code == 4
    assert "choose another id with --run" in ended.err
    assert ledger.run("brought").get().run.message_count == 1
