"""How events become rows: MessagePack state, content beside it, chains over the stored bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, cast

import msgspec
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import Mapper, MapperDeserialisationError, StoredEvent, Transcoder
from pydantic import ValidationError

from turnledger.domain.events import EVENT_CLASSES, Body, RunEvent

_NOT_STATE = frozenset(("originator_id", "originator_version", "body"))


@dataclass(frozen=True)
class Row(StoredEvent):
    """A stored event with its content and its place in a chain."""

    body: Body | None = None
    chain: bytes | None = None

    def chained(self, chain: bytes) -> Row:
        """The row at its place in a chain."""
        return Row(self.originator_id, self.originator_version, self.topic, self.state, self.body, chain)


_ATOMS = frozenset((str, bytes, int, float, bool, type(None), datetime))
"""Types that MessagePack takes as they are; by far the most values are of one."""


@cache
def _field_names(cls: Any) -> tuple[str, ...]:
    """The fields of a dataclass; none for what is no dataclass."""
    return tuple(f.name for f in fields(cls)) if is_dataclass(cls) else ()


def plain(value: Any) -> Any:
    """The value as lists, maps and what MessagePack knows; absent, empty and false fields are left out."""
    kind: Any = type(value)
    if kind in _ATOMS:
        return value
    names = _field_names(kind)
    if names:
        return _compact(names, value)
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    return value


def _compact(names: Iterable[str], holder: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        value = getattr(holder, name)
        if type(value) in _ATOMS:
            # Most are, and none of them but these two is left out.
            if value is not None and value is not False:
                found[name] = value
        elif not is_omitted(value):
            found[name] = plain(value)
    return found


def is_omitted(value: object) -> bool:
    """Whether a field of this value is left out of the stored state."""
    return value is None or value is False or (not value and isinstance(value, tuple | dict))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(dict[str, Any])


def encode_state(event: RunEvent) -> bytes:
    """The state of an event as it is stored: a MessagePack map of its fields, in their order.

    Absent, empty and false fields are left out; so that is what every such field must default to, for ever.
    """
    return _encoder.encode(_compact(_state_names(type(event)), event))


@cache
def _state_names(cls: type[RunEvent]) -> tuple[str, ...]:
    return tuple(name for name in cls.model_fields if name not in _NOT_STATE)


def decode_state(topic: str, state: bytes) -> dict[str, Any]:
    """The fields of a stored state. Raises msgspec's DecodeError for what is no map."""
    return _decoder.decode(state)


class EventTranscoder(Transcoder):
    """The library asks for one; our mapper has no use for it beyond plain values."""

    def encode(self, obj: Any) -> bytes:
        """MessagePack."""
        return _encoder.encode(obj)

    def decode(self, data: bytes) -> Any:
        """The value."""
        return msgspec.msgpack.decode(data)


class EventMapper(Mapper[str]):
    """Maps events to rows and back."""

    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> Row:
        """The row of an event, without its place in a chain."""
        event = cast("RunEvent", domain_event)
        return Row(
            event.originator_id,
            event.originator_version,
            event.TOPIC,
            encode_state(event),
            event.body,
        )

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """The event of a row. Raises the library's MapperDeserialisationError for what is no event of ours."""
        where = f"{stored_event.topic} at {stored_event.originator_id} version {stored_event.originator_version}"
        cls = EVENT_CLASSES.get(stored_event.topic)
        if cls is None:
            raise MapperDeserialisationError(f"unknown topic: {where}")
        try:
            return cls.model_validate(
                {
                    **decode_state(stored_event.topic, stored_event.state),
                    "originator_id": stored_event.originator_id,
                    "originator_version": stored_event.originator_version,
                    "body": getattr(stored_event, "body", None),
                }
            )
        except (ValidationError, msgspec.DecodeError, RecursionError) as error:
            raise MapperDeserialisationError(f"damaged state: {where}: {error}") from error
