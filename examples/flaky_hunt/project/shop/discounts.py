"""Which discount a line of an order gets."""

import logging
from enum import Enum

log = logging.getLogger("shop.discounts")


class Tier(Enum):
    """How well the shop knows a customer."""

    NONE = "none"
    SILVER = "silver"
    GOLD = "gold"


TIER_PERCENT = {Tier.NONE: 0, Tier.SILVER: 5, Tier.GOLD: 10}
QUANTITY_PERCENT = ((50, 12), (10, 5))


def quantity_percent(quantity: int) -> int:
    """The discount for buying many of one thing."""
    return next((percent for least, percent in QUANTITY_PERCENT if quantity >= least), 0)


def discount_percent(tier: Tier, quantity: int) -> int:
    """The better of the two discounts; they do not add up."""
    percent = max(TIER_PERCENT[tier], quantity_percent(quantity))
    log.debug("tier %s, quantity %d: %d percent off", tier.value, quantity, percent)
    return percent
