"""Benchmarks end with one JSON object. What they measure is no test: it depends on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import Aim, Report, milliseconds, ratio

ROOT = Path(__file__).parents[1]


def _run(*arguments: str) -> Any:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("name", "aims"), [("visit", 3), pytest.param("step", 2, marks=pytest.mark.slow)], ids=["visit", "step"]
)
def test_a_benchmark_prints_one_object(name: str, aims: int) -> None:
    """What was measured, against what, the figures, and each aim with whether it is met."""
    report = _run(name, "--quick", "--output", "json")
    assert list(report) == ["name", "measured", "against", "figures", "aims"]
    assert report["name"] == name
    assert len(report["aims"]) == aims
    for aim in report["aims"]:
        assert list(aim) == ["name", "measured", "aim", "met"]
        assert aim["met"] == (aim["measured"] <= aim["aim"])


def test_an_aim_is_met_up_to_its_bound() -> None:
    """The bound itself is met."""
    assert [Aim("a", measured, 1.8).met for measured in (1.7, 1.8, 1.81)] == [True, True, False]
    report = Report("a", "b", "c", {"d": 1}, (Aim("e", 2.0, 1.0),))
    aim = {"name": "e", "measured": 2.0, "aim": 1.0, "met": False}
    assert report.document == {"name": "a", "measured": "b", "against": "c", "figures": {"d": 1}, "aims": [aim]}


def test_times_are_told_by_their_median() -> None:
    """In milliseconds; a ratio is one of medians, so that a stall moves neither."""
    assert milliseconds([0.001] * 19 + [1.0])["median_ms"] == 1.0
    assert ratio([3.0, 2.0, 100.0], [1.0, 2.0, 0.5]) == 3.0
