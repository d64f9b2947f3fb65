from shop.catalog import Catalog
from shop.checkout import place_order
from shop.customers import Customer, walk_in
from shop.discounts import Tier
from shop.inventory import Inventory
from shop.invoices import WIDTH, render_invoice

CATALOG = Catalog()


def invoice(customer: Customer, *basket: tuple[str, int]) -> list[str]:
    stock = Inventory(dict(basket))
    return render_invoice(42, place_order(customer, basket, CATALOG, stock), CATALOG).splitlines()


def test_heading_names_number_and_customer() -> None:
    assert invoice(walk_in(), ("GIFT-BOX", 1))[0] == "Invoice 000042 for walk-in"


def test_one_row_per_product() -> None:
    lines = invoice(walk_in(), ("GIFT-BOX", 2), ("MUG-RED", 1))
    assert [line[: WIDTH - 10].strip() for line in lines[2:4]] == ["2 x Gift box", "1 x Red mug"]


def test_amounts_are_aligned() -> None:
    rows = [line for line in invoice(walk_in(), ("GIFT-BOX", 3)) if "." in line]
    assert {len(row) for row in rows} == {WIDTH}


def test_total_includes_shipping() -> None:
    assert invoice(walk_in(), ("GIFT-BOX", 4))[-1].split() == ["Total", "24.15"]


def test_gold_invoice_shows_points() -> None:
    lines = invoice(Customer("Grace", Tier.GOLD), ("MUG-BLUE", 2))
    assert lines[-1] == "GOLD customer: 76 points"


def test_silver_invoice_shows_points() -> None:
    assert invoice(Customer("Ada", Tier.SILVER), ("MUG-XL", 2))[-1] == "SILVER customer: 49 points"


def test_walk_in_gets_no_points() -> None:
    assert "points" not in "\n".join(invoice(walk_in(), ("SAUCER", 1)))
