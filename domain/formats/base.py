"""What a format is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from turnledger.domain.usage import Usage
from turnledger.domain.words import Role, Source


class NotOfFormat(ValueError):
    """A body that is JSON but no message of the format: what must hold, and where it does not."""

    def __init__(self, where: str, rule: str, value: object) -> None:
        super().__init__(f"{where}: {rule}")
        self.where = where
        self.rule = rule
        self.value = value


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A tool call as the body has it."""

    id: str
    name: str
    arguments: str
    """As text, the way it is counted."""
    arguments_value: object
    """As a value, by which two calls are the same or not."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A tool result as the body has it."""

    call_id: str
    text: str
    """All its text; parts that are no text are left out."""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What a body says."""

    role: Role
    source: Source
    """Who stands behind it, if nobody says otherwise."""
    texts: tuple[str, ...]
    """Everything in it that is text to a model: text, reasoning, tool names, arguments, results."""
    calls: tuple[ReadCall, ...] = ()
    results: tuple[ReadResult, ...] = ()
    reply_id: str | None = None
    is_empty: bool = False
    """It holds nothing that the provider would accept."""
    mixes_content: bool = False
    """It carries something beside results."""
    is_misordered: bool = False
    """Something stands before its results, where the provider wants them first."""

    @property
    def characters(self) -> int:
        """Code points of all texts."""
        return sum(map(len, self.texts))


@dataclass(frozen=True, slots=True)
class Profile:
    """What the provider asks of a window (WINDOW-RULES 10)."""

    opens_with_user: bool
    """The first message must be a user's."""
    joins_neighbors: bool
    """Neighboring messages of one side are one to the provider, and the results of a reply must come
    before anything else of the user's side."""
    allows_prefill: bool
    """A model message may be last."""
    wants_tools_declared: bool
    """Messages with tool parts are accepted only with tools in the envelope."""


class Format(Protocol):
    """Reads messages of one provider, and writes what the rules need in its shape."""

    name: str
    """What runs are opened with: ``openai.chat``."""
    profile: Profile

    def read(self, value: Any) -> Reading:
        """The facts of a body, given as its JSON value. Raises :class:`NotOfFormat`."""

    def read_usage(self, report: dict[str, Any], field: str = "usage") -> Usage:
        """The normalised tokens of a report. Raises :class:`turnledger.domain.errors.FieldInvalid` naming
        ``field`` and the part of it that is wrong."""

    def user_message(self, text: str) -> bytes:
        """A user's message with this text, for a notice or placeholder."""

    def model_message(self, text: str) -> bytes:
        """A model's message with this text, for a placeholder."""

    def closing_result(self, call_id: str, text: str) -> bytes:
        """A result that closes a call."""

    def rewrite(self, value: Any, texts: Sequence[str]) -> bytes:
        """The message with the content of each of its results replaced, in order; ids, names, error
        flags and everything unknown stay."""
