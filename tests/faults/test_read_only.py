"""A store that can't be written to when the service starts."""

from __future__ import annotations

import pytest

from support.command import turnledger
from support.read_only import read_only_folder
from turnledger.cli.exits import Exit


@pytest.mark.parametrize("with_store", [False, True])
def test_a_service_does_not_start_on_what_it_cannot_write(with_store: bool) -> None:
    """One line names the file, and the exit code says that there is no store."""
    with read_only_folder(with_store=with_store) as path:
        ended = turnledger("serve", "--store", f"sqlite:///{path}", "--listen", "127.0.0.1:0")
    assert ended.code == Exit.UNREACHABLE
    assert len(ended.err.splitlines()) == 1
    assert str(path) in ended.err
