"""A clock that jumps back: order comes from versions and from the store, never from the time of a write."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from support.clock import Clock
from support.wire import WRITES, Wire, good, is_replayed, standing, wired
from turnledger.v1 import audit_service_pb2 as audit

BACK = timedelta(days=3)


def _listed(wire: Wire, page_size: int) -> list[str]:
    found: list[str] = []
    page = wire.call("ListRuns", audit.ListRunsRequest(page_size=page_size))
    while True:
        found += [run.run_id for run in page.runs]
        if not page.next_page_token:
            return found
        page = wire.call("ListRuns", audit.ListRunsRequest(page_size=page_size, page_token=page.next_page_token))


@pytest.mark.parametrize("rpc", [rpc for rpc in WRITES if rpc != "OpenRun"])
def test_a_write_goes_on_after_a_jump_back(tmp_path: Path, rpc: str) -> None:
    """It is taken, is the run's next version, and has the time that the clock said; a retry gets its answer."""
    clock = Clock()
    with wired(tmp_path, clock=clock) as wire:
        run = standing(wire, "jumped")
        before = wire.call("GetRun", good("GetRun", run)).run.version
        clock.now -= BACK
        first = wire.call(rpc, good(rpc, run, request_id="once"))
        again = wire.call(rpc, good(rpc, run, request_id="once"))
        assert first.version in (before, before + 1)
        assert (is_replayed(first), is_replayed(again), again.version) == (False, True, first.version)
        facts = wire.all("ReadLedger", good("ReadLedger", run))
        assert [fact.version for fact in facts] == list(range(1, first.version + 1))


@pytest.mark.parametrize("rpc", WRITES)
def test_a_request_from_before_the_jump_is_known(tmp_path: Path, rpc: str) -> None:
    """Its row is of a time that is yet to come, which makes it no less a first answer."""
    clock = Clock()
    with wired(tmp_path, clock=clock) as wire:
        run = standing(wire, "asked")
        asked = good(rpc, "new" if rpc == "OpenRun" else run, request_id="once")
        wire.call(rpc, asked)
        rows = wire.rows()
        clock.now -= BACK
        assert is_replayed(wire.call(rpc, asked))
        assert wire.rows() == rows


@pytest.mark.parametrize("page_size", [1, 2, 100])
def test_pages_name_every_run_once(tmp_path: Path, page_size: int) -> None:
    """Runs that were opened before, after and at the same moment are listed latest first by the clock, none twice."""
    clock = Clock()
    with wired(tmp_path, clock=clock) as wire:
        for run in ("a", "b"):
            standing(wire, run)
        clock.now -= BACK
        for run in ("c", "d"):
            standing(wire, run)
        assert _listed(wire, page_size) == ["b", "a", "d", "c"]
