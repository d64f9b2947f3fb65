"""The processes that a benchmark measures: each on loopback, ended with the block that started it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS = 30


@contextmanager
def service(file: Path) -> Iterator[str]:
    """The address of a real service on a store of its own."""
    command = Path(sys.executable).with_name("turnledger")
    with _running(
        [command, "serve", "--output", "json", "--store", f"sqlite:///{file}", "--listen", "127.0.0.1:0"]
    ) as line:
        yield json.loads(line)["address"]


@contextmanager
def floor(script: Path, file: Path, tokenizer: str) -> Iterator[str]:
    """The address of a floor that answers the calls of a script."""
    with _running([sys.executable, "-m", "benchmarks.floor", script, file, tokenizer]) as line:
        yield line.strip()


@contextmanager
def _running(command: list[str | Path]) -> Iterator[str]:
    """The first line that a process says."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{command[0]} ended with code {process.wait(STOP_SECONDS)}")
        yield line
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=STOP_SECONDS)
