"""A file system of a program's own, in memory: small, or read-only. No other process sees it."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

_MOUNT = 'options="$1" && folder="$2" && shift 2 && mount -t tmpfs -o "$options" tmpfs "$folder" && exec "$@"'


def mounted(folder: Path, options: str) -> list[str]:
    """The beginning of a command: what follows runs with an empty file system at the folder."""
    own_mounts = ["unshare", "--user", "--map-root-user", "--mount"]
    return [*own_mounts, "sh", "-c", _MOUNT, "sh", options, str(folder)]


@cache
def _may_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return subprocess.run([*mounted(Path(folder), "size=64k"), "true"], capture_output=True).returncode == 0
        except FileNotFoundError:
            return False


needs_mounts = pytest.mark.skipif(not _may_mount(), reason="this system lets no program have mounts of its own")


def seen_by(pid: int, path: Path) -> Path:
    """The path as that process sees it, for others."""
    return Path(f"/proc/{pid}/root{path}")
