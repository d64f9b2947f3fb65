"""Compositions: a window as ranges of the ledger and the few things that are not.

Ranges are maximal, so equal windows have equal compositions (docs/stored-bytes.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnledger.domain.digests import ItemKind


@dataclass(frozen=True, slots=True)
class Range:
    """The messages of the ledger from version ``first`` to ``last``, raw; other facts between are skipped."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TreatedRange:
    """Likewise, with the treated text of each message that has one."""

    first: int
    last: int
    treatment: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A delayed result at its place behind its reply, or a delayed part of a reply."""

    version: int
    treatment: str | None = None


@dataclass(frozen=True, slots=True)
class Authored:
    """Something the service wrote; it holds no content of the run."""

    kind: ItemKind
    content: bytes
    version: int = 0
    """The message it stands for or closes a call of; 0 for a notice."""


Part = Range | TreatedRange | Moved | Authored
Composition = tuple[Part, ...]

_TAGS: dict[str, type[Any]] = {"range": Range, "treated": TreatedRange, "moved": Moved, "authored": Authored}
_NAMES = {cls: tag for tag, cls in _TAGS.items()}


def encode(composition: Composition) -> list[list[Any]]:
    """The composition as lists of plain values, each led by the name of its kind."""
    rows: list[list[Any]] = []
    for part in composition:
        match part:
            case Range(first, last):
                rows.append(["range", first, last])
            case TreatedRange(first, last, treatment):
                rows.append(["treated", first, last, treatment])
            case Moved(version, treatment):
                rows.append(["moved", version, treatment] if treatment else ["moved", version])
            case Authored(kind, content, version):
                rows.append(["authored", int(kind), content, version])
    return rows


def decode(rows: Any) -> Composition:
    """The composition of :func:`encode`."""
    parts: list[Part] = []
    for tag, *values in rows:
        if tag == "authored":
            parts.append(Authored(ItemKind(values[0]), values[1], values[2]))
        else:
            parts.append(_TAGS[tag](*values))
    return tuple(parts)
