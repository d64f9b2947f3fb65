"""The in-memory store does what every store must."""

from __future__ import annotations

import pytest

from support.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    """Nothing outlives its ledger, so every application has a store of its own."""

    @pytest.fixture
    def address(self) -> str:
        """A new store."""
        return "memory:"
