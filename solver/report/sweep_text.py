"""A what-if run as text and as data: points, break points, money at risk, a plan replayed under more load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from rich.console import RenderableType

from solver.plan import Status
from solver.report import forms
from solver.report.answer import Answer
from solver.report.export import frame_bytes, to_json
from solver.report.failures import GAP_OPEN, INFEASIBLE, INTERRUPTED, NOTHING_FOUND, OK
from solver.report.page import Column, View, line, notes, render, table
from solver.whatif.sweep_points import BreakPoint, Point, Risk, Stress, Sweep

SHOWN_PLANS = 8


def give_what_if(answer: Answer, found: Sweep | Stress) -> None:
    """Hand the answer of `kitout what-if` over, and a line on it where it is not read at once."""
    if isinstance(found, Sweep):
        give_sweep(answer, found)
    else:
        give_stress(answer, found)
    if answer.output is not None:
        count = len(found.points) if isinstance(found, Sweep) else len(found.steps)
        answer.note(f"{answer.output}: {count} points" + ("" if found.complete else ", interrupted"))


def what_if_code(found: Sweep | Stress, gap: float) -> int:
    """Exit code: interrupted, no point feasible, some point not proved to `gap`, else 0."""
    if not found.complete:
        return INTERRUPTED
    if isinstance(found, Stress):
        return OK
    results = [p.result for p in found.points]
    if all(r.status is Status.INFEASIBLE for r in results):
        return INFEASIBLE
    if any(r.status is Status.UNKNOWN for r in results):
        return NOTHING_FOUND
    return GAP_OPEN if any(r.gap is not None and r.gap > gap for r in results) else OK


def give_sweep(answer: Answer, sweep: Sweep) -> None:
    """Hand a what-if run over in the form asked for."""
    if answer.form == "text":
        answer.give(render_sweep(sweep, answer.view()))
    elif answer.form == "json":
        answer.give(to_json(sweep.model_dump(mode="json")))
    else:
        answer.give(frame_bytes(sweep_frame(sweep), answer.form))


def give_stress(answer: Answer, stress: Stress) -> None:
    """Hand a replayed plan over in the form asked for."""
    if answer.form == "text":
        answer.give(render_stress(stress, answer.view()))
    elif answer.form == "json":
        answer.give(to_json(stress.model_dump(mode="json")))
    else:
        rows = [step.model_dump(mode="json", exclude={"broken", "first"}) for step in stress.steps]
        frame = pl.DataFrame(rows).with_columns(
            broken=pl.Series(["; ".join(s.broken) for s in stress.steps], dtype=pl.String)
        )
        answer.give(frame_bytes(frame, answer.form))


def sweep_frame(sweep: Sweep) -> pl.DataFrame:
    """One row per point: what was varied, status, cost, power and plan."""
    rows: list[dict[str, Any]] = []
    for point in sweep.points:
        r = point.result
        row: dict[str, Any] = {f"varied.{k}": v for k, v in point.varied.items()}
        row |= {f"value.{k}": v for k, v in point.values.items()}
        row |= {
            "status": str(r.status),
            "objective": r.objective,
            "bound": r.bound,
            "total": None if r.cost is None else f"{r.cost.total:.2f}",
            "capex": None if r.cost is None else f"{r.cost.capex:.2f}",
            "monthly": None if r.cost is None else f"{r.cost.monthly:.2f}",
            "currency": None if r.cost is None else r.cost.currency,
            "facility_peak_w": None if r.power is None else r.power.facility_peak_w,
            "energy_kwh": None if r.power is None else r.power.energy_kwh,
            "headroom": min((w.headroom for w in r.workloads), default=None),
            "binding": "; ".join(point.binding),
            "marginal": point.marginal,
            "marginal_unit": point.marginal_unit or None,
            "implied": point.implied,
            "plan": point.plan,
            "change": point.change,
        }
        rows.append(row)
    types = {"objective": pl.Float64, "bound": pl.Float64, "headroom": pl.Float64, "marginal": pl.Float64}
    types |= {"facility_peak_w": pl.Float64, "energy_kwh": pl.Float64}
    return pl.DataFrame(rows, infer_schema_length=None).cast({k: v for k, v in types.items() if rows})


def render_sweep(sweep: Sweep, view: View) -> str:
    """The text that `kitout what-if` prints."""
    return render(_page(sweep, view), view)


def _page(sweep: Sweep, view: View) -> Iterator[RenderableType]:
    yield line(f"{sweep.problem} · what if", view, "bold")
    said = [("varied", f"{k}: {_span(v)}") for k, v in sweep.varied.items()]
    said += [("drawn", f"{k}: {law}") for k, law in sweep.sampled.items()]
    base = sweep.base
    if base.cost is not None:
        said.append(("as it is", f"{forms.money(base.cost.total, base.cost.currency)} in all"))
    yield notes(said, view)
    yield ""
    if sweep.risk is not None:
        yield from _risk(sweep.risk, _currency(sweep), view)
    else:
        yield _points(sweep, view)
        yield ""
        yield from _changes(sweep, view)
    yield line(_count(sweep), view)


def _span(values: tuple[str, ...]) -> str:
    return ", ".join(values) if len(values) <= 4 else f"{values[0]} .. {values[-1]} in {len(values)} values"


def _currency(sweep: Sweep) -> str:
    return next((r.cost.currency for r in (sweep.base, *(p.result for p in sweep.points)) if r.cost is not None), "")


def _count(sweep: Sweep) -> str:
    parts = [f"{len(sweep.points)} points: {sweep.solved} searched"]
    if sweep.implied:
        parts.append(f"{sweep.implied} follow from those")
    if sweep.resumed:
        parts.append(f"{sweep.resumed} found in the store")
    open_gap = sum(p.result.status is Status.FEASIBLE for p in sweep.points)
    if open_gap:
        parts.append(f"{open_gap} not proved best")
    end = "" if sweep.complete else " Interrupted: the rest is missing."
    return ", ".join(parts) + "." + end


def _points(sweep: Sweep, view: View) -> RenderableType:
    marginal = next((p.marginal_unit for p in sweep.points if p.marginal_unit), "")
    columns = [Column(name, "right") for name in _short(sweep)]
    columns += [Column("Total", "right"), Column("Power", "right")]
    columns += [Column(f"Saved, {marginal}", "right", flexible=True)] if marginal else []
    columns += [Column("Spare", "right"), Column("Binds"), Column("Plan", flexible=True)]
    rows = [_row(sweep, i, bool(marginal)) for i in range(len(sweep.points))]
    return table(columns, rows, view)


def _short(sweep: Sweep) -> list[str]:
    """Last parts of the varied paths, or all of them where those are not distinct."""
    last = [name.rpartition(".")[2] for name in sweep.varied]
    return last if len(set(last)) == len(last) else list(sweep.varied)


def _row(sweep: Sweep, index: int, marginal: bool) -> list[str]:
    point = sweep.points[index]
    r = point.result
    cells = [point.varied.get(name, "") for name in sweep.varied]
    if r.cost is None or r.power is None:
        cells += [str(r.status), "-"]
    else:
        star = "" if r.status is Status.OPTIMAL else " *"
        cells += [forms.money(r.cost.total, r.cost.currency) + star, forms.watts(r.power.facility_peak_w)]
    if marginal:
        cells.append("-" if point.marginal is None else f"{point.marginal:,.2f}")
    head = min((w.headroom for w in r.workloads), default=None)
    cells.append("-" if head is None else forms.share(head))
    cells.append("yes" if point.binding else "no")
    same = point.change == "same plan"
    cells.append("as above" if same else point.plan or _why(point))
    return cells


def _why(point: Point) -> str:
    return "no plan" if point.result.status is Status.INFEASIBLE else "none found"


def _changes(sweep: Sweep, view: View) -> Iterator[RenderableType]:
    said: list[tuple[str, str]] = []
    for label, text in sweep.least.items():
        said.append(("least", f"below {label} = {text} no plan meets the workloads and the other limits"))
    said += [("plan changes" if n == 0 else "", _break_text(b)) for n, b in enumerate(sweep.breaks)]
    if said:
        yield notes(said, view)
        yield ""


def _break_text(found: BreakPoint) -> str:
    others = ", ".join(f"{k}={v}" for k, v in found.others.items())
    prefix = f"({others}) " if others else ""
    where = f"at {found.field} = {found.at_text}"
    if not found.exact:
        where = f"between {found.field} = {found.at_text} and {found.until_text}"
    money = ""
    if found.cost_below is not None and found.cost_above is not None:
        money = f" ({found.cost_below:,.0f} -> {found.cost_above:,.0f})"
    return f"{prefix}{where}: below {found.below}; from there on {found.above}{money}"


def _risk(risk: Risk, currency: str, view: View) -> Iterator[RenderableType]:
    money = [
        ("mean", risk.mean),
        ("p5", risk.p5),
        ("p50", risk.p50),
        ("p95 (cost at risk)", risk.p95),
        ("mean of the dearest 5%", risk.worst_twentieth_mean),
        ("standard deviation", risk.deviation),
    ]
    yield table(
        [Column("Total cost"), Column(f"{risk.scenarios:,} scenarios", "right")],
        [[name, forms.money(amount, currency)] for name, amount in money],
        view,
    )
    yield ""
    rows = [[forms.share(s.share), s.plan] for s in risk.plans[:SHOWN_PLANS]]
    yield table([Column("Best in", "right"), Column("Plan", flexible=True)], rows, view)
    rest = len(risk.plans) - SHOWN_PLANS
    if rest > 0:
        yield line(f"and {rest} more plans", view)
    if risk.infeasible or risk.unknown:
        yield line(f"{risk.infeasible} scenarios have no plan, of {risk.unknown} nothing is known.", view)
    yield ""


def render_stress(stress: Stress, view: View) -> str:
    """A fixed plan under more load, in text."""
    return render(_stress_page(stress, view), view)


def _stress_page(stress: Stress, view: View) -> Iterator[RenderableType]:
    yield line(f"{stress.problem} · the plan under more load", view, "bold")
    yield notes([("plan", stress.plan), ("load", stress.field)], view)
    yield ""
    rows = []
    for step in stress.steps:
        extra = "-" if step.extra is None else forms.money(step.extra, stress.currency)
        share = "" if step.extra_share is None else f" ({forms.signed_share(step.extra_share)})"
        rows.append([f"x{step.factor:g}", "; ".join(step.broken) or "holds", extra + share, step.plan])
    columns = [Column("Load", "right"), Column("This plan", flexible=True), Column("Head-room costs", "right")]
    yield table([*columns, Column("Cheapest plan for that load", flexible=True)], rows, view)
    yield ""
    said = [(b.workload, b.text) for b in stress.breaks]
    yield notes(said, view)
    if not stress.complete:
        yield line("Interrupted: the rest is missing.", view)
