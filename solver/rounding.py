"""Money, watts and grams as whole numbers, rounded against the buyer."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

BOUGHT_PARTS = (
    "c_server",
    "c_spares",
    "c_tax",
    "c_financing",
    "c_replacement",
    "c_once",
    "c_maintenance",
    "c_space",
    "c_energy",
    "c_rental",
    "c_goodput",
    "c_support",
    "c_rent_tax",
    "c_monthly",
    "c_service_tax",
)
"""Components of the bill of something held; the residual value is a credit and comes beside them."""


@lru_cache(maxsize=1 << 16)  # thousands of builds have the same maintenance, space or month
def cents(amount: float) -> int:
    """Money up to the next cent; exact decimals (to 1e-4 of a cent) stay."""
    return math.ceil(round(amount * 100, 4))


def cents_down(amount: float) -> int:
    """Money down to the cent below (limits, credits)."""
    return math.floor(round(amount * 100, 4))


def watts(power_w: float) -> int:
    """Watts up to the next whole one."""
    return math.ceil(round(power_w, 6))


def grams(emission_g: float) -> int:
    """Grams up to the next whole one."""
    return math.ceil(round(emission_g, 4))


def component_cents(r: dict[str, Any]) -> dict[str, int]:
    """Bill components of one committed node over the horizon [cents]; the residual is a credit, rounded down."""
    parts = {name.removeprefix("c_"): cents(float(r[name])) for name in BOUGHT_PARTS if r.get(name)}
    parts["residual"] = -cents_down(-float(r["c_residual"]))
    parts["sale"] = -cents_down(-float(r.get("c_sale", 0.0)))
    return {name: value for name, value in parts.items() if value}
