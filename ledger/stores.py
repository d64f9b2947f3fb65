"""Opening a ledger by the address of its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turnledger.domain.errors import FieldInvalid, shown
from turnledger.ledger.application import Ledger

SQLITE_PREFIX = "sqlite:///"
_MAPPER = {
    "MAPPER_TOPIC": "turnledger.ledger.encoding:EventMapper",
    "TRANSCODER_TOPIC": "turnledger.ledger.encoding:EventTranscoder",
    "ORIGINATOR_ID_TYPE": "text",
}


def open_ledger(store: str, **options: Any) -> Ledger:
    """The ledger in a store: ``sqlite:///FILE`` (made where it is not there; its folder must be) or
    ``memory:``. ``options`` are those of :class:`Ledger`.

    Raises :class:`FieldInvalid` for what is no such address, and the event-sourcing library's
    OperationalError where the store can't be opened.
    """
    if store == "memory:":
        return Ledger({**_MAPPER, "PERSISTENCE_MODULE": "turnledger.ledger.memory"}, **options)
    path = store.removeprefix(SQLITE_PREFIX)
    if not store.startswith(SQLITE_PREFIX) or not path:
        raise FieldInvalid("store", "must be sqlite:///FILE or memory:", shown(store))
    if not Path(path).absolute().parent.is_dir():
        raise FieldInvalid("store", "its folder must exist", shown(store))
    return Ledger({**_MAPPER, "PERSISTENCE_MODULE": "turnledger.ledger.sqlite", "SQLITE_DBNAME": path}, **options)
