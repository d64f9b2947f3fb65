"""Who buys: customers, their tier and their points."""

from dataclasses import dataclass

from shop.discounts import Tier


@dataclass(frozen=True)
class Customer:
    """Somebody with an account, or a walk-in without one."""

    name: str
    tier: Tier = Tier.NONE
    country: str = "NL"


def walk_in(country: str = "NL") -> Customer:
    """Somebody without an account: no tier, so the list price."""
    return Customer("walk-in", Tier.NONE, country)


def points_for(customer: Customer, list_cents: int) -> int:
    """One point per full euro of the list price, two for gold, none without an account."""
    per_euro = {Tier.NONE: 0, Tier.SILVER: 1, Tier.GOLD: 2}[customer.tier]
    return list_cents // 100 * per_euro
