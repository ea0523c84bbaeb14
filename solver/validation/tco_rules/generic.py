"""Last resorts, for cases of every kind. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import math
import re

from solver.validation.tco_rules.base import div, missing, mul
from solver.validation.tco_rules.sheet import RuleBook, Sheet, Value, numbers, over

BOOK = RuleBook()
rule = BOOK.rule


@rule("annual")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(sheet.given["monthly"] if sheet.has("monthly") else missing("annual"), 12)


@rule("monthly")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("cloud_per_h", "price_per_gpu_h", "price_per_h"):
        return mul(sheet.need("cloud_per_h"), sheet.need("hours_per_month"), sheet.get("utilisation", default=1))
    return div(sheet.need("annual"), 12)


@rule("total")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("annual", "monthly"):
        return mul(sheet.need("annual"), sheet.need("horizon_years"))
    if sheet.has("months", "horizon_years"):
        return mul(sheet.need("monthly"), sheet.need("months"))
    return missing("total")


@rule(r"(?P<what>[a-z0-9_]+?)_per_(?P<each>gpu|node|rack|system|server|pod|port|kw|tb|user|person)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = match["each"] if match["each"] in ("kw", "tb") else f"{match['each']}s"
    each = {"servers": "nodes", "persons": "people"}.get(each, each)
    if not sheet.has(each, match["each"]) and each not in sheet.asked and not sheet.has("gpus", "nodes"):
        return missing(each)
    what = {"price": ("price", "total", "capex", "budget")}.get(
        match["what"], (match["what"], f"total_{match['what']}")
    )
    amount = sheet.get(*what)
    return div(amount, sheet.need(each)) if amount is not None else missing(match["what"])


@rule(r"(?:total_|aggregate_)?(?P<what>[a-z0-9_]+?)(?:_total)?")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """So much for each, times how many there are."""
    for name, each in sheet.given.items():
        found = re.fullmatch(rf"{re.escape(match['what'])}_per_([a-z_]+)", name)
        count = f"{found[1]}s" if found else ""
        if found and numbers(each) and sheet.has(count):
            return mul(each, sheet.given[count])
    return missing(match["what"])


@rule(r"(?P<what>[a-z0-9_]+)_(?P<unit>share|percent)(?:_of_(?P<whole>[a-z0-9_]+))?")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Part of a whole: of the named one, else of the total, watts of the rack's."""
    if match["whole"]:
        share = div(sheet.need(match["what"]), sheet.need(match["whole"]))
    elif whole := next((k for k in ("rack_kw", "node_kw", "it_kw", "facility_kw") if sheet.has(k)), None):
        if match["what"] == "gpu" and sheet.has("gpu_w"):
            part = mul(sheet.need("gpus"), sheet.given["gpu_w"], 1e-3)  # all cards, not one
        else:
            part = sheet.need(f"{match['what']}_kw")
        share = div(part, sheet.need(whole))
    else:
        share = div(sheet.need(match["what"]), sheet.need("total"))
    return mul(share, 100 if match["unit"] == "percent" else 1)


@rule(r"(?P<what>[a-z_]+)s(?:_needed)?")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """How many groups for what one of them holds: pods of so many racks."""
    for name, each in sheet.given.items():
        found = re.fullmatch(rf"([a-z_]+)_per_{re.escape(match['what'])}", name)
        if found and numbers(each) and not sheet.has(f"price_per_{match['what']}"):
            held = sheet.get(found[1])
            if held is not None:
                return over(lambda a, b: math.ceil(a / b - 1e-9), held, each)
    return missing(match[0])
