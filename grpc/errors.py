"""Errors on the wire: one table from the domain's errors to status codes, one place that makes a status."""

from __future__ import annotations

from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from turnledger.domain import errors as err
from turnledger.v1 import error_reason_pb2 as reasons

DOMAIN = "turnledger"
RETRY_SECONDS = 1
TEXT_BYTES_MAX = 600
"""Longest text in a status: all of one must fit into 8 KiB of metadata, or the caller gets another error."""

_CODES: tuple[tuple[type[err.TurnledgerError], int], ...] = (
    (err.BadRequest, code_pb2.INVALID_ARGUMENT),
    (err.LimitExceeded, code_pb2.RESOURCE_EXHAUSTED),
    (err.NotFound, code_pb2.NOT_FOUND),
    (err.AlreadyExists, code_pb2.ALREADY_EXISTS),
    (err.VersionConflict, code_pb2.ABORTED),
    (err.IterationOutOfRange, code_pb2.OUT_OF_RANGE),
    (err.RuleBroken, code_pb2.FAILED_PRECONDITION),
    (err.NoWindow, code_pb2.FAILED_PRECONDITION),
    (err.Unavailable, code_pb2.UNAVAILABLE),
)


def status_of(error: err.TurnledgerError) -> status_pb2.Status:
    """The status of an error, with one ErrorInfo and what else fits."""
    code = next(code for cls, code in _CODES if isinstance(error, cls))
    metadata = error.metadata if not isinstance(error, err.Unavailable) else {}
    return _status(code, str(error), error.reason, metadata, _details(error))


def internal_status(fault_id: str) -> status_pb2.Status:
    """The status of a fault of ours: an id to report, and nothing of what happened inside."""
    text = f"internal fault {fault_id}; nothing is known to be written"
    return _status(code_pb2.INTERNAL, text, "INTERNAL", {"fault_id": fault_id}, [])


def reason_number(reason: str) -> reasons.ErrorReason.ValueType:
    """The number of a reason in the catalogue."""
    return reasons.ErrorReason.Value(f"ERROR_REASON_{reason}")


def _status(
    code: int, text: str, reason: str, metadata: dict[str, str], details: list[any_pb2.Any]
) -> status_pb2.Status:
    cut = {name: _cut(value) for name, value in metadata.items()}
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=cut)
    return status_pb2.Status(code=code, message=_cut(text), details=[_packed(info), *details])


def _details(error: err.TurnledgerError) -> list[any_pb2.Any]:
    if isinstance(error, err.BadRequest):
        violation = error_details_pb2.BadRequest.FieldViolation(field=_cut(error.field), description=_cut(str(error)))
        return [_packed(error_details_pb2.BadRequest(field_violations=[violation]))]
    if isinstance(error, err.RunNotFound | err.RunExists):
        return [_packed(error_details_pb2.ResourceInfo(resource_type="run", resource_name=error.run_id))]
    if isinstance(error, err.MessageNotFound):
        return [_packed(error_details_pb2.ResourceInfo(resource_type="message", resource_name=error.message_id))]
    if isinstance(error, err.RuleBroken):
        subject = error.metadata.get("run_id", "")
        broken = error_details_pb2.PreconditionFailure.Violation(
            type=error.reason, subject=subject, description=_cut(str(error))
        )
        return [_packed(error_details_pb2.PreconditionFailure(violations=[broken]))]
    if isinstance(error, err.Unavailable):
        delay = duration_pb2.Duration(seconds=RETRY_SECONDS)
        return [_packed(error_details_pb2.RetryInfo(retry_delay=delay))]
    return []


def _cut(text: str) -> str:
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= TEXT_BYTES_MAX:
        return data.decode()
    return data[:TEXT_BYTES_MAX].decode("utf-8", "ignore") + "…"


def _packed(message: any_pb2.Any | object) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)  # type: ignore[arg-type]
    return packed
