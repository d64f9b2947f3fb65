"""One service for each module; every test opens runs of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from support.wire import Wire, standing, wired

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A service on a file."""
    with wired(tmp_path_factory.mktemp("store")) as connected:
        yield connected


@pytest.fixture
def run(wire: Wire) -> str:
    """A run in which every write has something to do."""
    return standing(wire, f"run-{next(_NUMBERS)}")
