"""`kitout explain` without its command line: solves the problem and says why the answer is what it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from solver.candidates import reduced
from solver.explain import Feasibility, conflict_of, dropped_of, find_conflict, ways_out
from solver.explaining.explain_fields import asked_fields
from solver.explaining.explain_plan import solved, worth_of
from solver.explaining.explain_points import Dropped, Explanation, LimitWorth, Relaxation, WhyNot
from solver.explaining.explain_prices import price_moves
from solver.explaining.explain_relax import relaxed
from solver.explaining.explain_tiers import tier_remarks
from solver.explaining.explain_why import why_not
from solver.plan import Status
from solver.whatif.study import Study
from solver.whatif.sweep_points import plan_text

Tell = Callable[[int, int, str], None]


def explain(
    study: Study,
    names: Sequence[str],
    stop: threading.Event,
    tell: Tell = lambda done, of, said: None,
) -> Explanation:
    """Explain a problem's answer.

    Parameters
    ----------
    names
        Accelerators, providers or offers asked about: why not these?

    Raises
    ------
    solver.whatif.vary.BadRequest
        For a name that the catalogue does not know.
    """
    at = solved(study, stop)
    if at is None:
        return _no_plan(study, stop, tell)
    result = at.result
    binding = [x for x in result.limits if x.binding]
    todo = len(binding) + len(names) + 2
    worth: list[LimitWorth] = []
    for use in binding:
        if stop.is_set():
            break
        tell(len(worth), todo, f"what more of {use.field} is worth")
        found = worth_of(at, use)
        if found is not None:
            worth.append(found)
    others: list[WhyNot] = []
    for name in names:
        if stop.is_set():
            break
        tell(len(worth) + len(others), todo, f"why not {name}")
        others.append(why_not(at, name))
    tell(todo - 2, todo, "how far prices may move")
    moves = [] if stop.is_set() else price_moves(at)
    return Explanation(
        problem=result.problem,
        feasible=True,
        result=result,
        plan=plan_text(result),
        limits=result.limits,
        worth=tuple(worth),
        why_not=tuple(others),
        prices=tuple(moves),
        tiers=tier_remarks(result, study.loaded, study.catalog),
        complete=not stop.is_set(),
        inputs=result.inputs,
    )


def _no_plan(study: Study, stop: threading.Event, tell: Tell) -> Explanation:
    """Conflict and ways out of a problem without a plan."""
    result = study.solve(stop=stop)
    small = reduced(study.compiled(study.loaded, study.catalog, any_watts=True))
    dropped: tuple[Dropped, ...] = dropped_of(small, small.unserved) if small.unserved else ()
    ask = Feasibility(study, stop)
    conflict = None
    relaxations: list[Relaxation] = []
    if result.status is Status.INFEASIBLE and not stop.is_set():
        tell(0, 0, "which fields cannot hold together")
        members = find_conflict(ask, asked_fields(study.loaded.problem))
        if members:
            conflict = conflict_of(ask, members)
            ways = ways_out(ask, members)
            for n, way in enumerate(ways):
                if stop.is_set():
                    break
                tell(n, len(ways), f"how far {' and '.join(way)} must give way")
                found = relaxed(ask, way)
                if found is not None:
                    relaxations.append(found)
    relaxations.sort(key=lambda r: (any(not c.override for c in r.changes), r.total or 0))
    return Explanation(
        problem=result.problem,
        feasible=False,
        result=result,
        conflict=conflict,
        dropped=dropped,
        relaxations=tuple(relaxations),
        complete=not stop.is_set(),
        inputs=result.inputs,
    )
