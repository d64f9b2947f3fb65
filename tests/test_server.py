"""The server process: starts, says how it is, logs without content, stops cleanly."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import pytest
from eventsourcing.persistence import OperationalError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs

from support.process import COMMAND, serving
from support.service import USER, reply, result, sqlite_store
from support.waiting import SECONDS_MAX, wait_until
from turnledger.client import LedgerClient, ServiceFault
from turnledger.domain.errors import NothingToAnswer, ServiceBusy, StoreUnavailable
from turnledger.grpc import server
from turnledger.grpc.limits import STREAMS_MAX
from turnledger.ledger.queries import Queries
from turnledger.ledger.stores import open_ledger

SERVICES = ("", "turnledger.v1.LedgerService", "turnledger.v1.AuditService")
MARKER = "this-is-content"


def test_it_starts_serves_and_stops_cleanly(tmp_path: Path) -> None:
    """In about a second; what was written is there afterwards."""
    with serving(sqlite_store(tmp_path)) as process:
        assert process.started_seconds < 5
        with LedgerClient(process.address) as client:
            client.open_run(format="openai.chat", run_id="kept").step([USER])
        code, logged = process.stop()
    assert code == 0
    assert [line["event"] for line in logged][-2:] == ["stopping", "stopped"]
    with server.start(sqlite_store(tmp_path)) as service, LedgerClient(service.address) as client:
        assert client.run("kept").replay().messages == [USER]


def test_logs_hold_no_content(tmp_path: Path) -> None:
    """A line for each call with method, run, outcome and duration; nothing of what was said."""
    with serving(sqlite_store(tmp_path)) as process, LedgerClient(process.address) as client:
        policy = {"strategy": "compact-results", "signal": MARKER}
        run = client.open_run(format="openai.chat", run_id="quiet", policy=policy, messages=[USER])
        run.step([reply("c1", MARKER, MARKER), result("c1", MARKER)])
        with pytest.raises(Exception, match=MARKER):
            run.append([{"role": MARKER}])
        with pytest.raises(NothingToAnswer):
            run.step([{"role": "assistant", "content": MARKER}])
        run.close(reason=MARKER)
        _, logged = process.stop()
    assert MARKER not in json.dumps(logged)
    calls = [line for line in logged if line["event"] == "call"]
    assert [(c["method"], c["outcome"]) for c in calls] == [
        ("OpenRun", "ok"),
        ("Step", "ok"),
        ("Append", "BODY_NOT_OF_FORMAT"),
        ("Step", "NOTHING_TO_ANSWER"),
        ("CloseRun", "ok"),
    ]
    assert all(c["run_id"] == "quiet" and isinstance(c["duration_ms"], float) for c in calls)


def test_it_says_how_it_is_and_what_it_offers() -> None:
    """Health for every service by name, and reflection."""
    with server.start() as service, grpc.insecure_channel(service.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in SERVICES:
            answer = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        (listed,) = stub.ServerReflectionInfo(iter([asked]), timeout=5)
        assert {*SERVICES[1:]} <= {s.name for s in listed.list_services_response.service}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "nowhere"], "listen: must be HOST:PORT"),
        (["--store", "mysql://x"], "store: must be sqlite:///FILE or memory:"),
        (["--store", "sqlite:////no/such/folder/x.db"], "store: its folder must exist"),
    ],
)
def test_what_it_cannot_do_is_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    """An error that says what to mend, and exit code 2."""
    ended = subprocess.run([COMMAND, "serve", *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=30)
    assert ended.returncode == 2
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"turnledger: {said}")
    assert "Traceback" not in ended.stderr


def test_health_has_exit_codes() -> None:
    """0 where it serves, 3 where nobody answers."""
    with server.start() as service:
        serves = subprocess.run([COMMAND, "health", "--server", service.address], capture_output=True, text=True)
    assert (serves.returncode, serves.stdout) == (0, f"{service.address}: serving\n")
    silent = subprocess.run([COMMAND, "health", "--server", "127.0.0.1:1", "--timeout", "2"], capture_output=True)
    assert silent.returncode == 3


def test_open_streams_are_limited_and_starve_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """One stream more than the limit gets a typed answer; calls go on meanwhile."""
    released = Event()
    read = Queries.facts

    def held(*args: Any, **options: Any) -> Iterator[Any]:
        facts = read(*args, **options)
        yield next(facts)
        assert released.wait(SECONDS_MAX)
        yield from facts

    monkeypatch.setattr(Queries, "facts", held)
    with server.start() as service, LedgerClient(service.address, timeout=SECONDS_MAX) as client:
        run = client.open_run(format="openai.chat", messages=[USER])
        streams = [run.ledger() for _ in range(STREAMS_MAX)]
        firsts = [next(stream) for stream in streams]
        with pytest.raises(ServiceBusy):
            next(run.ledger())
        assert run.append([USER]).version == 3
        released.set()
        whole = [*run.ledger()][:2]
        assert all([first, *stream] == whole for first, stream in zip(firsts, streams, strict=True))


def test_a_stopping_service_takes_no_more() -> None:
    """Its answer says to call again."""
    with server.start() as service, LedgerClient(service.address) as client:
        service._interceptor.stopping.set()
        with pytest.raises(ServiceBusy):
            client.open_run(format="openai.chat")


def _failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> server.Server:
    """A service whose store fails at every write."""
    ledger = open_ledger("memory:")

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(ledger.recorder, "insert_events", fail)
    return server.Server(ledger, "127.0.0.1:0")


def test_a_store_that_fails_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hint to call again, and nothing of the store's own words."""
    with _failing(monkeypatch, OperationalError(f"disk full: {MARKER}")) as service:
        with LedgerClient(service.address, timeout=10) as client, pytest.raises(StoreUnavailable) as raised:
            client.open_run(format="openai.chat")
    assert MARKER not in str(raised.value)


def test_a_fault_of_ours_has_an_id_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets an id to report, the log has it too, and neither has content."""
    with capture_logs() as logged, _failing(monkeypatch, RuntimeError(f"a bug near {MARKER}")) as service:
        with LedgerClient(service.address) as client, pytest.raises(ServiceFault) as raised:
            client.open_run(format="openai.chat", messages=[{"role": "user", "content": MARKER}])
        wait_until(lambda: bool(logged))
    assert re.fullmatch(r"[0-9a-f]{16}", raised.value.fault_id)
    assert logged[0]["fault_id"] == raised.value.fault_id
    assert MARKER not in str(raised.value) + json.dumps(logged)


def test_two_services_share_a_file(tmp_path: Path) -> None:
    """Neither trusts what it holds: a run that the other moved on is read again, and a conflict is typed."""
    store = sqlite_store(tmp_path)
    with server.start(store) as one, server.start(store) as two:
        with LedgerClient(one.address) as first, LedgerClient(two.address) as second:
            run = first.open_run(format="openai.chat", policy={"strategy": "sliding-window", "keep_recent_turns": 2})
            other = second.run(run.id)
            windows = [run.step([USER])]
            for i in range(6):
                side = other if i % 2 else run
                windows.append(side.step([reply(f"c{i}"), result(f"c{i}")]))
            assert [w.iteration for w in windows] == [1, 2, 3, 4, 5, 6, 7]
            assert run.build_window().digest == windows[-1].digest
            assert other.build_window().digest == windows[-1].digest
            assert [w.digest for w in run.replay_all()] == [w.digest for w in windows]
