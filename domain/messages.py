"""What the rules know of a message: facts read once, when it is appended."""

from __future__ import annotations

from dataclasses import dataclass

from turnledger.domain.words import OmissionReason, Role, Source

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
MESSAGES_PER_APPEND_MAX = 1000
APPEND_BYTES_MAX = 32 * 1024 * 1024
REPLY_ID_BYTES_MAX = 256
STAGE_ID_BYTES_MAX = 256


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call in a model's reply. Text from content is bytes: it may hold lone surrogates."""

    id: bytes
    name: bytes
    arguments_tag: bytes
    """Tells calls of one tool with different arguments apart: 8 bytes of an HMAC under the run's key."""


@dataclass(frozen=True, slots=True)
class Result:
    """A tool result, and the call that it answers."""

    call_version: int
    """Version of the message that made the call; 0 where it answers none."""
    call_index: int
    name: bytes
    """The tool's name as the call has it; empty where it answers none."""
    arguments_tag: bytes
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the ledger, without its body."""

    version: int
    """Version of its event in the ledger."""
    ordinal: int
    """Its place among the run's messages, from 1; neighbours in the ledger differ by one."""
    role: Role
    source: Source
    iteration: int
    """The iteration current when it was appended."""
    commitment: bytes
    size_bytes: int
    """UTF-8 bytes of the body."""
    characters: int
    """Code points of text, reasoning, tool names, arguments and results."""
    tokens: int | None = None
    """Tokens of the same, by the run's tokenizer."""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    request: bool = False
    """Flagged as the request."""
    reply_id: str | None = None
    reply: int | None = None
    """The reply that it is a further part of, by the version of the first part."""
    stage_id: str | None = None
    answers: int | None = None
    """The iteration that a reply answers; None where it answers no window of ours."""
    read_through: int | None = None
    """Of a reply: the ledger version up to which the model had read when it wrote this."""
    mark: OmissionReason | None = None
    """Why it is never sent."""
    is_empty: bool = False
    """It holds nothing that its provider would accept."""
    mixes_content: bool = False
    """It carries something beside results."""

    @property
    def writer(self) -> str:
        """Who wrote it, for records: the worker's stage, else the source."""
        return self.stage_id or self.source.value
