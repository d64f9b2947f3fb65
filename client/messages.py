"""What clients are given, as messages of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message as ProtoMessage
from pydantic import BaseModel

from turnledger.client.models import Envelope, Message, json_bytes
from turnledger.domain.errors import FieldInvalid, shown
from turnledger.domain.jsonbytes import parse
from turnledger.v1 import run_pb2

W = TypeVar("W", bound=ProtoMessage)
_SOURCES = {
    None: run_pb2.SOURCE_UNSPECIFIED,
    "person": run_pb2.SOURCE_PERSON,
    "model": run_pb2.SOURCE_MODEL,
    "tool": run_pb2.SOURCE_TOOL,
    "injected": run_pb2.SOURCE_INJECTED,
}
_STATUSES = {
    "open": run_pb2.RUN_STATUS_OPEN,
    "paused": run_pb2.RUN_STATUS_PAUSED,
    "finished": run_pb2.RUN_STATUS_FINISHED,
    "failed": run_pb2.RUN_STATUS_FAILED,
    "cancelled": run_pb2.RUN_STATUS_CANCELLED,
}
CLOSED = ("finished", "failed", "cancelled")
"""The statuses that a run can be closed with."""


def wire_message(kind: type[W], field: str = "", **values: Any) -> W:
    """A message of the contract. Raises :class:`FieldInvalid` for a value that its field can't hold."""
    try:
        return kind(**values)
    except (TypeError, ValueError):
        for name, value in values.items():
            try:
                kind(**{name: value})
            except (TypeError, ValueError) as error:
                where = f"{field}.{name}" if field else name
                raise FieldInvalid(where, f"must be what the contract holds there ({error})", shown(value)) from error
        raise


def call_metadata(principal: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata that goes with every call. Raises :class:`FieldInvalid` for a name that can't travel."""
    if principal and not (principal.isascii() and principal.isprintable()):
        raise FieldInvalid("principal", "must be printable ASCII", shown(principal))
    return (("turnledger-principal", principal),) if principal else ()


def policy_json(policy: Any) -> str:
    """A policy model, a mapping or JSON text as JSON text; None as the empty text."""
    if policy is None:
        return ""
    if isinstance(policy, str):
        return policy
    if isinstance(policy, BaseModel):
        return policy.model_dump_json()
    return json_bytes(policy, "policy").decode()


def new_messages(messages: Sequence[Any], reported: Any = None) -> list[run_pb2.NewMessage]:
    """Messages to append. ``reported`` is the usage of the last model's message among them.

    Raises :class:`FieldInvalid` for usage without a model's message to belong to.
    """
    if isinstance(messages, str | bytes | Mapping):
        raise FieldInvalid("messages", "must be a sequence of messages", type(messages).__name__)
    built = [
        _new_message(m if isinstance(m, Message) else Message(m), f"messages[{i}]") for i, m in enumerate(messages)
    ]
    if reported is not None:
        at = next((i for i in reversed(range(len(built))) if _is_models(built[i].body)), None)
        if at is None:
            raise FieldInvalid("usage", "needs a model's message that it belongs to", shown(reported))
        built[at].usage.CopyFrom(usage(reported))
    return built


def _is_models(body: bytes) -> bool:
    try:
        value = parse(body)
    except ValueError:
        return False  # The service says what is wrong with it.
    return isinstance(value, dict) and value.get("role") in ("assistant", "model")


def _new_message(message: Message, field: str) -> run_pb2.NewMessage:
    if message.source not in _SOURCES:
        raise FieldInvalid(f"{field}.source", "must be person, model, tool or injected", shown(message.source))
    return wire_message(
        run_pb2.NewMessage,
        field,
        body=json_bytes(message.body, f"{field}.body"),
        source=_SOURCES[message.source],
        request=message.request,
        reply_id=message.reply_id,
        stage_id=message.stage_id,
        answers_iteration=message.answers_iteration,
        usage=usage(message.usage, f"{field}.usage") if message.usage is not None else None,
    )


def usage(reported: Any, field: str = "usage") -> run_pb2.Usage:
    """Usage as the provider's SDK reports it: a mapping, a model object or JSON bytes."""
    return run_pb2.Usage(raw=json_bytes(reported, field))


def envelope(given: Envelope | None) -> run_pb2.Envelope | None:
    """An envelope as a message of the contract. Raises :class:`FieldInvalid` for what is none."""
    if given is None:
        return None
    if not isinstance(given, Envelope):
        raise FieldInvalid("envelope", "must be an Envelope", type(given).__name__)
    return given.to_wire()


def message_ids(given: Sequence[str]) -> Sequence[str]:
    """The ids themselves. Raises :class:`FieldInvalid` for one id that is not in a sequence."""
    if isinstance(given, str):
        raise FieldInvalid("message_ids", "must be a sequence of ids", shown(given))
    return given


def expectation(version: int | None) -> run_pb2.Expectation:
    """The exact version that is expected, or any."""
    if version is None:
        return run_pb2.Expectation(any=run_pb2.Expectation.AnyVersion())
    return wire_message(run_pb2.Expectation, "expectation", version=version)


def status_value(status: str | None, names: Sequence[str] = tuple(_STATUSES)) -> run_pb2.RunStatus.ValueType:
    """The status of one of ``names``; None: unspecified. Raises :class:`FieldInvalid`."""
    if status is None:
        return run_pb2.RUN_STATUS_UNSPECIFIED
    if status not in names:
        raise FieldInvalid("status", f"must be one of {', '.join(names)}", shown(status))
    return _STATUSES[status]


def call_ref(call: str | tuple[str, int]) -> run_pb2.ToolCallRef:
    """A tool call: the provider's id, or (message id, index of the call in it)."""
    if isinstance(call, str):
        return run_pb2.ToolCallRef(call_id=call.encode("utf-8", "surrogatepass"))
    message_id, index = call
    position = wire_message(run_pb2.ToolCallRef.Position, "call", message_id=message_id, index=index)
    return run_pb2.ToolCallRef(position=position)
