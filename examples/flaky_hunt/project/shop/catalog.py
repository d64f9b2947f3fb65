"""What the shop sells and at which list price."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

log = logging.getLogger("shop.catalog")


class UnknownSku(LookupError):
    """No product has this stock keeping unit."""


@dataclass(frozen=True)
class Product:
    """One thing on the shelf."""

    sku: str
    name: str
    list_cents: int
    weight_grams: int


PRODUCTS = (
    Product("MUG-BLUE", "Blue mug", 1900, 340),
    Product("MUG-RED", "Red mug", 1900, 340),
    Product("MUG-XL", "Giant mug", 2450, 610),
    Product("TEAPOT", "Teapot with strainer", 5400, 1250),
    Product("SAUCER", "Saucer", 650, 180),
    Product("SPOON", "Tea spoon", 320, 40),
    Product("GIFT-BOX", "Gift box", 480, 120),
)


class Catalog:
    """Products by their stock keeping unit."""

    def __init__(self, products: Iterable[Product] = PRODUCTS) -> None:
        self._by_sku = {product.sku: product for product in products}

    def find(self, sku: str) -> Product:
        """The product of a stock keeping unit. Raises UnknownSku."""
        log.debug("look up %s among %d products", sku, len(self._by_sku))
        try:
            return self._by_sku[sku]
        except KeyError:
            raise UnknownSku(sku) from None

    def matching(self, word: str) -> list[Product]:
        """Products with the word in their name, whatever its case, in the order of the catalog."""
        return [product for product in self._by_sku.values() if word.casefold() in product.name.casefold()]
