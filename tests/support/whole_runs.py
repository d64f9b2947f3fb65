"""Whole runs as properties are given them: few and always the same, or many and always others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from support.recording import FORMS, Case
from support.runs import EVERY_POLICY

Property = Callable[[Case], None]

CASES = st.builds(
    Case,
    seed=st.integers(0, 9_999),
    format=st.sampled_from(sorted(FORMS)),
    policy=st.sampled_from(sorted(EVERY_POLICY)),
    calls=st.sampled_from(range(1, 81)),
)
"""A run that breaks a property is made shorter by its last calls."""
_BOTH = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))


def of_whole_runs(holds: Property) -> Property:
    """A property of every run. All properties are given the same runs, so that each is driven once."""
    return seed(1)(settings(_BOTH, max_examples=90)(given(CASES)(holds)))


def of_many_runs(holds: Property) -> Property:
    """Likewise, of many that are others each time."""
    many: Property = settings(_BOTH, max_examples=1_500)(given(CASES)(holds))
    return pytest.mark.slow(pytest.mark.timeout(1800)(many))
