"""A front as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from rich.console import RenderableType

from problems import units
from solver.front.front_points import Front, FrontPoint, Scores
from solver.report import forms
from solver.report.answer import Answer
from solver.report.export import frame_bytes, to_json
from solver.report.failures import INFEASIBLE, INTERRUPTED, NOTHING_FOUND, OK
from solver.report.page import Column, View, line, notes, render, table


def give_front(answer: Answer, front: Front) -> None:
    """Hand a front over in the form asked for."""
    if answer.form == "text":
        answer.give(render_front(front, answer.view()))
    elif answer.form == "json":
        answer.give(to_json(front.model_dump(mode="json")))
    else:
        answer.give(frame_bytes(front_frame(front), answer.form))
    if answer.output is not None:
        answer.note(f"{answer.output}: {len(front.points)} points" + ("" if front.complete else ", interrupted"))


def front_code(front: Front) -> int:
    """Exit code: interrupted, no plan by proof, nothing proved in time, else 0."""
    if not front.complete:
        return INTERRUPTED
    if front.points:
        return OK
    return NOTHING_FOUND if front.unproved else INFEASIBLE


def front_frame(front: Front) -> pl.DataFrame:
    """One row per point and near-optimal plan."""
    rows: list[dict[str, Any]] = []
    for point in front.points:
        rows.append({"kind": "front", **_row(front, point.values), "change": point.change, "plan": point.plan})
        _money(rows[-1], point)
    for near in front.near:
        row: dict[str, Any] = {"kind": "near", **_row(front, {front.axes[0]: near.result.objective or 0.0})}
        rows.append({**row, "change": near.change, "plan": near.plan})
        _money(rows[-1], near)
    if front.scores is not None:
        marks = {(m.kind, m.index): m for m in front.scores.ranking}
        for n, row in enumerate(rows):
            mark = marks[row["kind"], n if row["kind"] == "front" else n - len(front.points)]
            row |= {"rank": mark.rank, "score": mark.score}
            row |= {f"points_{name}": value for name, value in mark.points.items()}
            row |= {f"figure_{name}": value for name, value in mark.figures.items()}
        rows.sort(key=lambda row: row["rank"])
    return pl.DataFrame(rows, infer_schema_length=None)


def _row(front: Front, values: dict[str, float]) -> dict[str, float | None]:
    return {axis: values.get(axis) for axis in front.axes}


def _money(row: dict[str, Any], point: Any) -> None:
    cost = point.result.cost
    row["total"] = None if cost is None else f"{cost.total:.2f}"
    row["currency"] = None if cost is None else cost.currency


def render_front(front: Front, view: View) -> str:
    """The text that `kitout pareto` prints."""
    return render(_page(front, view), view)


def _page(front: Front, view: View) -> Iterator[RenderableType]:
    yield line(f"{front.problem} · {' against '.join(front.axes)}", view, "bold")
    if not front.points:
        yield notes([("no plan" if n == 0 else "", said) for n, said in enumerate(front.no_plan_because)], view)
    else:
        yield ""
        columns = [Column(axis, "right") for axis in front.axes]
        rows = [[*_values(front, p), _plan(p)] for p in front.points]
        yield table([*columns, Column("Plan, and what changes from the line above", flexible=True)], rows, view)
    yield ""
    yield line(_said(front), view)
    if front.near_slack is not None:
        yield from _near(front, view)
    if front.scores is not None:
        yield from _scores(front.scores, view)


def _values(front: Front, point: FrontPoint) -> list[str]:
    return [written(axis, point.values[axis], front.units[axis]) for axis in front.axes]


def written(axis: str, value: float, unit: str) -> str:
    """Value on an axis for people."""
    if axis == "cost":
        return forms.money(value, unit)
    if axis == "power":
        return forms.watts(value)
    return f"{forms.number(value)} {unit}"


def _plan(point: FrontPoint) -> str:
    return f"{point.plan}\n  {point.change}" if point.change else point.plan


def _said(front: Front) -> str:
    many = f"{len(front.points)} point{'s' if len(front.points) != 1 else ''}, each proved"
    if not front.complete:
        return f"{many}. Interrupted: others are missing."
    if front.whole:
        return f"{many}; there are no others."
    said = f"{many}, both ends of the front among them; there are more between (--points 0 lists all)."
    if front.unproved:
        said += f" {front.unproved} searches ended without proof: raise --time-limit."
    return said


def _near(front: Front, view: View) -> Iterator[RenderableType]:
    yield ""
    slack = forms.share(front.near_slack or 0.0)
    if not front.near:
        yield line(f"No plan of another kind within {slack} of the best {front.axes[0]}.", view)
        return
    yield line(f"Plans of another kind within {slack} of the best {front.axes[0]}", view, "bold")
    rows = [[forms.signed_share(n.difference), n.plan, ", ".join(n.without)] for n in front.near]
    columns = [Column("Difference", "right"), Column("Plan", flexible=True), Column("Best plan without", flexible=True)]
    yield table(columns, rows, view)


def _scores(scores: Scores, view: View) -> Iterator[RenderableType]:
    """Ranked table: points of each criterion with the figure they come from."""
    yield ""
    yield line("Plans by weighted score", view, "bold")
    names = list(scores.weights)
    columns = [Column("Rank", "right"), Column("Score", "right")]
    columns += [Column(f"{name} ({scores.weights[name]:g})", "right") for name in names]
    rows = []
    for mark in scores.ranking:
        cells = [f"{mark.points[n]:.2f}\n{_figure(mark.figures[n], scores.units[n])}" for n in names]
        rows.append([str(mark.rank), f"{mark.score:.2f}", *cells, f"{mark.kind} {mark.index + 1}: {mark.plan}"])
    yield table([*columns, Column("Plan", flexible=True)], rows, view)
    yield ""
    yield line(f"Rule: {scores.rule}; a figure not known gets nothing. Only the plans listed are compared.", view)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "not known"
    if unit == "W":
        return forms.watts(value)
    return forms.money(value, unit) if unit in units.CURRENCIES else f"{forms.number(value)} {unit}".strip()
