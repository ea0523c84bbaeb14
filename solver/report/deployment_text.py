"""How the machines of a plan are had: a short table of modes and what they mean for the buyer."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from problems import units
from solver.plan import Item, Result
from solver.report import forms
from solver.report.messages import Messages
from solver.report.page import Column, View, table


def deployment_table(result: Result, view: View) -> Iterator[RenderableType]:
    """The table with a blank line after it; nothing where no machine tells its mode."""
    t = view.messages
    rows = list(deployment_rows(result, t))
    if not rows:
        return
    columns = [
        Column(t("Deployment"), flexible=True),
        Column(t("Mode")),
        Column(t("Starts in"), "right"),
        Column(t("Isolation")),
        Column(t("Billed by"), "right"),
        Column(t("Least term"), "right"),
        Column(t("Work per node"), "right"),
    ]
    yield table(columns, rows, view)
    yield ""


def deployment_rows(result: Result, t: Messages) -> Iterator[list[str]]:
    """One row per machine and terms, each once."""
    seen: dict[tuple[str, ...], None] = {}
    for item in result.items:
        if item.deployment_mode is not None:
            seen[tuple(_row(item, t))] = None
    yield from map(list, seen)


def _row(item: Item, t: Messages) -> Iterator[str]:
    rented = item.kind == "rental"
    yield item.item
    yield (item.deployment_mode or "").replace("_", " ")
    yield t("at once") if item.start_h == 0 else hours(item.start_h)
    yield (item.isolation or "-").replace("_", " ")
    yield _seconds(item.granularity_s) if rented else t("owned") if item.billing == "owned" else t("bought")
    yield (hours(item.min_term_h) if item.min_term_h else t("none")) if rented else "-"
    yield "-" if item.operations_h is None else t("{hours} h/mo", hours=forms.number(item.operations_h))


def hours(value_h: float | None) -> str:
    """Write a time of hours [h] as minutes, hours or days; unknown is ``-``."""
    if value_h is None or value_h < 48:
        return "-" if value_h is None else units.format_duration(value_h * 3600, 2)
    return f"{forms.number(value_h / 24)} d"


def _seconds(value_s: float | None) -> str:
    return "-" if value_s is None else units.format_duration(value_s, 2)
