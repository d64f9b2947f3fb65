"""Why there was no window, in the form that a retry finds it in."""

from __future__ import annotations

from typing import Any

from turnledger.domain.errors import CompactionUnmeasurable, NothingToAnswer, NoWindow, RunPaused, WindowInvalid

_CLASSES: dict[str, type[NoWindow]] = {
    cls.reason: cls for cls in (CompactionUnmeasurable, WindowInvalid, NothingToAnswer, RunPaused)
}


def outcome_of_error(error: NoWindow) -> dict[str, Any]:
    """Reason and data of an error."""
    return {"reason": error.reason, "metadata": error.metadata}


def error_of_outcome(outcome: dict[str, Any]) -> NoWindow:
    """The error of :func:`outcome_of_error`."""
    return _CLASSES[outcome["reason"]].from_metadata(outcome["metadata"])
