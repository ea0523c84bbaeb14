"""Rules for rented machines: bills, terms, charges beside the compute. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import re

from solver.features import finance, tco
from solver.validation.tco_rules.base import div, missing, mul, sums
from solver.validation.tco_rules.sheet import RuleBook, Sheet, Value, numbers, over, total

BOOK = RuleBook()
rule = BOOK.rule


@rule("annual", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(
        sheet.need("cloud_per_h"), sheet.need("hours_per_year"), sheet.get("utilisation", default=1), price_kept(sheet)
    )


@rule("monthly", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = sheet.get("hours_per_month", default=730.0)
    if sheet.has("hours_per_day"):
        hours = mul(sheet.need("hours_per_day"), sheet.get("days_per_month", default=finance.DAYS_PER_YEAR / 12))
    return mul(sheet.need("cloud_per_h"), hours, sheet.get("utilisation", default=1), price_kept(sheet))


def price_kept(sheet: Sheet) -> Value:
    """Share of the price left after a discount."""
    for name, value in sheet.given.items():
        found = re.fullmatch(r"(?:\w+_)?discount_(share|percent)", name)
        if found and numbers(value):
            return over(lambda d, w=100 if found[1] == "percent" else 1: 1 - d / w, value)
    return 1.0


@rule("daily|per_day|price_per_day", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(sheet.need("cloud_per_h"), sheet.get("hours_per_day", default=24.0), price_kept(sheet))


@rule("total|price", "cloud_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("annual") and sheet.has("horizon_years"):
        return mul(sheet.need("annual"), sheet.need("horizon_years"))
    if sheet.has("gpu_hours") and sheet.has("price_per_gpu_h"):
        return mul(sheet.need("gpu_hours"), sheet.need("price_per_gpu_h"))
    hours = mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    extra = mul(total(sums(sheet, r"(storage|egress|support)_(per_)?month")), sheet.get("months", default=1))
    return over(lambda a, b: a + b, mul(sheet.need("cloud_per_h"), hours, price_kept(sheet)), extra)


def _rental(sheet: Sheet) -> tco.Rental:
    per_gpu = sheet.get("price_per_gpu_h") if sheet.has("price_per_gpu_h") else None
    gpus = sheet.number("gpus")
    each = float(per_gpu) if per_gpu is not None else sheet.number("cloud_per_h") / gpus
    unit = r"hours|(^|_)(tb|gb|pb|kw|kwh|tokens|requests)(_|$)"
    monthly = {
        k: float(v)
        for k, v in sheet.given.items()
        if re.fullmatch(r".+(_month|_per_month|_monthly)", k) and isinstance(v, int | float) and not re.search(unit, k)
    }
    named = {"storage": 0.0, "egress": 0.0, "goodput": 0.0, "support": 0.0}
    for name, value in monthly.items():
        # Whatever else is paid by the month (debugging, CPU nodes, network) is support to this sum.
        kind = next((k for k in named if name.startswith(k)), "support")
        named[kind] += value
    for kind in ("storage", "egress"):
        by_size = sheet.get(f"{kind}_by_size")
        named[kind] += float(by_size) if by_size is not None else 0.0
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
    return mul(sheet.need("monthly"), 12)


@rule(
    "effective_per_gpu_h|(effective|total|tco|all_in)_(price_)?per_gpu_h|effective_price_per_gpu_h|price_per_gpu_h_effective",
    "rental_tco",
)
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
        return missing(f"total of {other}")
    return div(sheet.need("total"), reference)


@rule(r"(?P<what>goodput(?:_loss)?|support)_(?:per_)?month", "rental_tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """A charge that is given as a share of the compute bill."""
    share = _as_share(sheet, match["what"])
    return sheet.number("gpu_month") * share if share else missing(match[0])


@rule("(?P<what>storage|egress)_by_size", "rental_tco", "cloud_cost", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Monthly bill from terabytes and a price per terabyte (storage: per month held)."""
    what = match["what"]
    for unit, size in (("tb", 1.0), ("gb", 1000.0)):
        names = (
            f"{what}_per_{unit}_month",
            f"{what}_per_{unit}",
            f"price_per_{unit}_month" if what == "storage" else "",
        )
        price = next((sheet.given[n] for n in names if n in sheet.given), None)
        amount = sheet.get(f"{what}_tb", f"{what}_tb_month", f"{what}_tb_per_month")
        if price is not None and amount is not None:
            return mul(price, size, amount)
    return missing(f"{what} price and size")


@rule("(?P<what>storage|egress)_(?:per_)?month", "rental_tco", "cloud_cost", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return sheet.need(f"{match['what']}_by_size")
