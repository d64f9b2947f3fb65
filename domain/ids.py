"""Names of runs, streams, messages and calls.

A run's events lie in streams whose originator id is ``<namespace>/<run>/<stream>``; ``<namespace>/<run>``
is the run key that stands in front of every key of the store. A message's id is ``<run>/<version>``, the
version of its event in the ledger.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from turnledger.domain.errors import FieldInvalid, MessageNotFound, shown

RUN_ID_CHARACTERS_MAX = 128
REQUEST_ID_BYTES_MAX = 128
NAMESPACE_DEFAULT = "default"

LEDGER = "ledger"
WINDOWS = "windows"
CHECKPOINTS = "checkpoints"
TREATED = "treated"

_RUN_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_DIGITS = re.compile(r"[1-9][0-9]{0,18}")


class CallKey(NamedTuple):
    """A tool call by its place: the message that made it and its index there."""

    version: int
    call_index: int


def check_run_id(run_id: str, field: str = "run_id") -> str:
    """The id itself, or :class:`FieldInvalid`."""
    if not _RUN_ID.fullmatch(run_id):
        raise FieldInvalid(field, "must match [A-Za-z0-9._:-]{1,128}", shown(run_id))
    return run_id


def run_id_of_request(namespace: str, request_id: str) -> str:
    """The id of a run that is opened without one but with a request id: the same for every retry."""
    return "run-" + hashlib.sha256(f"{namespace}/{request_id}".encode()).hexdigest()[:32]


def run_key(namespace: str, run_id: str) -> str:
    """What stands in front of every key of the run."""
    return f"{namespace}/{run_id}"


def originator_id(key: str, stream: str) -> str:
    """The id of one stream of a run."""
    return f"{key}/{stream}"


def split_originator_id(originator: str) -> tuple[str, str]:
    """Run key and stream of an originator id."""
    namespace, run_id, stream = originator.split("/", 2)
    return f"{namespace}/{run_id}", stream


def treated_stream(treatment_id: str) -> str:
    """The stream of the treated texts of one treatment; its versions are those of the messages."""
    return f"{TREATED}/{treatment_id}"


def message_id(run_id: str, version: int) -> str:
    """The id of a message."""
    return f"{run_id}/{version}"


def message_version(run_id: str, identifier: str) -> int:
    """The version that a message id of this run names, or :class:`MessageNotFound`."""
    prefix, _, digits = identifier.rpartition("/")
    if prefix != run_id or not _DIGITS.fullmatch(digits):
        raise MessageNotFound(run_id, shown(identifier))
    return int(digits)


def step_id(base: str, iteration: int) -> str:
    """The name of the step that builds window ``iteration``."""
    return f"{base}:iter:{iteration}:context"


def authored_id(run_id: str, iteration: int, index: int) -> str:
    """The id of an authored item: its window and its index there."""
    return f"{run_id}/w{iteration}/{index}"
