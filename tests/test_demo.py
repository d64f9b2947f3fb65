"""The demonstration runs a real loop through a real service, and what it claims holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from turnledger.examples.flaky_hunt.tools import Workspace

COMMAND = Path(sys.executable).with_name("turnledger")


@pytest.fixture(scope="module")
def shown() -> str:
    """What the demonstration prints, at a fixed width and without colour."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    ended = subprocess.run([COMMAND, "demo"], capture_output=True, text=True, env=environment, timeout=110)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_it_says_that_the_model_is_a_stand_in(shown: str) -> None:
    """Nobody is left to think that a model was called."""
    assert "SCRIPTED STAND-IN" in shown
    assert "--base-url" in shown


def test_it_proves_what_it_claims(shown: str) -> None:
    """The request stands in every window, the originals are in the ledger, the replay is byte-equal."""
    checks = [line for line in shown.splitlines() if line.startswith(("ok  ", "FAILED"))]
    assert len(checks) == 3
    assert all(line.startswith("ok") for line in checks)


def test_the_line_that_mattered_stands_out(shown: str) -> None:
    """Under compact-results the finding stands in its one line, with the id of the original."""
    assert "lines left out, kept as flaky-hunt-compact-" in shown
    assert "FAILED tests/test_checkout.py::test_walk_in_pays_list_price" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--model", "m"], 2, "--base-url and --model are given together"),
        (["--base-url", "127.0.0.1:1/v1", "--model", "m"], 2, "must start with https:// or http://"),
        (["--base-url", "http://127.0.0.1:1/v1", "--model", "m"], 3, "turnledger: the model does not answer: "),
    ],
)
def test_a_model_that_is_not_there_is_one_line(arguments: list[str], code: int, said: str) -> None:
    """What to mend, and no traceback."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    ended = subprocess.run([COMMAND, "demo", *arguments], capture_output=True, text=True, env=environment, timeout=60)
    assert ended.returncode == code
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("seed", "verdict"), [(7, "1 failed"), (5, "86 passed")])
def test_the_flaky_test_depends_on_the_order_alone(seed: int, verdict: str) -> None:
    """One seed, one verdict: the example's tools are real, and what they find can be found again."""
    with Workspace() as workspace:
        first, second = (workspace.call("run_tests", f'{{"seed": {seed}}}') for _ in range(2))
    assert verdict in first
    assert verdict in second
