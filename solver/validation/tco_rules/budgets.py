"""Rules for what fits one budget of money, power or space. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import re

from solver.features import compare, racks
from solver.validation.tco_rules.base import missing
from solver.validation.tco_rules.sheet import MissingQuantityError, RuleBook, Sheet, Value, over

BOOK = RuleBook()
rule = BOOK.rule


def _split(sheet: Sheet) -> tuple[str, float, float, dict[str, float], str]:
    """First kind of unit, its own cost, how many the budget pays for, the other kinds' costs, and what is scarce."""
    most = next((k for k in sheet.given if k.endswith("_max")), None)
    if most is None:
        raise MissingQuantityError("how many of one kind the budget pays for")
    first = most.removesuffix("_max")
    for scarce in ("cost", "power", "price", "kw", "w", "per_h"):
        if sheet.has(f"{first}_{scarce}"):
            rest = {
                k.removesuffix(f"_{scarce}"): float(v)
                for k, v in sheet.given.items()
                if k.endswith(f"_{scarce}") and k != f"{first}_{scarce}"
            }
            return first, sheet.number(f"{first}_{scarce}"), sheet.number(most), rest, scarce
    raise MissingQuantityError(f"what one {first} takes")


@rule(r"\w+", "iso_budget")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Most units of a second kind beside those kept of the first, within the budget of so many of the first."""
    first, own, most, rest, _ = _split(sheet)
    if match[0].endswith(("_max", "_cost", "_power")):
        return missing(match[0])
    other = [k for k in rest if k in match[0] or all(word in match[0] for word in k.split("_"))]
    if len(other) != 1:
        return missing(match[0])
    kept = sheet.given.get(first)
    if kept is None:
        kept = next((v for k, v in sheet.given.items() if k.endswith(f"_{first}") and isinstance(v, list)), None)
    if kept is None:
        return missing(f"how many {first} are kept")
    budget = float(compare.exact(most) * compare.exact(own))
    return over(lambda n: compare.count_within(budget, rest[other[0]], n, own), kept)


@rule(
    "(power|cost|money)_(units|used|total)|total_(power|cost)|feasible|used",
    "iso_budget",
    "power_budget",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    mixes, units = sheet.given.get("mixes"), sheet.given.get("units") or sheet.given.get("unit")
    if not isinstance(mixes, list) or not isinstance(units, dict):
        return missing("mixes and units")
    used = [compare.mix_use(mix, units) for mix in mixes]
    if match[0] != "feasible":
        return used
    limit = sheet.get("budget", "limit", "power_limit", "budget_units", "max_units")
    if limit is None:
        return missing("budget")
    return [int(u <= limit * (1 + 1e-12)) for u in used]


@rule(
    "(max_)?(?P<what>gpus|nodes|cards|servers|systems)(_fit|_max|_within)?|count",
    "iso_budget",
    "power_whatif",
    "power_budget",
    "rack",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    cap = sheet.get("limit_kw", "power_limit_kw", "budget_kw", "facility_kw", "available_kw", "cap_kw")
    if cap is None:
        return missing("power limit")
    it = over(lambda c, p: c / p, cap, sheet.get("pue", default=1.0))
    each = (
        sheet.need("gpu_kw")
        if match["what"] in ("gpus", "cards") and sheet.has("gpu_w", "gpu_kw")
        else sheet.need("node_kw")
    )
    return over(racks.units_within, it, each)
