"""Strategies: when to act and how much. One is one module, and imports no other's machinery (8.7)."""

from __future__ import annotations

from turnledger.domain.policies import CompactResults, Policy, SlidingWindow, TokenBudget
from turnledger.projections.strategies.base import Decision, Drop, ResultsView, Rewrite, Strategy, View
from turnledger.projections.strategies.compact_results import CompactResultsStrategy
from turnledger.projections.strategies.sliding_window import SlidingWindowStrategy
from turnledger.projections.strategies.token_budget import TokenBudgetStrategy

__all__ = ["Decision", "Drop", "ResultsView", "Rewrite", "Strategy", "View", "strategy_of"]


def strategy_of(policy: Policy) -> Strategy | None:
    """The strategy of a policy; None for ``none``, which decides nothing.

    Raises :class:`turnledger.domain.errors.PolicyInvalid` for an option that only it can check.
    """
    match policy:
        case SlidingWindow():
            return SlidingWindowStrategy(policy)
        case TokenBudget():
            return TokenBudgetStrategy(policy)
        case CompactResults():
            return CompactResultsStrategy(policy)
        case _:
            return None
