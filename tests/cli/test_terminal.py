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


def _piped(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env=_environment(**environment))


def test_a_terminal_has_colour_unless_told_otherwise(store: str) -> None:
    """NO_COLOR takes the colours; nothing else changes."""
    command = (COMMAND, "window", "brought", "--at", "2", "--store", store)
    code, coloured = _on_a_terminal(*command, COLUMNS="100")
    _, bare = _on_a_terminal(*command, COLUMNS="100", NO_COLOR="1")
    assert code == 0
    assert re.search(r"\x1b\[[0-9;]*3\d", coloured)
    assert not re.search(r"\x1b\[[0-9;]*3\d", bare)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == re.sub(r"\x1b\[[0-9;]*m", "", bare)


def test_what_a_message_holds_does_not_reach_the_terminal(store: str) -> None:
    """Escapes and bells in it are shown."""
    _, shown = _on_a_terminal(COMMAND, "message", "brought/5", "--store", store)
    assert "because␛[31m of␇" in shown
    assert "\x07" not in shown


@pytest.mark.parametrize(("seconds", "is_shown"), [(0.5, True), (0.0, False)], ids=["slow", "quick"])
def test_progress_is_shown_for_what_takes_long(seconds: float, is_shown: bool) -> None:
    """And for nothing else."""
    script = (sys.executable, "-c", SLOW.format(seconds=seconds))
    _, shown = _on_a_terminal(*script)
    assert ("working" in shown) is is_shown


def test_a_pipe_has_neither_colour_nor_progress(store: str) -> None:
    """What is written is text alone."""
    ended = _piped(COMMAND, "show", "brought", "--store", store)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
    slow = _piped(sys.executable, "-c", SLOW.format(seconds=0.4))
    assert (slow.stdout, slow.stderr) == ("", "")


@pytest.mark.parametrize("command", [("show", "brought"), ("runs",), ("doctor",)], ids=lambda c: c[0])
def test_a_narrow_terminal_breaks_nothing(store: str, command: tuple[str, ...]) -> None:
    """Lines are as wide as it is, and nothing is cut off."""
    ended = _piped(COMMAND, *command, "--store", store, COLUMNS="60")
    assert ended.returncode == 0
    assert max(map(len, ended.stdout.splitlines())) <= 60
    assert "…" not in ended.stdout


def test_a_reader_that_leaves_is_no_failure(store: str) -> None:
    """As with ``head``: no traceback, exit code 0."""
    for output in ("text", "json"):
        ours, theirs = os.pipe()
        os.close(ours)
        command = [COMMAND, "window", "brought", "--store", store, "-o", output]
        ended = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=_environment())
        os.close(theirs)
        assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_s_completion_is_printed(shell: str) -> None:
    """Ready to be read by that shell."""
    ended = _piped(COMMAND, "--show-completion", shell)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "_TURNLEDGER_COMPLETE" in ended.stdout


@pytest.mark.parametrize(("typed", "found"), [("turnledger re", "replay"), ("turnledger window --r", "--record")])
def test_commands_and_options_are_completed(typed: str, found: str) -> None:
    """What a shell asks while somebody types."""
    count = str(len(typed.split()) - 1)
    ended = _piped(COMMAND, _TURNLEDGER_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=count)
    assert found in ended.stdout.split()
