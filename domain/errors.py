"""Every error of turnledger, as data.

::

    TurnledgerError
    ├── BadRequest                  mend the request
    │   ├── FieldInvalid
    │   ├── BodyNotJson
    │   ├── BodyNotOfFormat
    │   ├── PolicyInvalid
    │   └── PageTokenInvalid
    ├── LimitExceeded               send less
    ├── NotFound
    │   ├── RunNotFound
    │   └── MessageNotFound
    ├── AlreadyExists
    │   ├── RunExists
    │   └── RequestIdReused
    ├── VersionConflict             read the run, decide anew
    ├── RuleBroken                  the run's state forbids it
    │   ├── RunClosed
    │   ├── RunPaused
    │   ├── RunNotPaused
    │   ├── ResultOrphan
    │   ├── ResultDuplicate
    │   ├── ResultsMixed
    │   └── ToolCallNotOpen
    ├── IterationOutOfRange
    ├── NoWindow                    the facts are written, but no window came of them
    │   ├── CompactionUnmeasurable
    │   ├── WindowInvalid
    │   └── NothingToAnswer
    └── Unavailable                 call again
        ├── StoreUnavailable
        └── ServiceBusy

``RunPaused`` is raised for a window that was refused because the run is paused; it is also a
``NoWindow``, since the facts of the call are written. The attributes of an error are its data, and they
are what travels as metadata; the text is for people. The domain knows nothing of gRPC: the service has
one table from these classes to status codes, the client one from reasons to these classes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Self

VALUE_CHARACTERS_MAX = 200
"""Longest part of a refused value that is repeated in an error, in code points."""


def shown(value: object) -> str:
    """The value as an error shows it: printable, and cut where it is long."""
    text = value if isinstance(value, str) else repr(value)
    # Lone surrogates can't travel in metadata.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) > VALUE_CHARACTERS_MAX:
        return text[:VALUE_CHARACTERS_MAX] + "…"
    return text


@dataclass(eq=False)
class TurnledgerError(Exception):
    """Base of all errors. Its dataclass fields are the error's data."""

    reason: ClassVar[str] = ""
    """Name in the error catalogue of the contract; empty for the classes that only group."""
    template: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.template.format(**{f.name: getattr(self, f.name) for f in fields(self)})

    @property
    def metadata(self) -> dict[str, str]:
        """The error's data as text."""
        return {f.name: str(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_metadata(cls, metadata: dict[str, str]) -> Self:
        """The error whose :attr:`metadata` these are."""
        values = {f.name: metadata.get(f.name, "") for f in fields(cls)}
        return cls(**{f.name: int(values[f.name] or 0) if f.type == "int" else values[f.name] for f in fields(cls)})


@dataclass(eq=False)
class BadRequest(TurnledgerError):
    """The request itself is wrong, whatever the run's state."""

    field: str
    rule: str
    value: str

    template = "{field}: {rule}, but it is {value}"


class FieldInvalid(BadRequest):
    """A field is missing, out of range or not of its shape."""

    reason = "FIELD_INVALID"


class BodyNotJson(BadRequest):
    """A body, envelope or usage report is no JSON."""

    reason = "BODY_NOT_JSON"
    template = "{field}: {rule}: {value}"


@dataclass(eq=False)
class BodyNotOfFormat(BadRequest):
    """A body is JSON, but no message of the run's format."""

    format: str

    reason = "BODY_NOT_OF_FORMAT"
    template = "{field}: no message of format {format}: {rule}, but it is {value}"


class PolicyInvalid(BadRequest):
    """The policy names an unknown strategy, or an option is unknown, missing or out of range."""

    reason = "POLICY_INVALID"


class PageTokenInvalid(BadRequest):
    """A page token that is not ours, or of another query."""

    reason = "PAGE_TOKEN_INVALID"


@dataclass(eq=False)
class LimitExceeded(TurnledgerError):
    """A stated limit is exceeded."""

    field: str
    limit: int
    value: int

    reason = "LIMIT_EXCEEDED"
    template = "{field}: at most {limit}, but it is {value}"


class NotFound(TurnledgerError):
    """Something named is not there."""


@dataclass(eq=False)
class RunNotFound(NotFound):
    """There is no such run."""

    run_id: str

    reason = "RUN_NOT_FOUND"
    template = "there is no run {run_id}"


@dataclass(eq=False)
class MessageNotFound(NotFound):
    """The id names no message of the run."""

    run_id: str
    message_id: str

    reason = "MESSAGE_NOT_FOUND"
    template = "{message_id} is no message of run {run_id}"


class AlreadyExists(TurnledgerError):
    """Something by that name exists with other content."""


@dataclass(eq=False)
class RunExists(AlreadyExists):
    """The run was opened before, with other content."""

    run_id: str
    field: str

    reason = "RUN_EXISTS"
    template = "run {run_id} exists, with another {field}"


@dataclass(eq=False)
class RequestIdReused(AlreadyExists):
    """The request id was used before, with other content."""

    run_id: str
    request_id: str
    field: str

    reason = "REQUEST_ID_REUSED"
    template = "request {request_id} of run {run_id} was made before, with another {field}"


@dataclass(eq=False)
class VersionConflict(TurnledgerError):
    """The run's version is not the expected one. ``expected_version`` is 0 for "no run"."""

    run_id: str
    expected_version: int
    actual_version: int

    reason = "VERSION_CONFLICT"
    template = "run {run_id} is at version {actual_version}, not {expected_version}"


class RuleBroken(TurnledgerError):
    """The run's state forbids it."""


@dataclass(eq=False)
class RunClosed(RuleBroken):
    """The run is closed."""

    run_id: str
    status: str

    reason = "RUN_CLOSED"
    template = "run {run_id} is closed ({status})"


class NoWindow(TurnledgerError):
    """There is no window; the facts of the call are written."""

    def __str__(self) -> str:
        return f"{super().__str__()}. What the call appended is in the ledger all the same"


@dataclass(eq=False)
class RunPaused(RuleBroken, NoWindow):
    """The run is paused, and no window was asked for while it is."""

    run_id: str

    reason = "RUN_PAUSED"
    template = "run {run_id} is paused: resume it, or ask for a window while_paused"


@dataclass(eq=False)
class RunNotPaused(RuleBroken):
    """The run is not paused."""

    run_id: str

    reason = "RUN_NOT_PAUSED"
    template = "run {run_id} is not paused"


@dataclass(eq=False)
class ResultRefused(RuleBroken):
    """A result that a strict append does not take."""

    run_id: str
    field: str
    call_id: str


class ResultOrphan(ResultRefused):
    """A result that answers no call of the run."""

    reason = "RESULT_ORPHAN"
    template = "{field}: run {run_id} has no call {call_id} to answer"


class ResultDuplicate(ResultRefused):
    """A second result for a call."""

    reason = "RESULT_DUPLICATE"
    template = "{field}: call {call_id} of run {run_id} has its result already"


class ResultsMixed(ResultRefused):
    """Results that can't be sent with the rest of their message: of several replies, a late one beside anything
    else, or beside other content where the turn has such a message already."""

    reason = "RESULTS_MIXED"
    template = (
        "{field}: the result of call {call_id} can't be sent with the rest of its message: append it in one of its own"
    )


@dataclass(eq=False)
class ToolCallNotOpen(RuleBroken):
    """A reference that names no open call, or more than one."""

    run_id: str
    field: str
    value: str
    matches: int

    reason = "TOOL_CALL_NOT_OPEN"
    template = "{field}: {value} names {matches} open calls of run {run_id}, not one"


@dataclass(eq=False)
class IterationOutOfRange(TurnledgerError):
    """An iteration beyond what the run has. ``iteration`` is the last one handed out."""

    run_id: str
    field: str
    value: int
    iteration: int

    reason = "ITERATION_OUT_OF_RANGE"
    template = "{field}: {value}, but run {run_id} is at iteration {iteration}"


@dataclass(eq=False)
class CompactionUnmeasurable(NoWindow):
    """The strategy measures reported usage, and the provider reports nothing but zeros."""

    run_id: str
    format: str
    iteration: int

    reason = "COMPACTION_UNMEASURABLE"
    template = (
        "the provider of run {run_id} ({format}) reported 0 tokens in and 0 out for iteration {iteration}: "
        "report real usage, or measure with a tokenizer"
    )


@dataclass(eq=False)
class WindowInvalid(NoWindow):
    """The window breaks a rule of its provider that no mend can help."""

    run_id: str
    rule: str
    message_id: str

    reason = "WINDOW_INVALID"
    template = "the window of run {run_id} breaks the provider's rule {rule} at {message_id}"


@dataclass(eq=False)
class NothingToAnswer(NoWindow):
    """There is nothing for the model to answer."""

    run_id: str
    message_id: str
    """The last message of the window; empty where there is none."""

    reason = "NOTHING_TO_ANSWER"
    template = "run {run_id} has nothing for the model to answer: append what it should answer"


@dataclass(eq=False)
class Unavailable(TurnledgerError):
    """Not now; the same call may be made again."""

    detail: str

    template = "{detail}"


class StoreUnavailable(Unavailable):
    """The store does not answer."""

    reason = "STORE_UNAVAILABLE"


class ServiceBusy(Unavailable):
    """The service takes no more calls for now."""

    reason = "SERVICE_BUSY"
