"""Answers of the ledger, before they take the shape of the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from turnledger.domain.digests import ItemKind
from turnledger.domain.envelopes import Envelope
from turnledger.domain.errors import NoWindow
from turnledger.domain.events import Body, WindowBuilt
from turnledger.domain.ids import LEDGER, authored_id, message_id, treated_stream
from turnledger.domain.records import Omission
from turnledger.domain.run import Run
from turnledger.domain.usage import Usage
from turnledger.ledger.commands import Base
from turnledger.ledger.loading import Loader, Replayed
from turnledger.ledger.recorder import RunHead
from turnledger.projections.entries import Entry
from turnledger.projections.windows import Keep, difference

WINDOW_INLINE_BYTES_MAX = 32 * 1024 * 1024
"""A window whose new bodies are larger travels as a stream."""


@dataclass(frozen=True, slots=True)
class Item:
    """One message of a window, as it is sent."""

    kind: ItemKind
    id: str
    body: bytes
    salt: bytes


@dataclass(frozen=True, slots=True)
class Delta:
    """A window as a difference to one that the caller holds."""

    base_iteration: int
    parts: tuple[Keep | Item, ...]


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """A window; exactly one of ``whole``, ``delta`` and ``elsewhere_bytes`` says what it holds, or none
    where only its head was asked for."""

    run_id: str
    window: WindowBuilt
    replayed: bool
    whole: tuple[Item, ...] | None = None
    delta: Delta | None = None
    elsewhere_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """The run's version after a write."""

    version: int
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class AppendAnswer(WriteAnswer):
    """What was appended, and with a step the window or why there is none."""

    versions: tuple[int, ...] = ()
    omissions: tuple[Omission, ...] = ()
    window: WindowAnswer | None = None
    error: NoWindow | None = None


@dataclass(frozen=True, slots=True)
class OpenAnswer(WriteAnswer):
    """The opened run."""

    head: RunHead | None = None
    versions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvelopeAnswer(WriteAnswer):
    """The envelope in force."""

    commitment: bytes = b""


@dataclass(frozen=True, slots=True)
class UsageAnswer(WriteAnswer):
    """How a report was understood."""

    usage: Usage = Usage()
    implausible: bool = False


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """One iteration as it was sent."""

    answer: WindowAnswer
    envelope: Envelope | None
    items: tuple[Item, ...]


class Answerer:
    """Makes answers of windows: finds the bodies of what is new to the caller."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def window(
        self,
        run: Run,
        replayed: Replayed,
        base: Base | None,
        base_keys: Sequence[bytes] | None,
        *,
        known: Mapping[tuple[str, int], Body],
        is_replay: bool,
    ) -> WindowAnswer:
        """The answer for a window, as a difference where the caller holds ``base_keys``.

        ``known`` has contents that are at hand, by stream and version.
        """
        window, entries = replayed.window, replayed.entries
        if base is None or base_keys is None:
            if _bytes(entries) > WINDOW_INLINE_BYTES_MAX:
                return WindowAnswer(run.id, window, is_replay, elsewhere_bytes=_bytes(entries))
            return WindowAnswer(run.id, window, is_replay, whole=self.items(run, window, entries, known))
        parts = list(difference(base_keys, [entry.key for entry in entries]))
        indexes = [part for part in parts if isinstance(part, int)]
        if _bytes(entries[i] for i in indexes) > WINDOW_INLINE_BYTES_MAX:
            return WindowAnswer(run.id, window, is_replay, elsewhere_bytes=_bytes(entries))
        new = dict(zip(indexes, self._items(run, window, entries, indexes, known), strict=True))
        listed = tuple(part if isinstance(part, Keep) else new[part] for part in parts)
        return WindowAnswer(run.id, window, is_replay, delta=Delta(base.iteration, listed))

    def items(
        self,
        run: Run,
        window: WindowBuilt,
        entries: Sequence[Entry],
        known: Mapping[tuple[str, int], Body] | None = None,
    ) -> tuple[Item, ...]:
        """All items with their bodies."""
        return tuple(self._items(run, window, entries, range(len(entries)), known or {}))

    def _items(
        self,
        run: Run,
        window: WindowBuilt,
        entries: Sequence[Entry],
        indexes: Sequence[int],
        known: Mapping[tuple[str, int], Body],
    ) -> Iterable[Item]:
        bodies = self._bodies(run, [entries[i] for i in indexes], known)
        for index in indexes:
            entry = entries[index]
            if entry.message is None:
                identifier = authored_id(run.id, window.iteration, index)
                yield Item(entry.kind, identifier, entry.content, b"")
            else:
                body = bodies[_place(entry)]
                yield Item(entry.kind, message_id(run.id, entry.version), body.content, body.salt)

    def _bodies(
        self, run: Run, entries: Sequence[Entry], known: Mapping[tuple[str, int], Body]
    ) -> dict[tuple[str, int], Body]:
        found = dict(known)
        missing: dict[str, list[int]] = {}
        for entry in entries:
            if entry.message is not None and _place(entry) not in found:
                stream, version = _place(entry)
                missing.setdefault(stream, []).append(version)
        for stream, versions in missing.items():
            for version, body in self._loader.bodies(run.key, stream, versions).items():
                found[stream, version] = body
        return found


def _place(entry: Entry) -> tuple[str, int]:
    """Stream and version that hold the body of a message's entry."""
    if entry.kind is ItemKind.TREATED and entry.form is not None:
        return treated_stream(entry.form.treatment), entry.version
    return LEDGER, entry.version


def _bytes(entries: Iterable[Entry]) -> int:
    return sum(entry.size_bytes for entry in entries)
