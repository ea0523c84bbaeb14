"""Rules that set owning beside renting: break-even, unit cost, totals. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import re

from solver.features import finance, tco
from solver.validation.tco_rules.base import BUYING, div, mul, sub
from solver.validation.tco_rules.sheet import RuleBook, Sheet, Value, over

BOOK = RuleBook()
rule = BOOK.rule


@rule("break_even_hours|break_even")
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
    saved = mul(
        sub(sheet.need("cloud_per_h"), sheet.need("own_opex_per_h")), hours, sheet.get("utilisation", default=1)
    )
    net = sub(sheet.need("capex"), sheet.get("residual", default=0.0))
    return over(finance.discounted_break_even_months, net, saved, sheet.need("discount_rate"))


@rule(r"break_even_months(?:_(?P<hours>\d+)(?:h|_h)?)?|(?P<own>own_)?break_even_months_at_(?P<at>\d+)h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    stated = match["hours"] or match["at"]
    hours = float(stated) if stated else sheet.need("hours_per_month")
    if sheet.has("cloud_per_month", "saving_per_month", "saving_month"):
        saved = sheet.get("saving_per_month", "saving_month")
        if saved is None:
            saved = sub(sheet.need("cloud_per_month"), sheet.get("own_opex_per_month", default=0.0))
        net = sub(sheet.need("capex"), sheet.get("residual", default=0.0))
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
            yearly = div(sheet.need("own_total"), sheet.need("horizon_years"))
        return div(yearly, finance.HOURS_PER_YEAR)
    if sheet.has("own_per_gpu_h", "own_cost_per_gpu_h"):
        # A full cost per hour owned, beside a rent for the same card.
        each = sheet.get("own_per_gpu_h", "own_cost_per_gpu_h")
        return each if not sheet.has("cloud_per_h") else mul(each, sheet.get("gpus", default=1))
    if not sheet.has("capex", "price_per_gpu", "node_price", "upfront", "price") and sheet.has(
        "own_opex_per_h", "own_opex_per_month", "own_opex_per_year"
    ):
        return sheet.need("own_opex_per_h")
    net = sub(sheet.need("capex"), sheet.get("residual", default=0.0))
    if sheet.has("discount_rate") and sheet.number("discount_rate"):
        yearly = over(finance.annuity, net, sheet.need("discount_rate"), sheet.need("horizon_years"))
    else:
        yearly = over(finance.straight_line, net, 0.0, sheet.need("horizon_years"))
    rest = sheet.get("per_year_costs", default=0.0)
    if sheet.has("own_opex_per_year", "own_opex_per_month"):
        rest = over(lambda a, b: a + b, rest, sheet.need("own_opex_per_year"))
    return div(over(lambda a, b: a + b, yearly, rest), finance.HOURS_PER_YEAR)


@rule("break_even_(?P<unit>utilisation|percent|utilisation_percent|hours_per_day|hours_per_month)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("own_opex_per_h", "price_per_kwh") and sheet.has("capex", "price_per_gpu", "node_price"):
        # What running costs by the hour is spent in use only; yearly costs are in the fixed part.
        variable = sheet.need("own_opex_per_h" if sheet.has("own_opex_per_h") else "energy_per_h")
    else:
        variable = sheet.get("own_variable_per_h", default=0.0) if sheet.has("own_variable_per_h") else 0.0
    share = over(finance.break_even_utilisation, sheet.need("own_fixed_per_h"), sheet.need("cloud_per_h"), variable)
    factor = {"utilisation": 1.0, "hours_per_day": 24.0, "hours_per_month": sheet.number("hours_per_month")}.get(
        match["unit"], 100.0
    )
    return over(lambda s: None if s is None else s * factor, share)


@rule("break_even_(cloud|price|rate)(_per_(?P<each>gpu_)?h)?|break_even_per_(gpu_)?h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Rent above which owning costs less over the horizon."""
    hours = mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    net = sub(sheet.need("capex"), sheet.get("residual", default=0.0))
    per_h = over(lambda n, h, o: n / h + o, net, hours, sheet.need("own_opex_per_h"))
    return div(per_h, sheet.need("gpus")) if "gpu_" in match[0] else per_h


