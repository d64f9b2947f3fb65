"""The SQLite store: one file, write-ahead log, every commit flushed to disk before it is answered."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import Any

import msgspec
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    IntegrityError,
    ListenNotifySubscription,
    Notification,
    NotSupportedError,
    OperationalError,
    ProcessRecorder,
    StoredEvent,
    Subscription,
    TrackingRecorder,
)

from turnledger.domain.digests import SALT_BYTES
from turnledger.domain.events import Body
from turnledger.domain.ids import originator_id as join_originator_id
from turnledger.domain.ids import split_originator_id
from turnledger.domain.words import RunStatus
from turnledger.ledger.encoding import Row
from turnledger.ledger.recorder import (
    REQUEST_KEPT,
    Commit,
    LedgerRecorder,
    RequestExists,
    RequestRow,
    RunHead,
    RunQuery,
    StaleHead,
)
from turnledger.ledger.store_files import StoreFiles

APPLICATION_ID = int.from_bytes(b"tldg")
"""Marks the file as ours (SQLite's pragma application_id)."""
SCHEMA_VERSION = 1
BUSY_SECONDS = 10.0
BUSY_RETRY_SECONDS = 0.01
EXPIRED_PER_COMMIT_MAX = 100
POLL_SECONDS = 0.2

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
  notification_id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_key TEXT NOT NULL,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  topic TEXT NOT NULL,
  state BLOB NOT NULL,
  body BLOB,
  chain BLOB
);
CREATE UNIQUE INDEX IF NOT EXISTS events_key ON events (run_key, stream, version);
CREATE TABLE IF NOT EXISTS runs (
  run_key TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  format TEXT NOT NULL,
  policy TEXT NOT NULL,
  tokenizer TEXT,
  labels TEXT NOT NULL,
  ledger_version INTEGER NOT NULL,
  ledger_head BLOB NOT NULL,
  windows_version INTEGER NOT NULL,
  windows_head BLOB NOT NULL,
  checkpoint_version INTEGER NOT NULL,
  message_count INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  opened_us INTEGER NOT NULL,
  updated_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_opened ON runs (opened_us, run_key);
CREATE TABLE IF NOT EXISTS requests (
  run_key TEXT NOT NULL,
  request_id TEXT NOT NULL,
  salt BLOB NOT NULL,
  fields BLOB NOT NULL,
  outcome BLOB NOT NULL,
  recorded_us INTEGER NOT NULL,
  PRIMARY KEY (run_key, request_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS requests_recorded ON requests (recorded_us);
"""

_INSERT_EVENT = "INSERT INTO events (run_key, stream, version, topic, state, body, chain) VALUES (?, ?, ?, ?, ?, ?, ?)"
_HEAD_COLUMNS = (
    "run_key, status, format, policy, tokenizer, labels, ledger_version, ledger_head, windows_version, "
    "windows_head, checkpoint_version, message_count, input_tokens, output_tokens, opened_us, updated_us"
)
_INSERT_HEAD = f"INSERT INTO runs ({_HEAD_COLUMNS}) VALUES ({', '.join('?' * 16)})"
_UPDATE_HEAD = (
    "UPDATE runs SET status = ?, ledger_version = ?, ledger_head = ?, windows_version = ?, windows_head = ?, "
    "checkpoint_version = ?, message_count = ?, input_tokens = ?, output_tokens = ?, updated_us = ? "
    "WHERE run_key = ? AND ledger_version = ? AND windows_version = ?"
)
# A request that has expired, though it is not swept yet, gives its id free.
_INSERT_REQUEST = (
    "INSERT INTO requests (run_key, request_id, salt, fields, outcome, recorded_us) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (run_key, request_id) DO UPDATE SET salt = excluded.salt, fields = excluded.fields, "
    "outcome = excluded.outcome, recorded_us = excluded.recorded_us WHERE requests.recorded_us < ?"
)
_EXPIRE_REQUESTS = (
    "DELETE FROM requests WHERE (run_key, request_id) IN "
    "(SELECT run_key, request_id FROM requests WHERE recorded_us < ? LIMIT ?)"
)


class _Readers:
    """Reader connections: as many as are in use at one time, whatever threads come and go."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._idle: list[sqlite3.Connection] = []
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """A connection for one read."""
        with self._lock:
            if self._closed:
                raise OperationalError("the store is closed")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        finally:
            self._give_back(connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Closes the connections: idle ones now, the others when their read is done."""
        with self._lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()


class SqliteRecorder(LedgerRecorder):
    """One writer connection, and reader connections."""

    def __init__(self, path: str) -> None:
        self._path = path
        # As it is now: the process may change its folder later. Readers never make the file; where it was deleted,
        # an empty store would take its place.
        self._existing = f"{Path(path).absolute().as_uri()}?mode=rw"
        self._write_lock = Lock()
        self._readers = _Readers(self._connect_reader)
        with _store_errors(path):
            self._writer = _connect(path)
            try:
                self._check_owner()
                _use_write_ahead_log(self._writer)
                self._make_schema()
                self._files = StoreFiles(path)
            except BaseException:
                self._writer.close()
                raise

    def _check_owner(self) -> None:
        """Before anything is written: a mistyped path may be another program's database."""
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        (tables,) = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        # The owner last: whoever makes the schema just now sets all three at once.
        (owner,) = self._writer.execute("PRAGMA application_id").fetchone()
        if owner != APPLICATION_ID and (owner or version or tables):
            raise OperationalError(f"another program's database, not a ledger: {self._path}")

    def _make_schema(self) -> None:
        with self._transaction() as connection:
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            if found == SCHEMA_VERSION:
                return
            if found != 0:
                raise OperationalError(f"schema version {found}; this release reads {SCHEMA_VERSION}: {self._path}")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _connect_reader(self) -> sqlite3.Connection:
        self._files.check()
        return _connect(self._existing, uri=True)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _store_errors(), self._readers.use() as connection:
            self._files.check()
            yield connection

    def close(self) -> None:
        """Closes all connections, after the write that is under way."""
        self._readers.close()
        with self._write_lock:
            self._writer.close()

    def insert_events(
        self, stored_events: Sequence[StoredEvent], *, commit: Commit | None = None, **kwargs: Any
    ) -> Sequence[int]:
        """See :class:`LedgerRecorder`."""
        rows = [_event_values(event) for event in stored_events]
        with self._write_lock, _store_errors(), self._writing() as connection:
            if commit:
                self._insert_request(connection, commit.request)
                self._write_head(connection, commit)
            return [_last_id(connection.execute(_INSERT_EVENT, row)) for row in rows]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that ends only once it is sure to be in the store that others find at the path."""
        with self._transaction() as connection:
            self._files.check()
            yield connection
        # What was committed to a file that was gone by then must not be acknowledged.
        self._files.check()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield self._writer
            self._writer.execute("COMMIT")
        except BaseException:
            # After some errors (full disk) the transaction is rolled back already; after a commit that
            # failed it is open still.
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _insert_request(self, connection: sqlite3.Connection, request: RequestRow | None) -> None:
        if request is None:
            return
        recorded = _micros(request.recorded_time)
        expired = _micros(request.recorded_time - REQUEST_KEPT)
        connection.execute(_EXPIRE_REQUESTS, (expired, EXPIRED_PER_COMMIT_MAX))
        fields = msgspec.msgpack.encode(dict(request.fields))
        values = (request.run_key, request.request_id, request.salt, fields, request.outcome, recorded, expired)
        if connection.execute(_INSERT_REQUEST, values).rowcount != 1:
            raise RequestExists(request.request_id)

    def _write_head(self, connection: sqlite3.Connection, commit: Commit) -> None:
        before, after = commit.before, commit.after
        if before is None:
            try:
                connection.execute(_INSERT_HEAD, _head_values(after))
            except sqlite3.IntegrityError as error:
                raise StaleHead(after.run_key) from error
            return
        changed = connection.execute(
            _UPDATE_HEAD,
            (
                after.status.value,
                after.ledger_version,
                after.ledger_head,
                after.windows_version,
                after.windows_head,
                after.checkpoint_version,
                after.message_count,
                after.input_tokens,
                after.output_tokens,
                _micros(after.updated_time),
                after.run_key,
                before.ledger_version,
                before.windows_version,
            ),
        )
        if changed.rowcount != 1:
            raise StaleHead(after.run_key)

    def select_head(self, run_key: str) -> RunHead | None:
        """See :class:`LedgerRecorder`."""
        with self._reading() as connection:
            row = connection.execute(f"SELECT {_HEAD_COLUMNS} FROM runs WHERE run_key = ?", (run_key,)).fetchone()
        return _head(row) if row else None

    def select_heads(self, query: RunQuery) -> Sequence[RunHead]:
        """See :class:`LedgerRecorder`."""
        clauses = ["run_key >= ? AND run_key < ?"]
        values: list[Any] = [query.namespace + "/", query.namespace + "0"]
        if query.status is not None:
            clauses.append("status = ?")
            values.append(query.status.value)
        for name, value in query.labels.items():
            clauses.append("EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ? AND value = ?)")
            values += [name, value]
        if query.after is not None:
            clauses.append("(opened_us, run_key) < (?, ?)")
            values += [_micros(query.after[0]), query.after[1]]
        statement = (
            f"SELECT {_HEAD_COLUMNS} FROM runs WHERE {' AND '.join(clauses)} "
            "ORDER BY opened_us DESC, run_key DESC LIMIT ?"
        )
        with self._reading() as connection:
            return [_head(row) for row in connection.execute(statement, (*values, query.limit))]

    def select_rows(
        self, originator_id: str, ranges: Iterable[tuple[int, int]], *, bodies: bool = False
    ) -> Sequence[Row]:
        """See :class:`LedgerRecorder`."""
        run_key, stream = split_originator_id(originator_id)
        statement = (
            f"SELECT run_key, stream, version, topic, state, {'body' if bodies else 'NULL'}, chain FROM events "
            "WHERE run_key = ? AND stream = ? AND version BETWEEN ? AND ? ORDER BY version"
        )
        found: list[Row] = []
        with self._reading() as connection:
            for first, last in ranges:
                found += map(_row, connection.execute(statement, (run_key, stream, first, last)))
        return found

    def select_request(self, run_key: str, request_id: str) -> RequestRow | None:
        """See :class:`LedgerRecorder`."""
        statement = "SELECT salt, fields, outcome, recorded_us FROM requests WHERE run_key = ? AND request_id = ?"
        with self._reading() as connection:
            row = connection.execute(statement, (run_key, request_id)).fetchone()
        if row is None:
            return None
        return RequestRow(run_key, request_id, row[0], msgspec.msgpack.decode(row[1]), row[2], _time(row[3]))

    def select_events(
        self,
        originator_id: Any,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """See the library's AggregateRecorder."""
        run_key, stream = split_originator_id(str(originator_id))
        statement = (
            "SELECT run_key, stream, version, topic, state, body, chain FROM events "
            f"WHERE run_key = ? AND stream = ? AND version > ? AND version <= ? "
            f"ORDER BY version {'DESC' if desc else 'ASC'} LIMIT ?"
        )
        values = (run_key, stream, gt or 0, 2**62 if lte is None else lte, -1 if limit is None else limit)
        with self._reading() as connection:
            return [_row(row) for row in connection.execute(statement, values)]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """See the library's ApplicationRecorder."""
        clauses = ["notification_id >= ?" if inclusive_of_start else "notification_id > ?", "notification_id <= ?"]
        values: list[Any] = [start or 0, 2**62 if stop is None else stop]
        if topics:
            clauses.append(f"topic IN ({', '.join('?' * len(topics))})")
            values += topics
        statement = (
            "SELECT run_key, stream, version, topic, state, notification_id FROM events "
            f"WHERE {' AND '.join(clauses)} ORDER BY notification_id LIMIT ?"
        )
        with self._reading() as connection:
            rows = connection.execute(statement, (*values, limit)).fetchall()
        return [Notification(join_originator_id(r[0], r[1]), *r[2:]) for r in rows]

    def max_notification_id(self) -> int | None:
        """See the library's ApplicationRecorder."""
        with self._reading() as connection:
            (last,) = connection.execute("SELECT MAX(notification_id) FROM events").fetchone()
        return int(last) if last is not None else None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """See the library's ApplicationRecorder. Other processes write the file too, so it polls."""
        return _PollingSubscription(self, gt, topics)


class _PollingSubscription(ListenNotifySubscription[ApplicationRecorder]):
    def __init__(self, recorder: SqliteRecorder, gt: int | None, topics: Sequence[str]) -> None:
        self._stopped = Event()
        super().__init__(recorder, gt, topics)
        self._poller = Thread(target=self._poll, name="subscription-poll", daemon=True)
        self._poller.start()

    def _poll(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            self._has_been_notified.set()

    def stop(self) -> None:
        self._stopped.set()
        super().stop()


def _connect(database: str, *, uri: bool = False) -> sqlite3.Connection:
    # A connection serves one thread at a time, but not always the same one.
    connection = sqlite3.connect(database, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri)
    try:
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Raises the library's OperationalError where the file can have none (in memory, on some file systems)."""
    give_up = monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            # SQLite does not wait here for others that open the same new file.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > give_up:
                raise
            sleep(BUSY_RETRY_SECONDS)
    if mode != "wal":
        raise OperationalError(f"no write-ahead log can be kept: journal mode {mode}")


@contextmanager
def _store_errors(path: str = "") -> Iterator[None]:
    """SQLite's errors as the library's, which the application knows."""
    where = f"{path}: " if path else ""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise IntegrityError(f"{where}{error}") from error
    except sqlite3.Error as error:
        raise OperationalError(f"{where}{error}") from error


def _last_id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _event_values(event: StoredEvent) -> tuple[Any, ...]:
    run_key, stream = split_originator_id(str(event.originator_id))
    body, chain = (event.body, event.chain) if isinstance(event, Row) else (None, None)
    stored_body = body.salt + body.content if body else None
    return run_key, stream, event.originator_version, event.topic, event.state, stored_body, chain


def _row(values: tuple[Any, ...]) -> Row:
    run_key, stream, version, topic, state, body, chain = values
    content = Body(body[:SALT_BYTES], body[SALT_BYTES:]) if body is not None else None
    return Row(join_originator_id(run_key, stream), version, topic, state, content, chain)


def _head_values(head: RunHead) -> tuple[Any, ...]:
    return (
        head.run_key,
        head.status.value,
        head.format,
        head.policy_json,
        head.tokenizer,
        json.dumps(dict(head.labels)),
        head.ledger_version,
        head.ledger_head,
        head.windows_version,
        head.windows_head,
        head.checkpoint_version,
        head.message_count,
        head.input_tokens,
        head.output_tokens,
        _micros(head.opened_time),
        _micros(head.updated_time),
    )


def _head(row: tuple[Any, ...]) -> RunHead:
    run_key, status, format, policy, tokenizer, labels, *places, opened_us, updated_us = row
    names = (run_key, RunStatus(status), format, policy, tokenizer, json.loads(labels))
    return RunHead(*names, *places, *map(_time, (opened_us, updated_us)))


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 10**6)


def _time(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 10**6, UTC)


class SqliteFactory(InfrastructureFactory[TrackingRecorder]):
    """Makes SQLite stores; ``SQLITE_DBNAME`` is the path of the file."""

    SQLITE_DBNAME = "SQLITE_DBNAME"
    _recorder: SqliteRecorder | None = None

    def application_recorder(self) -> ApplicationRecorder:
        """The store in the file, which is made where it is not there. Its folder must be."""
        if self._recorder is None:
            self._recorder = SqliteRecorder(str(Path(self.env.get(self.SQLITE_DBNAME) or "turnledger.db")))
        return self._recorder

    def close(self) -> None:
        """Closes the store."""
        if self._recorder is not None:
            self._recorder.close()

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """The same store."""
        return self.application_recorder()

    def tracking_recorder(self, tracking_recorder_class: type[TrackingRecorder] | None = None) -> TrackingRecorder:
        """Not offered yet: read models are rows of the same transaction."""
        raise NotSupportedError("this store keeps no read models")

    def process_recorder(self) -> ProcessRecorder:
        """Not offered yet."""
        raise NotSupportedError("this store keeps no read models")
