"""What is in stock and what is reserved for orders."""

import logging
from collections.abc import Mapping

log = logging.getLogger("shop.inventory")


class OutOfStock(RuntimeError):
    """Fewer pieces are free than were asked for."""


class Inventory:
    """Pieces on the shelf per stock keeping unit, less the reserved ones."""

    def __init__(self, levels: Mapping[str, int]) -> None:
        self._levels = dict(levels)
        self._reserved: dict[str, int] = {}

    def available(self, sku: str) -> int:
        """Pieces that can still be reserved; 0 for what the shop does not stock."""
        return self._levels.get(sku, 0) - self._reserved.get(sku, 0)

    def reserve(self, sku: str, quantity: int) -> None:
        """Set pieces aside. Raises OutOfStock, and then reserves none."""
        free = self.available(sku)
        log.debug("reserve %d of %s, %d free", quantity, sku, free)
        if quantity > free:
            raise OutOfStock(f"{sku}: {quantity} wanted, {free} free")
        self._reserved[sku] = self._reserved.get(sku, 0) + quantity

    def release(self, sku: str, quantity: int) -> None:
        """Give reserved pieces back. Raises ValueError for more than are reserved."""
        held = self._reserved.get(sku, 0)
        log.debug("release %d of %s, %d reserved", quantity, sku, held)
        if quantity > held:
            raise ValueError(f"{sku}: {quantity} to release, {held} reserved")
        self._reserved[sku] = held - quantity
