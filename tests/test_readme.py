"""The README's session runs as it stands and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_session_prints_what_it_says(tmp_path: Path) -> None:
    """A newcomer who copies the session sees the output that stands below it."""
    (session,) = _blocks("python")
    printed = _blocks("text")[0]
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", session], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert ended.stderr == ""
    assert ended.stdout == printed


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)#]+)", README))))
def test_every_link_leads_somewhere(target: str) -> None:
    """What the README points at is there."""
    assert (ROOT / target).exists()


def test_every_policy_and_option_is_in_the_table() -> None:
    """The table of policies names every strategy and every option that there is."""
    from turnledger.domain.policies import POLICY_CLASSES

    section = README[README.index("## Policies") : README.index("## The service")]
    names = {name for cls in POLICY_CLASSES.values() for name in cls.model_fields} - {"strategy", "version"}
    assert [name for name in {*POLICY_CLASSES, *names} if f"`{name}`" not in section] == []
