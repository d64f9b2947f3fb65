"""What every store must do. A test module of a store names where it is kept and takes :class:`StoreContract`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest
from eventsourcing.application import Application
from eventsourcing.persistence import EventStore, IntegrityError, Notification

from support.store_rows import NOON, RUN, STREAMS, head, held, request, row, rows, write
from support.waiting import SECONDS_MAX, at_once
from turnledger.domain import events as e
from turnledger.domain.events import Body
from turnledger.domain.ids import originator_id
from turnledger.domain.messages import Message
from turnledger.domain.words import Role, RunStatus, Source
from turnledger.ledger.encoding import EventMapper
from turnledger.ledger.recorder import Commit, LedgerRecorder, RequestExists, RunHead, RunQuery, StaleHead
from turnledger.ledger.stores import open_ledger

ALL = [(1, 2**62)]
SALT = bytes(range(16))
LEDGER_ID = originator_id(RUN, "ledger")


class StoreContract:
    """Takes the fixture ``address``: where an empty store is, as :func:`open_ledger` takes it."""

    @pytest.fixture
    def env(self, address: str) -> Iterator[dict[str, str]]:
        """What configures an application of the library to use the store."""
        with open_ledger(address) as ledger:
            yield dict(ledger.env)

    @pytest.fixture
    def store(self, address: str) -> Iterator[LedgerRecorder]:
        """An empty store."""
        with open_ledger(address) as ledger:
            yield ledger.store

    # Rows

    def test_rows_are_read_as_they_were_written(self, store: LedgerRecorder) -> None:
        """Every column of a row comes back as it was given, in each kind of stream."""
        for stream in STREAMS:
            chain = b"c" * 32 if stream in ("ledger", "windows") else None
            given = replace(row(3, stream=stream, body=Body(SALT, b"content")), chain=chain)
            commit = Commit(store.select_head(RUN), head(version=len(stream)))
            store.insert_events([given], commit=commit)
            assert list(store.select_rows(originator_id(RUN, stream), ALL, bodies=True)) == [given]

    def test_ranges_are_answered_in_their_order(self, store: LedgerRecorder) -> None:
        """Ranges include both ends; they come in the order asked, overlaps twice, and what is missing is left out."""
        store.insert_events(rows(1, 9))
        found = store.select_rows(LEDGER_ID, [(7, 8), (2, 2), (8, 20), (5, 4), (30, 40)])
        assert [r.originator_version for r in found] == [7, 8, 2, 8, 9]
        assert list(store.select_rows(LEDGER_ID, [])) == []

    def test_streams_and_runs_are_kept_apart(self, store: LedgerRecorder) -> None:
        """A read of a stream gives nothing of another stream or run, whatever their names begin with."""
        runs = ("default/run", "default/run2", "default2/run", "defaul/t", "default/RUN")
        for run in runs:
            for stream in STREAMS:
                store.insert_events(rows(1, 2, run=run, stream=stream))
        for run in runs:
            for stream in STREAMS:
                found = store.select_rows(originator_id(run, stream), ALL)
                assert [r.state.decode() for r in found] == [f"{run}/{stream}/1", f"{run}/{stream}/2"]

    def test_versions_may_have_gaps(self, store: LedgerRecorder) -> None:
        """The stream of treated texts has the versions of its messages; they are read in order, however written."""
        treated = originator_id(RUN, STREAMS[3])
        for version in (40, 7, 19):
            store.insert_events([row(version, stream=STREAMS[3])])
        assert [r.originator_version for r in store.select_rows(treated, ALL)] == [7, 19, 40]

    @pytest.mark.parametrize(
        ("options", "versions"),
        [
            ({}, [1, 2, 3, 4, 5]),
            ({"gt": 2}, [3, 4, 5]),
            ({"lte": 2}, [1, 2]),
            ({"gt": 1, "lte": 4}, [2, 3, 4]),
            ({"gt": 0, "lte": 0}, []),
            ({"gt": 5}, []),
            ({"limit": 2}, [1, 2]),
            ({"limit": 0}, []),
            ({"desc": True}, [5, 4, 3, 2, 1]),
            ({"desc": True, "limit": 1}, [5]),
            ({"desc": True, "gt": 1, "lte": 4, "limit": 2}, [4, 3]),
        ],
    )
    def test_events_by_limits(self, store: LedgerRecorder, options: dict[str, Any], versions: list[int]) -> None:
        """The library's read: after ``gt``, up to ``lte``, from either end, at most ``limit``."""
        store.insert_events(rows(1, 5))
        assert [r.originator_version for r in store.select_events(LEDGER_ID, **options)] == versions

    # Bodies

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\x00",
            bytes(range(256)) * 3,
            "\ud800 lone \udfff".encode("utf-8", "surrogatepass"),
            b'{"text":"\\u0000"}',
            b"x" * 5_000_000,
        ],
        ids=["empty", "NUL", "every byte", "lone surrogates", "escaped NUL", "5 MB"],
    )
    def test_bodies_are_any_bytes(self, store: LedgerRecorder, content: bytes) -> None:
        """Content is never looked at: it comes back byte for byte, its salt too."""
        given = [row(1, body=Body(SALT, content)), row(2, body=Body(bytes(16), content))]
        store.insert_events(given)
        found = store.select_rows(LEDGER_ID, ALL, bodies=True)
        assert [r.body for r in found] == [r.body for r in given]

    def test_bodies_are_read_only_when_asked_for(self, store: LedgerRecorder) -> None:
        """Without ``bodies`` a row comes without its content; an event that has none differs from an empty one."""
        store.insert_events([row(1, body=Body(SALT, b"")), row(2)])
        assert [r.body for r in store.select_rows(LEDGER_ID, ALL, bodies=True)] == [Body(SALT, b""), None]
        assert [r.body for r in store.select_rows(LEDGER_ID, ALL)] == [None, None]
        assert [getattr(r, "body", None) for r in store.select_events(LEDGER_ID)] == [Body(SALT, b""), None]

    # All or nothing

    def test_a_version_that_is_taken_is_refused(self, store: LedgerRecorder) -> None:
        """A version exists once. Rows of the same insert that would be free are not written either."""
        store.insert_events(rows(1, 3))
        before = held(store)
        with pytest.raises(IntegrityError):
            store.insert_events([row(4), row(3), row(5)])
        with pytest.raises(IntegrityError):
            store.insert_events([row(4), row(4)])
        assert held(store) == before

    def test_head_request_and_events_are_written_together(self, store: LedgerRecorder) -> None:
        """With a commit, the directory's row and the request are there with the events."""
        asked = request("r-1", outcome=bytes(range(256)))
        after = head(version=3, labels={"team": "a"}, updated_time=NOON + timedelta(seconds=1))
        written = write(store, None, after, asked)
        assert list(store.select_rows(LEDGER_ID, ALL)) == written
        assert store.select_head(RUN) == after
        assert store.select_request(RUN, "r-1") == asked
        assert store.select_head("default/other") is None
        assert store.select_request(RUN, "r-2") is None
        assert store.select_request("default/other", "r-1") is None

    def test_every_field_of_a_head_moves_on(self, store: LedgerRecorder) -> None:
        """A later commit replaces what may change of the directory's row, and keeps what may not."""
        first = head(version=2, tokenizer="o200k_base", labels={"a": "1", "b": "é\"'\\"})
        write(store, None, first)
        second = replace(
            first,
            status=RunStatus.PAUSED,
            ledger_version=5,
            ledger_head=b"l" * 32,
            windows_version=2,
            windows_head=b"w" * 32,
            checkpoint_version=1,
            message_count=4,
            input_tokens=10**12,
            output_tokens=7,
            updated_time=NOON + timedelta(days=400, microseconds=1),
        )
        write(store, first, second)
        assert store.select_head(RUN) == second

    @pytest.mark.parametrize("change", [{"ledger_version": 1}, {"ledger_version": 3}, {"windows_version": 1}])
    def test_a_stale_head_is_refused(self, store: LedgerRecorder, change: dict[str, Any]) -> None:
        """Where the run is not at the versions that the writer believes, nothing is written."""
        standing = head(version=2)
        write(store, None, standing)
        before = held(store)
        with pytest.raises(StaleHead):
            store.insert_events(rows(8, 9), commit=Commit(replace(standing, **change), head(version=9), request("r-1")))
        assert held(store) == before
        assert store.select_request(RUN, "r-1") is None

    def test_a_run_is_opened_once(self, store: LedgerRecorder) -> None:
        """A writer that believes there is no such run is refused where there is one, and one that believes there is
        where there is none."""
        write(store, None, head(version=2))
        before = held(store)
        with pytest.raises(StaleHead):
            store.insert_events(rows(8, 9), commit=Commit(None, head(version=9)))
        assert held(store) == before
        with pytest.raises(StaleHead):
            write(store, head("default/new", version=1), head("default/new", version=2))
        assert store.select_head("default/new") is None

    def test_a_request_id_is_answered_once(self, store: LedgerRecorder) -> None:
        """A second request of a run with the same id is refused whole; another run may use the id."""
        standing = head(version=1)
        write(store, None, standing, request("r-1", outcome=b"first"))
        before = held(store)
        with pytest.raises(RequestExists):
            write(store, standing, head(version=2), request("r-1", outcome=b"second"))
        assert held(store) == before
        kept = store.select_request(RUN, "r-1")
        assert kept is not None
        assert kept.outcome == b"first"
        write(store, None, head("default/other", version=1), request("r-1", run="default/other"))

    def test_a_repeated_request_is_told_before_a_stale_head(self, store: LedgerRecorder) -> None:
        """A retry comes with an old head: it must be told that it was answered."""
        write(store, None, head(version=1), request("r-1"))
        with pytest.raises(RequestExists):
            write(store, None, head(version=1), request("r-1"))

    def test_a_taken_version_undoes_head_and_request(self, store: LedgerRecorder) -> None:
        """The head and the request of a refused insert are not written."""
        standing = head(version=1)
        write(store, None, standing)
        store.insert_events([row(2)])
        before = held(store)
        with pytest.raises(IntegrityError):
            write(store, standing, head(version=2), request("r-1"))
        assert held(store) == before
        assert store.select_request(RUN, "r-1") is None

    def test_no_events_are_no_error(self, store: LedgerRecorder) -> None:
        """An insert of no events gives no ids; a head may move without any."""
        assert list(store.insert_events([])) == []
        assert list(store.insert_events([], commit=Commit(None, head(version=1)))) == []
        assert store.max_notification_id() is None
        assert store.select_head(RUN) == head(version=1)

    # Requests

    def test_requests_are_kept_for_a_day(self, store: LedgerRecorder) -> None:
        """Within 24 hours an id is known; after that it may be used again, and what is over age is gone."""
        day = timedelta(hours=24)
        heads = [head(version=version) for version in range(6)]
        write(store, None, heads[1], request("a"))
        write(store, heads[1], heads[2], request("b"))
        with pytest.raises(RequestExists):
            write(store, heads[2], heads[3], request("a", at=NOON + day))
        write(store, heads[2], heads[3], request("c", at=NOON + day))
        assert store.select_request(RUN, "b") is not None
        again = request("a", at=NOON + day + timedelta(microseconds=1), outcome=b"again")
        write(store, heads[3], heads[4], again)
        assert store.select_request(RUN, "a") == again
        assert store.select_request(RUN, "b") is None
        assert store.select_request(RUN, "c") is not None

    def test_an_old_request_gives_its_id_free_at_once(self, store: LedgerRecorder) -> None:
        """However many have expired: an id is free a day after its use, not when it happens to be swept."""
        standing = None
        for version in range(1, 131):
            after = head(version=version)
            write(store, standing, after, request(f"r-{version}", at=NOON + timedelta(seconds=version)))
            standing = after
        later = request("r-130", at=NOON + timedelta(days=2), outcome=b"again")
        write(store, standing, head(version=131), later)
        assert store.select_request(RUN, "r-130") == later

    # Notifications

    def test_notifications_are_in_the_order_of_writing(self, store: LedgerRecorder) -> None:
        """One order over all runs; ids grow, the ids that an insert gave are those that are read."""
        given = [store.insert_events(rows(v, v + 1, run=run)) for v in (1, 3) for run in ("default/a", "default/b")]
        found = store.select_notifications(None, 100)
        ids = [n.id for n in found]
        assert ids == [i for inserted in given for i in inserted]
        assert ids == sorted(set(ids))
        assert [(n.originator_id, n.originator_version) for n in found] == [
            (f"default/{run}/ledger", version) for first in (1, 3) for run in "ab" for version in (first, first + 1)
        ]
        assert all(n.state == f"{n.originator_id}/{n.originator_version}".encode() for n in found)
        assert store.max_notification_id() == ids[-1]

    def test_notifications_by_limits(self, store: LedgerRecorder) -> None:
        """From ``start``, included or not, to ``stop`` included, at most ``limit``; a start that is no id is none."""
        ids = list(store.insert_events(rows(1, 6)))

        def read(start: int | None, limit: int = 100, **options: Any) -> list[int]:
            return [n.id for n in store.select_notifications(start, limit, **options)]

        assert read(None) == read(0) == read(ids[0]) == ids
        assert read(None, inclusive_of_start=False) == ids
        assert read(0, inclusive_of_start=False) == ids
        assert read(ids[2]) == ids[2:]
        assert read(ids[2], inclusive_of_start=False) == ids[3:]
        assert read(ids[1], 2) == ids[1:3]
        assert read(ids[1], stop=ids[3]) == ids[1:4]
        assert read(ids[4], stop=ids[3]) == []
        assert read(None, stop=ids[2], limit=2) == ids[:2]
        assert read(ids[-1] + 1) == read(ids[-1], inclusive_of_start=False) == []
        assert read(None, 0) == []

    def test_notifications_by_topic(self, store: LedgerRecorder) -> None:
        """Only of the topics asked for; the limit counts what is given, so gaps in the ids are no end."""
        topics = ["t.A:1", "t.B:1", "t.A:1", "t.C:1", "t.A:1", "t.B:1"]
        ids = list(store.insert_events([row(v, topic=t) for v, t in enumerate(topics, 1)]))
        found = store.select_notifications(None, 2, topics=["t.A:1", "t.C:1"])
        assert [(n.id, n.topic) for n in found] == [(ids[0], "t.A:1"), (ids[2], "t.A:1")]
        rest = store.select_notifications(found[-1].id, 9, topics=["t.A:1", "t.C:1"], inclusive_of_start=False)
        assert [n.id for n in rest] == [ids[3], ids[4]]
        assert list(store.select_notifications(None, 9, topics=["t.Z:1"])) == []

    def test_what_was_refused_is_never_notified(self, store: LedgerRecorder) -> None:
        """A refused insert leaves no notification, and ids go on growing after it."""
        first = list(store.insert_events([row(1)]))
        with pytest.raises(IntegrityError):
            store.insert_events([row(2), row(1)])
        second = list(store.insert_events([row(2)]))
        assert [n.id for n in store.select_notifications(None, 9)] == first + second
        assert second > first

    def test_an_empty_store_has_no_last_notification(self, store: LedgerRecorder) -> None:
        """Nothing written: no id, no notification."""
        assert store.max_notification_id() is None
        assert list(store.select_notifications(None, 9)) == []

    # Subscriptions

    def test_a_subscription_gives_what_is_there_and_what_comes(self, store: LedgerRecorder) -> None:
        """Existing events first, then new ones, each once and in order, until it is stopped."""
        existing = list(store.insert_events(rows(1, 3)))
        with store.subscribe(gt=0) as subscription, ThreadPoolExecutor(1) as pool:
            assert [next(subscription).id for _ in existing] == existing
            waiting = pool.submit(next, subscription)
            new = list(store.insert_events(rows(4, 5)))
            assert [waiting.result(SECONDS_MAX).id, next(subscription).id] == new
            ending = pool.submit(list, subscription)
            subscription.stop()
            assert ending.result(SECONDS_MAX) == []

    def test_a_subscription_goes_on_after_an_id(self, store: LedgerRecorder) -> None:
        """It gives what is after ``gt``, of the topics asked for; None begins at the first."""
        ids = list(store.insert_events([row(v, topic=f"t.{'AB'[v % 2]}:1") for v in range(1, 7)]))
        with store.subscribe(gt=ids[1], topics=["t.B:1"]) as subscription:
            assert [next(subscription).id for _ in range(2)] == [ids[2], ids[4]]
        with store.subscribe() as subscription:
            assert next(subscription).id == ids[0]

    def test_subscriptions_do_not_disturb_each_other(self, store: LedgerRecorder) -> None:
        """Each of several subscriptions gives everything, more than a read of it takes at once."""
        count = 1200

        def read(_: int) -> list[Notification]:
            with store.subscribe(gt=0) as subscription:
                return [next(subscription) for _ in range(count)]

        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(at_once, read, range(3))
            for first in range(1, count, 100):
                store.insert_events(rows(first, first + 99))
            for found in reading.result(SECONDS_MAX):
                assert [n.originator_version for n in found] == list(range(1, count + 1))

    # Directory

    def test_runs_are_listed_latest_first(self, store: LedgerRecorder) -> None:
        """By opening time, then by key, whatever was written to since."""
        at = [NOON + timedelta(microseconds=m) for m in (0, 5, 5, 9)]
        heads = [head(f"default/{name}", version=1, opened=moment) for name, moment in zip("dbca", at, strict=True)]
        for one in heads:
            write(store, None, one)
        write(store, heads[0], replace(heads[0], ledger_version=2, updated_time=NOON + timedelta(days=1)))
        listed = store.select_heads(RunQuery("default", 10))
        assert [h.run_key for h in listed] == ["default/a", "default/c", "default/b", "default/d"]
        assert listed[0] == heads[3]

    def test_pages_join_without_gap_or_repeat(self, store: LedgerRecorder) -> None:
        """``after`` the last run of a page comes the next, also among runs that were opened at one moment, and
        whatever is opened meanwhile."""
        moments = [NOON + timedelta(seconds=n // 4) for n in range(23)]
        for n, moment in enumerate(moments):
            write(store, None, head(f"default/run-{n:02}", version=1, opened=moment))
        found: list[RunHead] = []
        after = None
        while page := store.select_heads(RunQuery("default", 5, after=after)):
            assert len(page) <= 5
            found += page
            after = (page[-1].opened_time, page[-1].run_key)
            write(store, None, head(f"default/late-{len(found)}", version=1, opened=NOON + timedelta(hours=1)))
        assert [h.run_key for h in found] == [f"default/run-{n:02}" for n in reversed(range(23))]

    def test_runs_are_filtered_by_status(self, store: LedgerRecorder) -> None:
        """By the status as it is now."""
        for status in RunStatus:
            opened = head(f"default/{status.value}", version=1)
            write(store, None, opened)
            write(store, opened, replace(opened, ledger_version=2, status=status))
        for status in RunStatus:
            found = store.select_heads(RunQuery("default", 10, status=status))
            assert [h.run_key for h in found] == [f"default/{status.value}"]

    @pytest.mark.parametrize(
        ("wanted", "names"),
        [
            ({}, "dcba"),
            ({"team": "x"}, "cba"),
            ({"team": "x", "env": "prod"}, "b"),
            ({"team": "X"}, ""),
            ({"x": "team"}, ""),
            ({"team": ""}, "d"),
            ({'q"u\\o': "é\n😀'"}, "c"),
            ({"a.b[0]": "$"}, "c"),
            ({"n": "1"}, "c"),
            ({"n": "1.0"}, ""),
            ({"t": "true"}, "c"),
        ],
    )
    def test_runs_are_filtered_by_labels(self, store: LedgerRecorder, wanted: dict[str, str], names: str) -> None:
        """A run is listed if it has every label asked for, name and value equal."""
        odd = {"team": "x", 'q"u\\o': "é\n😀'", "a.b[0]": "$", "n": "1", "t": "true"}
        all_labels: Mapping[str, dict[str, str]] = {
            "a": {"team": "x", "env": "dev"},
            "b": {"team": "x", "env": "prod"},
            "c": odd,
            "d": {"team": "", "env": "x"},
        }
        for name, labels in all_labels.items():
            write(store, None, head(f"default/{name}", version=1, labels=labels))
        found = store.select_heads(RunQuery("default", 10, labels=wanted))
        assert "".join(h.run_key.removeprefix("default/") for h in found) == names
        assert all(h.labels == all_labels[h.run_key[-1]] for h in found)

    @pytest.mark.parametrize("namespace", ["a", "a0", "a.", "a-b", "default", "default2", "Default"])
    def test_namespaces_are_kept_apart(self, store: LedgerRecorder, namespace: str) -> None:
        """A namespace lists its own runs, also where its name begins like another's."""
        for name in ("a", "a0", "a.", "a-b", "default", "default2", "Default"):
            write(store, None, head(f"{name}/run", version=1))
        assert [h.run_key for h in store.select_heads(RunQuery(namespace, 10))] == [f"{namespace}/run"]
        past_all = (datetime(2030, 1, 1, tzinfo=UTC), "zzz/z")
        assert len(store.select_heads(RunQuery(namespace, 10, after=past_all))) == 1

    # Concurrency

    def test_writers_of_many_runs_do_not_harm_each_other(self, store: LedgerRecorder) -> None:
        """Everything that was answered is there, each run in order; ids are unique and grow within a run."""
        count, runs = 25, [f"default/run-{n}" for n in range(16)]

        def work(run: str) -> list[int]:
            standing: RunHead | None = None
            ids: list[int] = []
            for version in range(1, count + 1):
                after = head(run, version=version)
                ids += store.insert_events([row(version, run=run)], commit=Commit(standing, after))
                standing = after
            return ids

        given = at_once(work, runs)
        assert all(ids == sorted(ids) for ids in given)
        found = store.select_notifications(None, 10**6)
        assert sorted(i for ids in given for i in ids) == [n.id for n in found]
        assert len({n.id for n in found}) == count * len(runs)
        for run in runs:
            versions = [n.originator_version for n in found if n.originator_id == originator_id(run, "ledger")]
            assert versions == list(range(1, count + 1))
            standing = store.select_head(run)
            assert standing is not None
            assert standing.ledger_version == count

    def test_one_of_several_writers_of_a_run_wins(self, store: LedgerRecorder) -> None:
        """Each version is written by exactly one of those who try; the others are told that they are stale."""
        standing: RunHead | None = None

        def work(writer: int) -> str | None:
            after = head(version=(standing.ledger_version if standing else 0) + 1, status=RunStatus.OPEN)
            after = replace(after, message_count=writer)
            try:
                store.insert_events([row(after.ledger_version)], commit=Commit(standing, after))
            except StaleHead:
                return "stale"
            return None

        for version in range(1, 11):
            answers = at_once(work, range(8))
            assert sorted(a or "" for a in answers) == [""] + ["stale"] * 7
            standing = store.select_head(RUN)
            assert standing is not None
            assert (standing.ledger_version, standing.message_count) == (version, answers.index(None))

    def test_a_reader_that_follows_misses_nothing(self, store: LedgerRecorder) -> None:
        """Whoever reads on from the last id that was read sees every event once, however many write meanwhile."""
        runs, count = [f"default/run-{n}" for n in range(8)], 30
        done = Event()

        def follow() -> list[Notification]:
            found: list[Notification] = []
            while True:
                is_last = done.is_set()
                at = found[-1].id if found else None
                page = store.select_notifications(at, 7, inclusive_of_start=False)
                found += page
                if is_last and not page:
                    return found

        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(follow)
            try:
                at_once(lambda run: [store.insert_events([row(v, run=run)]) for v in range(1, count + 1)], runs)
            finally:
                done.set()
            found = following.result(SECONDS_MAX)
        assert found == list(store.select_notifications(None, 10**6))
        assert len(found) == len(runs) * count

    # The library

    def test_the_library_saves_and_gets_through_it(self, env: dict[str, str]) -> None:
        """The event-sourcing library's own application keeps and reads our events, content and all."""
        given = [message_appended(version) for version in range(1, 4)]
        with Application[str](env) as application:
            recordings = application.save(*given)
            assert [r.notification.originator_version for r in recordings] == [1, 2, 3]
            found = list(application.events.get(LEDGER_ID))
            assert [_dump(event) for event in found] == [_dump(event) for event in given]
            latest = list(application.events.get(LEDGER_ID, desc=True, limit=1))
            assert [_dump(event) for event in latest] == [_dump(given[2])]
            assert len(application.notification_log.select(1, 10)) == 3

    def test_the_library_s_event_store_takes_it(self, store: LedgerRecorder, env: dict[str, str]) -> None:
        """The recorder stands behind the library's event store as it is, and hands on what belongs to a commit."""
        event_store = EventStore(EventMapper(_transcoder(env)), store)
        event = message_appended(1)
        event_store.put([event], commit=Commit(None, head(version=1)))
        assert [_dump(found) for found in event_store.get(LEDGER_ID)] == [_dump(event)]
        assert store.select_head(RUN) == head(version=1)


def message_appended(version: int) -> e.MessageAppended:
    """A message that holds what JSON can hold."""
    body = Body(SALT, json.dumps({"role": "user", "content": f"\ud800\u0000 {version}"}).encode())
    message = Message(version, version, Role.USER, Source.PERSON, 0, body.commitment, len(body.content), 5)
    return e.MessageAppended(
        originator_id=LEDGER_ID, originator_version=version, recorded_time=NOON, body=body, message=message
    )


def _dump(event: Any) -> dict[str, Any]:
    return {"class": type(event).__name__, **event.model_dump()}


def _transcoder(env: dict[str, str]) -> Any:
    with Application[str](env) as application:
        return application.mapper.transcoder
