"""Entries: the messages of a window in the order they are sent, and the composition they make up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from turnledger.domain.compositions import Authored, Composition, Moved, Part, Range, TreatedRange
from turnledger.domain.digests import ItemKind, item_key
from turnledger.domain.formats import Format
from turnledger.domain.ids import CallKey
from turnledger.domain.jsonbytes import parse
from turnledger.domain.messages import Message
from turnledger.domain.words import Role

CountTokens = Callable[[Sequence[str]], int]
"""Tokens of texts, by the run's tokenizer."""


@dataclass(frozen=True, slots=True)
class TreatedForm:
    """What a treatment made of a message."""

    treatment: str
    commitment: bytes | None
    """None: unchanged for good."""
    size_bytes: int = 0
    characters: int = 0
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a window."""

    kind: ItemKind
    key: bytes
    """What the digest hashes of it."""
    role: Role
    size_bytes: int
    characters: int
    tokens: int | None
    version: int = 0
    """The message; for a closing result the message that made the call; 0 for a notice."""
    message: Message | None = None
    form: TreatedForm | None = None
    content: bytes = b""
    """The bytes of an authored item."""
    moved: bool = False
    """It stands elsewhere than in the ledger."""
    closes: CallKey | None = None
    """The call that a closing result closes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring entries of a window, and what they come to."""

    entries: tuple[Entry, ...]
    bytes: int
    characters: int
    tokens: int

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Piece:
        """The entries as one piece."""
        listed = tuple(entries)
        return cls(
            listed,
            sum([e.size_bytes for e in listed]),
            sum([e.characters for e in listed]),
            sum([e.tokens or 0 for e in listed]),
        )


def message_entry(message: Message, form: TreatedForm | None, *, moved: bool = False) -> Entry:
    """The entry of a message, treated where its form says so."""
    if form is not None and form.commitment is not None:
        key = item_key(ItemKind.TREATED, form.commitment)
        sizes = (form.size_bytes, form.characters, form.tokens)
        return Entry(ItemKind.TREATED, key, message.role, *sizes, message.version, message, form, moved=moved)
    key = item_key(ItemKind.MESSAGE, message.commitment)
    sizes = (message.size_bytes, message.characters, message.tokens)
    return Entry(ItemKind.MESSAGE, key, message.role, *sizes, message.version, message, form, moved=moved)


def authored_entry(
    kind: ItemKind,
    content: bytes,
    format: Format,
    count: CountTokens | None,
    *,
    version: int = 0,
    closes: CallKey | None = None,
) -> Entry:
    """The entry of something the service wrote."""
    reading = format.read(parse(content))
    tokens = count(reading.texts) if count else None
    return Entry(
        kind,
        item_key(kind, content),
        reading.role,
        len(content),
        reading.characters,
        tokens,
        version,
        content=content,
        closes=closes,
    )


def compose(entries: Iterable[Entry]) -> Composition:
    """The composition of entries: ranges as long as they can be, and what is no range."""
    return tuple(_parts(entries))


def _parts(entries: Iterable[Entry]) -> Iterator[Part]:
    open_range: _OpenRange | None = None
    for entry in entries:
        if open_range and open_range.takes(entry):
            continue
        if open_range:
            yield open_range.part
        open_range = None
        if entry.message is None:
            yield Authored(entry.kind, entry.content, entry.version)
        elif entry.moved:
            yield Moved(entry.version, entry.form.treatment if entry.form else None)
        else:
            open_range = _OpenRange(entry.message, entry.form)
    if open_range:
        yield open_range.part


class _OpenRange:
    """A range that grows as long as neighbours in the ledger follow that are sent in its way."""

    def __init__(self, message: Message, form: TreatedForm | None) -> None:
        self._first = self._last = message.version
        self._ordinal = message.ordinal
        self._treatment = form.treatment if form else None

    def takes(self, entry: Entry) -> bool:
        message = entry.message
        if message is None or entry.moved or message.ordinal != self._ordinal + 1:
            return False
        if self._treatment is None:
            fits = entry.form is None
        else:
            # What has no results is sent raw in either kind of range; what has some must be settled.
            fits = not message.results or (entry.form is not None and entry.form.treatment == self._treatment)
        if fits:
            self._last, self._ordinal = message.version, message.ordinal
        return fits

    @property
    def part(self) -> Part:
        if self._treatment is None:
            return Range(self._first, self._last)
        return TreatedRange(self._first, self._last, self._treatment)
