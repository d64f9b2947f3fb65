"""The reference's decisions on synthetic runs, each visit as a question to our engine.

A visit stands on its own: the window before it is the reference's window after the visit before, and what was
appended. So one difference does not spoil what follows.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnledger.domain.messages import Call, Message, Result
from turnledger.domain.state import PendingCall, RunState
from turnledger.domain.words import Role, RunStatus, Source
from turnledger.projections.live import Live
from turnledger.projections.turns import Turns

VECTORS = Path(__file__).parents[3] / "shared" / "vectors"
_ROLES = {"user": Role.USER, "assistant": Role.MODEL, "tool": Role.TOOL, "system": Role.SYSTEM}
_SOURCES = {"user": Source.PERSON, "assistant": Source.MODEL, "tool": Source.TOOL, "system": Source.INJECTED}
PINS_DEFAULT = 2


@dataclass(frozen=True)
class Visit:
    """One visit of one run of the reference."""

    name: str
    strategy: str
    options: dict[str, Any]
    pins: int
    before: tuple[dict[str, Any], ...]
    """The window before, message by message; authored ones have a kind and no content."""
    given: dict[str, Any]
    """What the vector says of the visit, what is expected included."""

    @property
    def expected(self) -> dict[str, Any]:
        """What the reference decided."""
        expected: dict[str, Any] = self.given["expected"]
        return expected

    @property
    def record(self) -> dict[str, Any]:
        """Its record; empty where it has none."""
        return self.expected.get("record") or {}


def visits() -> Iterator[Visit]:
    """All visits of all runs."""
    with gzip.open(VECTORS / "window-vectors.jsonl.gz", "rt") as lines:
        for line in lines:
            yield from _visits_of(json.loads(line))


def _visits_of(run: dict[str, Any]) -> Iterator[Visit]:
    known: dict[str, dict[str, Any]] = {}
    window: list[dict[str, Any]] = []
    pins = run["keepLastToolResults"]
    for given in run["visits"]:
        known |= {message["id"]: message for message in given["append"]}
        before = tuple(known.get(item["id"], item) for item in [*window, *given["append"]])
        name = f"{run['id']}:{given['iteration']}"
        limit = PINS_DEFAULT if pins == "default(2)" else int(pins)
        yield Visit(name, run["strategy"], run["options"], limit, before, given)
        window = given["expected"]["window"]


def is_not_smaller(visit: Visit) -> bool:
    """What was planned stayed, because the reference's text would not have been shorter (5.4); ours differ."""
    return any(r["reason"] == "replacement-not-smaller" for r in visit.record.get("refusals", []))


def not_comparable(visit: Visit) -> str | None:
    """The rule by which our decision may differ from the reference's; None where it must be equal."""
    if not visit.expected.get("plan") and visit.strategy != "sliding-window":
        return "the engine was not asked"
    if visit.record.get("observations", {}).get("standDown"):
        return "3.6 a stand-down"
    if rule := other_window(visit):
        return rule
    if not _request_is_plain(visit):
        return "2.1 a request that is told by its text"
    return None


def other_window(visit: Visit) -> str | None:
    """The rule by which the window before has other turns or facts under our rules."""
    if any("authored" in message for message in visit.before):
        return "4.6 the window holds the reference's own notice or frame"
    if not _results_follow(visit.before):
        return "1.2, 1.3, 4.2 a result that does not directly follow its call, or was not read"
    return None


def _results_follow(before: tuple[dict[str, Any], ...]) -> bool:
    """Every result stands in the block right behind the reply that made its call, and was read or is newest."""
    waiting: list[str] = []
    unread_passed = False
    for message in before:
        if message["role"] == "tool":
            if unread_passed or message.get("toolCallId") not in waiting:
                return False
            waiting.remove(message["toolCallId"])
            continue
        if message["role"] == "assistant":
            ids = [call["id"] for call in message.get("toolCalls") or []]
            if len(set(ids)) < len(ids):
                return False
            waiting, unread_passed = ids, False
        else:
            unread_passed = True
    return _all_read_but_the_newest_turn(before)


def _all_read_but_the_newest_turn(before: tuple[dict[str, Any], ...]) -> bool:
    last_reply = max((i for i, m in enumerate(before) if m["role"] == "assistant"), default=-1)
    results = [i for i, m in enumerate(before) if m["role"] == "tool"]
    if not results or results[-1] < last_reply:
        return True
    # The newest reply's results are unread. They matter only once something stands behind them.
    return results[-1] == len(before) - 1


def _request_is_plain(visit: Visit) -> bool:
    """The request is the latest message of a person, so that flag, source and text agree on it."""
    persons = [m["id"] for m in visit.before if m["role"] == "user" and not m.get("injectedBy")]
    return visit.expected.get("currentRequestId") == (persons[-1] if persons else None)


def engine_input(visit: Visit) -> tuple[Turns, RunState, dict[int, str]]:
    """Turns and state that stand for the window before, and the id of each version."""
    ids = {version: message["id"] for version, message in enumerate(visit.before, 1)}
    pending: list[PendingCall] = []
    messages = []
    for version, given in enumerate(visit.before, 1):
        message, pending = _message(version, given, pending)
        messages.append(message)
    request = next((v for v, i in ids.items() if i == visit.expected.get("currentRequestId")), 0)
    last_reply = max((m.version for m in messages if m.role is Role.MODEL), default=0)
    state = RunState(
        version=len(messages),
        message_count=len(messages),
        calls=tuple(pending),
        flagged_request=request,
        read_through=max(0, last_reply - 1),
        iteration=visit.given["iteration"] - 1,
    )
    return Live().add(messages).turns, _paused(state, visit.given.get("paused")), ids


def _message(version: int, given: dict[str, Any], pending: list[PendingCall]) -> tuple[Message, list[PendingCall]]:
    calls = tuple(Call(c["id"].encode(), c["name"].encode(), b"") for c in given.get("toolCalls") or [])
    results: tuple[Result, ...] = ()
    if given["role"] == "tool":
        call = next(c for c in reversed(pending) if c.id == given["toolCallId"].encode())
        pending = [c for c in pending if c is not call]
        results = (Result(call.version, call.index, call.name, b""),)
    made = [PendingCall(version, i, c.id, c.name, b"", version) for i, c in enumerate(calls)]
    source = Source.INJECTED if given.get("injectedBy") else _SOURCES[given["role"]]
    text = given.get("content") or ""
    message = Message(
        version, version, _ROLES[given["role"]], source, 0, b"", len(text), len(text), calls=calls, results=results
    )
    return message, pending + made


def _paused(state: RunState, paused: dict[str, Any] | None) -> RunState:
    if not paused:
        return state
    call_id = paused["toolCallId"].encode()
    awaits = bool(paused.get("checkIn"))
    calls = tuple(replace(c, paused=True, awaits_person=awaits) if c.id == call_id else c for c in state.calls)
    return replace(state, status=RunStatus.PAUSED, calls=calls)
