import pytest
from shop.catalog import Catalog
from shop.discounts import Tier
from shop.price_book import forget_quotes, quote

CATALOG = Catalog()


def test_a_price_is_computed_once() -> None:
    forget_quotes()
    first = quote(CATALOG.find("TEAPOT"), 3, Tier.NONE)
    second = quote(CATALOG.find("TEAPOT"), 3, Tier.NONE)
    assert (first.source, second.source) == ("computed", "cache")
    assert first.total_cents == second.total_cents == 16200


def test_forgotten_prices_are_computed_again() -> None:
    quote(CATALOG.find("TEAPOT"), 4, Tier.NONE)
    forget_quotes()
    assert quote(CATALOG.find("TEAPOT"), 4, Tier.NONE).source == "computed"


@pytest.mark.parametrize(
    ("sku", "quantity", "tier", "cents"),
    [
        ("SPOON", 6, Tier.NONE, 1920),
        ("SPOON", 7, Tier.SILVER, 2128),
        ("SPOON", 8, Tier.GOLD, 2304),
        ("SPOON", 60, Tier.GOLD, 16896),
    ],
)
def test_discounts_are_taken_off(sku: str, quantity: int, tier: Tier, cents: int) -> None:
    assert quote(CATALOG.find(sku), quantity, tier).total_cents == cents


@pytest.mark.parametrize("quantity", [0, -1])
def test_a_quantity_is_at_least_one(quantity: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        quote(CATALOG.find("SPOON"), quantity, Tier.NONE)
