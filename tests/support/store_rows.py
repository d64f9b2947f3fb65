"""Rows, heads and commits to put into a store, and what a store holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from eventsourcing.persistence import Notification

from turnledger.domain.events import Body
from turnledger.domain.ids import originator_id
from turnledger.domain.words import RunStatus
from turnledger.ledger.encoding import Row
from turnledger.ledger.recorder import Commit, LedgerRecorder, RequestRow, RunHead

RUN = "default/run"
NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC)
STREAMS = ("ledger", "windows", "checkpoints", "treated/t.1.0123456789abcdef")


def row(version: int, *, run: str = RUN, stream: str = "ledger", topic: str = "t.A:1", body: Body | None = None) -> Row:
    """A row whose state tells where it belongs."""
    state = f"{run}/{stream}/{version}".encode()
    return Row(originator_id(run, stream), version, topic, state, body)


def rows(first: int, last: int, **options: Any) -> list[Row]:
    """Rows of neighboring versions."""
    return [row(version, **options) for version in range(first, last + 1)]


def head(run: str = RUN, *, version: int = 0, opened: datetime = NOON, **others: Any) -> RunHead:
    """The directory's row of a run at a ledger version."""
    standing = RunHead(
        run_key=run,
        status=RunStatus.OPEN,
        format="openai.chat",
        policy_json='{"strategy":"none"}',
        tokenizer=None,
        labels={},
        ledger_version=version,
        ledger_head=sha256(f"ledger {version}".encode()).digest(),
        windows_version=0,
        windows_head=sha256(b"windows 0").digest(),
        checkpoint_version=0,
        message_count=version,
        input_tokens=0,
        output_tokens=0,
        opened_time=opened,
        updated_time=opened,
    )
    return replace(standing, **others)


def request(request_id: str, *, run: str = RUN, at: datetime = NOON, outcome: bytes = b"outcome") -> RequestRow:
    """A request that was answered."""
    return RequestRow(run, request_id, bytes(16), {"run_id": bytes(32), "messages": b"\xff" * 32}, outcome, at)


def write(store: LedgerRecorder, before: RunHead | None, after: RunHead, asked: RequestRow | None = None) -> list[Row]:
    """Writes the ledger rows that lead from one head to another, and gives them as they must be read back."""
    first = before.ledger_version + 1 if before else 1
    written = [
        replace(row(version, run=after.run_key), chain=sha256(str(version).encode()).digest())
        for version in range(first, after.ledger_version + 1)
    ]
    store.insert_events(written, commit=Commit(before, after, asked))
    return written


@dataclass(frozen=True)
class Held:
    """All that a store holds of a run."""

    rows: tuple[Row, ...]
    head: RunHead | None
    notifications: tuple[Notification, ...]
    max_id: int | None


def held(store: LedgerRecorder, run: str = RUN) -> Held:
    """Reads all that a store holds of a run."""
    return Held(
        tuple(r for s in STREAMS for r in store.select_rows(originator_id(run, s), [(1, 2**62)], bodies=True)),
        store.select_head(run),
        tuple(store.select_notifications(None, 10**6)),
        store.max_notification_id(),
    )
