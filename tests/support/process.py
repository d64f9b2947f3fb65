"""The service as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = Path(sys.executable).with_name("turnledger")


@dataclass
class Process:
    """A running ``turnledger serve``."""

    popen: subprocess.Popen[str]
    address: str
    started_seconds: float

    def stop(self) -> tuple[int, list[dict[str, object]]]:
        """Ends it with SIGTERM; gives its exit code and its log lines."""
        self.popen.send_signal(signal.SIGTERM)
        _, logged = self.popen.communicate(timeout=20)
        return self.popen.returncode, [json.loads(line) for line in logged.splitlines()]


@contextmanager
def serving(store: str, *, prefix: Sequence[str] = ()) -> Iterator[Process]:
    """A service in a process of its own; ``prefix`` is the beginning of a command that runs it."""
    began = time.monotonic()
    command = [*prefix, COMMAND, "serve", "--store", store, "--listen", "127.0.0.1:0"]
    popen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert popen.stderr
        first = json.loads(popen.stderr.readline())
        yield Process(popen, first["address"], time.monotonic() - began)
    finally:
        popen.kill()
        popen.communicate()
