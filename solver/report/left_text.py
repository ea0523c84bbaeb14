"""What was served of each priority, what was left out and its price, and how far single billing modes come, as lines."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from solver.plan import Extra, LeftOut, Level, Portfolio, Result, SingleMode
from solver.report import forms
from solver.report.messages import Messages

REASONS = (
    "no room for it in the budget beside what comes first",
    "the other limits leave no room for it, whatever is paid",
    "no offer or server can do it",
)
"""Reasons of the result that the report has in other languages too."""


def left_lines(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """Lines below the plan where workloads may be left out; none elsewhere."""
    found = result.portfolio
    if found is None or result.cost is None:
        return
    currency = result.cost.currency
    for number, level in enumerate(found.levels):
        yield (t("Served") if number == 0 else ""), _level(level, currency, t)
    if not found.left_out:
        yield t("Left out"), t("nothing")
    for number, left in enumerate(found.left_out):
        yield (t("Left out") if number == 0 else ""), _left(left, currency, t)
    if found.whole is not None:
        yield "", t("all in full: {extra}", extra=extra_text(found.whole, currency, t))
    if found.next_best is not None and len(found.left_out) > 1:
        yield t("Best next"), found.next_best
    if found.single_modes:
        yield t("One mode"), mode_text(found, result, t)


def value_text(value: float, unit: str, currency: str, t: Messages) -> str:
    """A value in its unit: money a month, or a number of workloads."""
    if unit == "workloads":
        return t("{n} workloads", n=forms.number(value))
    return f"{forms.money(value, currency)}/mo"


def _level(level: Level, currency: str, t: Messages) -> str:
    said = t(
        "priority {number}: {value} of {wanted}",
        number=level.priority,
        value=value_text(level.value, level.unit, currency, t),
        wanted=value_text(level.wanted, level.unit, currency, t),
    )
    if level.proved:
        return said if level.value >= level.wanted else f"{said}, {t('proved to be the most')}"
    return f"{said}, {t('at most {bound}', bound=value_text(level.bound, level.unit, currency, t))}"


def _left(left: LeftOut, currency: str, t: Messages) -> str:
    name = left.name
    if left.served_share:
        name += " " + t("({share} served)", share=forms.share(left.served_share, 3))
    said = [f"{name}: {t(left.because) if left.because in REASONS else left.because}"]
    if left.alone is not None:
        said.append(t("adding it: {extra}", extra=extra_text(left.alone, currency, t)))
    return "; ".join(said)


def extra_text(extra: Extra, currency: str, t: Messages) -> str:
    """Money beyond the plan's: over the horizon, in the highest month, up front."""

    def more(amount: Decimal) -> str:
        return ("-" if amount < 0 else "+") + forms.money(abs(amount), currency)

    said = [t("{money} over the horizon", money=more(extra.total)), t("{money} a month", money=more(extra.monthly))]
    said += [t("{money} up front", money=more(extra.capex))] if extra.capex else []
    return ", ".join(said) + ("" if extra.proved else f" ({t('best found, not proved')})")


def mode_text(found: Portfolio, result: Result, t: Messages) -> str:
    """The best single billing mode under the same limits, and by how much the plan beats it."""
    assert result.cost is not None
    best, currency = found.single_modes[0], result.cost.currency
    mode = best.billing.replace("_", " ")
    sure = "" if best.proved else f" ({t('best found, not proved')})"
    for level, alone in zip(found.levels, best.values, strict=True):
        if abs(level.value - alone) > 1e-6 * max(1.0, alone):
            gain = value_text(level.value - alone, level.unit, currency, t)
            of = value_text(alone, level.unit, currency, t)
            what = t("best alone is {mode}: {of} of priority {n}", mode=mode, of=of, n=level.priority)
            return f"{what}{sure}; {t('this plan serves {gain} more', gain=gain)}"
    what = t("best alone is {mode}: it serves as much", mode=mode)
    return what + sure + _dearer(best, result, t)


def _dearer(best: SingleMode, result: Result, t: Messages) -> str:
    assert result.cost is not None
    if best.total is None or best.total <= result.cost.total:
        return ""
    more = best.total - result.cost.total
    share = forms.share(float(more / best.total))
    return ", " + t("for {money} ({share}) more", money=forms.money(more, result.cost.currency), share=share)
