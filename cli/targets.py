"""Where a command finds its ledger: a service, or a store that it opens itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turnledger.client import LedgerClient
from turnledger.domain.errors import FieldInvalid, shown
from turnledger.grpc.server import DEFAULT_LISTEN, start
from turnledger.ledger.stores import SQLITE_PREFIX

SERVER_VARIABLE = "TURNLEDGER_SERVER"
"""Where a service is named once for all commands; a store named on the command line goes before it."""
PRINCIPAL = "turnledger-cli"
"""Who the command says it is; on record with what it writes."""

ServerOption = Annotated[
    str,
    typer.Option(
        help="The service that has the runs: HOST:PORT or unix:PATH.",
        envvar=SERVER_VARIABLE,
        show_default=DEFAULT_LISTEN,
    ),
]
StoreOption = Annotated[
    str,
    typer.Option(help="Opens this store itself, in place of a service: sqlite:///FILE. A service may be using it too."),
]
TimeoutOption = Annotated[float, typer.Option(help="Seconds to wait for an answer.", min=0.1)]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id; `turnledger runs` lists them.")]


@dataclass(frozen=True)
class Target:
    """A ledger, as the options name it."""

    server: str = ""
    store: str = ""
    timeout: float = 30.0

    @property
    def options(self) -> str:
        """What names it on a command line."""
        return f" --store {self.store}" if self.store else f" --server {self.server}" if self.server else ""

    @contextmanager
    def connect(self, *, creates: bool = False) -> Iterator[LedgerClient]:
        """A client of the ledger. A store is served on a socket of its own for as long as the block takes.

        A store that is not there is made only where the command ``creates`` it. Raises :class:`FieldInvalid`.
        """
        if not self.store:
            with LedgerClient(self.server or DEFAULT_LISTEN, timeout=self.timeout, principal=PRINCIPAL) as client:
                yield client
            return
        self._check_store(creates=creates)
        with (
            tempfile.TemporaryDirectory(prefix="turnledger-") as folder,
            start(self.store, f"unix:{folder}/socket") as service,
            LedgerClient(service.address, timeout=self.timeout, principal=PRINCIPAL) as client,
        ):
            yield client

    def _check_store(self, *, creates: bool) -> None:
        if self.server and self.server != os.environ.get(SERVER_VARIABLE):
            raise FieldInvalid("store", "is given in place of --server, not beside it", shown(self.server))
        is_file = self.store.startswith(SQLITE_PREFIX)
        if is_file and not creates and not Path(self.store.removeprefix(SQLITE_PREFIX)).is_file():
            raise FieldInvalid("store", "must be a file that is there", shown(self.store))
