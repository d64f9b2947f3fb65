"""Whether the files of an SQLite store are still at their paths: what is written to a deleted file is lost."""

from __future__ import annotations

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
        paths = [Path(f"{absolute}{suffix}") for suffix in _SUFFIXES]
        self._held = [(path, _identity(path)) for path in paths]

    def check(self) -> None:
        """Raises the library's OperationalError where one of the paths has no file now, or another one."""
        for path, held in self._held:
            if _identity(path) != held:
                raise OperationalError(
                    f"{path} was deleted or replaced under the running service: put the same file back, "
                    "or stop the service and restore a backup"
                )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
