import pytest
from shop.shipping import shipping_cents, zone_of


@pytest.mark.parametrize(("country", "zone"), [("NL", "home"), ("BE", "near"), ("DE", "near"), ("JP", "far")])
def test_zones(country: str, zone: str) -> None:
    assert zone_of(country) == zone


@pytest.mark.parametrize(
    ("country", "grams", "cents"),
    [("NL", 340, 495), ("NL", 9000, 495), ("BE", 1000, 1015), ("BE", 1001, 1135), ("JP", 2500, 3390)],
)
def test_cost_by_zone_and_kilos_begun(country: str, grams: int, cents: int) -> None:
    assert shipping_cents(country, grams, 5000) == cents


@pytest.mark.parametrize(("goods", "cents"), [(7499, 495), (7500, 0), (20000, 0)])
def test_free_at_home_from_a_goods_value(goods: int, cents: int) -> None:
    assert shipping_cents("NL", 1000, goods) == cents


def test_never_free_abroad() -> None:
    assert shipping_cents("BE", 1000, 20000) == 1015
