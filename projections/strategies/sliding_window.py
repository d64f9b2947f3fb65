"""``sliding-window``: drops what is older than the newest turns."""

from __future__ import annotations

from turnledger.domain.policies import SlidingWindow
from turnledger.domain.words import NotEngaged
from turnledger.projections.strategies.base import Decision, Drop, View


class SlidingWindowStrategy:
    """Acts whenever there are more turns than the keep depth."""

    def __init__(self, policy: SlidingWindow) -> None:
        self._recent = policy.keep_recent_turns

    def decide(self, view: View) -> Decision:
        """Drops the plan at the keep depth."""
        if view.turn_count <= self._recent:
            return Decision(NotEngaged.FEW_TURNS, self._recent)
        span = view.plan(self._recent)
        return Decision(recent=self._recent, operations=(Drop(span),) if span else ())
