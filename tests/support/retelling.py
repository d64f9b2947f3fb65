"""What the facts of a run come to, told again as plainly as the rules have it: slowly, and without the engine.

Numbers in brackets are those of WINDOW-RULES. Of what the engine decided, only the records are taken: what is
no longer sent is no part of a later window.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from support.recording import RUNS_REMEMBERED, Case, Recorded, recorded
from turnledger.domain import events as e
from turnledger.domain.messages import Message
from turnledger.domain.records import Refusal, Span
from turnledger.domain.words import RefusalReason as Why
from turnledger.domain.words import Role, Source


@dataclass
class Call:
    """A call, and what became of it."""

    version: int
    index: int
    id: str
    name: str
    arguments: str
    reply: int
    """First message of the reply that made it."""
    answered_by: int = 0
    abandoned: bool = False
    paused: bool = False
    awaits_person: bool = False

    @property
    def is_open(self) -> bool:
        """It waits for its result."""
        return not self.answered_by and not self.abandoned


@dataclass(frozen=True)
class Turn:
    """A reply with its results, or another single message (1.1)."""

    messages: tuple[Message, ...]
    calls: tuple[Call, ...]
    """As they stood when the window was built."""

    @property
    def versions(self) -> list[int]:
        """Of its messages."""
        return [m.version for m in self.messages]

    @property
    def span(self) -> Span:
        """First and last of these; those of another turn may lie between."""
        return self.versions[0], self.versions[-1]

    @property
    def results(self) -> list[Message]:
        """The messages with results."""
        return [m for m in self.messages if m.results]

    @property
    def answered(self) -> list[Call]:
        """The calls whose results it holds, latest result first."""
        ordered = [(m.version, i, r) for m in self.results for i, r in enumerate(m.results)]
        found = {(call.version, call.index): call for call in self.calls}
        return [found[r.call_version, r.call_index] for _, _, r in sorted(ordered, key=lambda o: o[:2], reverse=True)]


@dataclass(frozen=True)
class Standing:
    """The facts at one window, without what had left before."""

    turns: tuple[Turn, ...]
    """Of the window before, and what came since."""
    marked: tuple[Message, ...]
    """What is never sent."""
    before: int
    """Ledger version of the window before."""
    request: int
    read_through: int
    """Up to here the model had read (4.2)."""
    calls: tuple[Call, ...]
    """All that were ever made."""

    def pinned(self, limit: int, recent: int, *, by_arguments: bool) -> list[int]:
        """Indexes of the turns outside the recent ones that the latest results pin, newest first (3.2 to 3.5)."""
        claimed: set[tuple[str, str]] = set()
        found = []
        for index in reversed(range(len(self.turns))):
            if self.request in self.turns[index].versions:
                break
            things = {(c.name, c.arguments if by_arguments else "") for c in self.turns[index].answered}
            if things - claimed and index < len(self.turns) - recent:
                found.append(index)
            claimed |= things
        return found[:limit]

    def holds_back(self, turn: Turn) -> Why | None:
        """Why a turn that is neither recent nor pinned refuses to leave (4.1)."""
        open_calls = [call for call in turn.calls if call.is_open]
        reasons = {
            Why.CURRENT_REQUEST: self.request in turn.versions,
            Why.SYSTEM_ENVELOPE: turn.messages[0].role is Role.SYSTEM,
            Why.PENDING_CHECK_IN: any(call.paused and call.awaits_person for call in open_calls),
            Why.PAUSED_TOOL: any(call.paused for call in open_calls),
            Why.UNRESOLVED_TOOL_CALL: bool(open_calls),
            Why.UNREAD_RESULT: any(m.version > self.read_through for m in turn.results),
        }
        return next((why for why, holds in reasons.items() if holds), None)

    def holds_raw(self, turn: Turn, message: Message, pinned: Sequence[Turn]) -> Why | None:
        """Why the results of a message are not rewritten for age (8.6)."""
        paused = [call for call in turn.calls if call.is_open and call.paused]
        reasons = {
            Why.CURRENT_REQUEST: message.version == self.request,
            Why.PENDING_CHECK_IN: any(call.awaits_person for call in paused),
            Why.PAUSED_TOOL: bool(paused),
            Why.UNREAD_RESULT: message.version > self.read_through,
            Why.LAST_TOOL_RESULT: turn in pinned,
        }
        return next((why for why, holds in reasons.items() if holds), None)

    def is_among_newest(self, message: Message, most: int) -> bool:
        """Whether one of its results is among so many newest ones."""
        return sum(len(m.results) for t in self.turns for m in t.results if m.version > message.version) < most

    def reasons(self, recent: int, pinned: Sequence[int]) -> list[Why | None]:
        """Why each turn refuses to leave; None where it may."""
        older = max(0, len(self.turns) - recent)
        found = [
            self.holds_back(turn) or (Why.LAST_TOOL_RESULT if index in pinned else None)
            for index, turn in enumerate(self.turns[:older])
        ]
        return found + [Why.INSIDE_KEEP_WINDOW] * (len(self.turns) - older)

    def within(self, spans: Sequence[Span]) -> list[int]:
        """Indexes of the turns of which a record names any message."""
        named = self.named(spans)
        return [i for i, turn in enumerate(self.turns) if not named.isdisjoint(turn.versions)]

    def named(self, spans: Sequence[Span]) -> set[int]:
        """The messages that a record names, of those that could be sent."""
        return {v for turn in self.turns for v in turn.versions if any(a <= v <= b for a, b in spans)}


def first_span(reasons: Sequence[Why | None]) -> list[int]:
    """The first contiguous run of turns that may leave (4.3)."""
    free = [list(run) for is_free, run in groupby(range(len(reasons)), lambda i: reasons[i] is None) if is_free]
    return free[0] if free else []


def rows(turns: Sequence[Turn], reasons: Sequence[Why | None]) -> list[Refusal]:
    """The turns that stay, neighbours with one reason in one row (4.4)."""
    told = []
    for why, run in groupby(zip(turns, reasons, strict=True), lambda pair: pair[1]):
        if why is not None:
            neighbours = [turn for turn, _ in run]
            last = max(version for turn in neighbours for version in turn.versions)
            told.append(Refusal(why, neighbours[0].versions[0], last, len(neighbours)))
    return told


@lru_cache(RUNS_REMEMBERED)
def retold(case: Case) -> tuple[tuple[Standing, Recorded], ...]:
    """Each window of a run, in order, and the facts that it was built on."""
    recording, told, found = recorded(case), _Told(), []
    for sent in recording.windows:
        standing = told.until(sent.window.ledger_version, recording.facts)
        found.append((standing, sent))
        told.windows.append(sent.window.ledger_version)
        for record in sent.window.records:
            told.left.update(v for i in standing.within(record.removed) for v in standing.turns[i].versions)
    return tuple(found)


class _Told:
    def __init__(self) -> None:
        self.left: set[int] = set()
        """Messages that a record says left."""
        self.windows: list[int] = []
        """Ledger version of each window so far."""
        self._heard = 0
        self._messages: list[Message] = []
        self._marked: list[Message] = []
        self._calls: list[Call] = []
        self._flagged = self._spoken = self._read_through = 0

    def until(self, version: int, facts: Sequence[e.RunEvent]) -> Standing:
        """What stands once the facts up to a version were heard."""
        since = facts[self._heard : version]
        for fact in since:
            self._hear(fact)
        self._heard = version
        return Standing(
            self._turns(),
            tuple(self._marked),
            self.windows[-1] if self.windows else 0,
            self._flagged or self._spoken,
            self._read_through,
            self._frozen(self._calls),
        )

    def _hear(self, fact: e.RunEvent) -> None:
        match fact:
            case e.MessageAppended():
                self._hear_message(fact)
            case e.RunPaused(calls=keys, awaits_person=awaits_person):
                for call in self._calls:
                    if (call.version, call.index) in keys:
                        call.paused, call.awaits_person = True, awaits_person
            case e.RunResumed():
                for call in self._calls:
                    call.paused = call.awaits_person = False
            case e.ToolCallAbandoned(call=key):
                (call,) = [call for call in self._calls if (call.version, call.index) == key]
                call.abandoned = True

    def _hear_message(self, fact: e.MessageAppended) -> None:
        message = fact.message
        assert fact.body is not None
        body = json.loads(fact.body.content)
        if message.role is Role.MODEL:
            self._read_through = max(self._read_through, self._had_read(message))
            for index, (call_id, name, arguments) in enumerate(_calls_in(body)):
                reply = message.reply or message.version
                self._calls.append(Call(message.version, index, call_id, name, arguments, reply))
        if message.mark is not None:
            self._marked.append(message)
            return
        self._messages.append(message)
        for call_id, result in zip(_results_in(body), message.results, strict=True):
            call = self._answered_by(call_id)
            assert (call.version, call.index) == (result.call_version, result.call_index), "1.2: the call it answers"
            call.answered_by = message.version
        if message.request:
            self._flagged = message.version
        if message.role is Role.USER and message.source is Source.PERSON:
            self._spoken = message.version

    def _had_read(self, message: Message) -> int:
        """Up to where the model had read when it wrote this (4.2); a further part adds nothing."""
        if message.reply is not None:
            return 0
        return self.windows[message.answers - 1] if message.answers else message.version - 1

    def _answered_by(self, call_id: str) -> Call:
        """The call of the most recent reply that waits under this id; those of one reply in their order (1.2)."""
        waiting = [call for call in self._calls if call.id == call_id and call.is_open]
        return next(call for call in waiting if call.reply == waiting[-1].reply)

    def _turns(self) -> tuple[Turn, ...]:
        grouped: dict[int, list[Message]] = {}
        for message in self._messages:
            if message.version not in self.left:
                grouped.setdefault(self._reply_of(message), []).append(message)
        return tuple(
            Turn(tuple(messages), self._frozen(c for c in self._calls if c.version in {m.version for m in messages}))
            for messages in grouped.values()
        )

    def _reply_of(self, message: Message) -> int:
        if not message.results:
            return message.reply or message.version
        made_by = message.results[0].call_version
        return next(call.reply for call in self._calls if call.version == made_by)

    def _frozen(self, calls: Iterable[Call]) -> tuple[Call, ...]:
        return tuple(Call(**vars(call)) for call in calls)


def _calls_in(body: Any) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call, in either format."""
    made = [(x["id"], x["function"]["name"], x["function"]["arguments"]) for x in body.get("tool_calls", ())]
    blocks = body["content"] if isinstance(body["content"], list) else []
    return made + [(x["id"], x["name"], json.dumps(x["input"])) for x in blocks if x["type"] == "tool_use"]


def _results_in(body: Any) -> list[str]:
    """The ids that the results answer, in either format."""
    blocks = body["content"] if isinstance(body["content"], list) else []
    given = [body["tool_call_id"]] if body["role"] == "tool" else []
    return given + [x["tool_use_id"] for x in blocks if x["type"] == "tool_result"]
