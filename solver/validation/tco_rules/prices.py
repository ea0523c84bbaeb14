"""Rules for hours, and for what machines cost to buy or to hire. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import re

from solver.features import finance
from solver.validation.tco_rules.base import div, missing, mul, sums
from solver.validation.tco_rules.sheet import MissingQuantityError, RuleBook, Sheet, Value, total

BOOK = RuleBook()
rule = BOOK.rule


@rule("hours_per_month")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return finance.HOURS_PER_YEAR / 12


@rule("hours_per_year")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("hours_per_day"):
        return mul(sheet.need("hours_per_day"), sheet.get("days_per_year", default=finance.DAYS_PER_YEAR))
    if sheet.has("hours_per_week"):
        return mul(sheet.need("hours_per_week"), 52)
    if sheet.has("hours_per_month"):
        return mul(sheet.need("hours_per_month"), 12)
    return finance.HOURS_PER_YEAR


@rule("horizon_years")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return div(sheet.need("months"), 12)


@rule("months")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(sheet.need("horizon_years"), 12)


@rule("hours")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("days"):
        return mul(sheet.need("days"), sheet.get("hours_per_day", default=24))
    if sheet.has("months") and not sheet.has("horizon_years"):
        return mul(sheet.need("months"), sheet.need("hours_per_month"))
    if sheet.has("horizon_years", "months"):
        return mul(sheet.need("horizon_years"), sheet.need("hours_per_year"))
    return sheet.need("hours_per_year")


@rule("capex")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    for each, count in (("price_per_gpu", "gpus"), ("node_price", "nodes"), ("price_per_system", "systems")):
        if sheet.has(each):
            rest = sums(
                sheet, r"(host|network|fabric|storage|chassis|spares|installation|facility)(_capex|_price|_total)?"
            )
            return total([mul(sheet.need(each), sheet.get(count, default=1)), *rest])
    parts = sums(sheet, r"(.+_capex|capex_.+)", but=r".*(_per_|share|percent).*")
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
    if whole is None and len(sheet.money) == 1:
        whole = sheet.given[sheet.money[0]]
    if whole is None:
        raise MissingQuantityError("price")
    return div(whole, sheet.need("gpus"))


@rule("cloud_per_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("price_per_gpu_h"):
        return mul(sheet.need("price_per_gpu_h"), sheet.get("gpus", default=1))
    if sheet.has("on_demand"):
        return sheet.need("on_demand")
    if sheet.has("cloud_per_month"):
        return div(sheet.need("cloud_per_month"), sheet.need("hours_per_month"))
    if sheet.has("cloud_per_year", "cloud_annual"):
        return div(sheet.get("cloud_per_year", "cloud_annual"), finance.HOURS_PER_YEAR)
    if sheet.has("cloud_total"):
        return div(sheet.need("cloud_total"), sheet.need("hours"))
    return sheet.need("price_per_h") if sheet.has("price_per_h") else missing("cloud_per_h")


@rule("price_per_gpu_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("cloud_total", "cloud_per_h", "price_per_h", "cloud_per_month"):
        return div(sheet.need("cloud_per_h"), sheet.need("gpus"))
    # A total per GPU-hour: what a machine costs for each hour it works.
    hours = mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return div(div(sheet.get("total", "budget"), sheet.get("gpus", default=1)), hours)


@rule("own(_cost)?_per_gpu_h|own_total_per_gpu_h")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return div(div(sheet.need("own_total"), sheet.get("gpus", default=1)), hours)
