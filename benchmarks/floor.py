"""The floor of a step: what no ledger on gRPC and SQLite can do without.

A server whose one call parses the new bodies once, counts their tokens once, commits the rows that a step of the same
run wrote, and answers with as many bytes as that step did. It decides nothing.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from turnledger.grpc.limits import CALL_THREADS, SERVER_OPTIONS
from turnledger.ledger.stores import open_ledger
from turnledger.ledger.tokenizers import tokenizer_named

METHOD = "/benchmarks.Floor/Call"
Rows = dict[str, list[tuple[Any, ...]]]
"""Rows of the store by table."""


@dataclass(frozen=True, slots=True)
class Call:
    """One step as it was: its new bodies with their texts, what it wrote, and how it was answered."""

    request: bytes
    bodies: Sequence[bytes]
    texts: Sequence[str]
    rows: Rows
    answer: bytes


class Floor(grpc.GenericRpcHandler):
    """Answers the calls of a script in their order."""

    def __init__(self, file: Path, calls: Sequence[Call], tokenizer: str) -> None:
        open_ledger(f"sqlite:///{file}").close()
        self._connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = FULL")
        self._calls = iter(calls)
        self._tokenizer = tokenizer_named(tokenizer)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """The one call."""
        return grpc.unary_unary_rpc_method_handler(self._answer) if details.method == METHOD else None

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        call = next(self._calls)
        for body in call.bodies:
            json.loads(body)
        if self._tokenizer is not None:
            self._tokenizer.count(call.texts)
        self._commit(call.rows)
        return call.answer

    def _commit(self, rows: Rows) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for table, values in rows.items():
            places = ", ".join("?" * len(values[0]))
            self._connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", values)
        self._connection.execute("COMMIT")


def main(script: Path, file: Path, tokenizer: str) -> None:
    """Serves a script until standard input ends; says its address on standard output."""
    calls: list[Call] = pickle.loads(script.read_bytes())
    server = grpc.server(ThreadPoolExecutor(CALL_THREADS), options=SERVER_OPTIONS)
    server.add_generic_rpc_handlers((Floor(file, calls, tokenizer),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(None).wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
