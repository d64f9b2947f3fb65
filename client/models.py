"""What clients give and get: frozen models, with the provider's messages as plain values."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self, Union, get_args, get_origin

from google.protobuf.message import Message as ProtoMessage
from pydantic import BaseModel, ConfigDict

from turnledger.domain.digests import ItemKind
from turnledger.domain.envelopes import Envelope as StoredEnvelope
from turnledger.domain.errors import FieldInvalid, shown
from turnledger.domain.jsonbytes import bytes_text, dump, parse
from turnledger.v1 import run_pb2, window_pb2

_FROZEN = ConfigDict(frozen=True, ser_json_bytes="base64")
SourceName = Literal["person", "model", "tool", "injected"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message to append, and what the ledger can't read from it.

    ``body`` is the provider's message: a mapping, a model object of the provider's SDK, or its JSON as
    bytes, which are kept as they are. A bare mapping or SDK object may be given in place of a ``Message``.
    Of Anthropic's response it is ``{"role": "assistant", "content": response.content}``, which is what may be
    sent back.
    """

    body: Any
    source: SourceName | None = None
    """Who stands behind it; default: read from the provider's role."""
    request: bool = False
    """Flags it as the person's request: the latest one flagged never leaves the window."""
    reply_id: str = ""
    stage_id: str = ""
    answers_iteration: int | None = None
    usage: Any = None
    """Of a model's message: the usage as the provider reports it."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What goes with the messages: values, or bytes of JSON that are kept as they are."""

    system: Any = None
    tools: Any = None
    model: str | None = None
    parameters: Any = None

    @classmethod
    def of_wire(cls, message: run_pb2.Envelope) -> Self:
        """The envelope of a message of the contract."""
        return cls(
            parse(message.system) if message.HasField("system") else None,
            parse(message.tools) if message.HasField("tools") else None,
            message.model.decode() if message.HasField("model") else None,
            parse(message.parameters) if message.HasField("parameters") else None,
        )

    def to_wire(self) -> run_pb2.Envelope:
        """The message of the contract."""
        return run_pb2.Envelope(
            system=json_bytes(self.system, "envelope.system") if self.system is not None else None,
            tools=json_bytes(self.tools, "envelope.tools") if self.tools is not None else None,
            model=self.model.encode() if self.model is not None else None,
            parameters=json_bytes(self.parameters, "envelope.parameters") if self.parameters is not None else None,
        )


def stored_envelope(message: run_pb2.Envelope) -> StoredEnvelope:
    """The exact bytes of an envelope, as its commitment is made of them."""
    return StoredEnvelope(
        message.system if message.HasField("system") else None,
        message.tools if message.HasField("tools") else None,
        message.model if message.HasField("model") else None,
        message.parameters if message.HasField("parameters") else None,
    )


