"""A folder that can't be written to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnledger.ledger.sqlite import SqliteRecorder

NOBODY = 65534


@contextmanager
def read_only_folder(*, with_store: bool) -> Iterator[Path]:
    """A folder in which nothing may be made, for the user as whom the block runs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        path = Path(name) / "runs.db"
        if with_store:
            SqliteRecorder(str(path)).close()
            path.chmod(0o444)
        Path(name).chmod(0o555)
        user = os.geteuid()
        try:
            if user == 0:  # The superuser may write anywhere.
                os.seteuid(NOBODY)
            yield path
        finally:
            os.seteuid(user)
            Path(name).chmod(0o700)
