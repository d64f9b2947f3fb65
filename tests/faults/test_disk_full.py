"""A disk without room: the running service may write no more bytes to its files, by a limit of the system."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.process import serving
from support.service import sqlite_store
from support.wire import WRITES, Refusal, good, is_replayed, standing, wired_to

UNAVAILABLE = Refusal("UNAVAILABLE", "STORE_UNAVAILABLE", {}, ("RetryInfo",))


@contextmanager
def no_room(pid: int, log: Path) -> Iterator[None]:
    """The service's log may not grow by a byte."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (log.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_a_full_disk_refuses_every_write_and_loses_nothing(tmp_path: Path) -> None:
    """Writes are refused and leave nothing, reads go on, and with room again the same requests are taken, by the same
    process. The log names the cause."""
    file = tmp_path / "ledger.db"
    with serving(sqlite_store(tmp_path)) as process, wired_to(process.address, file) as wire:
        runs = {rpc: standing(wire, f"full-{rpc}") for rpc in WRITES}
        requests = {rpc: good(rpc, run, request_id="once") for rpc, run in runs.items()}
        requests["OpenRun"] = good("OpenRun", "new", request_id="once")
        with no_room(process.popen.pid, Path(f"{file}-wal")):
            for rpc, request in requests.items():
                assert wire.refusal(rpc, request) == UNAVAILABLE
            assert wire.call("GetRun", good("GetRun", runs["Step"])).run.version == 5
        for rpc, request in requests.items():
            assert not is_replayed(wire.call(rpc, request))
            assert is_replayed(wire.call(rpc, request))
        code, logged = process.stop()
    refused = [line for line in logged if line.get("outcome") == "STORE_UNAVAILABLE"]
    assert [line["method"] for line in refused] == list(requests)
    assert {line["store_error"] for line in refused} <= {"disk I/O error", "database or disk is full"}
    assert code == 0
