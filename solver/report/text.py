"""A Result as text: what was asked, the bill, where each workload runs, and how sure all of it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rich.console import RenderableType

from solver.plan import Result, Status
from solver.report import forms
from solver.report import text_parts as parts
from solver.report.alone_text import alone_lines
from solver.report.cash_text import alternative_lines, cash_columns, cash_rows
from solver.report.deployment_text import deployment_table
from solver.report.left_text import left_lines
from solver.report.messages import Messages
from solver.report.page import Column, View, line, notes, render, table
from solver.report.storage_text import storage_table
from solver.report.token_text import token_lines
from solver.report.week_text import run_texts, utilisation_texts, week_lines

STATUS_STYLE = {
    Status.OPTIMAL: "bold green",
    Status.FEASIBLE: "bold yellow",
    Status.INFEASIBLE: "bold red",
    Status.UNKNOWN: "bold red",
}


def render_result(result: Result, view: View) -> str:
    """Render `result` as the text that `kitout solve` prints.

    Parameters
    ----------
    result
        Plan, or the reasons why there is none.
    view
        Width [columns], language, characters and colour.

    Returns
    -------
    str
        The page, ending in a newline; no line is wider than the view.
    """
    return render(_page(result, view), view)


def _page(result: Result, view: View) -> Iterator[RenderableType]:
    t = view.messages
    yield line(_title(result, view, t), view, "bold")
    yield notes(parts.request_lines(result, t), view)
    yield ""
    if result.cost is not None:
        yield _bill(result, view, t)
        for said in parts.cost_lines(result, t):
            yield line(said, view)
        yield ""
        yield _workloads(result, view, t)
        yield ""
        chart = list(week_lines(result, t, view.width))
        if chart:
            yield from (line(said, view) for said in chart)
            yield ""
        yield from deployment_table(result, view)
        yield from storage_table(result, view)
        if result.cash_flow:
            yield table(cash_columns(result, t), cash_rows(result, t), view)
            yield ""
    yield line(parts.status_text(result, t), view, STATUS_STYLE[result.status])
    yield line(parts.proof_text(result, t), view)
    if result.cost is not None:
        yield notes([*_plan_notes(result, t), *_next(result, view, t)], view)
    else:
        yield from _why_not(result, view, t)
        yield notes(_next(result, view, t), view)


def _title(result: Result, view: View, t: Messages) -> str:
    said = [result.problem, t("{months} months", months=forms.number(result.horizon_months))]
    said.append(t("objective {name}", name=result.objective_name))
    if view.source and view.source != result.problem:
        said.append(view.source)
    return " · ".join(said)


def _bill(result: Result, view: View, t: Messages) -> RenderableType:
    columns = [
        Column(t("Item"), flexible=True),
        Column(t("Qty"), "right"),
        Column(t("Billing"), flexible=True),
        *([Column(t("Price"), "right")] if view.wide else []),
        Column(t("Per month"), "right"),
        Column(t("Total"), "right"),
        Column(t("Power"), "right"),
    ]
    return table(columns, parts.item_rows(result, t, view.wide), view, last_is_total=True)


def _workloads(result: Result, view: View, t: Messages) -> RenderableType:
    columns = [
        Column(t("Workload"), flexible=True),
        Column(t("Runs on"), flexible=True),
        *([Column(t("Precision"))] if view.wide else []),
        Column(t("Rate"), flexible=True),
        Column(t("Headroom"), "right"),
        Column(t("TTFT / TPOT"), flexible=True),
        *([Column(t("Memory"))] if view.wide else []),
    ]
    return table(columns, parts.workload_rows(result.workloads, t, view.wide), view)


def _plan_notes(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    yield from left_lines(result, t)
    yield from parts.change_lines(result, t)
    yield from parts.survival_lines(result, t)
    yield from parts.limit_lines(result, t)
    yield from _labelled(t("Runs"), (f"{name}: {said}" for name, said in run_texts(result, t)))
    yield from _labelled(t("In use"), utilisation_texts(result, t))
    yield from token_lines(result, t)
    yield t("Runner-up"), parts.runner_up_text(result, t)
    yield from alternative_lines(result, t)
    yield from alone_lines(result, t)
    yield t("Prices"), parts.price_text(result, t)
    yield from _listed(t("Assumed"), tuple(f"* {assumed}" for assumed in result.assumptions))
    yield from _listed(t("Warnings"), tuple(f"! {warning}" for warning in result.warnings))
    if parts.dropped(result):
        yield t("Dropped"), parts.dropped_text(result, t)


def _why_not(result: Result, view: View, t: Messages) -> Iterator[RenderableType]:
    yield ""
    why = list(_listed(t("Why"), result.no_plan_because))
    why += _listed(t("Warnings"), tuple(f"! {warning}" for warning in result.warnings))
    if why:
        yield notes(why, view)
        yield ""
    reasons = parts.dropped(result)
    if reasons:
        rows = [[reason, f"{count:,}"] for reason, count in reasons]
        yield table([Column(t("Reason"), flexible=True), Column(t("Candidates dropped"), "right")], rows, view)
    else:
        yield line(f"{t('Candidates dropped')}: {t('none was dropped')}", view)
    yield ""


def _next(result: Result, view: View, t: Messages) -> Iterator[tuple[str, str]]:
    source = view.source or "PROBLEM"
    if result.cost is None:
        said = [f"kitout explain {source}", f"kitout solve {source} --set FIELD=VALUE"]
    else:
        said = [f"kitout explain {source}", f"kitout pareto {source} --axes cost,power", "kitout catalog sources"]
    yield t("Next"), " · ".join(said)


def _labelled(label: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    yield from _listed(label, tuple(texts))


def _listed(label: str, lines: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for number, said in enumerate(lines):
        yield (label if number == 0 else ""), said


def summary(result: Result, view: View) -> str:
    """One line on a result that was written elsewhere."""
    t = view.messages
    said = f"{parts.status_text(result, t)}; {parts.proof_text(result, t)}"
    return forms.to_ascii(said) if view.ascii else said


def objective_writer(objective: str, currency: str) -> Callable[[float], str]:
    """How values of an objective are written while the search runs."""
    return lambda value: forms.objective(value, objective, currency)
