"""``doctor``: whether everything that turnledger needs is there and works."""

from __future__ import annotations

import platform
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Literal

import typer

from turnledger.cli.commands.service import SERVING, ask_health
from turnledger.cli.exits import REPORTED, Exit, hint_of
from turnledger.cli.output import Output, OutputOption, cell, console, emit, progress, say, table
from turnledger.cli.targets import ServerOption, StoreOption, Target, TimeoutOption
from turnledger.grpc.server import DEFAULT_LISTEN
from turnledger.ledger.stores import SQLITE_PREFIX
from turnledger.ledger.tokenizers import TOKENIZERS, tokenizer_named

DISK_FREE_BYTES_MIN = 1024**3
_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}
_PACKAGES = ("grpcio", "protobuf", "pydantic", "eventsourcing", "msgspec", "tiktoken")


@dataclass(frozen=True)
class Finding:
    """What a check found, and what to do about it."""

    check: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    hint: str = ""


def doctor(
    server: ServerOption = "",
    store: StoreOption = "",
    timeout: TimeoutOption = 5.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Checks the installation, and the service or store that is named; says what to do about what is wrong.

    Without --server and --store it also looks for a service at the default address, which need not be there.
    """
    target = Target(server, store, timeout)
    findings = []
    with progress("checking", None) as done:
        for finding in chain(_installation(), _store(target) if store else _service(target)):
            findings.append(finding)
            done()
    holds = all(finding.status != "failed" for finding in findings)
    if output is Output.JSON:
        emit({"holds": holds, "checks": [vars(finding) for finding in findings]})
    else:
        _print(findings)
    if not holds:
        raise typer.Exit(Exit.DOES_NOT_HOLD)


def _print(findings: list[Finding]) -> None:
    rows = table("check", "", "found", wrap=("found",))
    for finding in findings:
        rows.add_row(finding.check, cell(finding.status, _STYLES[finding.status]), cell(finding.detail))
        if finding.hint:
            rows.add_row("", "", cell(finding.hint, "dim"))
    console().print(rows)
    wrong = sum(finding.status == "failed" for finding in findings)
    say(f"{wrong} of {len(findings)} checks failed." if wrong else "Nothing is wrong.", "red" if wrong else "green")


# The installation


def _installation() -> Iterator[Finding]:
    yield Finding("turnledger", "ok", f"{version('turnledger')}, Python {platform.python_version()}")
    yield Finding("packages", "ok", ", ".join(f"{name} {version(name)}" for name in _PACKAGES))
    for name in TOKENIZERS:
        yield _tokenizer(name)
    yield Finding("SQLite", "ok", sqlite3.sqlite_version)


def _tokenizer(name: str) -> Finding:
    try:
        tokenizer = tokenizer_named(name)
    except RuntimeError as error:
        return Finding(f"tokenizer {name}", "failed", str(error), "install turnledger again")
    assert tokenizer is not None
    return Finding(f"tokenizer {name}", "ok", f"counts {tokenizer.count(['hello world'])} tokens in 'hello world'")


# A service


def _service(target: Target) -> Iterator[Finding]:
    address = target.server or DEFAULT_LISTEN
    status, detail = ask_health(address, target.timeout)
    if status != SERVING:
        hint = "start one with `turnledger serve`, or name another with --server"
        yield Finding("service", "failed" if target.server else "warning", f"{address}: {detail or status}", hint)
        return
    yield _tried("service", lambda: _answers(target, address))


def _answers(target: Target, address: str) -> str:
    with target.connect() as ledger:
        next(ledger.list_runs(page_size=1), None)
        began = time.perf_counter()
        next(ledger.list_runs(page_size=1), None)
        return f"{address}: serving, answers in {(time.perf_counter() - began) * 1000:.1f} ms"


# A store


def _store(target: Target) -> Iterator[Finding]:
    opened = _tried("store", lambda: _opens(target))
    yield opened
    path = Path(target.store.removeprefix(SQLITE_PREFIX))
    if opened.status == "ok" and path.is_file():
        yield _integrity(path)
        yield _disk(path)


def _opens(target: Target) -> str:
    with target.connect() as ledger:
        runs = sum(1 for _ in ledger.list_runs(page_size=1000))
    return f"{target.store}: {runs:,} {'run' if runs == 1 else 'runs'}"


def _integrity(path: Path) -> Finding:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
    if found == ["ok"]:
        return Finding("store's file", "ok", f"{path.stat().st_size:,} bytes, intact")
    return Finding("store's file", "failed", "; ".join(found), "restore a backup; `turnledger replay` tells what holds")


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    detail = f"{free / 1024**3:,.1f} GiB free"
    if free < DISK_FREE_BYTES_MIN:
        return Finding("disk", "warning", detail, "a full disk stops every write, and loses nothing")
    return Finding("disk", "ok", detail)


def _tried(check: str, attempt: Callable[[], str]) -> Finding:
    try:
        return Finding(check, "ok", attempt())
    except REPORTED as error:
        return Finding(check, "failed", str(error), hint_of(error))
