"""What a run must remember to go on: the state that every window event and checkpoint holds.

Bounded, whatever the run's length: everything that still matters stays in the window, and this is the
rest (docs/stored-bytes.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from turnledger.domain.ids import CallKey
from turnledger.domain.records import Omission
from turnledger.domain.usage import Usage
from turnledger.domain.words import RunStatus

DROPPED_TOOLS_MAX = 5
"""One more than a notice names, so that it can say that there were more."""
ENVELOPES_REMEMBERED_MAX = 64
ABANDONED_REMEMBERED_MAX = 64
"""Of calls that were given up and whose turns have left; a result for an older one counts as a second."""
REPLIES_REMEMBERED_MAX = 4
"""A part of a reply is told by its id as long as not more replies with ids began since."""
UNANSWERED_REMEMBERED_MAX = 64
"""Passed-over windows older than the latest so many count as answered."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call without an answer."""

    version: int
    index: int
    id: bytes
    name: bytes
    arguments_tag: bytes
    reply_version: int
    """First message of the reply that made it: results of one message answer one reply."""
    beside_content: bool = False
    """A message that mixes results with other content answered its reply: no second one could be sent."""
    paused: bool = False
    awaits_person: bool = False
    """It is paused, and a person's decision is awaited."""
    abandoned: bool = False
    late: bool = False
    """Its result came after it was given up: kept in the ledger, not sent."""
    closed: bool = False
    """The last window closed it with an authored result."""

    @property
    def key(self) -> CallKey:
        """Its place."""
        return CallKey(self.version, self.index)


class Reply(NamedTuple):
    """A reply that further parts may follow, and what all of them share."""

    id: str
    version: int
    answers: int | None
    read_through: int
    beside_content: bool = False
    """As of its calls."""


@dataclass(frozen=True, slots=True)
class EnvelopeInForce:
    """The envelope that goes with the next window."""

    version: int
    """Version of the fact that holds its bytes."""
    commitment: bytes
    has_tools: bool = False
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """The report of the latest call."""

    iteration: int
    usage: Usage
    implausible: bool = False
    reply_version: int = 0
    """First message of the reply that it came with; 0 where it came with none."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What the windows of this run no longer hold."""

    messages: int = 0
    first: int = 0
    last: int = 0
    tools: tuple[bytes, ...] = ()
    """Tools whose results left, latest first, at most ``DROPPED_TOOLS_MAX``."""


@dataclass(frozen=True, slots=True)
class RunState:
    """Where a run stands after some fact or window."""

    version: int = 0
    """Version of the last fact."""
    fact_version: int = 0
    """Version of the last fact that a window can differ by: usage reports apart."""
    message_count: int = 0
    status: RunStatus = RunStatus.OPEN
    calls: tuple[PendingCall, ...] = ()
    flagged_request: int = 0
    person_message: int = 0
    last_message: int = 0
    """Version of the last message that can be sent."""
    replies: tuple[Reply, ...] = ()
    """Of the latest that have an id, at most ``REPLIES_REMEMBERED_MAX``: further parts may follow."""
    envelope: EnvelopeInForce | None = None
    envelopes: tuple[tuple[int, int], ...] = ()
    """Version and size of the distinct envelopes so far, latest last."""
    iteration: int = 0
    window_version: int = 0
    """Ledger version that the last window saw."""
    window_digest: bytes = b""
    items_hash: bytes = b""
    read_through: int = 0
    answered_iteration: int = 0
    """The latest window that was answered."""
    unanswered: tuple[int, ...] = ()
    """Earlier windows that no reply has answered, at most ``UNANSWERED_REMEMBERED_MAX``."""
    usage: ReportedUsage | None = None
    not_measured_streak: int = 0
    blocked_streak: int = 0
    """Records in a row that removed nothing and name ``last-tool-result``."""
    dropped: Dropped = Dropped()
    omissions: tuple[Omission, ...] = ()
    closings_replaced: tuple[int, ...] = ()
    """Results that took the place of an authored closing result since the last window."""
    input_tokens: int = 0
    output_tokens: int = 0
    policy_version: int = 1
    """Version of the fact that set the policy in force."""

    @property
    def request(self) -> int:
        """Version of the current request; 0 where there is none (WINDOW-RULES 2.1)."""
        return self.flagged_request or self.person_message
