"""A clock for tests."""

from __future__ import annotations

from datetime import UTC, datetime


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """The time."""
        return self.now
