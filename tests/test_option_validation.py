"""Option values that the reference accepts and refuses, in our spelling."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from support.reference_vectors import VECTORS
from turnledger.domain.errors import PolicyInvalid
from turnledger.domain.policies import parse_policy

pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason="the reference's vectors are not beside the project")
DOORS = {
    "slidingWindow": {"strategy": "sliding-window"},
    "tokenBudget": {"strategy": "token-budget"},
    "Agent.create keepLastToolResults": {"strategy": "sliding-window", "keep_recent_turns": 2},
}
"""The reference's constructors whose strategies are built, and the policy that each stands for."""
SPELLING = {
    "keepRecentTurns": "keep_recent_turns",
    "thresholdTokens": "threshold_tokens",
    "keepLastToolResults": "keep_last_tool_results",
}
OURS = {"validation-023": "thresholds are whole numbers"}
"""Values that we refuse on purpose."""


def _cases() -> list[dict[str, Any]]:
    if not VECTORS.exists():
        return []
    rows = [json.loads(line) for line in (VECTORS / "option-validation.jsonl").read_text().splitlines()]
    return [
        row
        for row in rows
        if row["door"] in DOORS and isinstance(row["input"], dict) and not _is_javascript(row["input"])
    ]


def _is_javascript(value: dict[str, Any]) -> bool:
    """What has no form in JSON and can't come in: an undefined or a function in place of the options."""
    return "$undefined" in value or "$function" in value


def _value(value: Any) -> Any:
    if isinstance(value, dict) and "$number" in value:
        return math.nan if value["$number"] == "NaN" else math.inf
    return value


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_a_value_is_accepted_or_refused_by_name(case: dict[str, Any]) -> None:
    """As the reference does, and the error names the option."""
    options = {
        SPELLING.get(name, name): _value(value)
        for name, value in case["input"].items()
        if not (isinstance(value, dict) and "$undefined" in value)
    }
    policy = {**DOORS[case["door"]], **options}
    if case["expected"]["ok"] and case["id"] not in OURS:
        parsed = parse_policy(policy).model_dump()
        assert {name: parsed[name] for name in options} == options
        return
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy(policy)
    assert refused.value.field == f"policy.{SPELLING[case['expected'].get('field', 'thresholdTokens')]}"


@pytest.mark.parametrize(
    "wrong", ["[]", "5", '"x"', "{", "null", '{"strategy": "compaction"}', '{"strategy": 5}', "{}"]
)
def test_what_is_no_policy_is_refused(wrong: str) -> None:
    """A policy is a JSON object that names one strategy there is."""
    with pytest.raises(PolicyInvalid):
        parse_policy(wrong)


def test_an_unknown_option_is_refused_by_name() -> None:
    """A misspelled option is no default."""
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy({"strategy": "sliding-window", "keep_recent_turns": 2, "keep_turns": 3})
    assert refused.value.field == "policy.keep_turns"
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy({"strategy": "sliding-window", "keep_recent": 3})
    assert refused.value.field == "policy.keep_recent"


@pytest.mark.parametrize(
    "policy",
    [
        {"strategy": "sliding-window", "keep_recent_turns": 2**53 + 1},
        {"strategy": "token-budget", "threshold_tokens": 2**64},
        {"strategy": "compact-results", "keep_raw": 2**70},
        {"strategy": "none", "keep_last_tool_results": 2**64},
    ],
    ids=lambda policy: policy["strategy"],
)
def test_numbers_have_a_largest(policy: dict[str, Any]) -> None:
    """Beyond what every reader of JSON takes for the same number."""
    *_, option = policy
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy(policy)
    assert refused.value.field == f"policy.{option}"
    parse_policy({**policy, option: 2**53})


def test_text_that_is_no_json_is_shown() -> None:
    """And not what the parser says in its place."""
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy("compact-results")
    assert (refused.value.field, refused.value.value) == ("policy", "compact-results")
