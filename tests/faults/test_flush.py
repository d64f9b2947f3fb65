"""No write is answered before it is on disk: the service's own system calls are watched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.process import serving
from support.service import sqlite_store
from support.syscalls import Watched, watching
from support.wire import WRITES, Wire, good, standing, wired_to

WRITES_OF_STANDING = 5


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Watched]]:
    """A service in a process of its own, watched, and a channel to it."""
    folder = tmp_path_factory.mktemp("flush")
    with serving(sqlite_store(folder)) as process, watching(process.popen.pid) as watched:
        if watched is None:
            pytest.skip("ptrace is not permitted here")
        with wired_to(process.address, folder / "ledger.db") as wire:
            yield wire, watched


@pytest.mark.parametrize("rpc", WRITES)
def test_a_flush_precedes_the_answer(served: tuple[Wire, Watched], rpc: str) -> None:
    """What a write puts into the log is flushed before the answer is sent, and nothing is put there in between."""
    wire, watched = served
    run = standing(wire, f"flush-{rpc}")
    for _ in range(WRITES_OF_STANDING):
        watched.until_answer()
    wire.call(rpc, good(rpc, f"new-{rpc}" if rpc == "OpenRun" else run))
    done = watched.until_answer()
    assert "log" in done, "nothing was written"
    assert done[-2:] == ["flush", "answer"]


def test_a_read_needs_no_flush(served: tuple[Wire, Watched]) -> None:
    """A read is seen to answer without one: what the test above sees is the write's own."""
    wire, watched = served
    run = standing(wire, "flush-read")
    for _ in range(WRITES_OF_STANDING):
        watched.until_answer()
    wire.call("GetRun", good("GetRun", run))
    assert watched.until_answer() == ["answer"]
