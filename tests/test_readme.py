"""The README's session runs as it stands and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.provider import providing
from support.service import served

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_session_prints_what_it_says(tmp_path: Path) -> None:
    """A newcomer who copies the session sees the output that stands below it."""
    session = _blocks("python")[0]
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


TOOL = {"type": "function", "function": {"name": "run_tests", "parameters": {"type": "object"}}}


def _run(code: str, address: str, **names: Any) -> dict[str, Any]:
    assert "127.0.0.1:50551" in code
    exec(compile(code.replace("127.0.0.1:50551", address), "documentation", "exec"), names)
    return names


def test_the_loop_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """With OpenAI's SDK against a local provider: two calls of a tool, then the answer."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with providing(tool_calls=2) as provider, served() as ledger:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        ended = _run(_blocks("python")[1], ledger.address, TOOLS=[TOOL], MODEL="m", run_tool=lambda call: "2 passed")
        run = ledger.run(ended["run"].id)
        assert [body["messages"] for body in provider.received] == [w.messages for w in run.replay_all()]
        details = run.get().run
    assert (details.status, details.iteration, details.input_tokens) == ("finished", 3, 60)


def test_the_worker_s_guide_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its code, in its order, with Anthropic's SDK against a local provider."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "clients.md").read_text(), re.DOTALL))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with providing(tool_calls=1) as provider, served() as ledger:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        ended = _run(code, ledger.address, run_tool=lambda call: "2 passed")
        assert [body["messages"] for body in provider.received] == [
            ended["run"].replay(iteration).messages for iteration in (1, 2)
        ]
        assert ended["run"].get().run.status == "finished"
        assert ended["brought"].get().run.message_count == 2
        ended["ledger"].close()
        ended["api"].close()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_link_of_the_docs_leads_somewhere(page: Path) -> None:
    """What a page points at is there."""
    targets = re.findall(r"\]\((?!http)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
