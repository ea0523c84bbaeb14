"""Rules for what owned machines cost to run: energy, staff, upkeep, space. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import math
import re

from solver.features import finance, tco
from solver.validation.tco_rules.base import BUYING, div, missing, mul, sums
from solver.validation.tco_rules.sheet import RuleBook, Sheet, Value, numbers, over, total

BOOK = RuleBook()
rule = BOOK.rule

YEARLY = r"(?!cloud|own_opex|energy|revenue|saving).+_per_year(_per_\d+_\w+)?"


@rule("per_year_costs")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """What a year costs beside energy: staff, upkeep, space ...; shares per so many servers count started groups."""
    parts: list[Value] = []
    for name, value in sheet.given.items():
        if (
            not re.fullmatch(YEARLY, name)
            or not numbers(value)
            or re.search(r"hours|days|share|percent|tb_|gb_|kwh|tokens|requests", name)
        ):
            continue
        group = re.fullmatch(r".+_per_year_per_(\d+)_\w+", name)
        if group:
            value = mul(value, math.ceil(sheet.number("systems", "nodes") / int(group[1])))
        elif name.endswith(("_per_gpu_per_year", "_per_node_per_year", "_per_system_per_year")):
            value = mul(value, sheet.number({"g": "gpus", "n": "nodes", "s": "systems"}[name.split("_per_")[1][0]]))
        elif re.search(r"staff|admin|engineer|fte|salary", name) and sheet.has("fte", "staff_fte"):
            value = mul(value, sheet.number("fte", "staff_fte"))
        parts.append(value)
    person = next(
        (sheet.given[k] for k in ("price_per_fte", "fte_price", "staff_per_fte", "salary") if sheet.has(k)), None
    )
    if person is not None and sheet.has("fte", "staff_fte"):
        parts.append(mul(person, sheet.number("fte", "staff_fte")))
    monthly = sums(
        sheet,
        r"(?!cloud|own_opex|saving|goodput|debug).+(_per_month|_month|_monthly)",
        but=r".*(hours|kw_month|per_kw|tb_|gb_|kwh|tokens|requests).*",
    )
    parts += [mul(m, 12) for m in monthly]
    if sheet.has("per_kw_month", "price_per_kw_month", "colocation_per_kw_month"):
        rate = sheet.get("per_kw_month", "price_per_kw_month", "colocation_per_kw_month")
        parts.append(mul(rate, sheet.number("kw", "it_kw"), 12))
    for share in (
        "maintenance_share",
        "maintenance_percent",
        "maintenance_share_per_year",
        "maintenance_percent_per_year",
    ):
        if sheet.has(share):
            factor = 0.01 if "percent" in share else 1.0
            parts.append(mul(sheet.need(share), factor, sheet.need("capex")))
    return total(parts) if parts else missing("yearly costs")


@rule("it_w")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    for name in ("w", "it_w", "it_kw", "node_kw"):
        value = sheet.get(name) if sheet.has(name, name[:-2] + "kw" if name.endswith("_w") else "kw") else None
        if value is not None:
            factor = 1000.0 if name.endswith("kw") else 1.0
            count = sheet.get("nodes", "systems", default=1) if name == "node_kw" else 1
            return mul(value, factor, count)
    if sheet.has("gpu_w", "gpu_kw"):
        cards = mul(sheet.get("gpus", default=1), sheet.need("gpu_w"))
        return over(lambda c, h: c + h, cards, sheet.get("host_w", default=0.0))
    return missing("watts")


@rule("energy_kwh")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return over(tco.energy_kwh, sheet.need("it_w"), hours, sheet.get("pue", default=1.0))


@rule("(?:energy_)?kwh_(?:per_)?(?P<unit>h|day|month|year)|(?P<before>daily|monthly|annual)_(?:energy_)?kwh")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    unit = match["unit"] or {"daily": "day", "monthly": "month", "annual": "year"}[match["before"]]
    hours = {"h": 1.0, "day": 24.0}.get(unit) or sheet.need(f"hours_per_{unit}")
    used = mul(hours, sheet.get("utilisation", default=1) if unit != "h" else 1)
    return over(tco.energy_kwh, sheet.need("it_w"), used, sheet.get("pue", default=1.0))


@rule("(own_)?(energy|power|electricity)(_cost)?_per_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    drawn = over(tco.energy_kwh, sheet.need("it_w"), 1.0, sheet.get("pue", default=1.0))
    return mul(drawn, sheet.need("price_per_kwh"))


@rule(
    "energy|energy_cost|electricity_cost|power_cost|electricity_total|price",
    "energy",
    "tco",
    "power_budget",
    "train_cost",
    "break_even",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(sheet.need("energy_kwh"), sheet.need("price_per_kwh"))


@rule(
    "(?:own_|energy_|electricity_|power_)?(?:cost_)?(?:price_)?(?:per_)?(?P<unit>h|day|month|monthly|year|annual)(?:_cost)?",
    "energy",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = {"h": 1.0, "day": 24.0, "year": 8760.0, "annual": 8760.0}.get(match["unit"]) or sheet.need(
        "hours_per_month"
    )
    if match["unit"] == "day" and sheet.has("hours_per_day"):
        hours = sheet.need("hours_per_day")
    if match["unit"] in ("year", "annual"):
        hours = sheet.need("hours_per_year") if not sheet.has("cloud_per_h") else 8760.0
    used = 1 if match["unit"] == "h" else sheet.get("utilisation", default=1)
    return mul(sheet.need("energy_per_h"), hours, used)


@rule("price_per_h", "energy")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return sheet.need("energy_per_h")


@rule("cloud_(?P<unit>day|month|year)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = sheet.get("hours_per_day", default=24.0)
    days = {"day": 1.0, "month": finance.DAYS_PER_YEAR / 12, "year": finance.DAYS_PER_YEAR}[match["unit"]]
    return mul(sheet.need("cloud_per_h"), hours, days)


@rule("own_opex_per_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("own_opex_per_gpu_h", "opex_per_gpu_h"):
        return mul(sheet.get("own_opex_per_gpu_h", "opex_per_gpu_h"), sheet.get("gpus", default=1))
    if sheet.has("own_opex_per_month"):
        return div(sheet.need("own_opex_per_month"), sheet.need("hours_per_month"))
    if sheet.has("own_opex_per_year"):
        return div(sheet.need("own_opex_per_year"), finance.HOURS_PER_YEAR)
    per_h = sums(sheet, r"(own_|power_|energy_|cooling_|staff_|maintenance_|space_|colocation_|opex_)\w*per_h")
    # A tariff without watts is a gap, not free electricity.
    energy = sheet.need("energy_per_h") if sheet.has("price_per_kwh") else None
    yearly = sheet.get("per_year_costs")
    parts = [*per_h, *([] if energy is None else [energy])]
    if yearly is not None:
        parts.append(div(yearly, finance.HOURS_PER_YEAR))
    return total(parts)


@rule("own_opex_per_year", *BUYING)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("own_opex_per_month"):
        return mul(sheet.need("own_opex_per_month"), 12)
    if sheet.has("own_opex_per_h"):
        hours = mul(sheet.get("own_opex_per_h"), sheet.need("hours_per_year"))
        rest = sheet.get("per_year_costs", default=0.0)
        return over(lambda a, b: a + b, hours, rest if not isinstance(rest, list) else rest[0])
    parts: list[Value] = [v for v in [sheet.get("per_year_costs")] if v is not None]
    if sheet.has("price_per_kwh"):
        parts.append(mul(sheet.need("energy_per_h"), sheet.need("hours_per_year"), sheet.get("utilisation", default=1)))
    return total(parts) if parts else missing("own running cost")


@rule("staff_share|staff_percent|staff_share_of_total")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    staff = sums(sheet, r"(staff|sysadmin|admin|engineer)\w*_per_year")
    whole = sheet.number("total", "own_total")
    share = total(staff) * sheet.number("horizon_years") / whole
    return share * (100 if "percent" in match[0] else 1)


@rule("(?P<unit>kg|t|g)_co2e?(_per_year)?|co2e?_(?P<after>kg|t|g)(_per_year)?|carbon_(?P<carbon>kg|t|g)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    grams = sheet.get("g_per_kwh", "carbon_g_per_kwh", "g_co2_per_kwh", "gco2_per_kwh")
    unit = {"g": 1.0, "kg": 1e3, "t": 1e6}[match["unit"] or match["after"] or match["carbon"]]
    return over(lambda k, g: k * g / unit, sheet.need("energy_kwh"), grams)
