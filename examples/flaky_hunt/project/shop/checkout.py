"""From a basket to an order."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from shop import price_book
from shop.catalog import Catalog
from shop.customers import Customer
from shop.inventory import Inventory, OutOfStock
from shop.price_book import Quote
from shop.shipping import shipping_cents

log = logging.getLogger("shop.checkout")


@dataclass(frozen=True)
class Order:
    """What somebody bought, priced and reserved."""

    customer: Customer
    quotes: tuple[Quote, ...]
    list_cents: int
    shipping_cents: int

    @property
    def goods_cents(self) -> int:
        """The lines, without shipping."""
        return sum(quote.total_cents for quote in self.quotes)

    @property
    def total_cents(self) -> int:
        """What the customer pays."""
        return self.goods_cents + self.shipping_cents


def place_order(customer: Customer, basket: Sequence[tuple[str, int]], catalog: Catalog, stock: Inventory) -> Order:
    """Reserve and price a basket of (sku, quantity). Raises UnknownSku or OutOfStock, and then reserves nothing."""
    log.info("order of %s (%s): %d lines", customer.name, customer.tier.value, len(basket))
    lines = [(catalog.find(sku), quantity) for sku, quantity in basket]
    _reserve_all(basket, stock)
    quotes = tuple(price_book.quote(product, quantity, customer.tier) for product, quantity in lines)
    weight = sum(product.weight_grams * quantity for product, quantity in lines)
    goods = sum(quote.total_cents for quote in quotes)
    listed = sum(product.list_cents * quantity for product, quantity in lines)
    return Order(customer, quotes, listed, shipping_cents(customer.country, weight, goods))


def _reserve_all(basket: Sequence[tuple[str, int]], stock: Inventory) -> None:
    done: list[tuple[str, int]] = []
    try:
        for sku, quantity in basket:
            stock.reserve(sku, quantity)
            done.append((sku, quantity))
    except OutOfStock:
        for sku, quantity in done:
            stock.release(sku, quantity)
        raise
