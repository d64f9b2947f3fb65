"""What auditors ask: read only, no strategy runs, no model is called."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from turnledger.domain import events as e
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import (
    FieldInvalid,
    IterationOutOfRange,
    LimitExceeded,
    MessageNotFound,
    PageTokenInvalid,
    shown,
)
from turnledger.domain.ids import LEDGER, message_version
from turnledger.domain.words import RunStatus
from turnledger.ledger.answers import ReplayAnswer, WindowAnswer
from turnledger.ledger.application import Ledger
from turnledger.ledger.encoding import Row
from turnledger.ledger.loading import PAGE_ROWS
from turnledger.ledger.recorder import RunHead, RunQuery
from turnledger.ledger.sessions import Session

PAGE_SIZE_DEFAULT = 100
PAGE_SIZE_MAX = 1000
MESSAGES_PER_GET_MAX = 1000
GET_BYTES_MAX = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of runs, and the token of the next; empty on the last."""

    heads: Sequence[RunHead]
    next_page_token: str


class Queries:
    """Reads of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._loader = ledger.loader

    def run(self, run_id: str) -> Session:
        """Where a run stands."""
        return self._loader.session(self._ledger.key(run_id))

    def list_runs(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        status: RunStatus | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> RunPage:
        """A page of runs, latest opened first."""
        size = page_size or PAGE_SIZE_DEFAULT
        if not 1 <= size <= PAGE_SIZE_MAX:
            raise FieldInvalid("page_size", f"must be 1 to {PAGE_SIZE_MAX}", str(page_size))
        query_tag = _query_tag(self._ledger.namespace, status, labels or {})
        after = _read_token(page_token, query_tag) if page_token else None
        query = RunQuery(self._ledger.namespace, size + 1, status, labels or {}, after)
        heads = list(self._ledger.store.select_heads(query))
        token = _make_token(heads[size - 1], query_tag) if len(heads) > size else ""
        return RunPage(heads[:size], token)

    def facts(self, run_id: str, first: int, last: int, *, bodies: bool) -> Iterator[tuple[Row, e.RunEvent]]:
        """Facts of the ledger in order, from ``first`` (0: the first) to ``last`` (0: the last now)."""
        key = self._ledger.key(run_id)
        head = self._loader.head(key)
        last = min(last or head.ledger_version, head.ledger_version)
        at = max(first, 1)
        while at <= last:
            # Bodies may be large: fewer rows are held at once.
            until = min(last, at + (PAGE_ROWS // 20 if bodies else PAGE_ROWS) - 1)
            yield from self._loader.facts(key, at, until, bodies=bodies)
            at = until + 1

    def messages(self, run_id: str, message_ids: Sequence[str]) -> list[e.MessageAppended]:
        """Messages by id, verbatim; fewer than asked for, but at least one, where all would be too large."""
        if not message_ids:
            raise FieldInvalid("message_ids", "at least one", "none")
        if len(message_ids) > MESSAGES_PER_GET_MAX:
            raise LimitExceeded("message_ids", MESSAGES_PER_GET_MAX, len(message_ids))
        key = self._ledger.key(run_id)
        head = self._loader.head(key)
        found: list[e.MessageAppended] = []
        total = 0
        for identifier in message_ids:
            version = message_version(run_id, identifier)
            facts = self._loader.facts(key, version, version, bodies=True) if version <= head.ledger_version else []
            event = facts[0][1] if facts else None
            if not isinstance(event, e.MessageAppended):
                raise MessageNotFound(run_id, shown(identifier))
            total += event.message.size_bytes
            if found and total > GET_BYTES_MAX:
                break
            found.append(event)
        return found

    def heads(self, run_id: str, first: int = 0, last: int = 0) -> Iterator[WindowAnswer]:
        """Iterations without what they held: the records of what was decided."""
        head = self._loader.head(self._ledger.key(run_id))
        for number in _iterations(run_id, first, last, head.windows_version):
            yield WindowAnswer(run_id, self._loader.window(head.run_key, number), True)

    def replay(self, run_id: str, first: int = 0, last: int = 0) -> Iterator[ReplayAnswer]:
        """Iterations as they were sent, from ``first`` (0: the first) to ``last`` (0: the last)."""
        session = self.run(run_id)
        run = session.run
        for number in _iterations(run_id, first, last, session.head.windows_version):
            recorded = self._loader.replay(run, number)
            window = recorded.window
            items = self._ledger.answerer.items(run, window, recorded.entries)
            envelope = self._envelope(run.key, window.envelope_version)
            yield ReplayAnswer(WindowAnswer(run.id, window, True), envelope, items)

    def replay_one(self, run_id: str, iteration: int = 0) -> ReplayAnswer:
        """One iteration as it was sent; 0: the last."""
        last = self._loader.head(self._ledger.key(run_id)).windows_version
        number = iteration or last
        if not 1 <= number <= last:
            raise IterationOutOfRange(run_id, "iteration", number, last)
        return next(self.replay(run_id, number, number))

    def _envelope(self, key: str, version: int) -> Envelope | None:
        if not version:
            return None
        body = self._loader.bodies(key, LEDGER, [version]).get(version)
        return Envelope.decode(body.content) if body else None


def _iterations(run_id: str, first: int, last: int, handed_out: int) -> range:
    first, last = first or 1, last or handed_out
    for name, value in (("from_iteration", first), ("to_iteration", last)):
        if not 1 <= value <= handed_out:
            raise IterationOutOfRange(run_id, name, value, handed_out)
    return range(first, last + 1)


def _query_tag(namespace: str, status: RunStatus | None, labels: Mapping[str, str]) -> str:
    """Ties a page token to its query."""
    return hashlib.sha256(json.dumps([namespace, status, sorted(labels.items())]).encode()).hexdigest()[:16]


def _make_token(head: RunHead, query_tag: str) -> str:
    micros = round(head.opened_time.timestamp() * 10**6)
    return base64.urlsafe_b64encode(json.dumps([query_tag, micros, head.run_key]).encode()).decode()


def _read_token(token: str, query_tag: str) -> tuple[datetime, str]:
    try:
        tag, micros, run_key = json.loads(base64.urlsafe_b64decode(token.encode("ascii")))
        moment = datetime.fromtimestamp(micros / 10**6, UTC)
        is_ours = tag == query_tag and isinstance(run_key, str)
    except (ValueError, TypeError, OverflowError):
        is_ours = False
    if not is_ours:
        raise PageTokenInvalid("page_token", "must be the next_page_token of the same query", shown(token))
    return moment, run_key
