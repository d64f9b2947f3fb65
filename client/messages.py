"""What clients are given, as messages of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from turnledger.client.models import Message, json_bytes
from turnledger.domain.errors import FieldInvalid, shown
from turnledger.v1 import run_pb2

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


def call_metadata(principal: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata that goes with every call."""
    return (("turnledger-principal", principal),) if principal else ()


def policy_json(policy: Any) -> str:
    """A policy model, a mapping or JSON text as JSON text; None as the empty text."""
    if policy is None:
        return ""
    if isinstance(policy, str):
        return policy
    if isinstance(policy, BaseModel):
        return policy.model_dump_json()
    return json_bytes(policy).decode()


def new_messages(messages: Sequence[Any], reported: Any = None) -> list[run_pb2.NewMessage]:
    """Messages to append. ``reported`` is the usage of the last model's message among them.

    Raises :class:`FieldInvalid` for usage without a model's message to belong to.
    """
    if isinstance(messages, str | bytes | Mapping):
        raise FieldInvalid("messages", "must be a sequence of messages", type(messages).__name__)
    built = [_new_message(m if isinstance(m, Message) else Message(m)) for m in messages]
    if reported is not None:
        at = next((i for i in reversed(range(len(built))) if _is_models(messages[i])), None)
        if at is None:
            raise FieldInvalid("usage", "needs a model's message that it belongs to", shown(reported))
        built[at].usage.CopyFrom(usage(reported))
    return built


def _is_models(message: Any) -> bool:
    body = message.body if isinstance(message, Message) else message
    role = body.get("role") if isinstance(body, Mapping) else getattr(body, "role", None)
    return role in ("assistant", "model")


def _new_message(message: Message) -> run_pb2.NewMessage:
    if message.source not in _SOURCES:
        raise FieldInvalid("source", "must be person, model, tool or injected", shown(message.source))
    return run_pb2.NewMessage(
        body=json_bytes(message.body),
        source=_SOURCES[message.source],
        request=message.request,
        reply_id=message.reply_id,
        stage_id=message.stage_id,
        answers_iteration=message.answers_iteration,
        usage=usage(message.usage) if message.usage is not None else None,
    )


def usage(reported: Any) -> run_pb2.Usage:
    """Usage as the provider's SDK reports it: a mapping, a model object or JSON bytes."""
    return run_pb2.Usage(raw=json_bytes(reported))


def expectation(version: int | None) -> run_pb2.Expectation:
    """The exact version that is expected, or any."""
    if version is None:
        return run_pb2.Expectation(any=run_pb2.Expectation.AnyVersion())
    return run_pb2.Expectation(version=version)


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
    return run_pb2.ToolCallRef(position=run_pb2.ToolCallRef.Position(message_id=message_id, index=index))
