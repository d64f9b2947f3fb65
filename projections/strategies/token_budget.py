"""``token-budget``: drops what is older than the newest turns once the measured input is over a threshold."""

from __future__ import annotations

from turnledger.domain.policies import TokenBudget
from turnledger.domain.words import NotEngaged
from turnledger.projections.strategies.base import Decision, Drop, View


class TokenBudgetStrategy:
    """Acts above the threshold; equal is under it (WINDOW-RULES 6.6)."""

    def __init__(self, policy: TokenBudget) -> None:
        self._policy = policy

    def decide(self, view: View) -> Decision:
        """Drops the plan at the keep depth, where the budget is exceeded."""
        measurement = view.measure(self._policy.measure, self._policy.threshold_tokens)
        recent = self._policy.keep_recent_turns
        if measurement.tokens is None:
            return Decision(NotEngaged.NOT_MEASURED, measurement=measurement)
        if not measurement.over_budget:
            return Decision(NotEngaged.UNDER_THRESHOLD, measurement=measurement)
        span = view.plan(recent)
        return Decision(recent=recent, operations=(Drop(span),) if span else (), measurement=measurement)
