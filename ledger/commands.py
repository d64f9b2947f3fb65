"""What callers ask of the ledger, parsed: the one form that every way in (gRPC, embedded, tests) uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnledger.domain.envelopes import Envelope
from turnledger.domain.words import RunStatus, Source


@dataclass(frozen=True, slots=True)
class Expectation:
    """What version the run must have; neither means any."""

    version: int | None = None
    no_run: bool = False


@dataclass(frozen=True, slots=True)
class UsageInput:
    """Usage as reported: the raw report, and numbers that take precedence over it."""

    raw: bytes | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class MessageInput:
    """A message to append."""

    body: bytes
    source: Source | None = None
    request: bool = False
    reply_id: str | None = None
    stage_id: str | None = None
    answers_iteration: int | None = None
    usage: UsageInput | None = None


@dataclass(frozen=True, slots=True)
class CallRef:
    """A tool call, by the provider's id or by its place."""

    call_id: bytes | None = None
    message_id: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Base:
    """A window that the caller holds."""

    iteration: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """Opens a run."""

    run_id: str = ""
    request_id: str | None = None
    format: str
    policy: Any = ""
    tokenizer: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    step_base: str = ""
    context_limit_tokens: int | None = None
    envelope: Envelope | None = None
    messages: tuple[MessageInput, ...] = ()
    imported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What all writes to a run share."""

    run_id: str
    request_id: str | None = None
    expectation: Expectation = Expectation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Command):
    """Appends messages."""

    messages: tuple[MessageInput, ...]
    imported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildWindow(Command):
    """Builds the next window, or answers with one that was handed out."""

    iteration: int | None = None
    while_paused: bool = False
    base: Base | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Command):
    """Appends messages and builds the next window."""

    messages: tuple[MessageInput, ...] = ()
    imported: bool = False
    while_paused: bool = False
    base: Base | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEnvelope(Command):
    """Sets what goes with the messages."""

    envelope: Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportUsage(Command):
    """Reports the usage of a call."""

    usage: UsageInput
    iteration: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRun(Command):
    """Pauses a run on some of its calls."""

    calls: tuple[CallRef, ...]
    awaits_person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRun(Command):
    """Resumes a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonToolCall(Command):
    """Gives up a call."""

    call: CallRef
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRun(Command):
    """Ends a run."""

    status: RunStatus
    reason: str = ""
