"""What the service holds in memory of a run: a cache, checked by version and never trusted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, RLock

from turnledger.domain.run import Run
from turnledger.ledger.recorder import RunHead
from turnledger.projections.live import Live
from turnledger.projections.windows import Items

SESSIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """A run as it was read or written last."""

    run: Run
    head: RunHead
    anchor: int = 0
    """Ledger version of the last window or checkpoint: from there on facts are read to go on."""
    live: Live | None = None
    """The turns of the next window; None where no window was asked for yet."""
    items: Items | None = None
    """The items of the last window, with the turns."""

    def __post_init__(self) -> None:
        assert (self.live is None) == (self.items is None)


class Slot:
    """The place of one run in the cache. Its lock makes this process's writers to the run take turns;
    those of other processes are told apart by the store."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.session: Session | None = None


class Sessions:
    """The most recently used runs."""

    def __init__(self, most: int = SESSIONS_MAX) -> None:
        self._most = most
        self._slots: OrderedDict[str, Slot] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def locked(self, run_key: str) -> Iterator[Slot]:
        """The slot of a run, for this thread alone."""
        with self._lock:
            slot = self._slots.setdefault(run_key, Slot())
            self._slots.move_to_end(run_key)
            while len(self._slots) > self._most:
                self._slots.popitem(last=False)
        with slot.lock:
            yield slot

    def peek(self, run_key: str) -> Session | None:
        """What is held of a run, without waiting for anyone."""
        slot = self._slots.get(run_key)
        return slot.session if slot else None

    def clear(self) -> None:
        """Forgets everything, as a fresh process would."""
        with self._lock:
            self._slots.clear()
