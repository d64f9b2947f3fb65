"""What the SQLite store owes to its file: durability settings, other processes, kills, refusals, a clean end."""

from __future__ import annotations

import gc
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from eventsourcing.persistence import OperationalError

from support.read_only import read_only_folder
from support.store_rows import RUN, head, held, request, row, rows, write
from support.waiting import SECONDS_MAX, at_once
from turnledger.domain.errors import FieldInvalid
from turnledger.domain.events import Body
from turnledger.domain.ids import originator_id
from turnledger.ledger.encoding import Row
from turnledger.ledger.recorder import Commit, StaleHead
from turnledger.ledger.sqlite import APPLICATION_ID, SCHEMA_VERSION, SqliteFactory, SqliteRecorder
from turnledger.ledger.stores import open_ledger

LEDGER_ID = originator_id(RUN, "ledger")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "runs.db"


def opened(path: Path) -> closing[SqliteRecorder]:
    """The store in a file, closed at the end of the block."""
    return closing(SqliteRecorder(str(path)))


def in_process(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A fresh interpreter that runs ``code``."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def open_files(path: Path) -> list[str]:
    """The files of a store that this process holds open."""
    targets = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return [target for target in targets if target.startswith(str(path))]


# Durability


def test_every_commit_is_flushed_to_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection of the store has a write-ahead log and flushes it in each commit (synchronous = FULL)."""
    made: list[sqlite3.Connection] = []

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        made.append(CONNECT(*args, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", connect)
    with opened(path) as store:
        write(store, None, head(version=1))
        assert store.select_head(RUN) is not None
        settings = [
            (c.execute("PRAGMA journal_mode").fetchone()[0], c.execute("PRAGMA synchronous").fetchone()[0])
            for c in made
        ]
    assert settings == [("wal", 2)] * 2


CONNECT = sqlite3.connect


@pytest.mark.parametrize("address", [":memory:", ""])
def test_a_store_without_a_log_is_refused(address: str) -> None:
    """SQLite's databases in memory or in a nameless file can't be read by a second connection."""
    with pytest.raises(OperationalError, match="write-ahead log"):
        SqliteRecorder(address)


def test_reopening_keeps_everything(path: Path) -> None:
    """What was written is there after the store was closed; ids go on where they were."""
    with opened(path) as store:
        standing = head(version=2, labels={"a": "b"})
        write(store, None, standing, request("r-1"))
        store.insert_events([row(7, stream="treated/t", body=Body(bytes(16), b"\x00"))])
        before, last = held(store), store.max_notification_id()
    with opened(path) as store:
        assert held(store) == before
        assert store.select_request(RUN, "r-1") == request("r-1")
        with pytest.raises(StaleHead):
            write(store, None, head(version=1))
        assert last is not None
        assert list(store.insert_events([row(8)])) == [last + 1]


def test_ids_are_never_used_again(path: Path) -> None:
    """Rows that are taken out of the file leave their ids unused, the last ones too."""
    with opened(path) as store:
        ids = list(store.insert_events(rows(1, 5)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM events WHERE version IN (2, 5)")
        connection.commit()
    with opened(path) as store:
        assert list(store.insert_events([row(6)])) == [ids[-1] + 1]
        assert [n.id for n in store.select_notifications(ids[1], 9)] == [ids[2], ids[3], ids[-1] + 1]


# Several at one file


def test_two_stores_on_one_file(path: Path) -> None:
    """Two recorders of one file see each other's writes at once and tell each other's runs stale."""
    with opened(path) as one, opened(path) as other:
        write(one, None, head(version=1))
        assert held(other) == held(one)
        with pytest.raises(StaleHead):
            write(other, None, head(version=1))
        write(other, head(version=1), head(version=2))
        assert one.select_head(RUN) == head(version=2)


def test_writers_in_two_stores_take_turns(path: Path) -> None:
    """Writers wait for each other across recorders; nothing is lost and no one is told that the file is busy."""
    count = 40
    with opened(path) as one, opened(path) as other:

        def work(given: tuple[SqliteRecorder, str]) -> None:
            store, run = given
            for version in range(1, count + 1):
                write(store, head(run, version=version - 1) if version > 1 else None, head(run, version=version))

        at_once(work, [(store, f"default/run-{n}") for n, store in enumerate([one, other] * 3)])
        found = one.select_notifications(None, 10**6)
        assert len(found) == 6 * count


def test_a_subscription_sees_another_process_write(path: Path) -> None:
    """What another process wrote comes to the subscriptions of this one."""
    code = """
import sys
from turnledger.ledger.sqlite import SqliteRecorder
from turnledger.ledger.encoding import Row
store = SqliteRecorder(sys.argv[1])
print(*store.insert_events([Row("default/run/ledger", 1, "t.A:1", b"from elsewhere")]))
store.close()
"""
    with opened(path) as store, store.subscribe(gt=0) as subscription:
        process = in_process(code, path)
        written, errors = process.communicate(timeout=SECONDS_MAX)
        assert (process.returncode, errors) == (0, "")
        notification = next(subscription)
        assert (notification.id, notification.state) == (int(written), b"from elsewhere")


def test_many_processes_may_make_the_file_at_once(path: Path) -> None:
    """Eight processes that open a file that is not there yet, at one moment, all get the store."""
    code = """
import sys
from turnledger.ledger.sqlite import SqliteRecorder
print("ready", flush=True)
sys.stdin.readline()
store = SqliteRecorder(sys.argv[1])
assert store.select_head("default/run") is None
store.close()
"""
    processes = [in_process(code, path) for _ in range(8)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=SECONDS_MAX)[1] for process in processes]
    assert [(p.returncode, errors) for p, errors in zip(processes, answers, strict=True)] == [(0, "")] * 8


@pytest.mark.parametrize("dies_at", ["INSERT INTO events", "COMMIT"])
def test_a_killed_writer_leaves_nothing_half(path: Path, dies_at: str) -> None:
    """A process that ends in the middle of a transaction has written nothing of it, however much of it was on disk
    already; the next writer is not kept waiting."""
    code = """
import functools, os, sqlite3, sys

class Dying(sqlite3.Connection):
    armed = False
    def execute(self, statement, *values):
        if Dying.armed and statement.startswith(sys.argv[2]):
            os._exit(9)
        return super().execute(statement, *values)
    def executemany(self, statement, values):
        if Dying.armed and statement.startswith(sys.argv[2]):
            super().executemany(statement, values[:-1])
            os._exit(9)
        return super().executemany(statement, values)

sqlite3.connect = functools.partial(sqlite3.connect, factory=Dying)
sys.path.insert(0, sys.argv[3])
from support.read_only import read_only_folder
from support.store_rows import head, request, row, write
from turnledger.domain.events import Body
from turnledger.ledger.recorder import Commit
from turnledger.ledger.sqlite import SqliteRecorder
store = SqliteRecorder(sys.argv[1])
standing = head(version=2)
write(store, None, standing, request("answered"))
Dying.armed = True
large = [row(version, body=Body(bytes(16), b"x" * 4_000_000)) for version in range(3, 8)]
store.insert_events(large, commit=Commit(standing, head(version=7), request("not answered")))
"""
    process = in_process(code, path, dies_at, Path(__file__).parent)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, errors) == (9, "")
    with opened(path) as store:
        assert store.select_head(RUN) == head(version=2)
        assert [r.originator_version for r in store.select_rows(LEDGER_ID, [(1, 99)])] == [1, 2]
        assert store.select_request(RUN, "answered") is not None
        assert store.select_request(RUN, "not answered") is None
        assert store.max_notification_id() == 2
        write(store, head(version=2), head(version=3), request("not answered"))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# Refusals


def test_a_schema_from_the_future_is_refused(path: Path) -> None:
    """A file of a later release is not opened and not changed; the error names both versions and the file."""
    later = SCHEMA_VERSION + 1
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE of_the_future (x)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {later}")
    with pytest.raises(
        OperationalError, match=rf"schema version {later}; this release reads {SCHEMA_VERSION}: .*runs\.db"
    ):
        SqliteRecorder(str(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("of_the_future",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (later,)
    assert open_files(path) == []


@pytest.mark.parametrize("mark", ["CREATE TABLE users (name)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"])
def test_another_programs_database_is_refused(path: Path, mark: str) -> None:
    """It is not written to: a mistyped path harms nobody."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(mark)
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(OperationalError, match=re.escape(f"another program's database, not a ledger: {path}")):
        open_ledger(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused(path: Path) -> None:
    """A file of another kind is not opened and not changed."""
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(OperationalError, match="not a database"):
        open_ledger(f"sqlite:///{path}")
    assert path.read_bytes() == b"not a database" * 100
    assert open_files(path) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A typing error in a path makes no folder: it is refused, and the path is in the error."""
    with pytest.raises(FieldInvalid, match="nowhere"):
        open_ledger(f"sqlite:///{tmp_path}/nowhere/runs.db")
    with pytest.raises(OperationalError, match=r"nowhere/runs\.db: unable to open"):
        SqliteRecorder(f"{tmp_path}/nowhere/runs.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    """A path that is a folder is no store."""
    with pytest.raises(OperationalError, match="unable to open"):
        open_ledger(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("with_store", [False, True])
def test_a_read_only_folder_is_refused(with_store: bool) -> None:
    """Where nothing can be written the store can't be opened, and the error says where."""
    with read_only_folder(with_store=with_store) as path, pytest.raises(OperationalError, match=r"runs\.db: "):
        SqliteRecorder(str(path))
    assert open_files(path) == []


def test_an_error_of_the_disk_writes_nothing(path: Path) -> None:
    """A full disk is told as the library's OperationalError; nothing is written and the store goes on."""
    with opened(path) as store, closing(sqlite3.connect(path)) as connection:
        write(store, None, head(version=1))
        before = held(store)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        too_large = Row(LEDGER_ID, 2, "t.A:1", b"", Body(bytes(16), b"x" * 5_000_000))
        with _with_limit(store, pages + 10), pytest.raises(OperationalError, match="full"):
            store.insert_events([too_large], commit=Commit(head(version=1), head(version=2)))
        assert held(store) == before
        write(store, head(version=1), head(version=2))


@contextmanager
def _with_limit(store: SqliteRecorder, pages: int) -> Iterator[None]:
    writer = store._writer
    writer.execute(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        writer.execute("PRAGMA max_page_count = 1073741823")


# The end


def test_closing_leaves_nothing_open(path: Path) -> None:
    """After ``close`` no file of the store is open, the log is folded into the file, and nothing warns."""
    store = SqliteRecorder(str(path))
    at_once(lambda n: write(store, None, head(f"default/run-{n}", version=3)), range(8))
    at_once(lambda n: held(store, f"default/run-{n}"), range(8))
    with store.subscribe(gt=0) as subscription:
        next(subscription)
    store.close()
    store.close()
    assert open_files(path) == []
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    gc.collect()


def test_connections_do_not_grow_with_threads(path: Path) -> None:
    """Threads that come and go leave no connection behind."""
    with opened(path) as store:
        for _ in range(50):
            reader = Thread(target=store.select_head, args=(RUN,))
            reader.start()
            reader.join(SECONDS_MAX)
        assert len([name for name in open_files(path) if name == str(path)]) <= 3


def test_a_closed_store_says_so(path: Path) -> None:
    """Reading and writing after ``close`` is an error of the library; the file is not opened again."""
    with opened(path) as store:
        write(store, None, head(version=1))
    with pytest.raises(OperationalError, match="closed"):
        store.select_head(RUN)
    with pytest.raises(OperationalError, match="closed"):
        write(store, head(version=1), head(version=2))
    assert open_files(path) == []


def test_a_subscription_ends_with_its_store(path: Path) -> None:
    """Whoever waits for the next event is told when the store is closed."""
    store = SqliteRecorder(str(path))
    subscription = store.subscribe(gt=0)
    store.close()
    with pytest.raises(OperationalError, match="closed"):
        next(subscription)
    subscription.stop()


def test_a_factory_makes_one_store(path: Path) -> None:
    """An application's recorders are one store, closed once."""
    with closing(SqliteFactory({"SQLITE_DBNAME": str(path)})) as factory:
        assert factory.application_recorder() is factory.aggregate_recorder()
    assert open_files(path) == []
