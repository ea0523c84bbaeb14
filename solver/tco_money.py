"""Rules for the money of a buying case: running costs, rent, break-even, terms, financing. See `solver.tco_terms`.

Each rule names what it derives and reads what it needs; the arithmetic stands in `solver.features`.
"""

from __future__ import annotations

import math
import re
from typing import Any

from solver.features import compare, finance, tco
from solver.tco_terms import MissingQuantityError, RuleBook, Sheet, Value, numbers, over, total

MONEY = RuleBook()
rule = MONEY.rule
BUYING = (
    "break_even",
    "utilisation",
    "tco",
    "cluster_tco",
    "cloud_cost",
    "finance",
    "energy",
    "colocation",
    "buy_vs_rent",
)


def _mul(*values: Value) -> Value:
    return over(lambda *v: math.prod(v), *values)


def _sub(a: Value, b: Value) -> Value:
    return over(lambda x, y: x - y, a, b)


def _div(a: Value, b: Value) -> Value:
    def one(x: float, y: float) -> float:
        if y == 0:
            raise MissingQuantityError("a divisor other than zero")
        return x / y

    return over(one, a, b)


def _sums(sheet: Sheet, pattern: str, *, but: str = r"(?!)") -> list[Value]:
    """Given figures whose names match, in no other rule's hands."""
    return [v for k, v in sheet.given.items() if re.fullmatch(pattern, k) and not re.fullmatch(but, k) and numbers(v)]


# --- time --------------------------------------------------------------------------------------------------------------


@rule("hours_per_month")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return finance.HOURS_PER_YEAR / 12


@rule("hours_per_year")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("hours_per_day"):
        return _mul(sheet.need("hours_per_day"), sheet.get("days_per_year", default=finance.DAYS_PER_YEAR))
    if sheet.has("hours_per_week"):
        return _mul(sheet.need("hours_per_week"), 52)
    if sheet.has("hours_per_month"):
        return _mul(sheet.need("hours_per_month"), 12)
    return finance.HOURS_PER_YEAR


@rule("horizon_years")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _div(sheet.need("months"), 12)


@rule("months")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(sheet.need("horizon_years"), 12)


@rule("hours")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("days"):
        return _mul(sheet.need("days"), sheet.get("hours_per_day", default=24))
    if sheet.has("months") and not sheet.has("horizon_years"):
        return _mul(sheet.need("months"), sheet.need("hours_per_month"))
    if sheet.has("horizon_years", "months"):
        return _mul(sheet.need("horizon_years"), sheet.need("hours_per_year"))
    return sheet.need("hours_per_year")


# --- prices ------------------------------------------------------------------------------------------------------------


@rule("capex")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    for each, count in (("price_per_gpu", "gpus"), ("node_price", "nodes"), ("price_per_system", "systems")):
        if sheet.has(each):
            rest = _sums(
                sheet, r"(host|network|fabric|storage|chassis|spares|installation|facility)(_capex|_price|_total)?"
            )
            return total([_mul(sheet.need(each), sheet.get(count, default=1)), *rest])
    parts = _sums(sheet, r"(.+_capex|capex_.+)", but=r".*(_per_|share|percent).*")
    if parts:
        return total(parts)
    if sheet.has("upfront"):
        return sheet.need("upfront")
    if sheet.has("price"):
        return sheet.need("price")
    raise MissingQuantityError("capex")


@rule("price_per_gpu", "price_quote", "tco", "finance", "break_even")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    whole = sheet.get("capex", "price", "total")
    if whole is None:
        raise MissingQuantityError("price")
    return _div(whole, sheet.need("gpus"))


