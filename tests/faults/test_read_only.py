"""A store that can't be written to when the service starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.command import turnledger
from support.mounts import mounted, needs_mounts
from support.process import COMMAND
from support.read_only import read_only_folder
from turnledger.cli.exits import Exit


@pytest.mark.parametrize("with_store", [False, True])
def test_a_service_does_not_start_on_what_it_cannot_write(with_store: bool) -> None:
    """One line names the file, and the exit code says that there is no store."""
    with read_only_folder(with_store=with_store) as path:
        ended = turnledger("serve", "--store", f"sqlite:///{path}", "--listen", "127.0.0.1:0")
    assert ended.code == Exit.UNREACHABLE
    assert len(ended.err.splitlines()) == 1
    assert str(path) in ended.err


@needs_mounts
def test_a_service_does_not_start_on_a_read_only_mount(tmp_path: Path) -> None:
    """Likewise, though its user may write anywhere."""
    command = [COMMAND, "serve", "--store", f"sqlite:///{tmp_path}/runs.db", "--listen", "127.0.0.1:0"]
    ended = subprocess.run([*mounted(tmp_path, "ro"), *command], capture_output=True, text=True, timeout=30)
    assert ended.returncode == Exit.UNREACHABLE
    assert len(ended.stderr.splitlines()) == 1
    assert f"{tmp_path}/runs.db" in ended.stderr
