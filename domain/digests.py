"""Commitments, chains and window digests, exactly as docs/stored-bytes.md fixes them.

``H`` is SHA-256, ``lp(x)`` the length of x as unsigned 32-bit big-endian followed by x, ``u64`` unsigned
64-bit big-endian. Everything here can be computed by hand; docs/stored-bytes.md has test vectors.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable
from enum import IntEnum

SALT_BYTES = 16
NO_ENVELOPE = bytes(32)
"""Stands for the envelope's commitment where none was set."""
ITEMS_START = hashlib.sha256(b"turnledger/items/1").digest()
"""``i(0)``: the running hash of no items."""


class ItemKind(IntEnum):
    """What an item of a window is; the number is the byte that is hashed."""

    MESSAGE = 1
    TREATED = 2
    SUMMARY = 3
    NOTICE = 4
    CLOSING_RESULT = 5
    PLACEHOLDER = 6
    STRATEGY_TEXT = 7

    @property
    def is_salted(self) -> bool:
        """True where the digest holds a commitment; False where it holds the hash of authored bytes."""
        return self not in _AUTHORED

    @property
    def label(self) -> str:
        """The kind as words and clients spell it: ``closing-result``."""
        return self.name.lower().replace("_", "-")


_AUTHORED = frozenset((ItemKind.NOTICE, ItemKind.CLOSING_RESULT, ItemKind.PLACEHOLDER))


def lp(data: bytes) -> bytes:
    """Length-prefixed bytes."""
    return struct.pack(">I", len(data)) + data


def u64(number: int) -> bytes:
    """An unsigned 64-bit number, big-endian."""
    return struct.pack(">Q", number)


def commitment(salt: bytes, content: bytes) -> bytes:
    """What stands in a fact in place of its content: HMAC-SHA-256 with the salt as key."""
    return hmac.digest(salt, content, "sha256")


def chain_start(run_id: str, stream: str) -> bytes:
    """``chain(0)`` of a stream of a run."""
    return hashlib.sha256(b"turnledger/chain/1" + lp(run_id.encode()) + lp(stream.encode())).digest()


def chain_next(head: bytes, version: int, topic: str, state: bytes) -> bytes:
    """The chain after one more event."""
    return hashlib.sha256(head + u64(version) + lp(topic.encode()) + lp(state)).digest()


def item_key(kind: ItemKind, content: bytes) -> bytes:
    """What the digest hashes of an item: its kind, and ``content``, which is the item's commitment, or
    the bytes themselves of kinds 4, 5 and 6."""
    if kind in _AUTHORED:
        content = hashlib.sha256(content).digest()
    return bytes((kind,)) + content


def items_next(items_hash: bytes, key: bytes) -> bytes:
    """``i(k)`` from ``i(k-1)`` and the key of item k."""
    return hashlib.sha256(items_hash + key).digest()


def items_hash(keys: Iterable[bytes], start: bytes = ITEMS_START) -> bytes:
    """``i(n)`` over the keys of all items, or of those after ``start``."""
    for key in keys:
        start = items_next(start, key)
    return start


def window_digest(envelope_commitment: bytes | None, final_items_hash: bytes) -> bytes:
    """The digest of a window."""
    return hashlib.sha256(b"turnledger/window/1" + (envelope_commitment or NO_ENVELOPE) + final_items_hash).digest()


def common_prefix(left: Iterable[bytes], right: Iterable[bytes]) -> int:
    """How many leading keys are equal."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
