"""The engine decides as the reference does, wherever our rules are the same."""

from __future__ import annotations

from collections import Counter

import pytest

from support.reference_vectors import VECTORS, Visit, engine_input, is_not_smaller, not_comparable, other_window, visits
from turnledger.projections.guards import Plan, plan
from turnledger.projections.turns import Turns

pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason="the reference's vectors are not beside the project")
COMPARED_MIN = 1050
DROPPING = ("sliding-window", "token-budget")
"""Strategies of ours that do with the plan what the reference's do."""
ENGINE_WORDS = {
    "inside-keep-window",
    "current-request",
    "system-envelope",
    "pending-check-in",
    "paused-tool",
    "unresolved-tool-call",
    "last-tool-result",
}
"""What the engine says; other words are a strategy's own."""


def _decided(turns: Turns, ids: dict[int, str], planned: Plan, visit: Visit) -> dict[str, object]:
    """Our decision in the reference's words."""
    span = planned.span
    removed = [ids[m.version] for i in span for m in turns[i].messages]
    is_planned = bool(visit.expected.get("plan"))
    return {
        "from": span.start if span else -1,
        "to": span.stop - 1 if span else -1,
        "removed": removed if _removes(visit) else None,
        "refusals": {
            i: r.value for i, r in enumerate(planned.reasons) if is_planned and r and not _is_behind(i, planned)
        },
        "pinned": sorted(planned.pinned.admitted),
        "yielded": planned.pinned.yielded,
    }


def _removes(visit: Visit) -> bool:
    """What was planned is what left."""
    return visit.strategy in DROPPING and not is_not_smaller(visit)


def _is_behind(index: int, planned: Plan) -> bool:
    """Between the turn that ends the span and the recent ones: accounted for by our rules alone (4.4)."""
    return bool(planned.span) and planned.span.stop < index < len(planned.reasons) - planned.recent


def _expected(visit: Visit) -> dict[str, object]:
    """The reference's decision."""
    (made,) = visit.expected.get("plan") or [{"from": -1, "to": -1}]
    observations = visit.record.get("observations") or made.get("observations") or {}
    return {
        "from": made["from"],
        "to": made["to"],
        "removed": visit.expected["removedIds"] if _removes(visit) else None,
        "refusals": {
            r["turnIndex"]: r["reason"] for r in visit.record.get("refusals", []) if r["reason"] in ENGINE_WORDS
        },
        "pinned": sorted(p["turnIndex"] for p in observations.get("pinned", [])),
        "yielded": observations.get("yielded", 0),
    }


def _differences(visit: Visit) -> dict[str, tuple[object, object]]:
    """What the engine decides otherwise: ours, and the reference's."""
    turns, state, ids = engine_input(visit)
    recent = (visit.expected.get("plan") or [visit.options])[0]["keepRecentTurns"]
    planned = plan(turns, state, recent=recent, pin_limit=visit.pins, pin_by_arguments=False)
    ours, theirs = _decided(turns, ids, planned, visit), _expected(visit)
    return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}


def test_every_comparable_decision_is_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """Span, removed messages, refusals, pins and what they yielded, visit by visit."""
    counted: Counter[str] = Counter()
    differing = {}
    for visit in visits():
        rule = not_comparable(visit)
        counted[rule or "compared"] += 1
        if rule is None and (found := _differences(visit)):
            differing[visit.name] = found
    with capsys.disabled():
        print(*(f"{count:5} {rule}" for rule, count in counted.most_common()), sep="\n", end=" ")
    assert differing == {}
    assert counted["compared"] >= COMPARED_MIN


def test_the_triggers_are_equal() -> None:
    """sliding-window acts on more turns than its keep depth, token-budget on a report above its threshold."""
    compared: Counter[str] = Counter()
    for visit in visits():
        if visit.strategy not in DROPPING or other_window(visit):
            continue
        compared[visit.strategy] += 1
        if visit.strategy == "sliding-window":
            turns, _, _ = engine_input(visit)
            assert visit.expected["engaged"] is (len(turns) > visit.options["keepRecentTurns"]), visit.name
        else:
            _check_budget(visit)
    assert min(compared.values()) > 100


def _check_budget(visit: Visit) -> None:
    reported = (visit.given.get("reportedUsage") or {}).get("input")
    if "throws" in visit.expected:
        assert visit.given["reportedUsage"] == {"input": 0, "output": 0}, visit.name
        return
    threshold = visit.options["thresholdTokens"]
    over = reported is not None and reported > threshold
    assert visit.expected["engaged"] is over, visit.name
    if over:
        assert (visit.record["measuredTokens"], visit.record["overBudget"]) == (reported, True), visit.name
