"""``serve`` and ``health``: a service that says where it is, and whether it is well."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import turnledger

COMMAND = Path(sys.executable).with_name("turnledger")


@pytest.mark.parametrize("output", ["text", "json"])
def test_it_says_where_it_serves_and_stops_when_told(tmp_path: Path, output: str) -> None:
    """On a socket in a folder; SIGTERM ends it with 0, and then it is not reachable."""
    address = f"unix:{tmp_path}/socket"
    command = [COMMAND, "serve", "--store", "memory:", "--listen", address, "--output", output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        try:
            assert service.stdout is not None
            ready = service.stdout.readline()
            if output == "json":
                assert json.loads(ready) == {"address": address, "store": "memory:"}
            else:
                assert ready == f"turnledger serves memory: on {address}\n"
            well = turnledger("health", "--server", address, "--output", output)
            assert well.code == 0
            assert "serving" in well.out
            assert turnledger("runs", "--server", address).code == 0
            service.send_signal(signal.SIGTERM)
            assert service.wait(timeout=20) == 0
        finally:
            service.kill()
    gone = turnledger("health", "--server", address, "--timeout", "0.1", "--output", output)
    assert gone.code == 3
    assert (json.loads(gone.out)["status"] == "unreachable") if output == "json" else "does not answer" in gone.err


def test_an_address_that_can_not_be_had_is_said(tmp_path: Path) -> None:
    """In words, not in a traceback."""
    # In a process of its own: serving sets up the logs of its whole process.
    command = [COMMAND, "serve", "--store", "memory:", "--listen", f"unix:{tmp_path}/none/socket"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert ended.returncode in (2, 3)
    assert "Traceback" not in ended.stderr
