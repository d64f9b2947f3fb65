"""The in-memory store: for tests and for trying things out. Nothing outlives the process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import takewhile
from threading import RLock
from typing import Any

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    IntegrityError,
    ListenNotifySubscription,
    Notification,
    NotSupportedError,
    ProcessRecorder,
    StoredEvent,
    Subscription,
    TrackingRecorder,
)

from turnledger.ledger.encoding import Row
from turnledger.ledger.recorder import (
    Commit,
    LedgerRecorder,
    RequestExists,
    RequestRow,
    RunHead,
    RunQuery,
    StaleHead,
)


class MemoryRecorder(LedgerRecorder):
    """Keeps rows in lists, under one lock."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._log: list[Row] = []
        self._streams: dict[str, dict[int, Row]] = {}
        self._heads: dict[str, RunHead] = {}
        self._requests: dict[tuple[str, str], RequestRow] = {}
        self._subscriptions: set[_MemorySubscription] = set()

    def insert_events(
        self, stored_events: Sequence[StoredEvent], *, commit: Commit | None = None, **kwargs: Any
    ) -> Sequence[int]:
        """See :class:`LedgerRecorder`."""
        rows = [_row(event) for event in stored_events]
        with self._lock:
            self._check(rows, commit)
            for row in rows:
                self._streams.setdefault(str(row.originator_id), {})[row.originator_version] = row
            self._log += rows
            if commit:
                self._heads[commit.after.run_key] = commit.after
                if commit.request:
                    self._keep_request(commit.request)
            last = len(self._log)
            for subscription in self._subscriptions:
                subscription.wake()
        return range(last - len(rows) + 1, last + 1)

    def _check(self, rows: Sequence[Row], commit: Commit | None) -> None:
        if commit:
            request = commit.request
            standing_request = request and self._requests.get((request.run_key, request.request_id))
            if request and standing_request and not standing_request.has_expired(request.recorded_time):
                raise RequestExists(request.request_id)
            standing, before = self._heads.get(commit.after.run_key), commit.before
            if (standing and standing.place) != (before and before.place):
                raise StaleHead(commit.after.run_key)
        taken = set()
        for row in rows:
            place = (str(row.originator_id), row.originator_version)
            if place in taken or row.originator_version in self._streams.get(place[0], {}):
                raise IntegrityError(f"{place[0]} has a version {place[1]} already")
            taken.add(place)

    def _keep_request(self, request: RequestRow) -> None:
        place = (request.run_key, request.request_id)
        self._requests.pop(place, None)
        self._requests[place] = request
        # In the order in which they came, so that what was kept for long enough comes first.
        for key in list(takewhile(lambda key: self._requests[key].has_expired(request.recorded_time), self._requests)):
            del self._requests[key]

    def select_head(self, run_key: str) -> RunHead | None:
        """See :class:`LedgerRecorder`."""
        return self._heads.get(run_key)

    def select_heads(self, query: RunQuery) -> Sequence[RunHead]:
        """See :class:`LedgerRecorder`."""
        with self._lock:
            heads = sorted(self._heads.values(), key=lambda h: (h.opened_time, h.run_key), reverse=True)
        found = [
            head
            for head in heads
            if head.run_key.startswith(query.namespace + "/")
            and (query.status is None or head.status is query.status)
            and query.labels.items() <= head.labels.items()
            and (query.after is None or (head.opened_time, head.run_key) < query.after)
        ]
        return found[: query.limit]

    def select_rows(
        self, originator_id: str, ranges: Iterable[tuple[int, int]], *, bodies: bool = False
    ) -> Sequence[Row]:
        """See :class:`LedgerRecorder`."""
        with self._lock:
            stream = self._streams.get(originator_id, {})
            versions = sorted(stream)
        found = []
        for first, last in ranges:
            at = bisect_left(versions, first)
            while at < len(versions) and versions[at] <= last:
                row = stream[versions[at]]
                found.append(row if bodies else _without_body(row))
                at += 1
        return found

    def select_request(self, run_key: str, request_id: str) -> RequestRow | None:
        """See :class:`LedgerRecorder`."""
        return self._requests.get((run_key, request_id))

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
        first, last = (gt or 0) + 1, lte if lte is not None else 2**62
        rows = list(self.select_rows(str(originator_id), [(first, last)], bodies=True))
        return (rows[::-1] if desc else rows)[:limit]

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
        at = 1 if start is None else max(1, start if inclusive_of_start else start + 1)
        found: list[Notification] = []
        with self._lock:
            last = len(self._log) if stop is None else min(stop, len(self._log))
            while at <= last and len(found) < limit:
                row = self._log[at - 1]
                if not topics or row.topic in topics:
                    found.append(Notification(row.originator_id, row.originator_version, row.topic, row.state, at))
                at += 1
        return found

    def max_notification_id(self) -> int | None:
        """See the library's ApplicationRecorder."""
        return len(self._log) or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """See the library's ApplicationRecorder."""
        return _MemorySubscription(self, gt, topics)

    def listen(self, subscription: _MemorySubscription, *, listening: bool) -> None:
        """Adds or removes a subscription that is woken by every append."""
        with self._lock:
            (self._subscriptions.add if listening else self._subscriptions.discard)(subscription)


class _MemorySubscription(ListenNotifySubscription[ApplicationRecorder]):
    def __init__(self, recorder: MemoryRecorder, gt: int | None, topics: Sequence[str]) -> None:
        super().__init__(recorder, gt, topics)
        self._memory = recorder
        recorder.listen(self, listening=True)
        self.wake()

    def wake(self) -> None:
        self._has_been_notified.set()

    def stop(self) -> None:
        self._memory.listen(self, listening=False)
        super().stop()


def _row(event: StoredEvent) -> Row:
    if isinstance(event, Row):
        return event
    return Row(event.originator_id, event.originator_version, event.topic, event.state)


def _without_body(row: Row) -> Row:
    return Row(row.originator_id, row.originator_version, row.topic, row.state, None, row.chain)


class MemoryFactory(InfrastructureFactory[TrackingRecorder]):
    """Makes in-memory stores."""

    def application_recorder(self) -> ApplicationRecorder:
        """A new, empty store."""
        return MemoryRecorder()

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """A new, empty store."""
        return MemoryRecorder()

    def tracking_recorder(self, tracking_recorder_class: type[TrackingRecorder] | None = None) -> TrackingRecorder:
        """Not offered: read models are kept by stores that last."""
        raise self._no_tracking()

    def process_recorder(self) -> ProcessRecorder:
        """Not offered."""
        raise self._no_tracking()

    @staticmethod
    def _no_tracking() -> NotSupportedError:
        return NotSupportedError("this store keeps no read models")
