"""Windows and messages from answers, checked: windows by their digest, messages by their commitment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from turnledger.client.errors import MessageMismatch, WindowMismatch
from turnledger.client.models import Fault, Item, LedgerMessage, Record, Window, item_of_wire
from turnledger.domain.digests import ITEMS_START, commitment, common_prefix, item_key, items_next, window_digest
from turnledger.domain.ids import authored_id
from turnledger.v1 import run_pb2, window_pb2


@dataclass(frozen=True, slots=True)
class Held:
    """A window that the client holds, with what its digest was made of, so that the next one costs only
    what is new."""

    window: Window
    keys: tuple[bytes, ...]
    hashes: tuple[bytes, ...]

    @property
    def base(self) -> window_pb2.WindowBase:
        """What tells the service that it is held."""
        return window_pb2.WindowBase(iteration=self.window.iteration, digest=self.window.digest)


def receive(message: window_pb2.Window, held: Held | None, streamed: Sequence[Item] | None = None) -> Held:
    """The window of an answer. ``streamed`` are its items where they came in another way.

    Raises :class:`WindowMismatch` where it does not have the digest it came with.
    """
    pairs = list(_pairs(message, held, streamed))
    keys = tuple(key for _, key in pairs)
    hashes = _hashes(keys, held)
    final = hashes[-1] if hashes else ITEMS_START
    if window_digest(message.envelope_commitment or None, final) != message.digest:
        raise WindowMismatch(message.run_id, message.iteration)
    window = Window.model_construct(
        run_id=message.run_id,
        iteration=message.iteration,
        step_id=message.step_id,
        ledger_version=message.ledger_version,
        digest=message.digest,
        envelope_commitment=message.envelope_commitment,
        replayed=message.replayed,
        items=tuple(item for item, _ in pairs),
        records=tuple(Record.of_wire(record) for record in message.records),
        faults=tuple(Fault.of_wire(fault) for fault in message.faults),
    )
    return Held(window, keys, hashes)


def receive_message(message: run_pb2.LedgerMessage) -> LedgerMessage:
    """The message of an answer. Raises :class:`MessageMismatch` where its bytes are not what was committed to."""
    received = LedgerMessage.of_wire(message)
    # Without its salt the content was destroyed, and the commitment is all that is left.
    if received.salt and commitment(received.salt, received.body) != received.commitment:
        raise MessageMismatch(received.id)
    return received


def _pairs(
    message: window_pb2.Window, held: Held | None, streamed: Sequence[Item] | None
) -> Iterator[tuple[Item, bytes]]:
    """Items and what the digest hashes of them."""
    if message.WhichOneof("content") != "delta":
        items: Iterable[Item] = map(item_of_wire, message.whole.items) if streamed is None else streamed
        yield from ((item, key_of(item)) for item in items)
        return
    if held is None or held.window.iteration != message.delta.base_iteration:
        raise WindowMismatch(message.run_id, message.iteration)
    index = 0
    for part in message.delta.parts:
        if part.HasField("new"):
            item = item_of_wire(part.new)
            yield item, key_of(item)
            index += 1
            continue
        if part.keep.start + part.keep.count > len(held.keys):
            raise WindowMismatch(message.run_id, message.iteration)
        for at in range(part.keep.start, part.keep.start + part.keep.count):
            yield _kept(held.window.items[at], message, index), held.keys[at]
            index += 1


def _kept(item: Item, message: window_pb2.Window, index: int) -> Item:
    """An item of the base; an authored one is named after the window that holds it now."""
    if item.item_kind.is_salted:
        return item
    return item.model_copy(update={"id": authored_id(message.run_id, message.iteration, index)})


def key_of(item: Item) -> bytes:
    """What the digest hashes of an item."""
    kind = item.item_kind
    return item_key(kind, commitment(item.salt, item.body) if kind.is_salted else item.body)


def _hashes(keys: tuple[bytes, ...], held: Held | None) -> tuple[bytes, ...]:
    kept = common_prefix(held.keys, keys) if held else 0
    start = held.hashes[kept - 1] if held and kept else ITEMS_START
    changed = tuple(accumulate(keys[kept:], items_next, initial=start))[1:]
    return (held.hashes[:kept] if held else ()) + changed
