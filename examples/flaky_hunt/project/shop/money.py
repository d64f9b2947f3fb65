"""Amounts of money: whole cents, so that sums are exact."""


def parse_amount(text: str) -> int:
    """Read "19.00" as 1900 cents. Raises ValueError for anything but digits, a point and two digits."""
    whole, point, cents = text.strip().partition(".")
    if not (whole.isdigit() and point and len(cents) == 2 and cents.isdigit()):
        raise ValueError(f"not an amount: {text!r}")
    return int(whole) * 100 + int(cents)


def format_cents(cents: int) -> str:
    """Write 1900 cents as "19.00"."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def percent_of(cents: int, percent: int) -> int:
    """The given percent of an amount, half a cent rounded up."""
    return (cents * percent + 50) // 100
