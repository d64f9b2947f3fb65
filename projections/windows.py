"""Windows as what they hash to: digests, unchanged prefixes and differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from turnledger.domain.digests import ITEMS_START, common_prefix, items_next
from turnledger.projections.entries import Entry


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a window as far as the next one needs them."""

    keys: tuple[bytes, ...] = ()
    hashes: tuple[bytes, ...] = ()
    """``i(k)`` after each item, so that only what changed is hashed again."""
    sizes: tuple[int, ...] = ()
    """Bytes of each body."""

    @property
    def final_hash(self) -> bytes:
        """``i(n)``."""
        return self.hashes[-1] if self.hashes else ITEMS_START


NO_ITEMS = Items()


def itemize(entries: Sequence[Entry], previous: Items = NO_ITEMS) -> tuple[Items, int]:
    """The items of a window, and how many leading ones equal those of the window before."""
    keys = tuple(entry.key for entry in entries)
    unchanged = common_prefix(previous.keys, keys)
    start = previous.hashes[unchanged - 1] if unchanged else ITEMS_START
    changed = list(accumulate(keys[unchanged:], items_next, initial=start))[1:]
    hashes = previous.hashes[:unchanged] + tuple(changed)
    return Items(keys, hashes, tuple(entry.size_bytes for entry in entries)), unchanged


@dataclass(frozen=True, slots=True)
class Keep:
    """Items of the base, by index."""

    start: int
    count: int


def difference(base: Sequence[bytes], keys: Sequence[bytes]) -> Iterator[Keep | int]:
    """The new window as runs of the base's items and indexes of new ones, in order."""
    places = {key: index for index, key in enumerate(base)}
    at = 0
    while at < len(keys):
        start = places.get(keys[at])
        if start is None:
            yield at
            at += 1
            continue
        most = min(len(base) - start, len(keys) - at)
        count = 1
        while count < most and base[start + count] == keys[at + count]:
            count += 1
        yield Keep(start, count)
        at += count
