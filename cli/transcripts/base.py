"""What a transcript is, whatever file it was read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnledger.cli.exits import Damaged
from turnledger.client import Envelope, Message

DAMAGES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a transcript, and the line of the file on which it begins, from 1."""

    message: Message
    number: int
    is_models: bool


@dataclass(frozen=True, slots=True)
class Transcript:
    """A recorded run, to be replayed as its worker would have sent it."""

    format: str
    """The format of the run that it becomes."""
    lines: tuple[Line, ...]
    envelope: Envelope | None = None

    def batches(self) -> Iterator[Sequence[Line]]:
        """What a worker appended in one go: everything up to the next reply, from the reply before on."""
        since: list[Line] = []
        for line in self.lines:
            if line.is_models and since:
                yield since
                since = []
            since.append(line)
        if since:
            yield since


@dataclass(frozen=True, slots=True)
class Damage:
    """Something in a file that can't be imported, and on which line."""

    line: int
    what: str


def damaged(name: str, damages: Sequence[Damage]) -> Damaged:
    """The error that names every damage, or the first of many."""
    shown = [f"{name}:{damage.line}: {damage.what}" for damage in damages[:DAMAGES_SHOWN_MAX]]
    more = len(damages) - len(shown)
    return Damaged("\n".join(["nothing was imported:", *shown, *([f"and {more} more"] if more else [])]))


class Unreadable(Exception):
    """The damages of a file."""

    def __init__(self, *damages: Damage) -> None:
        super().__init__(damages)
        self.damages = damages


def text_of(data: bytes) -> str:
    """The text of a file. Raises :class:`Unreadable` naming the line with what is no UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(Damage(line, f"no UTF-8 at byte {error.start} of the file ({error.reason})")) from error
