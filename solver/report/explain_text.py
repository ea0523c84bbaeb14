"""An explanation as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
from rich.console import RenderableType

from solver.explaining.explain_points import Conflict, Explanation, LimitWorth, PriceMove, Relaxation, WhyNot
from solver.plan import Result, Status
from solver.report import forms
from solver.report.answer import Answer, NoAnswer, read_text
from solver.report.export import frame_bytes, read_result, to_json
from solver.report.failures import INFEASIBLE, INTERRUPTED, NOTHING_FOUND, OK
from solver.report.page import Column, View, line, notes, render, table
from solver.report.text_parts import distance

SHOWN_FILTERS = 10


def of_result(asked: Any, problem: str | None) -> tuple[Result | None, Any]:
    """Tell a saved result from a problem: the result and what to load instead, or nothing and what was asked.

    Raises
    ------
    NoAnswer
        For a saved result without its problem.
    """
    if asked.problem == "-" or not asked.problem.lower().endswith(".json"):
        if problem is not None:
            raise NoAnswer("--problem goes with a saved result: kitout explain plan.json --problem FILE")
        return None, asked
    text = read_text(asked.problem)
    if '"format_version"' not in text:
        return None, asked
    saved = read_result(text, asked.problem)
    if problem is None:
        raise NoAnswer(f"{asked.problem}: name the problem it answers too: --problem FILE")
    return saved, replace(asked, problem=problem)


def give_explanation(answer: Answer, found: Explanation, source: str | None, saved: Result | None = None) -> None:
    """Hand an explanation over in the form asked for; as a table it is one row per thing said."""
    if saved is not None:
        for said in differences(found, saved):
            answer.note(f"note: {said}")
    if answer.form == "text":
        answer.give(render_explanation(found, answer.view(source)))
    elif answer.form == "json":
        answer.give(to_json(found.model_dump(mode="json")))
    else:
        answer.give(frame_bytes(explanation_frame(found), answer.form))


def differences(found: Explanation, saved: Result) -> list[str]:
    """Where a saved result is not the one that is explained."""
    out = []
    if saved.inputs.problem_sha256 != found.inputs.problem_sha256:
        out.append("the problem is not the one that the result was made from")
    if saved.inputs.catalog_sha256 != found.inputs.catalog_sha256:
        out.append("the catalogue is not the one that the result was made from")
    mine = None if found.result.cost is None else found.result.cost.total
    theirs = None if saved.cost is None else saved.cost.total
    if mine != theirs:
        out.append(
            f"the result costs {theirs if theirs is not None else '-'}, what is explained {mine if mine is not None else '-'}"
        )
    return out


def explanation_code(found: Explanation) -> int:
    """Exit code: interrupted, infeasible by proof, nothing known, else 0."""
    if not found.complete:
        return INTERRUPTED
    if found.feasible:
        return OK
    return INFEASIBLE if found.result.status is Status.INFEASIBLE else NOTHING_FOUND


def explanation_frame(found: Explanation) -> pl.DataFrame:
    """One row per member of the conflict, relaxation, binding limit, name asked about and price."""
    rows: list[dict[str, Any]] = []

    def add(kind: str, subject: str, said: str, total: Any = None) -> None:
        rows.append(
            {"kind": kind, "subject": subject, "said": said, "total": None if total is None else f"{total:.2f}"}
        )

    for member in found.conflict.members if found.conflict else ():
        add("conflict", member.field, f"{member.value} ({member.where})")
    for entry in found.dropped:
        add("dropped", entry.reason, str(entry.count))
    for way in found.relaxations:
        add("relaxation", ", ".join(c.field for c in way.changes), _changes(way), way.total)
    for worth in found.worth:
        add("limit", worth.field, _worth(worth), worth.next_saves)
    for other in found.why_not:
        add("why not", other.name, _why_not(other, _currency(found)), other.total)
    for move in found.prices:
        add("price", move.selector, _move(move))
    for remark in found.tiers:
        add("tier", "", remark)
    return pl.DataFrame(rows, schema={"kind": pl.String, "subject": pl.String, "said": pl.String, "total": pl.String})


def render_explanation(found: Explanation, view: View) -> str:
    """The text that `kitout explain` prints."""
    return render(_page(found, view), view)


def _currency(found: Explanation) -> str:
    return "" if found.result.cost is None else found.result.cost.currency


def _page(found: Explanation, view: View) -> Iterator[RenderableType]:
    if found.feasible:
        yield from _feasible(found, view)
    else:
        yield from _infeasible(found, view)
    if not found.complete:
        yield line("Interrupted: more could be said.", view)


def _infeasible(found: Explanation, view: View) -> Iterator[RenderableType]:
    if found.result.status is not Status.INFEASIBLE:
        yield line("No plan was found in time, and none was ruled out; raise --time-limit.", view, "bold")
        return
    yield line(f"{found.problem}: no plan meets all limits.", view, "bold red")
    if found.conflict is not None:
        yield from _conflict(found.conflict, view)
    if found.dropped:
        yield ""
        yield line("What took the candidates:", view)
        rows = [[d.reason, f"{d.count:,}"] for d in found.dropped[:SHOWN_FILTERS]]
        yield table([Column("Filter", flexible=True), Column("Candidates", "right")], rows, view)
    yield ""
    if found.relaxations:
        yield line("Any one of these makes a plan possible:", view)
        rows = [_relaxation(r) for r in found.relaxations]
        yield table(
            [Column("Change", flexible=True), Column("Then", "right"), Column("Plan", flexible=True)], rows, view
        )
        overrides = " ".join(f"--set '{c.override}'" for c in found.relaxations[0].changes if c.override)
        if overrides:
            yield ""
            yield notes([("Next", f"kitout solve {view.source or 'PROBLEM'} {overrides}")], view)
    elif found.complete:
        yield line("No change of up to three fields makes a plan possible.", view)


def _conflict(conflict: Conflict, view: View) -> Iterator[RenderableType]:
    sure = "" if conflict.proved else " (not all proved in time)"
    yield line(f"These cannot hold together; each one is needed for the conflict{sure}:", view)
    rows = [[m.field, m.value, m.where] for m in conflict.members]
    yield table([Column("Field"), Column("Value", flexible=True), Column("Where", flexible=True)], rows, view)


def _changes(way: Relaxation) -> str:
    return "; ".join(f"{c.field}: {c.before} -> {c.after}" for c in way.changes)


def _relaxation(way: Relaxation) -> list[str]:
    star = "" if way.proved else " *"
    return [_changes(way), forms.money(way.total, way.currency) + star, way.plan or "nothing is left to run"]


def _feasible(found: Explanation, view: View) -> Iterator[RenderableType]:
    result = found.result
    assert result.cost is not None
    currency = result.cost.currency
    yield line(f"{found.problem}: {forms.money(result.cost.total, currency)}", view, "bold")
    far = distance(result)
    sure = "not proved, no useful bound" if far is None else f"within {forms.share(far)}"
    sure = "proved" if result.status is Status.OPTIMAL else sure
    yield notes([("plan", f"{found.plan} ({result.objective_name}, {sure})")], view)
    yield ""
    if found.worth:
        said = [(w.field, _worth(w)) for w in found.worth]
        yield notes(said, view)
    bound = {w.field for w in found.worth}
    slack = [
        (
            x.field,
            f"does not bind: {forms.quantity(x.slack, x.unit, currency)} of {forms.quantity(x.limit, x.unit, currency)} left",
        )
        for x in found.limits
        if x.field not in bound and not x.binding
    ]
    if slack:
        yield notes(slack, view)
    if not found.worth:
        yield line("No limit of money, watts or nodes binds: more of any of them would not help.", view)
    if found.why_not:
        yield ""
        yield notes([(f"why not {w.name}", _why_not(w, currency)) for w in found.why_not], view)
    if found.prices:
        yield ""
        yield line("How far a price may move before the plan changes", view, "bold")
        yield notes([(m.selector, _move(m)) for m in found.prices], view)
    if found.tiers:
        yield ""
        yield notes([("tiers" if n == 0 else "", remark) for n, remark in enumerate(found.tiers)], view)


def _worth(worth: LimitWorth) -> str:
    said = [f"binds at {worth.limit} ({worth.where})"]
    if worth.more_value:
        said.append(f"one more {worth.unit} serves {worth.more_value} more")
    elif worth.one_more is not None:
        said.append(f"one more {worth.unit} saves {worth.one_more:,.2f}")
    if worth.next_at is not None and worth.next_saves is not None:
        rate = f", {worth.per_unit_month:,.2f} per {worth.unit} and month" if worth.per_unit_month is not None else ""
        if worth.per_unit_month is not None and not worth.unit.startswith(("kW", "node")):
            rate = f", {worth.per_unit_month:,.2f} per {worth.unit}"
        said.append(
            f"the next better plan needs {worth.next_at}: {worth.next_plan}; it saves {worth.next_saves:,.2f}{rate}"
        )
    return "; ".join(said)


def _why_not(other: WhyNot, currency: str) -> str:
    if not other.possible:
        why = "; ".join(f"{d.reason} ({d.count})" for d in other.reasons[:4])
        rest = "" if other.proved else " was found in time"
        return f"no plan with it{rest}" + (f": {why}" if why else " meets the limits")
    assert other.difference is not None
    if other.difference == 0 and not other.by_category:
        return f"the best plan uses it: {other.plan}"
    share = "" if other.share is None else f" ({forms.signed_share(other.share)})"
    parts = ", ".join(f"{k} {v:+,.2f}" for k, v in other.by_category.items())
    sure = "" if other.proved else " (best found, not proved)"
    return f"the best plan with it costs {forms.money(other.total, currency)}, {other.difference:+,.2f}{share}{sure}: {other.plan}. By category: {parts or 'no difference'}"


def _move(move: PriceMove) -> str:
    if move.changes is None:
        return f"{move.direction} to x{move.holds:g} the plan stays the same"
    change = move.changes - 1
    return f"{move.direction} {forms.share(abs(change))} (x{move.changes:g}): then {move.then}; the plan holds to x{move.holds:g}"