@rule("cloud_per_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("price_per_gpu_h"):
        return _mul(sheet.need("price_per_gpu_h"), sheet.get("gpus", default=1))
    if sheet.has("on_demand"):
        return sheet.need("on_demand")
    if sheet.has("cloud_per_month", "cloud_month"):
        return _div(sheet.get("cloud_per_month", "cloud_month"), sheet.need("hours_per_month"))
    if sheet.has("cloud_per_year", "cloud_annual"):
        return _div(sheet.get("cloud_per_year", "cloud_annual"), finance.HOURS_PER_YEAR)
    if sheet.has("cloud_total"):
        return _div(sheet.need("cloud_total"), sheet.need("hours"))
    return sheet.need("price_per_h") if sheet.has("price_per_h") else _missing("cloud_per_h")


@rule("price_per_gpu_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("cloud_total", "cloud_per_h", "price_per_h", "cloud_per_month"):
        return _div(sheet.need("cloud_per_h"), sheet.need("gpus"))
    # A total per GPU-hour: what a machine costs for each hour it works.
    hours = _mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return _div(_div(sheet.need("total"), sheet.get("gpus", default=1)), hours)


@rule("own(_cost)?_per_gpu_h|own_total_per_gpu_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = _mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return _div(_div(sheet.need("own_total"), sheet.get("gpus", default=1)), hours)


def _missing(name: str) -> Value:
    raise MissingQuantityError(name)


# --- running costs -----------------------------------------------------------------------------------------------------

YEARLY = r"(?!cloud|own_opex|energy|revenue|saving).+_per_year(_per_\d+_\w+)?"


@rule("per_year_costs")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """What a year costs beside energy: staff, upkeep, space ...; shares per so many servers count started groups."""
    parts: list[Value] = []
    for name, value in sheet.given.items():
        if not re.fullmatch(YEARLY, name) or not numbers(value) or re.search(r"hours|days|share|percent", name):
            continue
        group = re.fullmatch(r".+_per_year_per_(\d+)_\w+", name)
        if group:
            value = _mul(value, math.ceil(sheet.number("systems", "nodes") / int(group[1])))
        elif name.endswith(("_per_gpu_per_year", "_per_node_per_year", "_per_system_per_year")):
            value = _mul(value, sheet.number({"g": "gpus", "n": "nodes", "s": "systems"}[name.split("_per_")[1][0]]))
        elif re.search(r"staff|admin|engineer|fte|salary", name) and sheet.has("fte", "staff_fte"):
            value = _mul(value, sheet.number("fte", "staff_fte"))
        parts.append(value)
    monthly = _sums(
        sheet,
        r"(?!cloud|own_opex|saving|goodput|debug).+(_per_month|_month|_monthly)",
        but=r".*(hours|kw_month|per_kw).*",
    )
    parts += [_mul(m, 12) for m in monthly]
    if sheet.has("per_kw_month", "price_per_kw_month", "colocation_per_kw_month"):
        rate = sheet.get("per_kw_month", "price_per_kw_month", "colocation_per_kw_month")
        parts.append(_mul(rate, sheet.number("kw", "it_kw"), 12))
    for share in (
        "maintenance_share",
        "maintenance_percent",
        "maintenance_share_per_year",
        "maintenance_percent_per_year",
    ):
        if sheet.has(share):
            factor = 0.01 if "percent" in share else 1.0
            parts.append(_mul(sheet.need(share), factor, sheet.need("capex")))
    return total(parts) if parts else _missing("yearly costs")


@rule("it_w")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    for name in ("w", "it_kw", "node_kw", "power_w", "draw_w"):
        value = sheet.get(name) if sheet.has(name, name[:-2] + "kw" if name.endswith("_w") else "kw") else None
        if value is not None:
            factor = 1000.0 if name.endswith("kw") else 1.0
            count = sheet.get("nodes", "systems", default=1) if name == "node_kw" else 1
            return _mul(value, factor, count)
    if sheet.has("gpu_w", "gpu_kw"):
        cards = _mul(sheet.get("gpus", default=1), sheet.need("gpu_w"))
        return over(lambda c, h: c + h, cards, sheet.get("host_w", default=0.0))
    return _missing("watts")


@rule("energy_kwh")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = _mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return over(tco.energy_kwh, sheet.need("it_w"), hours, sheet.get("pue", default=1.0))


@rule("energy_per_h|own_energy_per_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    drawn = over(tco.energy_kwh, sheet.need("it_w"), 1.0, sheet.get("pue", default=1.0))
    return _mul(drawn, sheet.need("price_per_kwh"))


@rule(
    "energy|energy_cost|electricity_cost|power_cost|electricity_total|price",
    "energy",
    "tco",
    "power_budget",
    "train_cost",
    "break_even",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(sheet.need("energy_kwh"), sheet.need("price_per_kwh"))


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
    return _mul(sheet.need("energy_per_h"), hours, used)


@rule("price_per_h", "energy")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return sheet.need("energy_per_h")


@rule("cloud_(?P<unit>day|month|year)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = sheet.get("hours_per_day", default=24.0)
    days = {"day": 1.0, "month": finance.DAYS_PER_YEAR / 12, "year": finance.DAYS_PER_YEAR}[match["unit"]]
    return _mul(sheet.need("cloud_per_h"), hours, days)


@rule("own_opex_per_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("own_opex_per_gpu_h", "opex_per_gpu_h"):
        return _mul(sheet.get("own_opex_per_gpu_h", "opex_per_gpu_h"), sheet.get("gpus", default=1))
    if sheet.has("own_opex_per_month"):
        return _div(sheet.need("own_opex_per_month"), sheet.need("hours_per_month"))
    if sheet.has("own_opex_per_year"):
        return _div(sheet.need("own_opex_per_year"), finance.HOURS_PER_YEAR)
    per_h = _sums(sheet, r"(own_|power_|energy_|cooling_|staff_|maintenance_|space_|colocation_|opex_)\w*per_h")
    energy = sheet.get("energy_per_h") if sheet.has("price_per_kwh") else None
    yearly = sheet.get("per_year_costs")
    parts = [*per_h, *([] if energy is None else [energy])]
    if yearly is not None:
        parts.append(_div(yearly, finance.HOURS_PER_YEAR))
    return total(parts)


@rule("own_opex_per_year", *BUYING)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("own_opex_per_month"):
        return _mul(sheet.need("own_opex_per_month"), 12)
    if sheet.has("own_opex_per_h"):
        hours = _mul(sheet.get("own_opex_per_h"), sheet.need("hours_per_year"))
        rest = sheet.get("per_year_costs", default=0.0)
        return over(lambda a, b: a + b, hours, rest if not isinstance(rest, list) else rest[0])
    parts: list[Value] = [v for v in [sheet.get("per_year_costs")] if v is not None]
    if sheet.has("price_per_kwh"):
        parts.append(
            _mul(sheet.need("energy_per_h"), sheet.need("hours_per_year"), sheet.get("utilisation", default=1))
        )
    return total(parts) if parts else _missing("own running cost")


@rule("staff_share|staff_percent|staff_share_of_total")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    staff = _sums(sheet, r"(staff|sysadmin|admin|engineer)\w*_per_year")
    whole = sheet.number("total", "own_total")
    share = total(staff) * sheet.number("horizon_years") / whole
    return share * (100 if "percent" in match[0] else 1)


# --- buy or rent -------------------------------------------------------------------------------------------------------


@rule("break_even_hours")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.number("discount_rate") if sheet.has("discount_rate") else 0.0:
        return over(lambda m, h: None if m is None else m * h, _discounted(sheet), sheet.need("hours_per_month"))
    return over(
        finance.break_even_hours,
        sheet.need("capex"),
        sheet.need("own_opex_per_h"),
        sheet.need("cloud_per_h"),
        sheet.get("residual", default=0.0),
    )


def _discounted(sheet: Sheet, hours_per_month: float | None = None) -> Value:
    hours = hours_per_month or sheet.need("hours_per_month")
    saved = _mul(
        _sub(sheet.need("cloud_per_h"), sheet.need("own_opex_per_h")), hours, sheet.get("utilisation", default=1)
    )
    net = _sub(sheet.need("capex"), sheet.get("residual", default=0.0))
    return over(finance.discounted_break_even_months, net, saved, sheet.need("discount_rate"))


@rule(r"break_even_months(?:_(?P<hours>\d+)(?:h|_h)?)?|(?P<own>own_)?break_even_months_at_(?P<at>\d+)h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    stated = match["hours"] or match["at"]
    hours = float(stated) if stated else sheet.need("hours_per_month")
    if sheet.has("cloud_per_month", "saving_per_month", "saving_month"):
        saved = sheet.get("saving_per_month", "saving_month")
        if saved is None:
            saved = _sub(sheet.need("cloud_per_month"), sheet.get("own_opex_per_month", default=0.0))
        net = _sub(sheet.need("capex"), sheet.get("residual", default=0.0))
        return over(finance.discounted_break_even_months, net, saved, sheet.get("discount_rate", default=0.0))
    if sheet.has("discount_rate") and sheet.number("discount_rate"):
        return _discounted(sheet, hours)
    if sheet.has("hours_per_day"):
        return over(lambda y: None if y is None else y * 12, sheet.need("break_even_years"))
    use = sheet.get("utilisation", default=1.0)
    return over(finance.break_even_months, sheet.need("break_even_hours"), hours, use)


@rule("break_even_years")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("hours_per_day") or not sheet.has("utilisation"):
        per_day = sheet.get("hours_per_day", default=24.0) if sheet.has("hours_per_day") else 24.0
        if sheet.has("cloud_per_month", "saving_per_month"):
            return over(lambda m: None if m is None else m / 12, sheet.need("break_even_months"))
        return over(finance.break_even_years, sheet.need("break_even_hours"), per_day)
    return over(lambda m: None if m is None else m / 12, sheet.need("break_even_months"))


@rule("break_even_days")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    per_day = sheet.get("hours_per_day", default=24.0) if sheet.has("hours_per_day") else 24.0
    return over(
        lambda y: None if y is None else y * finance.DAYS_PER_YEAR,
        over(finance.break_even_years, sheet.need("break_even_hours"), per_day),
    )


@rule("own_fixed_per_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """What an owned machine costs every hour, used or not: price less residual over its life, and yearly costs."""
    if sheet.has("own_fixed_per_year", "own_annual", "own_total"):
        yearly = sheet.get("own_fixed_per_year", "own_annual")
        if yearly is None:
            yearly = _div(sheet.need("own_total"), sheet.need("horizon_years"))
        return _div(yearly, finance.HOURS_PER_YEAR)
    if sheet.has("own_per_gpu_h", "own_cost_per_gpu_h"):
        # A full cost per hour owned, beside a rent for the same card.
        each = sheet.get("own_per_gpu_h", "own_cost_per_gpu_h")
        return each if not sheet.has("cloud_per_h") else _mul(each, sheet.get("gpus", default=1))
    if not sheet.has("capex", "price_per_gpu", "node_price", "upfront", "price") and sheet.has("own_opex_per_h"):
        return sheet.need("own_opex_per_h")
    net = _sub(sheet.need("capex"), sheet.get("residual", default=0.0))
    if sheet.has("discount_rate") and sheet.number("discount_rate"):
        yearly = over(finance.annuity, net, sheet.need("discount_rate"), sheet.need("horizon_years"))
    else:
        yearly = over(finance.straight_line, net, 0.0, sheet.need("horizon_years"))
    rest = sheet.get("per_year_costs", default=0.0)
    return _div(over(lambda a, b: a + b, yearly, rest), finance.HOURS_PER_YEAR)


@rule("break_even_(?P<unit>utilisation|percent|utilisation_percent|hours_per_day)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("own_opex_per_h", "price_per_kwh") and sheet.has("capex", "price_per_gpu", "node_price"):
        # What running costs by the hour is spent in use only; yearly costs are in the fixed part.
        variable = sheet.need("own_opex_per_h" if sheet.has("own_opex_per_h") else "energy_per_h")
    else:
        variable = sheet.get("own_variable_per_h", default=0.0) if sheet.has("own_variable_per_h") else 0.0
    share = over(finance.break_even_utilisation, sheet.need("own_fixed_per_h"), sheet.need("cloud_per_h"), variable)
    factor = {"utilisation": 1.0, "hours_per_day": 24.0}.get(match["unit"], 100.0)
    return over(lambda s: None if s is None else s * factor, share)


@rule("break_even_(cloud|price|rate)(_per_(?P<each>gpu_)?h)?|break_even_per_(gpu_)?h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Rent above which owning costs less over the horizon."""
    hours = _mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    net = _sub(sheet.need("capex"), sheet.get("residual", default=0.0))
    per_h = over(lambda n, h, o: n / h + o, net, hours, sheet.need("own_opex_per_h"))
    return _div(per_h, sheet.need("gpus")) if "gpu_" in match[0] else per_h


@rule("own_per_used_h|own_opex_per_used_h|own_cost_per_used_h|price_per_used_h|cost_per_used_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(finance.cost_per_used_hour, sheet.need("own_fixed_per_h"), sheet.need("utilisation"))


@rule("saving|savings|saving_total")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda a, b: abs(a - b), sheet.need("own_total"), sheet.need("cloud_total"))


@rule("saving_(share|percent)|savings_(share|percent)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    share = over(lambda a, b: abs(a - b) / max(a, b), sheet.need("own_total"), sheet.need("cloud_total"))
    return _mul(share, 100 if "percent" in match[0] else 1)


@rule("own_total", "tco", "break_even", "utilisation", "cloud_cost", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("saving_share") and sheet.has("saving"):
        dearer = _div(sheet.need("saving"), sheet.need("saving_share"))
        return _sub(dearer, sheet.need("saving")) if _cheaper_is_own(sheet) else dearer
    if sheet.has("cloud_total") and sheet.has("saving"):
        return over(lambda c, s: c - s, sheet.need("cloud_total"), sheet.need("saving"))
    return _own_total(sheet, sheet.number("horizon_years"))


@rule("cloud_total", "tco", "break_even", "utilisation", "cloud_cost", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("saving_share") and sheet.has("saving"):
        dearer = _div(sheet.need("saving"), sheet.need("saving_share"))
        return dearer if _cheaper_is_own(sheet) else _sub(dearer, sheet.need("saving"))
    hours = _mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return _mul(sheet.need("cloud_per_h"), hours)


def _cheaper_is_own(sheet: Sheet) -> bool:
    return bool(re.search(r"\b(own(ing|ed)?|buy(ing)?|on-?prem\w*) saves", sheet.text, re.IGNORECASE))


def _own_total(sheet: Sheet, years: float) -> float:
    """Cost of owning for so many years, from the cash of a fleet by month."""
    yearly = sheet.get("per_year_costs", default=0.0) if not sheet.has("own_opex_per_year") else 0.0
    energy = 0.0
    if sheet.has("own_opex_per_year"):
        yearly = sheet.need("own_opex_per_year")
    elif sheet.has("own_opex_per_month"):
        yearly = over(
            lambda a, b: a + 12 * b,
            yearly if not isinstance(yearly, list) else yearly[0],
            sheet.need("own_opex_per_month"),
        )
    elif sheet.has("own_opex_per_h"):
        energy = sheet.number("own_opex_per_h") * sheet.number("hours_per_year")
    elif sheet.has("price_per_kwh"):
        energy = (
            sheet.number("energy_per_h") * sheet.number("hours_per_year") * float(sheet.get("utilisation", default=1.0))
        )
    by_year = [float(y) + energy for y in (yearly if isinstance(yearly, list) else [yearly])]
    fleet = tco.Fleet(
        parts=(tco.PartClass("machines", sheet.number("capex")),),
        maintenance_per_year=tuple(by_year),
        setup=float(sheet.get("setup_one_time", default=0.0)),
    )
    cash = tco.bought_cash(fleet, years * 12)
    rate = float(sheet.get("discount_rate", default=0.0)) if sheet.has("discount_rate") else 0.0
    return tco.total_cost(cash, rate) - float(sheet.get("residual", default=0.0)) * (1 + rate) ** -years


@rule(
    r"(?:cumulative|total|own_total|own|tco|cost)_(?:y|year_?)(?P<years>\d+)|(?:cumulative|total|own_total|own|tco)_(?P<short>\d+)(?:y|_years?)",
    *BUYING,
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _own_total(sheet, float(match["years"] or match["short"]))


@rule(r"cloud_(?:total_)?(?:y|year_?)(?P<years>\d+)|cloud_(?:total_)?(?P<short>\d+)y", *BUYING)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = _mul(sheet.need("hours_per_year"), float(match["years"] or match["short"]))
    return _mul(sheet.need("cloud_per_h"), hours, sheet.get("utilisation", default=1))


@rule(r"price_per_(?P<what>system|node|gpu|server)_year(?:_(?P<years>\d+)y)?", *BUYING)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    years = float(match["years"] or sheet.number("horizon_years"))
    count = {"gpu": ("gpus",), "node": ("nodes", "systems")}.get(match["what"], ("systems", "nodes"))
    return _own_total(sheet, years) / years / sheet.number(*count)


@rule("total", "tco", "cluster_tco", "break_even")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("capex", "price_per_gpu", "node_price", "upfront", "own_capex"):
        return _own_total(sheet, sheet.number("horizon_years"))
    return sheet.need("cloud_total")


@rule("price_per_eff_pflop_year")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    work = _mul(
        sheet.need("gpus"), sheet.need("dense_pflops"), sheet.get("utilisation", default=1), sheet.need("horizon_years")
    )
    return _div(sheet.need("total"), work)


# --- rent --------------------------------------------------------------------------------------------------------------


@rule("annual", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(
        sheet.need("cloud_per_h"), sheet.need("hours_per_year"), sheet.get("utilisation", default=1), _kept(sheet)
    )


@rule("monthly", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = sheet.get("hours_per_month", default=730.0)
    if sheet.has("hours_per_day"):
        hours = _mul(sheet.need("hours_per_day"), sheet.get("days_per_month", default=finance.DAYS_PER_YEAR / 12))
    return _mul(sheet.need("cloud_per_h"), hours, sheet.get("utilisation", default=1), _kept(sheet))


def _kept(sheet: Sheet) -> Value:
    """Share of the price left after a discount."""
    if sheet.has("discount_percent"):
        return over(lambda d: 1 - d / 100, sheet.need("discount_percent"))
    return over(lambda d: 1 - d, sheet.get("discount_share", default=0.0)) if sheet.has("discount_share") else 1.0


@rule("daily|per_day|price_per_day", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(sheet.need("cloud_per_h"), sheet.get("hours_per_day", default=24.0), _kept(sheet))


@rule("total|price", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("annual") and sheet.has("horizon_years"):
        return _mul(sheet.need("annual"), sheet.need("horizon_years"))
    if sheet.has("gpu_hours") and sheet.has("price_per_gpu_h"):
        return _mul(sheet.need("gpu_hours"), sheet.need("price_per_gpu_h"))
    hours = _mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    extra = _mul(total(_sums(sheet, r"(storage|egress|support)_(per_)?month")), sheet.get("months", default=1))
    return over(lambda a, b: a + b, _mul(sheet.need("cloud_per_h"), hours, _kept(sheet)), extra)


def _rental(sheet: Sheet) -> tco.Rental:
    per_gpu = sheet.get("price_per_gpu_h") if sheet.has("price_per_gpu_h") else None
    gpus = sheet.number("gpus")
    each = float(per_gpu) if per_gpu is not None else sheet.number("cloud_per_h") / gpus
    monthly = {
        k: float(v)
        for k, v in sheet.given.items()
        if re.fullmatch(r".+(_month|_per_month|_monthly)", k) and isinstance(v, int | float) and "hours" not in k
    }
    named = {"storage": 0.0, "egress": 0.0, "goodput": 0.0, "support": 0.0}
    for name, value in monthly.items():
        # Whatever else is paid by the month (debugging, CPU nodes, network) is support to this sum.
        kind = next((k for k in named if name.startswith(k)), "support")
        named[kind] += value
    once = sum(
        float(v)
        for k, v in sheet.given.items()
        if re.search(r"one_time|setup|one_off", k) and isinstance(v, int | float)
    )
    return tco.Rental(
        per_gpu_h=each,
        gpus=gpus,
        utilisation=float(sheet.get("utilisation", default=1.0)),
        hours_per_month=sheet.number("hours_per_month"),
        storage_per_month=named["storage"],
        egress_per_month=named["egress"],
        support_per_month=named["support"],
        goodput_per_month=named["goodput"],
        goodput_share=_as_share(sheet, "goodput_loss", "goodput"),
        support_share=_as_share(sheet, "support"),
        setup=once,
    )


def _as_share(sheet: Sheet, *stems: str) -> float:
    for stem in stems:
        if sheet.has(f"{stem}_share"):
            return sheet.number(f"{stem}_share")
        if sheet.has(f"{stem}_percent"):
            return sheet.number(f"{stem}_percent") / 100
    return 0.0


@rule("gpu_month|gpus_month|gpu_monthly|compute_month|gpu_per_month|compute_monthly", "rental_tco", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _rental(sheet).compute_per_month


@rule("gpu_total|compute_total|gpus_total", "rental_tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _rental(sheet).compute_per_month * sheet.number("months")


@rule("total", "rental_tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    rate = sheet.number("discount_rate") if sheet.has("discount_rate") else 0.0
    return tco.total_cost(tco.rented_cash(_rental(sheet), sheet.number("months")), rate)


@rule("monthly", "rental_tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    months = sheet.number("months")
    return tco.total_cost(tco.rented_cash(_rental(sheet), months)) / months


@rule("annual", "rental_tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(sheet.need("monthly"), 12)


@rule("effective_per_gpu_h|(effective|total|tco|all_in)_(price_)?per_gpu_h|effective_price_per_gpu_h", "rental_tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = sheet.number("months") * sheet.number("hours_per_month")
    return sheet.number("total") / sheet.number("gpus") / hours


@rule("(overhead|extra|surcharge)_(share|percent)|(share|percent)_(over|above)_gpu", "rental_tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    share = sheet.number("monthly") / sheet.number("gpu_month") - 1
    return share * (100 if "percent" in match[0] else 1)


@rule(r"ratio_to_(?P<other>\w+)|over_(?P<over>\w+)|premium_over_(?P<premium>\w+)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Total against that of another case of the file, named by the end of its id."""
    other = match["other"] or match["over"] or match["premium"]
    if sheet.has(f"{other}_total"):
        reference = sheet.need(f"{other}_total")
    elif sheet.others is not None:
        reference = sheet.others(other, "total")
    else:
        return _missing(f"total of {other}")
    return _div(sheet.need("total"), reference)


# --- colocation, finance -----------------------------------------------------------------------------------------------


@rule("monthly", "colocation")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    rate = sheet.get("price_per_kw_month", "per_kw_month", "price_per_kw", "colocation_per_kw_month")
    parts = (
        []
        if rate is None
        else [
            _mul(
                rate, sheet.get("kw", "it_kw", "node_kw"), sheet.get("nodes", default=1) if sheet.has("node_kw") else 1
            )
        ]
    )
    known = r"(space|bandwidth|remote_hands|cross_connect|setup_month|power|cooling|rack|cage|network|connectivity|hands|fee)(_per_month|_month|_monthly|_fee)?"
    parts += _sums(sheet, known)
    parts += _sums(sheet, r".+(_per_month|_month|_monthly)", but=known + r"|price_per_kw_month|.*kw.*|hours_per_month")
    if sheet.has("price_per_kwh"):
        parts.append(_mul(sheet.need("energy_per_h"), sheet.need("hours_per_month")))
    if sheet.has("price_per_rack", "rack_price"):
        parts.append(_mul(sheet.get("price_per_rack", "rack_price"), sheet.get("racks", default=1)))
    return total(parts) if parts else _missing("colocation rates")


@rule("annual", "colocation")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(sheet.need("monthly"), 12)


@rule("total", "colocation")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(sheet.need("monthly"), sheet.need("months"))


@rule("price_per_gpu_month|per_gpu_month|monthly_per_gpu", "colocation", "rental_tco", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _div(sheet.need("monthly"), sheet.need("gpus"))


@rule("deduction|depreciation|deductions", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    table = sheet.get("percent", "percents", "schedule", "macrs_percent")
    if isinstance(table, list):
        return finance.tax_depreciation(sheet.number("capex"), [float(p) for p in table])
    return sheet.need("depreciation_per_year")


@rule("depreciation_per_year|depreciation_annual|annual_depreciation|straight_line_per_year|annual", "finance", "tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if match[0] == "annual" and sheet.has("discount_rate"):
        return sheet.need("annuity")
    return over(
        finance.straight_line, sheet.need("capex"), sheet.get("residual", default=0.0), sheet.need("horizon_years")
    )


@rule("tax_saving|tax_shield|tax_savings", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    rate = sheet.get("tax_rate", "tax_share")
    return _mul(sheet.need("deduction"), rate) if rate is not None else _missing("tax_rate")


@rule(r"implied_years?_(?P<first>\d+)(?:_(?P<last>\d+))?", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Price for years first..last: from the contracts that end before the first and with the last of them."""
    words = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
    terms: dict[int, Any] = {}
    for name, value in sheet.given.items():
        found = re.match(r"(?:price_)?(\w+?)_?(?:year|y)(?:_|$)", name)
        if found and (found[1] in words or found[1].isdigit()):
            terms[words.get(found[1]) or int(found[1])] = value
    short, long = int(match["first"]) - 1, int(match["last"] or match["first"])
    if short not in terms or long not in terms:
        return _missing(f"prices for {short} and {long} years")
    return over(finance.forward_price, terms[short], float(short), terms[long], float(long))


@rule("revenue|income|revenue_total", "finance", "tco", "break_even")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = _mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return _mul(sheet.given.get("price_per_h") or sheet.need("price_per_gpu_h"), hours, sheet.get("gpus", default=1))


@rule(
    "(?:annuity|payment|instalment|installment|lease)(?P<unit>_per_year|_per_month|_month|_year|_annual)?|(?P<short>monthly|annual)(?:_payment|_annuity|_lease)?",
    "finance",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    unit = match["unit"] or match["short"] or ""
    principal, rate = sheet.get("principal", "loan", "capex"), sheet.get("discount_rate", default=0.0)
    if principal is None:
        return _missing("principal")
    left = sheet.get("residual", "balloon", default=0.0)
    if "month" in unit or (not unit and sheet.has("months")):
        # Lenders quote a yearly rate and divide it by twelve.
        return over(finance.annuity, principal, _div(rate, 12), sheet.need("months"), left)
    return over(finance.annuity, principal, rate, sheet.need("horizon_years"), left)


@rule("annuity_factor|present_value_factor", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(finance.annuity_factor, sheet.need("discount_rate"), sheet.need("horizon_years"))


@rule("npv|present_value|pv", "finance", "tco", "break_even")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    rate = sheet.number("discount_rate")
    flows = sheet.get("cash_flow", "cash_flows", "flows")
    if isinstance(flows, list):
        first = 0 if sheet.has("flow_0") or float(flows[0]) < 0 else 1
        return finance.present_value([float(f) for f in flows], rate, first_period=first) - float(
            sheet.get("capex", default=0.0) if sheet.has("capex") else 0.0
        )
    yearly = sheet.number("payment_per_year", "annual", "cash_flow_per_year", "saving_per_year")
    return yearly * finance.annuity_factor(rate, sheet.number("horizon_years"))


@rule("residual|resale_share_value", "finance", "tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("residual_share", "residual_percent"):
        share = (
            sheet.number("residual_share") if sheet.has("residual_share") else sheet.number("residual_percent") / 100
        )
        return _mul(sheet.need("capex"), share)
    fall = sheet.get("depreciation_share_per_year", "yearly_loss_share")
    if fall is not None:
        return over(
            lambda c, f, y: finance.residual_value(c, 12 * y, 1 - f, 12),
            sheet.need("capex"),
            fall,
            sheet.need("horizon_years"),
        )
    return _missing("residual")


# --- work --------------------------------------------------------------------------------------------------------------


@rule(
    "price_per_m(_tokens?)?(_(?P<what>output|input|total))?(_tokens?)?|(?P<other>output|input|total)_price_per_m",
    "serve_cost",
    "tco",
    "energy",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    what = match["what"] or match["other"]
    price = sheet.get("price_per_h", "cloud_per_h")
    if price is None:
        return _missing("price per hour")
    if what == "total":
        rate = sheet.get("total_tok_s")
        if rate is None:
            rate = over(lambda a, b: a + b, sheet.need("output_tok_s"), sheet.need("input_tok_s"))
    else:
        rate = sheet.get("input_tok_s") if what == "input" else sheet.get("output_tok_s", "tok_s", "throughput_tok_s")
        if rate is None:
            return _missing("tokens per second")
    use = sheet.get("utilisation", default=1.0)
    return over(lambda p, r, u: finance.cost_per_million_tokens(p, r * u), price, rate, use)


@rule("gpu_hours|gpu_h", "train_cost", "tender", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("gpus") and sheet.has("days", "hours", "months") and not sheet.has("params"):
        return _mul(sheet.need("gpus"), sheet.need("hours"))
    flops = sheet.get("flops") if sheet.has("flops") else None
    if flops is not None:
        return over(lambda f, p, m: f / (p * m * 3600), flops, sheet.need("peak_flops"), sheet.need("mfu"))
    return over(
        finance.training_gpu_hours,
        sheet.need("params"),
        sheet.need("tokens"),
        sheet.need("peak_flops"),
        sheet.need("mfu"),
    )


@rule("peak_flops")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("peak_tflops"):
        return _mul(sheet.need("peak_tflops"), 1e12)
    if sheet.has("dense_pflops"):
        return _mul(sheet.need("dense_pflops"), 1e15)
    return _missing("peak_flops")


@rule("flops|total_flops|train_flops|training_flops", "train_cost", "tender")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(6.0, sheet.need("params"), sheet.need("tokens"))


@rule("cost|price|total", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(sheet.need("gpu_hours"), sheet.need("price_per_gpu_h"))


@rule("(wall_|train_|training_)?(?P<unit>days|hours|months|weeks)", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = {"hours": 1.0, "days": 24.0, "weeks": 168.0, "months": 730.0}[match["unit"]]
    return over(lambda h, g: h / g / hours, sheet.need("gpu_hours"), sheet.need("gpus"))


@rule(r"\w+_hours", "tender")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """GPU-hours of the card in the name, from floating-point operations at its peak rate."""
    return over(lambda f, p: f / (p * 3600), sheet.get("flops_delivered", "flops"), sheet.need("peak_flops"))


@rule("(implied_)?mfu", "tender", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    needed = _mul(6.0, sheet.need("params"), sheet.need("tokens"))
    if sheet.has("flops_delivered"):
        return _div(needed, sheet.need("flops_delivered"))
    hours = sheet.get("gpu_hours") if sheet.has("gpu_hours") else _mul(sheet.need("gpus"), sheet.need("hours"))
    return over(lambda f, h, p: f / (h * 3600 * p), needed, hours, sheet.need("peak_flops"))


@rule("gpus|gpus_needed|gpus_required", "tender", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = (
        sheet.need("gpu_hours")
        if sheet.has("gpu_hours") or not sheet.has("flops_delivered")
        else sheet.need("peak_hours")
    )
    if sheet.has("days"):
        return over(lambda h, d: h / (d * 24), hours, sheet.need("days"))
    return over(lambda h, m, pm: h / (m * pm), hours, sheet.need("months"), sheet.need("hours_per_month"))


@rule(
    r"\w+_at_(?P<price>\d+(?:_\d+)?)(?P<scale>k|m)?(_.*)?|(?:nodes|servers|gpus|units|systems)(?:_affordable|_for_budget)?",
    "tender",
    "iso_budget",
    "price_quote",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Most units for a fixed sum, at the unit price in the name or the inputs."""
    if match["price"]:
        price: Value = float(match["price"].replace("_", ".")) * {"k": 1e3, "m": 1e6, None: 1.0}[match["scale"]]
    else:
        price = sheet.get("node_price", "price_per_gpu", "price_per_unit", "unit_price")
        if price is None:
            return _missing("unit price")
    return over(compare.count_within, sheet.need("budget"), price)


@rule("cost_ratio(_(?P<case>.+))?|relative_cost(_(?P<other>.+))?", "upgrade", "power_whatif", "serve_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    case = match["case"] or match["other"]
    speedup = sheet.need(f"speedup_{case}") if case else sheet.need("speedup")
    return over(compare.relative_cost, sheet.need("price_ratio"), speedup)


@rule("price_ratio", "upgrade", "price_quote")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    new, old = sheet.get("price_new", "new_price", "new"), sheet.get("price_old", "old_price", "old")
    return _div(new, old) if new is not None and old is not None else _missing("price_ratio")


@rule("(break_even|required|needed)_speedup|speedup_needed", "upgrade")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return sheet.need("price_ratio")


@rule("break_even_interruptions_per_h|break_even_rate|break_even_interruption(s|_rate)?(_per_h)?", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    overhead, gap = sheet.get("checkpoint_overhead", default=0.0), sheet.get("checkpoint_interval_h", default=1.0)
    return over(finance.spot_break_even, sheet.need("spot"), sheet.need("on_demand"), gap, overhead)


@rule("spot_multiplier|multiplier|time_multiplier", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    gap = sheet.get("checkpoint_interval_h", "job_h", "job_hours")
    if gap is None:
        return _missing("checkpoint interval")
    return over(
        finance.spot_multiplier, sheet.need("interruptions_per_h"), gap, sheet.get("checkpoint_overhead", default=0.0)
    )


@rule("effective_(price|cost)?(_?per_h)?|spot_effective(_per_h)?|effective_spot(_per_h)?", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda s, m: None if m is None else s * m, sheet.need("spot"), sheet.need("spot_multiplier"))


@rule("billed_(h|hours)", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(
        lambda j, m: None if m is None else j * m,
        sheet.get("job_h", "job_hours", "hours"),
        sheet.need("spot_multiplier"),
    )


@rule("(spot_)?saving_(?P<unit>share|percent)|discount_(?P<other>share|percent)", "spot")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    factor = 100 if "percent" in match[0] else 1
    price = sheet.get("spot_effective", default=sheet.need("spot")) if "saving" in match[0] else sheet.need("spot")
    return over(lambda s, o: (1 - s / o) * factor, price, sheet.need("on_demand"))


@rule("price|total|capex", "price_quote")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = (
        sheet.get("price_per_gpu", "quotes", "quotes_per_gpu")
        if sheet.has("price_per_gpu", "quotes", "quotes_per_gpu")
        else None
    )
    if each is None:
        return _missing("prices")
    return _mul(each, sheet.need("gpus"))


@rule("scores?|weighted_scores?|total_scores?", "tender")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    weights, bids = sheet.need("weights"), sheet.get("bids", "offers", "points")
    if not isinstance(weights, dict) or not isinstance(bids, dict):
        return _missing("weights and bids")
    import polars as pl

    frame = pl.DataFrame([{"bid": name, **values} for name, values in bids.items()])
    lower = {c for c in weights if re.search(r"price|cost|tco|power|watt|energy|time", c)}
    scored = compare.tender_scores(frame, weights, lower)
    found = dict(zip(scored["bid"].to_list(), scored["score"].to_list(), strict=True))
    return {name: found[name] for name in bids}


# --- last resorts, for all kinds ---------------------------------------------------------------------------------------


@rule("annual")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return _mul(sheet.given["monthly"] if sheet.has("monthly") else _missing("annual"), 12)


@rule("monthly")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("cloud_per_h", "price_per_gpu_h", "price_per_h"):
        return _mul(sheet.need("cloud_per_h"), sheet.need("hours_per_month"), sheet.get("utilisation", default=1))
    return _div(sheet.need("annual"), 12)


@rule("total")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("annual", "monthly"):
        return _mul(sheet.need("annual"), sheet.need("horizon_years"))
    return _missing("total")


@rule(r"(?P<what>[a-z0-9_]+?)_per_(?P<each>gpu|node|rack|system|server|pod|port|kw|tb|user|person)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = match["each"] if match["each"] in ("kw", "tb") else f"{match['each']}s"
    each = {"servers": "nodes", "persons": "people"}.get(each, each)
    if not sheet.has(each, match["each"]) and each not in sheet.asked and not sheet.has("gpus", "nodes"):
        return _missing(each)
    what = {"price": ("price", "total", "capex")}.get(match["what"], (match["what"], f"total_{match['what']}"))
    amount = sheet.get(*what)
    return _div(amount, sheet.need(each)) if amount is not None else _missing(match["what"])
