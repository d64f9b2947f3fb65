import pytest
from shop.inventory import Inventory, OutOfStock


def test_everything_is_free_at_first() -> None:
    assert Inventory({"SPOON": 12}).available("SPOON") == 12


def test_what_is_not_stocked_is_not_available() -> None:
    assert Inventory({}).available("SPOON") == 0


@pytest.mark.parametrize("quantity", [1, 5, 12])
def test_reserved_pieces_are_not_available(quantity: int) -> None:
    stock = Inventory({"SPOON": 12})
    stock.reserve("SPOON", quantity)
    assert stock.available("SPOON") == 12 - quantity


def test_no_more_than_the_shelf_can_be_reserved() -> None:
    stock = Inventory({"SPOON": 12})
    with pytest.raises(OutOfStock, match="13 wanted, 12 free"):
        stock.reserve("SPOON", 13)
    assert stock.available("SPOON") == 12


def test_released_pieces_are_available_again() -> None:
    stock = Inventory({"SPOON": 12})
    stock.reserve("SPOON", 7)
    stock.release("SPOON", 4)
    assert stock.available("SPOON") == 9


def test_no_more_than_the_reserved_can_be_released() -> None:
    stock = Inventory({"SPOON": 12})
    stock.reserve("SPOON", 2)
    with pytest.raises(ValueError, match="3 to release, 2 reserved"):
        stock.release("SPOON", 3)
