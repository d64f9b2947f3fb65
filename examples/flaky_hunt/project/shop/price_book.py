"""Prices for lines of an order, remembered so that a busy day computes each of them once."""

import logging
from dataclasses import dataclass, replace

from shop.catalog import Product
from shop.discounts import Tier, discount_percent
from shop.money import percent_of

log = logging.getLogger("shop.price_book")


@dataclass(frozen=True)
class Quote:
    """The price of one line, and where it came from."""

    sku: str
    quantity: int
    total_cents: int
    source: str
    key: str


_quotes: dict[str, Quote] = {}


def quote(product: Product, quantity: int, tier: Tier) -> Quote:
    """The price of so many of a product for a customer of this tier. Raises ValueError for a quantity below one."""
    if quantity < 1:
        raise ValueError(f"quantity must be at least 1, not {quantity}")
    key = f"{product.sku}/{quantity}"
    known = _quotes.get(key)
    if known is not None:
        log.debug("%s: known, %d cents", key, known.total_cents)
        return replace(known, source="cache")
    list_cents = product.list_cents * quantity
    total = list_cents - percent_of(list_cents, discount_percent(tier, quantity))
    _quotes[key] = Quote(product.sku, quantity, total, "computed", key)
    log.debug("%s: computed, %d cents, %d quotes known", key, total, len(_quotes))
    return _quotes[key]


def forget_quotes() -> None:
    """Forget every price, as after a change of the catalog."""
    log.debug("forget %d quotes", len(_quotes))
    _quotes.clear()
