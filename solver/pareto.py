"""`kitout pareto` without its command line: a front with its plans, and near-optimal plans of another kind."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from solver.assemble import no_plan
from solver.front.axes import NAMES, UNITS
from solver.front.explorer import Explorer, Tell
from solver.front.front_points import Front, FrontPoint
from solver.front.near import near_plans
from solver.front.scoring import figures_of, scored
from solver.whatif.study import Study
from solver.whatif.sweep_points import change_text, plan_text


def front(
    study: Study,
    axes: Sequence[str],
    points: int,
    stop: threading.Event,
    tell: Tell = lambda done, of, said: None,
) -> tuple[Front, Explorer]:
    """Front over `axes`: all of it (`points` 0), or at most so many points spread over it, the ends always among them."""
    explorer = Explorer(study, axes, stop)
    inputs = no_plan(explorer.loaded, study.catalog, explorer.small, study.options, 0.0)
    because: tuple[str, ...] = ()
    whole = True
    if explorer.scaled is None:
        because = inputs.no_plan_because
    else:
        whole = explorer.some_points(points, tell) if points else explorer.all_points(tell)
        if not explorer.spots and not explorer.unproved and not stop.is_set():
            because = ("the limits cannot all hold: kitout explain says which",)
    made: list[FrontPoint] = []
    for spot in sorted(explorer.spots, key=lambda s: s.at):
        result = explorer.result(spot)
        values = {a: round(v * UNITS[a], 6) for a, v in zip(axes, spot.at, strict=True)}
        change = change_text(made[-1].result, result) if made else ""
        figures = (
            figures_of(explorer.scaled.instance, spot.found.values) if explorer.scaled and spot.found.values else {}
        )
        made.append(FrontPoint(values=values, plan=plan_text(result), change=change, result=result, figures=figures))
    return (
        Front(
            problem=inputs.problem,
            axes=tuple(axes),
            units={a: NAMES[a] or study.loaded.problem.currency for a in axes},
            points=tuple(made),
            whole=whole and not stop.is_set(),
            unproved=explorer.unproved,
            complete=not stop.is_set(),
            no_plan_because=because,
            inputs=inputs.inputs,
        ),
        explorer,
    )


def pareto(
    study: Study,
    axes: Sequence[str],
    points: int,
    near: float | None,
    stop: threading.Event,
    tell: Tell = lambda done, of, said: None,
    weights: Mapping[str, float] | None = None,
) -> Front:
    """Front with, where `near` is given, the plans of another kind within that share of the best first axis.

    Parameters
    ----------
    weights : mapping, optional
        Criteria and weights by which all plans are marked: see `solver.front.scoring`.
    """
    found, explorer = front(study, axes, points, stop, tell)
    if near is None or not found.points or stop.is_set():
        found = found.model_copy(update={"near_slack": near})
    else:
        best = found.points[0].result
        plans = near_plans(
            study, explorer.loaded, study.catalog, explorer.everything, best, near, stop, tell, explorer.floors
        )
        found = found.model_copy(update={"near": tuple(plans), "near_slack": near, "complete": not stop.is_set()})
    if not weights or not found.points:
        return found
    return found.model_copy(update={"scores": scored(found.points, found.near, weights, study.loaded.problem)})
