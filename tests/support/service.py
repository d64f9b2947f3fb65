"""A service for tests, on a store of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turnledger.client import LedgerClient
from turnledger.grpc import server

USER = {"role": "user", "content": "Why does the build fail?"}


def reply(call_id: str = "c1", name: str = "run_tests", content: str | None = None) -> dict[str, Any]:
    """A model's reply with one call."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def result(call_id: str = "c1", content: str = "ok") -> dict[str, Any]:
    """The result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@contextmanager
def served(store: str = "memory:", **options: Any) -> Iterator[LedgerClient]:
    """A client of a service that ends with the block."""
    with server.start(store) as service, LedgerClient(service.address, **options) as client:
        yield client


def sqlite_store(folder: Path) -> str:
    """The address of a store in a folder."""
    return f"sqlite:///{folder / 'ledger.db'}"
