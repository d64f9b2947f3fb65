"""The command on a terminal and in a pipe: colour, progress, width, readers that leave, completion."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from support.command import turnledger
from turnledger.cli import output

COMMAND = Path(sys.executable).with_name("turnledger")
SLOW = """
import time
from turnledger.cli.output import progress
with progress("working", 3) as done:
    for _ in range(3):
        time.sleep({seconds})
        done()
"""


def _environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    return {**kept, "TERM": "xterm-256color", **more}


def _on_a_terminal(*command: str | Path, **environment: str) -> tuple[int, str]:
    """Runs a command on a terminal of its own; gives its exit code and what the terminal was sent."""
    ours, theirs = pty.openpty()
    received = []

    def read() -> None:
        # A terminal that nobody has open any more ends with an error, not with an empty read.
        with suppress(OSError):
            while chunk := os.read(ours, 65536):
                received.append(chunk)

    reader = Thread(target=read)
    reader.start()
    ended = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, env=_environment(**environment))
    os.close(theirs)
    reader.join()
    os.close(ours)
    return ended.returncode, b"".join(received).decode()


def test_a_terminal_has_colour_unless_told_otherwise(store: str) -> None:
    """NO_COLOR takes the colours; nothing else changes. What a message holds is shown, not obeyed."""
    command = (COMMAND, "window", "brought", "--at", "2", "--store", store)
    code, coloured = _on_a_terminal(*command, COLUMNS="100")
    _, bare = _on_a_terminal(*command, COLUMNS="100", NO_COLOR="1")
    assert code == 0
    assert re.search(r"\x1b\[[0-9;]*3\d", coloured)
    assert not re.search(r"\x1b\[[0-9;]*3\d", bare)
    assert "because␛[31m of␇" in bare
    assert "\x07" not in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == re.sub(r"\x1b\[[0-9;]*m", "", bare)


@pytest.mark.parametrize(("seconds", "is_shown"), [(0.4, True), (0.0, False)], ids=["slow", "quick"])
def test_progress_is_shown_for_what_takes_long(seconds: float, is_shown: bool) -> None:
    """And for nothing else."""
    script = (sys.executable, "-c", SLOW.format(seconds=seconds))
    _, shown = _on_a_terminal(*script)
    assert ("working" in shown) is is_shown


def test_a_pipe_has_neither_colour_nor_progress(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is text alone, however long it takes."""
    command = (COMMAND, "show", "brought", "--store", store)
    ended = subprocess.run(command, capture_output=True, text=True, env=_environment())
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
    monkeypatch.setattr(output, "PROGRESS_AFTER_SECONDS", 0)
    assert turnledger("replay", "brought", "--store", store).err == ""


@pytest.mark.parametrize("command", [("show", "brought"), ("runs",), ("doctor",)], ids=lambda c: c[0])
def test_a_narrow_terminal_breaks_nothing(store: str, command: tuple[str, ...]) -> None:
    """Lines are as wide as it is, and nothing is cut off."""
    ended = turnledger(*command, "--store", store, columns=60)
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= 60
    assert "…" not in ended.out


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_leaves_is_no_failure(form: str) -> None:
    """As with ``head``: no traceback, exit code 0."""
    ours, theirs = os.pipe()
    os.close(ours)
    command = (COMMAND, "policies", "-o", form)
    ended = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=_environment())
    os.close(theirs)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_s_completion_is_printed(shell: str) -> None:
    """Ready to be read by that shell."""
    ended = turnledger("--show-completion", shell)
    assert (ended.code, ended.err) == (0, "")
    assert "_TURNLEDGER_COMPLETE" in ended.out


@pytest.mark.parametrize(("typed", "found"), [("turnledger re", "replay"), ("turnledger window --r", "--record")])
def test_commands_and_options_are_completed(monkeypatch: pytest.MonkeyPatch, typed: str, found: str) -> None:
    """What a shell asks while somebody types."""
    monkeypatch.setenv("_TURNLEDGER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    assert found in turnledger().out.split()
