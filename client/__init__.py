"""The client of turnledger: what agent workers import.

::

    from turnledger.client import LedgerClient

    with LedgerClient("127.0.0.1:50551") as ledger:
        run = ledger.open_run(format="openai.chat", policy={"strategy": "sliding-window", "keep_recent_turns": 8})
        window = run.step([{"role": "user", "content": "Why does the build fail?"}])
        reply = openai_client.chat.completions.create(model="…", messages=window.messages)
"""

from __future__ import annotations

from turnledger.client.aio import AsyncLedgerClient, AsyncRun
from turnledger.client.errors import DeadlinePassed, MessageMismatch, ServiceFault, ServiceUnreachable, WindowMismatch
from turnledger.client.models import (
    Appended,
    Envelope,
    Fact,
    Item,
    LedgerMessage,
    Message,
    Record,
    Refusal,
    RunDetails,
    RunInfo,
    Window,
    WindowHead,
)
from turnledger.client.sync import LedgerClient, Run

__all__ = [
    "Appended",
    "AsyncLedgerClient",
    "AsyncRun",
    "DeadlinePassed",
    "Envelope",
    "Fact",
    "Item",
    "LedgerClient",
    "LedgerMessage",
    "Message",
    "MessageMismatch",
    "Record",
    "Refusal",
    "Run",
    "RunDetails",
    "RunInfo",
    "ServiceFault",
    "ServiceUnreachable",
    "Window",
    "WindowHead",
    "WindowMismatch",
]
