"""The closed set of words that records use (WINDOW-RULES 4.5).

The same word means the same under every strategy. A new word is a new version of the contract.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a message is to the rules, whatever its provider calls it."""

    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    """Carries results of tool calls."""
    SYSTEM = "system"


class Source(StrEnum):
    """Who stands behind a message (WINDOW-RULES 1.6)."""

    PERSON = "person"
    MODEL = "model"
    TOOL = "tool"
    INJECTED = "injected"
    AUTHORED = "authored"


class RunStatus(StrEnum):
    """Where a run stands."""

    OPEN = "open"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_closed(self) -> bool:
        """True where nothing is added to the run any more."""
        return self not in (RunStatus.OPEN, RunStatus.PAUSED)


class RefusalReason(StrEnum):
    """Why a turn stays in the window, or a result stays as it is."""

    INSIDE_KEEP_WINDOW = "inside-keep-window"
    CURRENT_REQUEST = "current-request"
    SYSTEM_ENVELOPE = "system-envelope"
    PENDING_CHECK_IN = "pending-check-in"
    PAUSED_TOOL = "paused-tool"
    UNRESOLVED_TOOL_CALL = "unresolved-tool-call"
    UNREAD_RESULT = "unread-result"
    LAST_TOOL_RESULT = "last-tool-result"
    BEYOND_SPAN = "beyond-span"
    REPLACEMENT_NOT_SMALLER = "replacement-not-smaller"
    INSIDE_KEEP_RAW = "inside-keep-raw"


class Outcome(StrEnum):
    """What became of a visit."""

    ENGAGED = "engaged"
    NOT_ENGAGED = "not-engaged"


class NotEngaged(StrEnum):
    """Why a strategy did not act."""

    FEW_TURNS = "few-turns"
    UNDER_THRESHOLD = "under-threshold"
    NOT_MEASURED = "not-measured"
    NOTHING_TO_REWRITE = "nothing-to-rewrite"


class OmissionReason(StrEnum):
    """Why a message of the ledger is not sent though it did not leave."""

    ORPHAN_RESULT = "orphan-result"
    LATE_RESULT = "late-result"
    LEFT_OUT_EMPTY = "left-out-empty"


class MendKind(StrEnum):
    """What a window needed so that its provider accepts it (WINDOW-RULES 10)."""

    REORDERED = "reordered"
    CLOSING_RESULT = "closing-result"
    CLOSING_RESULT_REPLACED = "closing-result-replaced"
    PLACEHOLDER = "placeholder"