def json_bytes(value: Any, field: str) -> bytes:
    """The JSON of a value: bytes as they are, model objects of SDKs by what was set of them.

    Raises :class:`FieldInvalid` for what JSON can't say (NaN, sets, times).
    """
    if isinstance(value, bytes):
        return value
    try:
        return dump(_plain(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise FieldInvalid(field, f"must be JSON ({error})", shown(value)) from error


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel) or hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: _plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


class Item(BaseModel):
    """One message of a window."""

    model_config = _FROZEN

    kind: str
    """``message``, ``treated``, ``summary``, ``notice``, ``closing-result``, ``placeholder`` or
    ``strategy-text``."""
    id: str
    body: bytes
    """The provider's message, JSON, exactly as it is to be sent."""
    salt: bytes = b""

    @property
    def message(self) -> Any:
        """The provider's message as a value; a new one each time, so it may be changed."""
        return parse(self.body)

    @property
    def item_kind(self) -> ItemKind:
        """The kind as the digest has it."""
        return ItemKind[self.kind.upper().replace("-", "_")]


class _FromWire(BaseModel):
    """A model whose fields are those of a message of the contract."""

    model_config = _FROZEN

    @classmethod
    def of_wire(cls, message: ProtoMessage) -> Self:
        """The model of a message; what is absent there is None here."""
        return cls(**{name: _field(message, name, f.annotation) for name, f in cls.model_fields.items()})


def _field(message: ProtoMessage, name: str, annotation: Any) -> Any:
    value = getattr(message, name)
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    if descriptor.has_presence and not message.HasField(name):
        return None
    if descriptor.enum_type is not None:
        return _word(descriptor.enum_type, value)
    if isinstance(value, bytes) and annotation is str:
        return bytes_text(value)
    if descriptor.message_type is None:
        return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value
    if descriptor.message_type.full_name == "google.protobuf.Timestamp":
        return value.ToDatetime(tzinfo=UTC)
    if descriptor.message_type.GetOptions().map_entry:
        return dict(value)
    model = _model_in(annotation)
    if isinstance(value, ProtoMessage):
        return model.of_wire(value)
    return tuple(model.of_wire(v) for v in value)


def _word(enum: Any, number: int) -> str:
    """An enum's value as its word, without the prefix that the contract wants; a number that is new, as it is."""
    value = enum.values_by_number.get(number)
    if value is None:
        return str(number)
    name: str = value.name
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return name.removeprefix(prefix).lower().replace("_", "-")


def _model_in(annotation: Any) -> type[_FromWire]:
    """The model that a field's annotation names: alone, optional or in a tuple."""
    if get_origin(annotation) in (Union, types.UnionType, tuple):
        return next(_model_in(a) for a in get_args(annotation) if a is not Ellipsis and a is not type(None))
    assert isinstance(annotation, type) and issubclass(annotation, _FromWire)
    return annotation


class MessageRange(_FromWire):
    """First and last id of neighbouring messages."""

    first_id: str
    last_id: str


class Refusal(_FromWire):
    """Turns that stay, and why."""

    reason: str
    first_id: str
    last_id: str
    turn_count: int


class Omission(_FromWire):
    """A message of the ledger that is not sent."""

    reason: str
    message_id: str


class Mend(_FromWire):
    """Something the window needed to be valid."""

    kind: str
    message_id: str


class Fault(_FromWire):
    """A rule of the provider that a window breaks; only under ``none``."""

    rule: str
    message_id: str
    detail: str


class WindowSize(_FromWire):
    """The size of a window."""

    turns: int
    items: int
    bytes: int
    characters: int
    tokens: int | None


class Measurement(_FromWire):
    """What a budget was compared with."""

    tokens: int | None
    source: str
    threshold_tokens: int
    over_budget: bool
    not_measured_streak: int


class Pins(_FromWire):
    """The latest tool results that were kept."""

    pinned: tuple[MessageRange, ...]
    yielded: int
    limit: int
    stand_down: tuple[MessageRange, ...]


class Record(_FromWire):
    """How a window came about. The contract says what each field means."""

    strategy: str
    strategy_version: int
    options_digest: bytes
    outcome: str
    outcome_reason: str
    iteration: int
    ledger_version: int
    envelope_version: int
    removed: tuple[MessageRange, ...]
    removed_count: int
    removed_stages: tuple[str, ...]
    removed_lived_max: int
    rewritten: tuple[MessageRange, ...]
    rewritten_count: int
    refusals: tuple[Refusal, ...]
    dropped_observations: tuple[bytes, ...]
    pins: Pins
    omissions: tuple[Omission, ...]
    mends: tuple[Mend, ...]
    authored: tuple[str, ...]
    before: WindowSize
    after: WindowSize
    measurement: Measurement | None
    keep_recent_turns: int
    unchanged_items: int
    unchanged_bytes: int
    first_changed_id: str
    digest: bytes
    persist: bool


class Window(BaseModel):
    """What one model call is sent; its digest was checked."""

    model_config = _FROZEN

    run_id: str
    iteration: int
    step_id: str
    ledger_version: int
    digest: bytes
    envelope_commitment: bytes
    replayed: bool
    """It had been handed out before."""
    items: tuple[Item, ...]
    records: tuple[Record, ...]
    """One for each strategy; none under ``none``."""
    faults: tuple[Fault, ...]
    envelope: Envelope | None = None
    """What went with it; of a replay only."""
    envelope_bytes: StoredEnvelope | None = None
    """Likewise, byte for byte."""

    @property
    def messages(self) -> list[Any]:
        """The provider's messages, ready to be sent; new values each time, so they may be changed."""
        return [item.message for item in self.items]


class WindowHead(_FromWire):
    """A window without what it held: how it came about."""

    run_id: str
    iteration: int
    step_id: str
    ledger_version: int
    digest: bytes
    envelope_commitment: bytes
    item_count: int
    records: tuple[Record, ...]
    faults: tuple[Fault, ...]


class RunInfo(_FromWire):
    """Where a run stands."""

    run_id: str
    status: str
    """``open``, ``paused``, ``finished``, ``failed`` or ``cancelled``."""
    format: str
    policy_json: str
    tokenizer: str
    labels: dict[str, str]
    version: int
    iteration: int
    message_count: int
    opened_time: datetime
    updated_time: datetime
    ledger_head: bytes
    windows_head: bytes
    input_tokens: int
    output_tokens: int

    @property
    def policy(self) -> dict[str, Any]:
        """The policy as a value."""
        policy: dict[str, Any] = parse(self.policy_json.encode())
        return policy


class OpenToolCall(_FromWire):
    """A tool call without an answer."""

    message_id: str
    index: int
    call_id: str
    """The provider's."""
    tool_name: str
    paused: bool
    abandoned: bool


class RunDetails(_FromWire):
    """Where a run stands, its open calls and its request."""

    run: RunInfo
    open_calls: tuple[OpenToolCall, ...]
    request_message_id: str


class LedgerMessage(_FromWire):
    """A message as the ledger holds it."""

    message_id: str
    version: int
    body: bytes
    salt: bytes
    commitment: bytes
    role: str
    """``system``, ``user``, ``model`` or ``tool``."""
    source: str
    """``person``, ``model``, ``tool``, ``injected`` or ``authored``."""
    request: bool
    iteration: int
    reply_id: str
    stage_id: str
    size_bytes: int
    characters: int
    tokens: int | None
    mark: str
    recorded_time: datetime

    @property
    def id(self) -> str:
        """``<run>/<version>``."""
        return self.message_id

    @property
    def message(self) -> Any:
        """The provider's message as a value."""
        return parse(self.body)


class Fact(_FromWire):
    """A fact of the ledger."""

    version: int
    topic: str
    fields_json: bytes
    body: bytes
    salt: bytes
    chain: bytes
    recorded_time: datetime

    @property
    def fields(self) -> dict[str, Any]:
        """The event's fields; bytes as base64."""
        fields: dict[str, Any] = parse(self.fields_json)
        return fields


class Appended(BaseModel):
    """What an append did."""

    model_config = _FROZEN

    version: int
    message_ids: tuple[str, ...]
    replayed: bool
    omissions: tuple[Omission, ...] = ()


class ReportedUsage(_FromWire):
    """How a usage report was understood."""

    version: int
    input_tokens: int | None
    output_tokens: int | None
    implausible: bool
    replayed: bool


def item_of_wire(message: window_pb2.WindowItem) -> Item:
    """The item of a message of the contract."""
    return Item.model_construct(kind=ItemKind(message.kind).label, id=message.id, body=message.body, salt=message.salt)