@rule("own_per_used_h|own_opex_per_used_h|own_cost_per_used_h|price_per_used_h|cost_per_used_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(finance.cost_per_used_hour, sheet.need("own_fixed_per_h"), sheet.need("utilisation"))


@rule("saving|savings|saving_total")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda a, b: abs(a - b), sheet.need("own_total"), sheet.need("cloud_total"))


@rule("saving_(share|percent)|savings_(share|percent)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    share = over(lambda a, b: abs(a - b) / max(a, b), sheet.need("own_total"), sheet.need("cloud_total"))
    return mul(share, 100 if "percent" in match[0] else 1)


@rule("own_total", "tco", "break_even", "utilisation", "cloud_cost", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("saving_share") and sheet.has("saving"):
        dearer = div(sheet.need("saving"), sheet.need("saving_share"))
        return sub(dearer, sheet.need("saving")) if _cheaper_is_own(sheet) else dearer
    if sheet.has("cloud_total") and sheet.has("saving"):
        return over(lambda c, s: c - s, sheet.need("cloud_total"), sheet.need("saving"))
    return own_total(sheet, sheet.number("horizon_years"))


@rule("cloud_total", "tco", "break_even", "utilisation", "cloud_cost", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("saving_share") and sheet.has("saving"):
        dearer = div(sheet.need("saving"), sheet.need("saving_share"))
        return dearer if _cheaper_is_own(sheet) else sub(dearer, sheet.need("saving"))
    hours = mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return mul(sheet.need("cloud_per_h"), hours)


def _cheaper_is_own(sheet: Sheet) -> bool:
    return bool(re.search(r"\b(own(ing|ed)?|buy(ing)?|on-?prem\w*) saves", sheet.text, re.IGNORECASE))


def own_total(sheet: Sheet, years: float) -> float:
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
    return float(tco.total_cost(cash, rate) - float(sheet.get("residual", default=0.0)) * (1 + rate) ** -years)


@rule(
    r"(?:cumulative|total|own_total|own|tco|cost)_(?:y|year_?)(?P<years>\d+)|(?:cumulative|total|own_total|own|tco)_(?P<short>\d+)(?:y|_years?)",
    *BUYING,
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return own_total(sheet, float(match["years"] or match["short"]))


@rule(r"cloud_(?:total_)?(?:y|year_?)(?P<years>\d+)|cloud_(?:total_)?(?P<short>\d+)y", *BUYING)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = mul(sheet.need("hours_per_year"), float(match["years"] or match["short"]))
    return mul(sheet.need("cloud_per_h"), hours, sheet.get("utilisation", default=1))


@rule(r"price_per_(?P<what>system|node|gpu|server)_year(?:_(?P<years>\d+)y)?", *BUYING)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    years = float(match["years"] or sheet.number("horizon_years"))
    count = {"gpu": ("gpus",), "node": ("nodes", "systems")}.get(match["what"], ("systems", "nodes"))
    return own_total(sheet, years) / years / sheet.number(*count)


@rule("total", "tco", "cluster_tco", "break_even")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("capex", "price_per_gpu", "node_price", "upfront", "own_capex"):
        return own_total(sheet, sheet.number("horizon_years"))
    return sheet.need("cloud_total")


@rule("price_per_eff_pflop_year")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    work = mul(
        sheet.need("gpus"), sheet.need("dense_pflops"), sheet.get("utilisation", default=1), sheet.need("horizon_years")
    )
    return div(sheet.need("total"), work)


@rule("effective_(price_)?per_(?P<gpu>gpu_)?h", "utilisation", "tco", "cloud_cost", "break_even")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Price of an hour in use, where hours are paid for whether used or not."""
    each = (
        sheet.get("price_per_gpu_h", "own_per_gpu_h") if match["gpu"] else sheet.get("own_fixed_per_h", "cloud_per_h")
    )
    return over(finance.cost_per_used_hour, each, sheet.need("utilisation"))
