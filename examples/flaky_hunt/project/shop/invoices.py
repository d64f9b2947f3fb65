"""Invoices as plain text."""

import logging

from shop.catalog import Catalog
from shop.checkout import Order
from shop.customers import points_for
from shop.discounts import Tier
from shop.money import format_cents

log = logging.getLogger("shop.invoices")

WIDTH = 44


def render_invoice(number: int, order: Order, catalog: Catalog) -> str:
    """The invoice of an order: a line per product, shipping, the total and the points."""
    log.debug("invoice %d: %d lines", number, len(order.quotes))
    lines = [f"Invoice {number:06d} for {order.customer.name}", "-" * WIDTH]
    lines += [_row(f"{quote.quantity} x {catalog.find(quote.sku).name}", quote.total_cents) for quote in order.quotes]
    lines += [_row("Shipping", order.shipping_cents), "-" * WIDTH, _row("Total", order.total_cents)]
    if order.customer.tier is not Tier.NONE:
        points = points_for(order.customer, order.list_cents)
        lines.append(f"{order.customer.tier.value.upper()} customer: {points} points")
    return "\n".join(lines)


def _row(label: str, cents: int) -> str:
    return f"{label:<{WIDTH - 10}}{format_cents(cents):>10}"
