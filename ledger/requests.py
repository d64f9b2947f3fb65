"""Requests that were answered: a retry gets the first outcome (docs/stored-bytes.md)."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import fields
from datetime import datetime
from typing import Any

import msgspec

from turnledger.domain.digests import SALT_BYTES
from turnledger.domain.errors import RequestIdReused
from turnledger.domain.ids import REQUEST_ID_BYTES_MAX
from turnledger.ledger.encoding import plain
from turnledger.ledger.parsing import check_text
from turnledger.ledger.recorder import RequestRow

# The request id is the key, and a retry may hold another window than the first attempt did.
_NOT_CONTENT = frozenset(("request_id", "base"))


def check_request_id(request_id: str | None) -> None:
    """Raises :class:`LimitExceeded` for one that is too long, :class:`FieldInvalid` for one that is no text."""
    check_text(request_id or "", "request_id", REQUEST_ID_BYTES_MAX)


def fingerprint(command: Any, salt: bytes) -> dict[str, bytes]:
    """One HMAC for each top-level field of a request, and one for which call it is."""
    values: dict[str, Any] = {"call": type(command).__name__}
    values |= {f.name: plain(getattr(command, f.name)) for f in fields(command) if f.name not in _NOT_CONTENT}
    return {name: hmac.digest(salt, msgspec.msgpack.encode(value), "sha256") for name, value in values.items()}


def request_row(run_key: str, command: Any, outcome: dict[str, Any], now: datetime) -> RequestRow | None:
    """The row of a request that is being answered; None where it has no id."""
    if command.request_id is None:
        return None
    salt = secrets.token_bytes(SALT_BYTES)
    encoded = msgspec.msgpack.encode(outcome)
    return RequestRow(run_key, command.request_id, salt, fingerprint(command, salt), encoded, now)


def first_outcome(row: RequestRow, command: Any, run_id: str) -> dict[str, Any]:
    """What came of the first attempt. Raises :class:`RequestIdReused` naming the field that differs."""
    now = fingerprint(command, row.salt)
    for name in now:
        if row.fields.get(name) != now[name]:
            raise RequestIdReused(run_id, row.request_id, name)
    outcome: dict[str, Any] = msgspec.msgpack.decode(row.outcome)
    return outcome
