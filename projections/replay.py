"""Replay: a composition back into what was sent. No strategy runs; what was decided is on record."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from turnledger.domain.compositions import Authored, Composition, Moved, Range, TreatedRange
from turnledger.domain.digests import ItemKind
from turnledger.domain.formats import Format
from turnledger.domain.messages import Message
from turnledger.projections.entries import CountTokens, Entry, TreatedForm, authored_entry, message_entry
from turnledger.projections.live import Live, Notice
from turnledger.projections.turns import NO_TURNS, add_messages, turn_index

Forms = Mapping[tuple[str, int], TreatedForm]
"""Treated forms by treatment and message version."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What of the store a composition names."""

    ranges: tuple[tuple[int, int], ...]
    """Ranges of ledger versions."""
    treated: tuple[tuple[str, int, int], ...]
    """Treatment, first and last message version."""


def needs(composition: Composition) -> Needs:
    """What must be read to replay a composition or to go on from it."""
    ranges: list[tuple[int, int]] = []
    treated: list[tuple[str, int, int]] = []
    for part in composition:
        match part:
            case Range(first, last):
                ranges.append((first, last))
            case TreatedRange(first, last, treatment):
                ranges.append((first, last))
                treated.append((treatment, first, last))
            case Moved(version, treatment):
                ranges.append((version, version))
                if treatment:
                    treated.append((treatment, version, version))
            case Authored(ItemKind.PLACEHOLDER, _, version):
                ranges.append((version, version))
    return Needs(tuple(ranges), tuple(treated))


def expand(
    composition: Composition,
    messages: Mapping[int, Message],
    forms: Forms,
    format: Format,
    count: CountTokens | None = None,
) -> Iterator[Entry]:
    """The entries of a composition, in the order they were sent."""
    versions = sorted(messages)
    for part in composition:
        match part:
            case Range(first, last):
                for version in _between(versions, first, last):
                    yield message_entry(messages[version], None)
            case TreatedRange(first, last, treatment):
                for version in _between(versions, first, last):
                    yield message_entry(messages[version], forms.get((treatment, version)))
            case Moved(version, treatment):
                form = forms.get((treatment, version)) if treatment else None
                yield message_entry(messages[version], form, moved=True)
            case Authored(kind, content, version):
                yield authored_entry(kind, content, format, count, version=version)


def _between(versions: Sequence[int], first: int, last: int) -> Sequence[int]:
    return versions[bisect_left(versions, first) : bisect_right(versions, last)]


def live_of(entries: Iterable[Entry], messages: Mapping[int, Message]) -> Live:
    """The live part of a run whose last window these entries are.

    ``messages`` are those that the window's composition names.
    """
    listed = list(entries)
    ordered = [messages[version] for version in sorted(messages)]
    turns = add_messages(NO_TURNS, (m for m in ordered if m.mark is None))
    forms = {e.version: e.form for e in listed if e.form is not None}
    notice: Notice | None = None
    at = next((i for i, e in enumerate(listed) if e.kind is ItemKind.NOTICE), None)
    if at is not None:
        before = {turn_index(turns, e.version) for e in listed[:at] if e.version}
        notice = Notice(listed[at], len(before))
    return Live(turns, forms, notice, tuple(m for m in ordered if m.mark is not None))
