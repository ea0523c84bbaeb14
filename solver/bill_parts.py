"""What the components of a bill are called, and how they are paid: one line each, for machines and for gear alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OVER_HORIZON = "over the horizon"
WITH_PURCHASE = "with purchase"


@dataclass(frozen=True)
class PartLine:
    """Kind of a component's line, and what stands before the name of the thing; `billing` may name columns of its row."""

    kind: str
    prefix: str
    billing: str = OVER_HORIZON


PART_LINES = {
    "spares": PartLine("spares", "spare parts: ", WITH_PURCHASE),
    "tax": PartLine("tax", "tax on purchase: ", WITH_PURCHASE),
    "financing": PartLine("financing", "interest: ", "over {instalment_months}mo"),
    "replacement": PartLine("replacement", "bought again, worn out: ", "every {every_months:g}mo"),
    "once": PartLine("setup", "set-up: ", "once"),
    "maintenance": PartLine("maintenance", "maintenance: "),
    "space": PartLine("space", "space: "),
    "energy": PartLine("energy", "electricity, idle draw: "),
    "monthly": PartLine("staff", "staff: "),
    "goodput": PartLine("goodput", "time lost: ", "{label}"),
    "support": PartLine("support", "support: ", "{label}"),
    "rent_tax": PartLine("tax", "tax: ", "{label}"),
    "service_tax": PartLine("tax", "tax: "),
    "residual": PartLine("residual", "residual value: "),
}
SURCHARGES = {"goodput": "goodput", "support": "support", "tax": "rent_tax"}
"""Surcharges of a provider (`Tco.surcharges`) and their components of the bill."""


def billing_of(part: str, row: dict[str, Any], label: str) -> str:
    """How a component is paid, in words. `label` is how the machine itself is billed."""
    return PART_LINES[part].billing.format(
        label=label, **{k: row.get(k) for k in ("instalment_months", "every_months")}
    )


def without_surcharges(whole: int, surcharges: dict[str, float]) -> dict[str, int]:
    """Split what is paid for something rented into its rent and the surcharges on it [cents].

    Surcharges are rounded down: the rest is never less than price times hours.
    """
    all_in = 1.0 + sum(surcharges.values())
    parts = {SURCHARGES[name]: int(whole * share / all_in) for name, share in surcharges.items() if share}
    return {"rental": whole - sum(parts.values()), **{name: amount for name, amount in parts.items() if amount}}
