"""Cash by year, the plans that only rent or only buy, and where the two cost the same: rows and lines for the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from solver.plan import Alternative, CashMonth, Result
from solver.report import forms
from solver.report.messages import Messages
from solver.report.page import Column

TITLES = {
    "capex": "Purchases",
    "rental": "Rental",
    "energy": "Energy",
    "maintenance": "Maintenance",
    "staff": "Staff",
    "other": "Other",
    "residual": "Value left",
}
KINDS = {"all rented": "All rented", "all bought": "All bought"}
MONTHS_PER_YEAR = 12
UNITS = {1: "{currency}", 1_000: "thousand {currency}", 1_000_000: "million {currency}"}
WIDEST = 10_000_000


def by_year(flow: Sequence[CashMonth]) -> list[tuple[int, dict[str, Decimal]]]:
    """Sums of each year of a cash flow; year 0 is what is paid up front. `cumulative` is that of the year's last month."""
    years: dict[int, dict[str, Decimal]] = {}
    for m in flow:
        year = -(-m.month // MONTHS_PER_YEAR)
        sums = years.setdefault(year, dict.fromkeys((*TITLES, "total"), Decimal(0)))
        for name in (*TITLES, "total"):
            sums[name] += getattr(m, name)
        sums["cumulative"] = m.cumulative
    return sorted(years.items())


def cash_columns(result: Result, t: Messages) -> list[Column]:
    """Columns of the cash table: months, what is not zero throughout, total and cumulative; the unit stands in the first."""
    used = [Column(t(TITLES[name]), "right") for name in _used(result)]
    currency = result.cost.currency if result.cost else "USD"
    unit = t(UNITS[_scale(result)], currency=currency)
    return [Column(f"{t('Months')}, {unit}"), *used, Column(t("Total"), "right"), Column(t("Cumulative"), "right")]


def cash_rows(result: Result, t: Messages) -> Iterator[Sequence[str]]:
    """One row per year, in whole units of the table."""
    last = result.cash_flow[-1].month if result.cash_flow else 0
    scale = _scale(result)
    for year, sums in by_year(result.cash_flow):
        first = (year - 1) * MONTHS_PER_YEAR + 1
        until = min(last, year * MONTHS_PER_YEAR)
        label = t("up front") if year == 0 else t("{first} to {last}", first=first, last=until)
        amounts = [sums[name] for name in (*_used(result), "total", "cumulative")]
        yield [label, *(f"{a / scale:,.0f}" if a else "-" for a in amounts)]


def _scale(result: Result) -> int:
    """Unit of the cash table, such that no amount is wider than the page has room for."""
    largest = max((abs(v) for _, sums in by_year(result.cash_flow) for v in sums.values()), default=Decimal(0))
    return next(size for size in UNITS if largest / size < WIDEST or size == max(UNITS))


def _used(result: Result) -> list[str]:
    return [name for name in TITLES if any(getattr(m, name) for m in result.cash_flow)]


def alternative_lines(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """The all-rented and the all-bought plan beside the chosen one, and their break-even."""
    for other in result.alternatives:
        yield t(KINDS[other.name]), _alternative(other, result, t)
    if result.break_even is not None:
        yield t("Break-even"), break_even_text(result, t)


def _alternative(other: Alternative, result: Result, t: Messages) -> str:
    if other.total is None:
        return t("no plan: {why}", why=other.because)
    if other.difference == 0.0 and other.summary == "the plan itself":
        return t("the plan itself")
    currency = result.cost.currency if result.cost else "USD"
    said = f"{other.summary}, {forms.money(other.total, currency)}"
    if other.difference is not None:
        said += f" ({forms.signed_share(other.difference)})"
    if other.cost is not None:
        said += ", " + t(
            "{capex} up front, {monthly} a month",
            capex=forms.money(other.cost.capex, currency),
            monthly=forms.money(other.cost.monthly, currency),
        )
    return said if other.proved else f"{said}, {t('not proved the best of its kind')}"


def break_even_text(result: Result, t: Messages) -> str:
    """When buying has cost less than renting, and from which share of the planned use it does."""
    point = result.break_even
    assert point is not None
    if point.months is None:
        said = t("never by time: {why}", why=point.because)
    elif point.beyond_horizon:
        said = t("after {months} months, beyond the horizon", months=forms.number(point.months))
    else:
        said = t("after {months} months", months=forms.number(point.months))
    if point.discount_rate:
        said += " " + t("(discounted at {rate} a year)", rate=forms.share(point.discount_rate))
    if point.utilisation is None:
        return f"{said}; " + t("by the hour renting is cheaper at any use")
    return f"{said}; " + t("by the hour: from {share} of the hours in use", share=forms.share(point.utilisation))
