"""Whether the files of an SQLite store are still at their paths: what is written to a deleted file is lost."""

from __future__ import annotations

import os
from pathlib import Path

from eventsourcing.persistence import OperationalError

_SUFFIXES = ("", "-wal", "-shm")
"""The database, its write-ahead log, and the index of the log, through which processes see each other's locks."""


class StoreFiles:
    """The files that a store has open, known by device and inode.

    SQLite keeps working on a file that was deleted or moved away, and no error says so.
    """

    def __init__(self, path: str) -> None:
        absolute = Path(path).absolute()
        self._held = [(name, _identity(name)) for name in (f"{absolute}{suffix}" for suffix in _SUFFIXES)]

    def check(self) -> None:
        """Raises the library's OperationalError where one of the paths has no file now, or another one."""
        for name, held in self._held:
            if _identity(name) != held:
                raise OperationalError(
                    f"deleted or replaced under the running service: {name}; put the same file back, "
                    "or see docs/faults.md before you stop the service"
                )


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116  # done for every call, and a third of the time
    except OSError:
        return None
    return found.st_dev, found.st_ino
