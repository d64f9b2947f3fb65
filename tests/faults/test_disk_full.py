"""A disk without room: a file system that is full, and a limit of the system on the size of files."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.mounts import mounted, needs_mounts, seen_by
from support.process import Process, serving
from support.service import sqlite_store
from support.wire import WRITES, FarWire, Refusal, Wire, good, is_replayed, standing, wired_to

UNAVAILABLE = Refusal("UNAVAILABLE", "STORE_UNAVAILABLE", {}, ("RetryInfo",))


@contextmanager
def _full(folder: Path) -> Iterator[None]:
    """A file takes all that is left of the file system."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def _limited(pid: int, log: Path) -> Iterator[None]:
    """The service's log may not grow by a byte."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (log.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def _check_writes(process: Process, wire: Wire, without_room: AbstractContextManager[None]) -> None:
    """Without room every write is refused and leaves nothing, and reads go on; with room again the same requests are
    taken, by the same process. The log names the cause."""
    runs = {rpc: standing(wire, f"full-{rpc}") for rpc in WRITES}
    requests = {rpc: good(rpc, run, request_id="once") for rpc, run in runs.items()}
    requests["OpenRun"] = good("OpenRun", "new", request_id="once")
    with without_room:
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


@needs_mounts
def test_a_full_file_system_refuses_every_write_and_loses_nothing(tmp_path: Path) -> None:
    """One of four megabytes, of which nothing is left."""
    with serving(sqlite_store(tmp_path), prefix=mounted(tmp_path, "size=4m")) as process:
        folder = seen_by(process.popen.pid, tmp_path)
        with wired_to(process.address, folder / "ledger.db", FarWire) as wire:
            _check_writes(process, wire, _full(folder))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_a_file_that_may_not_grow_refuses_every_write_and_loses_nothing(tmp_path: Path) -> None:
    """As a quota would."""
    with serving(sqlite_store(tmp_path)) as process:
        file = tmp_path / "ledger.db"
        with wired_to(process.address, file) as wire:
            _check_writes(process, wire, _limited(process.popen.pid, Path(f"{file}-wal")))
