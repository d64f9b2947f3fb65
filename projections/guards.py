"""What refuses to leave, and why (WINDOW-RULES 3 and 4).

Strategies see the plan that comes of this, never the guards themselves; so none can forget one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnledger.domain.messages import Message
from turnledger.domain.state import PendingCall, RunState
from turnledger.domain.words import RefusalReason
from turnledger.projections.turns import Observed, Turn, Turns, turn_index

Reasons = list[RefusalReason | None]
"""One for each turn: why it refuses to leave; None where it may."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """The latest tool results."""

    admitted: tuple[int, ...] = ()
    """Indexes of pinned turns outside the recent ones, newest first."""
    yielded: int = 0
    """How many more there were than the limit admits."""
    limit: int = 0


def pin_latest_results(turns: Turns, *, recent: int, request: int, limit: int, by_arguments: bool) -> Pinned:
    """Walks from the newest turn to the request; the first sighting of a tool claims it (3.2 to 3.5)."""
    if limit == 0:
        return Pinned()
    claimed: set[Observed | bytes] = set()
    outside: list[int] = []
    first_recent = len(turns) - recent
    for index in reversed(range(len(turns))):
        turn = turns[index]
        if request and turn.first <= request and turn.holds(request):
            break
        if not turn.last_result:
            continue
        things = turn.observed if by_arguments else turn.tools
        if claimed.issuperset(things):
            continue
        claimed.update(things)
        if index < first_recent:
            outside.append(index)
    return Pinned(tuple(outside[:limit]), max(0, len(outside) - limit), limit)


class Guard:
    """The refusals of one visit that do not depend on how many turns a strategy keeps."""

    def __init__(self, turns: Turns, state: RunState) -> None:
        self._turns = turns
        self._state = state
        self._request = state.request
        self._calls: dict[int, RefusalReason] = {}
        for call in state.calls:
            if not call.abandoned:
                known = self._calls.get(call.version, RefusalReason.UNRESOLVED_TOOL_CALL)
                self._calls[call.version] = min(known, _of_call(call), key=_PRECEDENCE.index)

    def reasons(self, recent: int, pinned: Sequence[int]) -> Reasons:
        """Why each turn refuses, the first reason that matches (4.1)."""
        pins = set(pinned)
        older = max(0, len(self._turns) - recent)
        reasons: Reasons = [
            self.of_turn(turn) or (RefusalReason.LAST_TOOL_RESULT if i in pins else None)
            for i, turn in enumerate(self._turns[:older])
        ]
        return reasons + [RefusalReason.INSIDE_KEEP_WINDOW] * (len(self._turns) - older)

    def of_turn(self, turn: Turn) -> RefusalReason | None:
        """Why a turn that is neither recent nor pinned refuses to leave."""
        if turn.first <= self._request <= turn.last and turn.holds(self._request):
            return RefusalReason.CURRENT_REQUEST
        if turn.is_system:
            return RefusalReason.SYSTEM_ENVELOPE
        if waiting := self._of_calls(turn):
            return waiting
        if turn.last_result > self._state.read_through:
            return RefusalReason.UNREAD_RESULT
        return None

    def _of_calls(self, turn: Turn) -> RefusalReason | None:
        if not self._calls:
            return None
        found = [self._calls[m.version] for m in turn.messages if m.version in self._calls]
        return min(found, key=_PRECEDENCE.index, default=None)

    def of_results(self, turn: Turn, message: Message, *, is_pinned: bool) -> RefusalReason | None:
        """Why the results of a message may not be rewritten for age (4.2, 8.6)."""
        if message.version == self._request:
            return RefusalReason.CURRENT_REQUEST
        waiting = self._of_calls(turn)
        if waiting not in (None, RefusalReason.UNRESOLVED_TOOL_CALL):
            return waiting
        if message.version > self._state.read_through:
            return RefusalReason.UNREAD_RESULT
        return RefusalReason.LAST_TOOL_RESULT if is_pinned else None


def _of_call(call: PendingCall) -> RefusalReason:
    if not call.paused:
        return RefusalReason.UNRESOLVED_TOOL_CALL
    return RefusalReason.PENDING_CHECK_IN if call.awaits_person else RefusalReason.PAUSED_TOOL


_PRECEDENCE = (RefusalReason.PENDING_CHECK_IN, RefusalReason.PAUSED_TOOL, RefusalReason.UNRESOLVED_TOOL_CALL)


def first_span(reasons: Reasons) -> range:
    """The first contiguous run of turns that may leave; empty where there is none (4.3)."""
    start = next((i for i, reason in enumerate(reasons) if reason is None), len(reasons))
    stop = next((i for i in range(start, len(reasons)) if reasons[i] is not None), len(reasons))
    return range(start, stop)


@dataclass(frozen=True, slots=True)
class Plan:
    """What may leave at a keep depth."""

    recent: int
    reasons: Reasons
    span: range
    """Indexes of the turns that may leave now."""
    pinned: Pinned
    stand_down: tuple[int, ...] = ()
    """Turns whose pins were given up, oldest first (3.6)."""


def plan(turns: Turns, state: RunState, *, recent: int, pin_limit: int, pin_by_arguments: bool) -> Plan:
    """The plan of a visit at a keep depth of ``recent`` turns."""
    guard = Guard(turns, state)
    pinned = pin_latest_results(
        turns, recent=recent, request=_request_in(turns, state), limit=pin_limit, by_arguments=pin_by_arguments
    )
    reasons = guard.reasons(recent, pinned.admitted)
    span = first_span(reasons)
    given_up: tuple[int, ...] = ()
    if not span and state.blocked_streak >= 2:
        # A pin must never block for ever. Of the turns that nothing but their pin holds, one is all that a plan
        # needs; a pin whose turn would stay anyway is not worth giving up.
        held = [i for i in pinned.admitted if guard.of_turn(turns[i]) is None]
        if held:
            given_up = (min(held),)
            reasons = guard.reasons(recent, [i for i in pinned.admitted if i not in given_up])
            span = first_span(reasons)
    return Plan(recent, reasons, span, pinned, given_up)


def _request_in(turns: Turns, state: RunState) -> int:
    return state.request if state.request and turn_index(turns, state.request) is not None else 0
