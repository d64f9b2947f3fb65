"""Stores that count the rows that they give out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnledger.ledger.application import Ledger
from turnledger.ledger.encoding import Row
from turnledger.ledger.memory import MemoryFactory, MemoryRecorder
from turnledger.ledger.recorder import RunHead
from turnledger.ledger.sqlite import SqliteFactory, SqliteRecorder
from turnledger.ledger.stores import open_ledger


class CountingMemory(MemoryRecorder):
    """The in-memory store."""

    rows_read = 0
    """Rows given out so far, those of the directory included."""

    def select_rows(self, *args: Any, **options: Any) -> Sequence[Row]:
        """Counts each row."""
        found = super().select_rows(*args, **options)
        self.rows_read += len(found)
        return found

    def select_head(self, run_key: str) -> RunHead | None:
        """Counts the row."""
        self.rows_read += 1
        return super().select_head(run_key)


class CountingSqlite(SqliteRecorder):
    """The SQLite store."""

    rows_read = 0
    """As of the other."""

    def select_rows(self, *args: Any, **options: Any) -> Sequence[Row]:
        """Counts each row."""
        found = super().select_rows(*args, **options)
        self.rows_read += len(found)
        return found

    def select_head(self, run_key: str) -> RunHead | None:
        """Counts the row."""
        self.rows_read += 1
        return super().select_head(run_key)


class CountingMemoryFactory(MemoryFactory):
    """Makes in-memory stores that count."""

    def application_recorder(self) -> CountingMemory:
        """A new, empty store."""
        return CountingMemory()


class CountingSqliteFactory(SqliteFactory):
    """Makes SQLite stores that count."""

    def application_recorder(self) -> CountingSqlite:
        """The store in the file."""
        self._recorder = made = CountingSqlite(self.env.get(self.SQLITE_DBNAME) or "")
        return made


def counting_ledger(address: str) -> Ledger:
    """The ledger in a store that counts."""
    with open_ledger(address) as plain:
        env = dict(plain.env)
    factory = CountingMemoryFactory if address == "memory:" else CountingSqliteFactory
    return Ledger({**env, "PERSISTENCE_MODULE": f"{__name__}:{factory.__name__}"})


def rows_read(ledger: Ledger) -> int:
    """Rows that the store of a counting ledger has given out so far."""
    assert isinstance(ledger.store, CountingMemory | CountingSqlite)
    return ledger.store.rows_read
