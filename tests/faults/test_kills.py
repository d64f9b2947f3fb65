"""A service killed under load keeps what it answered, and nothing half; ``kills.py`` does it a thousand times."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.kills import run_campaign


@pytest.mark.parametrize("kills", [10, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_kills_lose_nothing(tmp_path: Path, kills: int) -> None:
    """Every acknowledged step is there, no half one is, and a retry gets the first answer."""
    campaign = run_campaign(tmp_path, kills, 1, lambda campaign: None)
    assert campaign.kills == kills
    assert campaign.steps_acknowledged > kills
    assert campaign.retries_answered_as_first > 0
