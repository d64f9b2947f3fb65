"""The SQLite store does what every store must, and what a file must beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    """One new file for each test."""

    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        """A new file."""
        return f"sqlite:///{tmp_path}/runs.db"
