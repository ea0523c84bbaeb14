"""Rules for colocation, depreciation, contracts and loans. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import re
from typing import Any

from solver.features import finance
from solver.validation.tco_rules.base import div, missing, mul, sums
from solver.validation.tco_rules.sheet import RuleBook, Sheet, Value, over, total

BOOK = RuleBook()
rule = BOOK.rule


@rule("monthly", "colocation")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    rate = sheet.get("price_per_kw_month", "per_kw_month", "price_per_kw", "colocation_per_kw_month")
    parts = (
        []
        if rate is None
        else [
            mul(rate, sheet.get("kw", "it_kw", "node_kw"), sheet.get("nodes", default=1) if sheet.has("node_kw") else 1)
        ]
    )
    known = r"(space|bandwidth|remote_hands|cross_connect|setup_month|power|cooling|rack|cage|network|connectivity|hands|fee)(_per_month|_month|_monthly|_fee)?"
    parts += sums(sheet, known)
    parts += sums(sheet, r".+(_per_month|_month|_monthly)", but=known + r"|price_per_kw_month|.*kw.*|hours_per_month")
    if sheet.has("price_per_kwh"):
        parts.append(mul(sheet.need("energy_per_h"), sheet.need("hours_per_month")))
    if sheet.has("price_per_rack", "rack_price"):
        parts.append(mul(sheet.get("price_per_rack", "rack_price"), sheet.get("racks", default=1)))
    return total(parts) if parts else missing("colocation rates")


@rule("annual", "colocation")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(sheet.need("monthly"), 12)


@rule("total", "colocation")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return mul(sheet.need("monthly"), sheet.need("months"))


@rule("price_per_gpu_month|per_gpu_month|monthly_per_gpu", "colocation", "rental_tco", "finance")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return div(sheet.need("monthly"), sheet.need("gpus"))


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
    return mul(sheet.need("deduction"), rate) if rate is not None else missing("tax_rate")


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
        return missing(f"prices for {short} and {long} years")
    return over(finance.forward_price, terms[short], float(short), terms[long], float(long))


@rule("revenue|income|revenue_total", "finance", "tco", "break_even")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    hours = mul(sheet.need("hours"), sheet.get("utilisation", default=1))
    return mul(sheet.given.get("price_per_h") or sheet.need("price_per_gpu_h"), hours, sheet.get("gpus", default=1))


@rule(
    "(?:annuity|payment|instalment|installment|lease)(?P<unit>_per_year|_per_month|_month|_year|_annual)?|(?P<short>monthly|annual)(?:_payment|_annuity|_lease)?",
    "finance",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    unit = match["unit"] or match["short"] or ""
    principal, rate = sheet.get("principal", "loan", "capex"), sheet.get("discount_rate", default=0.0)
    if principal is None:
        return missing("principal")
    left = sheet.get("residual", "balloon", default=0.0)
    if "month" in unit or (not unit and sheet.has("months")):
        # Lenders quote a yearly rate and divide it by twelve.
        return over(finance.annuity, principal, div(rate, 12), sheet.need("months"), left)
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
    stated = ("payment_per_year", "cash_flow_per_year", "saving_per_year", "annual", "annual_saving", "net_per_year")
    yearly = next((float(sheet.given[k]) for k in stated if sheet.has(k)), None)
    if yearly is None:
        return missing("yearly cash flow")
    spent = sheet.number("capex") if sheet.has("capex") and match[0] == "npv" else 0.0
    return yearly * finance.annuity_factor(rate, sheet.number("horizon_years")) - spent


@rule("residual|resale_share_value", "finance", "tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("residual_share", "residual_percent"):
        share = (
            sheet.number("residual_share") if sheet.has("residual_share") else sheet.number("residual_percent") / 100
        )
        return mul(sheet.need("capex"), share)
    fall = sheet.get("depreciation_share_per_year", "yearly_loss_share")
    if fall is not None:
        return over(
            lambda c, f, y: finance.residual_value(c, 12 * y, 1 - f, 12),
            sheet.need("capex"),
            fall,
            sheet.need("horizon_years"),
        )
    return missing("residual")


@rule("residual_share|resale_share|value_kept_share", "finance", "price_quote", "tco")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Share of its price that a machine still fetches: the second of two prices over the first."""
    if sheet.has("residual", "capex"):
        return div(sheet.need("residual"), sheet.need("capex"))
    if len(sheet.money) == 2:
        new, used = (sheet.given[k] for k in sheet.money)
        return div(used, new)
    return missing("two prices")
