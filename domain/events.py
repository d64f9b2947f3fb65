"""The facts of a run, and what is derived from them: frozen events with explicit topics.

An event's fields are its *state*; what is content (message bodies, envelopes, reasons in words) is its
*body*, kept beside the state, and the state holds only the commitment to it.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from turnledger.domain.digests import SALT_BYTES, commitment
from turnledger.domain.ids import CallKey
from turnledger.domain.messages import Message
from turnledger.domain.policies import Policy, parse_policy
from turnledger.domain.records import Fault, Record
from turnledger.domain.state import RunState
from turnledger.domain.usage import Usage
from turnledger.domain.words import RunStatus


class Body(NamedTuple):
    """Content and the salt of its commitment; both go when the content is destroyed."""

    salt: bytes
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> Body:
        """The content under a new random salt."""
        return cls(secrets.token_bytes(SALT_BYTES), content)

    @property
    def commitment(self) -> bytes:
        """HMAC-SHA-256(salt, content)."""
        return commitment(self.salt, self.content)


class RunEvent(BaseModel):
    """Base of all events of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64")

    TOPIC: ClassVar[str]

    originator_id: str
    """``<namespace>/<run>/<stream>``."""
    originator_version: int
    """Place in the stream, from 1."""
    recorded_time: datetime
    principal: str | None = None
    """Who called."""
    request_id: str | None = None
    body: Body | None = Field(default=None, repr=False)
    """The content; None where the event has none, or where it was not read."""


class RunOpened(RunEvent):
    """The run begins. Its body is the random key of the arguments' tags."""

    TOPIC = "turnledger.RunOpened:1"

    format: str
    policy: dict[str, Any]
    """Strategy, its version and all options, defaults filled in."""
    tokenizer: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    step_base: str
    context_limit_tokens: int | None = None
    envelope: bool = False
    """An envelope came with it."""
    messages: int = 0
    """How many messages came with it."""
    imported: bool = False

    @cached_property
    def parsed_policy(self) -> Policy:
        """The policy as its model."""
        return parse_policy(self.policy)


class EnvelopeSet(RunEvent):
    """What goes with the messages from here on."""

    TOPIC = "turnledger.EnvelopeSet:1"

    commitment: bytes
    size_bytes: int
    has_tools: bool = False
    tokens: int | None = None
    same_as: int | None = None
    """The earlier fact of this run that holds the same bytes; then this one has no body."""


class MessageAppended(RunEvent):
    """A message, as it was given."""

    TOPIC = "turnledger.MessageAppended:1"

    message: Message
    usage: Usage | None = None
    """What was reported for the call that this reply came from."""
    usage_raw: bytes | None = None
    """The report as it was given: numbers of the provider, no content."""
    usage_implausible: bool = False


class UsageReported(RunEvent):
    """What the provider reported for a call."""

    TOPIC = "turnledger.UsageReported:1"

    iteration: int
    usage: Usage
    usage_raw: bytes | None = None
    usage_implausible: bool = False


class RunPaused(RunEvent):
    """The run waits on some of its calls."""

    TOPIC = "turnledger.RunPaused:1"

    calls: tuple[CallKey, ...]
    awaits_person: bool = False


class RunResumed(RunEvent):
    """The run waits no longer."""

    TOPIC = "turnledger.RunResumed:1"


class ToolCallAbandoned(RunEvent):
    """A call is given up. Its body is the reason in words, if one was given."""

    TOPIC = "turnledger.ToolCallAbandoned:1"

    call: CallKey
    commitment: bytes | None = None


class RunClosed(RunEvent):
    """The run ends for good. Its body is the reason in words, if one was given."""

    TOPIC = "turnledger.RunClosed:1"

    status: RunStatus
    commitment: bytes | None = None


class WindowBuilt(RunEvent):
    """What was sent for one iteration: derived, and on record so that no replay need derive it."""

    TOPIC = "turnledger.WindowBuilt:1"

    step_id: str
    while_paused: bool = False
    ledger_version: int
    ledger_head: bytes
    envelope_version: int = 0
    """The fact that holds the envelope's bytes; 0 for none."""
    envelope_commitment: bytes | None = None
    composition: tuple[Any, ...]
    """As :mod:`turnledger.domain.compositions` encodes it."""
    item_count: int
    items_hash: bytes
    digest: bytes
    records: tuple[Record, ...] = ()
    faults: tuple[Fault, ...] = ()
    state: RunState

    @property
    def iteration(self) -> int:
        """Window N is version N of its stream."""
        return self.originator_version


class MessageTreated(RunEvent):
    """The shorter form of a message under one treatment; its version is the message's. Unchained: the
    window's digest binds it. Its body is the treated message."""

    TOPIC = "turnledger.MessageTreated:1"

    commitment: bytes | None = None
    """None: unchanged for good."""
    size_bytes: int = 0
    characters: int = 0
    tokens: int | None = None


class CheckpointTaken(RunEvent):
    """The state of a run that appends without building windows. A cache: it can be computed again."""

    TOPIC = "turnledger.CheckpointTaken:1"

    ledger_version: int
    state: RunState


EVENT_CLASSES: dict[str, type[RunEvent]] = {
    cls.TOPIC: cls
    for cls in (
        RunOpened,
        EnvelopeSet,
        MessageAppended,
        UsageReported,
        RunPaused,
        RunResumed,
        ToolCallAbandoned,
        RunClosed,
        WindowBuilt,
        MessageTreated,
        CheckpointTaken,
    )
}
"""Every event by its topic. An old version keeps its topic here and its class is what reads it."""
