import pytest
from shop.money import format_cents, parse_amount, percent_of


@pytest.mark.parametrize(("text", "cents"), [("0.00", 0), ("0.05", 5), ("19.00", 1900), (" 54.10 ", 5410)])
def test_amounts_are_read_as_cents(text: str, cents: int) -> None:
    assert parse_amount(text) == cents


@pytest.mark.parametrize("text", ["", "19", "19.0", "19.000", "-1.00", "x.00"])
def test_other_texts_are_no_amounts(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        parse_amount(text)


@pytest.mark.parametrize(("cents", "text"), [(0, "0.00"), (5, "0.05"), (1900, "19.00"), (-250, "-2.50")])
def test_cents_are_written_with_two_digits(cents: int, text: str) -> None:
    assert format_cents(cents) == text


@pytest.mark.parametrize(("cents", "percent", "share"), [(1900, 10, 190), (325, 10, 33), (324, 10, 32), (99, 0, 0)])
def test_half_a_cent_is_rounded_up(cents: int, percent: int, share: int) -> None:
    assert percent_of(cents, percent) == share
