import pytest
from shop.catalog import Catalog, UnknownSku
from shop.checkout import Order, place_order
from shop.customers import Customer, walk_in
from shop.discounts import Tier
from shop.inventory import Inventory, OutOfStock
from shop.money import format_cents

CATALOG = Catalog()


def full_shelf() -> Inventory:
    return Inventory({"MUG-BLUE": 20, "MUG-RED": 20, "MUG-XL": 20, "TEAPOT": 5, "SAUCER": 40})


def buy(customer: Customer, *basket: tuple[str, int]) -> Order:
    return place_order(customer, basket, CATALOG, full_shelf())


def test_walk_in_pays_list_price() -> None:
    order = buy(walk_in(), ("MUG-BLUE", 2))
    (line,) = order.quotes
    paid, listed = format_cents(line.total_cents), format_cents(order.list_cents)
    assert paid == listed, f"walk-in pays {paid} for 2 x MUG-BLUE, list price {listed} ({line.source} {line.key!r})"


def test_silver_pays_less() -> None:
    assert buy(Customer("Ada", Tier.SILVER), ("MUG-RED", 2)).goods_cents == 3610


def test_many_pieces_cost_less_without_a_tier() -> None:
    assert buy(walk_in(), ("SAUCER", 12)).goods_cents == 7410


def test_lines_are_summed() -> None:
    order = buy(walk_in(), ("MUG-XL", 1), ("SAUCER", 3))
    assert order.goods_cents == 2450 + 1950
    assert order.total_cents == order.goods_cents + 495


def test_order_abroad_pays_for_its_weight() -> None:
    assert buy(walk_in("DE"), ("TEAPOT", 1)).shipping_cents == 895 + 2 * 120


def test_pieces_of_an_order_are_reserved() -> None:
    stock = full_shelf()
    place_order(walk_in(), [("MUG-XL", 4)], CATALOG, stock)
    assert stock.available("MUG-XL") == 16


def test_order_beyond_the_shelf_reserves_nothing() -> None:
    stock = full_shelf()
    with pytest.raises(OutOfStock):
        place_order(walk_in(), [("MUG-XL", 4), ("TEAPOT", 6)], CATALOG, stock)
    assert stock.available("MUG-XL") == 20


def test_unknown_product_reserves_nothing() -> None:
    stock = full_shelf()
    with pytest.raises(UnknownSku):
        place_order(walk_in(), [("MUG-XL", 4), ("LAMP", 1)], CATALOG, stock)
    assert stock.available("MUG-XL") == 20
