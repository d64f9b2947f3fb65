import pytest
from shop.discounts import Tier, discount_percent, quantity_percent


@pytest.mark.parametrize(("quantity", "percent"), [(1, 0), (9, 0), (10, 5), (49, 5), (50, 12), (500, 12)])
def test_quantity_breaks(quantity: int, percent: int) -> None:
    assert quantity_percent(quantity) == percent


@pytest.mark.parametrize(("tier", "percent"), [(Tier.NONE, 0), (Tier.SILVER, 5), (Tier.GOLD, 10)])
def test_tier_alone(tier: Tier, percent: int) -> None:
    assert discount_percent(tier, 1) == percent


@pytest.mark.parametrize(
    ("tier", "quantity", "percent"), [(Tier.GOLD, 10, 10), (Tier.GOLD, 50, 12), (Tier.NONE, 10, 5)]
)
def test_the_better_discount_wins(tier: Tier, quantity: int, percent: int) -> None:
    assert discount_percent(tier, quantity) == percent
