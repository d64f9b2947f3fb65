"""Errors as the client raises them: those of the domain, by reason, and the few that arise on the way.

::

    TurnledgerError                 turnledger.domain.errors draws the rest of the tree
    ├── ServiceFault                a fault of the service; has an id to report
    ├── WindowMismatch              a window does not have the digest it came with
    ├── MessageMismatch             a message does not have the commitment it came with
    ├── ReasonUnknown               the service has a reason that this client does not know
    │   └── BuildReasonUnknown      likewise, why there is no window; also a NoWindow
    └── Unavailable
        ├── ServiceUnreachable      no connection, or it broke
        └── DeadlinePassed          no answer in time

After ``Unavailable`` and its kinds, the same call with the same request id is safe.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from turnledger.client.options import MESSAGE_BYTES_MAX
from turnledger.domain.errors import LimitExceeded, NoWindow, TurnledgerError, Unavailable
from turnledger.v1 import error_reason_pb2, window_pb2

DOMAIN = "turnledger"


@dataclass(eq=False)
class ServiceFault(TurnledgerError):
    """A fault of the service."""

    fault_id: str

    reason = "INTERNAL"
    template = "the service failed; report it with id {fault_id}"


@dataclass(eq=False)
class WindowMismatch(TurnledgerError):
    """A window does not have the digest it came with: do not send it."""

    run_id: str
    iteration: int

    template = "window {iteration} of run {run_id} does not have the digest it came with"


@dataclass(eq=False)
class MessageMismatch(TurnledgerError):
    """The bytes of a message are not those that its commitment was made of: they were changed since."""

    message_id: str

    template = "message {message_id} is not what it was when it was appended"


@dataclass(eq=False)
class ReasonUnknown(TurnledgerError):
    """The service, or what stands before it, refuses for a reason that this client does not know: it is of another
    release, or another one's."""

    name: str
    message: str

    template = "{name}, a reason that this client does not know: {message}"


class BuildReasonUnknown(ReasonUnknown, NoWindow):
    """There is no window, for a reason that this client does not know; the facts of the call are written."""


class ServiceUnreachable(Unavailable):
    """There is no connection to the service, or it broke."""


class DeadlinePassed(Unavailable):
    """There was no answer in time; whether something was written is not known."""


def _all_classes(cls: type[TurnledgerError]) -> Iterator[type[TurnledgerError]]:
    yield cls
    for subclass in cls.__subclasses__():
        yield from _all_classes(subclass)


BY_REASON: dict[str, type[TurnledgerError]] = {cls.reason: cls for cls in _all_classes(TurnledgerError) if cls.reason}
"""The class of every reason in the catalogue."""


def error_of(call: grpc.RpcError, address: str, request_bytes: int) -> TurnledgerError:
    """The typed error of a failed call to the service at an address."""
    try:
        status = rpc_status.from_call(call)  # type: ignore[arg-type]
    except (ValueError, DecodeError):
        status = None  # What stands between made another error of it; then its details mean nothing.
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.domain == DOMAIN:
            return _typed(info.reason, dict(info.metadata), status.message if status else "")
    return _untyped(call, address, request_bytes)


def error_of_build(error: window_pb2.BuildError) -> NoWindow:
    """The typed error of a window that could not be built."""
    value = error_reason_pb2.ErrorReason.DESCRIPTOR.values_by_number.get(error.reason)
    name = value.name.removeprefix("ERROR_REASON_") if value else str(error.reason)
    cls = BY_REASON.get(name)
    if cls is None or not issubclass(cls, NoWindow):
        return BuildReasonUnknown(name, error.message)
    return cls.from_metadata(dict(error.metadata))


def _typed(reason: str, metadata: dict[str, str], message: str) -> TurnledgerError:
    cls = BY_REASON.get(reason)
    if cls is None:
        return ReasonUnknown(reason, message)
    if issubclass(cls, Unavailable):
        return cls(message)
    return cls.from_metadata(metadata)


_FINAL = frozenset((grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED))
"""Codes that a service of another release or a proxy gives, and that no repetition changes."""


def _untyped(call: grpc.RpcError, address: str, request_bytes: int) -> TurnledgerError:
    """Errors that gRPC itself raises have no ErrorInfo."""
    code = call.code()
    details = call.details() or code.name
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlinePassed(f"no answer from {address} in time: {details}")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and request_bytes > MESSAGE_BYTES_MAX:
        return LimitExceeded("request", MESSAGE_BYTES_MAX, request_bytes)
    if code in _FINAL:
        return ReasonUnknown(code.name, details)
    return ServiceUnreachable(f"{address}: {code.name}: {details}")
