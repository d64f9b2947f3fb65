"""What sending a parcel costs."""

import logging

log = logging.getLogger("shop.shipping")

FREE_FROM_CENTS = 7500
ZONES = {"NL": "home", "BE": "near", "DE": "near", "FR": "near"}
CENTS_PER_PARCEL = {"home": 495, "near": 895, "far": 1950}
CENTS_PER_KILO = {"home": 0, "near": 120, "far": 480}


def zone_of(country: str) -> str:
    """The zone of a country; what is not listed is far."""
    return ZONES.get(country, "far")


def shipping_cents(country: str, weight_grams: int, goods_cents: int) -> int:
    """The cost of one parcel; free at home from a goods value of 75.00."""
    zone = zone_of(country)
    if zone == "home" and goods_cents >= FREE_FROM_CENTS:
        log.debug("%s: free, goods are worth %d cents", country, goods_cents)
        return 0
    kilos = -(-weight_grams // 1000)
    cost = CENTS_PER_PARCEL[zone] + CENTS_PER_KILO[zone] * kilos
    log.debug("%s: zone %s, %d kilos begun, %d cents", country, zone, kilos, cost)
    return cost
