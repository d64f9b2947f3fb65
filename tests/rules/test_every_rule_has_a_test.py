"""Every rule of windows has a test that carries its number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

RULES = (
    *("1_1", "1_2", "1_3", "1_4", "1_5", "1_6", "1_7"),
    *("2_1", "2_2", "2_3"),
    *("3_1", "3_2", "3_3", "3_4", "3_5", "3_6"),
    *("4_1", "4_2", "4_3", "4_4", "4_5", "4_6", "4_7", "4_8"),
    *("5_1", "5_2", "5_3", "5_4"),
    *("6_1", "6_2", "6_3", "6_4", "6_5", "6_6"),
    "7",
    *("8_none", "8_sliding_window", "8_token_budget", "8_compact_results"),
    *("8_1", "8_2", "8_3", "8_4", "8_6", "8_7"),
    "10",
)
"""The rules, as the names of tests spell them; of chapter 8 also the strategies of its table."""

_FOLDER = Path(__file__).parent


def _tests() -> Iterator[tuple[str, str]]:
    """Chapter and name of every test of a rule."""
    for path in sorted(_FOLDER.glob("test_[0-9]*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield str(int(path.name[5:7])), node.name.removeprefix("test_")


def _rules_of(name: str) -> list[str]:
    """The rules that the name of a test begins with; one, unless it is misspelled."""
    return [rule for rule in RULES if re.match(rf"{rule}_(?!\d+_)", name)]


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_has_a_test(rule: str) -> None:
    """In the module of its chapter."""
    assert any(rule in _rules_of(name) and rule.split("_", maxsplit=1)[0] == chapter for chapter, name in _tests())


def test_every_test_carries_the_number_of_a_rule() -> None:
    """And stands in the module of the rule's chapter."""
    astray = [name for chapter, name in _tests() if [r.split("_")[0] for r in _rules_of(name)] != [chapter]]
    assert astray == []


def test_every_test_says_what_it_shows() -> None:
    """In a docstring, beside the rule that its name carries."""
    silent = [
        node.name
        for path in _FOLDER.glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert silent == []
