"""What a store must do: the library's recorder interface, and the reads and writes of ours behind it.

One behaviour suite (``tests/support/store_contract.py``) judges every store.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from eventsourcing.persistence import ApplicationRecorder, IntegrityError, StoredEvent

from turnledger.domain.words import RunStatus
from turnledger.ledger.encoding import Row

REQUEST_KEPT = timedelta(hours=24)


class StaleHead(IntegrityError):
    """The run is not where the writer believes it to be; nothing was written."""


class RequestExists(IntegrityError):
    """The run has a request with this id already; nothing was written."""


@dataclass(frozen=True, slots=True)
class RunHead:
    """The directory's row of a run: where it stands, written in the same transaction as its events."""

    run_key: str
    status: RunStatus
    format: str
    policy_json: str
    tokenizer: str | None
    labels: Mapping[str, str]
    ledger_version: int
    ledger_head: bytes
    windows_version: int
    windows_head: bytes
    checkpoint_version: int
    message_count: int
    input_tokens: int
    output_tokens: int
    opened_time: datetime
    updated_time: datetime

    @property
    def place(self) -> tuple[int, int]:
        """The versions of its ledger and of its windows, which a writer must know."""
        return self.ledger_version, self.windows_version


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request that was answered: what it was, salted, and what came of it."""

    run_key: str
    request_id: str
    salt: bytes
    fields: Mapping[str, bytes]
    """One HMAC for each top-level field of the request."""
    outcome: bytes
    """MessagePack of what the answer is made from again."""
    recorded_time: datetime

    def has_expired(self, now: datetime) -> bool:
        """Whether it was kept for as long as it is kept; then its id is free again."""
        return self.recorded_time < now - REQUEST_KEPT


@dataclass(frozen=True, slots=True)
class Commit:
    """What is written beside the events, in the same transaction."""

    before: RunHead | None
    """Where the run must stand; None: there must be no such run."""
    after: RunHead
    request: RequestRow | None = None


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs to list."""

    namespace: str
    limit: int
    status: RunStatus | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    after: tuple[datetime, str] | None = None
    """Opening time and key of the last run of the page before."""


class LedgerRecorder(ApplicationRecorder):
    """A store of runs."""

    @abstractmethod
    def insert_events(
        self, stored_events: Sequence[StoredEvent], *, commit: Commit | None = None, **kwargs: Any
    ) -> Sequence[int]:
        """Writes events and, with ``commit``, the directory row and the request, all or nothing; returns
        when they are on disk. An event that is a :class:`Row` brings its content and its place in the chain.

        Raises :class:`StaleHead`, :class:`RequestExists`, and the library's IntegrityError for a version
        that is taken, OperationalError where the store does not answer.
        """

    @abstractmethod
    def select_head(self, run_key: str) -> RunHead | None:
        """The directory's row of a run."""

    @abstractmethod
    def select_heads(self, query: RunQuery) -> Sequence[RunHead]:
        """Runs, latest opened first."""

    @abstractmethod
    def select_rows(
        self, originator_id: str, ranges: Iterable[tuple[int, int]], *, bodies: bool = False
    ) -> Sequence[Row]:
        """The rows of ranges of versions of one stream, both ends included, in the order of the ranges."""

    @abstractmethod
    def select_request(self, run_key: str, request_id: str) -> RequestRow | None:
        """A request that was answered. One that has expired may be there until requests are written again."""
