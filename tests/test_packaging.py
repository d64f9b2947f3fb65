"""The wheel: a worker's installation is small and works; the server's brings the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    return next(folder.glob("*.whl"))


def _installed(folder: Path, requirement: str) -> Path:
    """A fresh virtual environment with a requirement."""
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--python", python, "--constraint", ROOT / "constraints.txt", requirement],
        check=True,
    )
    return python


def test_a_worker_needs_no_server(wheel: Path, tmp_path: Path) -> None:
    """The base installation imports client and domain, and has no package of the server."""
    python = _installed(tmp_path / "base", str(wheel))
    script = (
        "import importlib.util as u, turnledger.client, turnledger.domain.run, turnledger.domain.policies\n"
        "print([n for n in ('eventsourcing', 'msgspec', 'tiktoken', 'structlog', 'typer') if u.find_spec(n)])"
    )
    ended = subprocess.run([python, "-W", "error", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.stderr, ended.stdout) == ("", "[]\n")
    command = subprocess.run([python.with_name("turnledger")], capture_output=True, text=True, cwd=tmp_path)
    assert command.returncode == 1
    assert command.stderr == ("turnledger: the command needs more packages (msgspec): install 'turnledger[server]'\n")


def test_the_server_brings_the_command_and_all_data(wheel: Path, tmp_path: Path) -> None:
    """From the wheel alone the command runs, the demonstration too, and tokens are counted, without a network."""
    python = _installed(tmp_path / "server", f"{wheel}[server,demo]")
    helped = subprocess.run([python.with_name("turnledger"), "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert helped.returncode == 0
    assert "serve" in helped.stdout
    script = (
        "from turnledger.ledger.tokenizers import tokenizer_named as t; print(t('o200k_base').count(['hello world']))"
    )
    counted = subprocess.run([python, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert counted.stdout == "2\n"
    demo = [python.with_name("turnledger"), "demo", "--output", "json"]
    shown = subprocess.run(demo, capture_output=True, text=True, cwd=tmp_path, timeout=110)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert json.loads(shown.stdout)["holds"] is True
