"""What a store's file holds of a run, checked without the service: streams without gaps, chains that hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from turnledger.domain.digests import chain_next, chain_start
from turnledger.domain.ids import LEDGER, WINDOWS

_STREAMS = (LEDGER, WINDOWS)


@dataclass(frozen=True)
class Place:
    """How far a run is: the versions and chain heads of its ledger and its windows."""

    ledger_version: int
    ledger_head: bytes
    windows_version: int
    windows_head: bytes


def beginning(run_id: str) -> Place:
    """Where a run is before it is opened."""
    return Place(0, chain_start(run_id, LEDGER), 0, chain_start(run_id, WINDOWS))


@contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """The file, to be read beside the service."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)) as connection:
        yield connection


def place_of(store: sqlite3.Connection, run_id: str, known: Place) -> Place:
    """How far a run is, in one view of the file. Every row after ``known`` must follow the one before it by version
    and chain, and the directory must say the same."""
    store.execute("BEGIN")
    try:
        place = known
        for stream in _STREAMS:
            place = _followed(store, f"default/{run_id}", stream, place)
        directory = store.execute(
            "SELECT ledger_version, ledger_head, windows_version, windows_head FROM runs WHERE run_key = ?",
            (f"default/{run_id}",),
        ).fetchone()
    finally:
        store.execute("COMMIT")
    found = Place(*directory) if directory else beginning(run_id)
    assert place == found, f"the rows of {run_id} end at {place}, the directory says {found}"
    return place


def _followed(store: sqlite3.Connection, key: str, stream: str, place: Place) -> Place:
    version, head = getattr(place, f"{stream}_version"), getattr(place, f"{stream}_head")
    rows = store.execute(
        "SELECT version, topic, state, chain FROM events WHERE run_key = ? AND stream = ? AND version > ? "
        "ORDER BY version",
        (key, stream, version),
    )
    for found, topic, state, chain in rows:
        version += 1
        assert found == version, f"{key}/{stream} has {found} in place of {version}"
        head = chain_next(head, version, topic, state)
        assert chain == head, f"the chain of {key}/{stream} breaks at {version}"
    return replace(place, **{f"{stream}_version": version, f"{stream}_head": head})
