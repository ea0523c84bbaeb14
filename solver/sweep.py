"""What-if runs: grids over fields and prices with their break points, and Monte Carlo. Answers are not searched twice."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from solver.plan import Result, Status
from solver.whatif.breaks import Breaks, countable, limit_text, per_unit
from solver.whatif.implied import is_limit
from solver.whatif.scatter import CHUNK, Line, Row, scattered
from solver.whatif.store import Store
from solver.whatif.study import Study, number_at
from solver.whatif.sweep_points import BreakPoint, Point, Sweep, change_text, plan_text, risk_of, signature
from solver.whatif.vary import Law, Scenario, Vary, draws, grid

Progress = Callable[[int, int, str], None]
"""Points done, points in all, a line on the last one."""


@dataclass(frozen=True)
class How:
    """Where and how widely a sweep runs: processes, cluster, folder of answers, whether break points are wanted."""

    workers: int = 1
    cluster: str | None = None
    store: Path | None = None
    breaks: bool = True
    stop: threading.Event = field(default_factory=threading.Event)
    tell: Progress = lambda done, of, said: None


@dataclass
class _Answers:
    results: dict[int, Result]
    implied: set[int]
    resumed: int
    complete: bool


def sweep(study: Study, varied: Sequence[Vary], how: How) -> Sweep:
    """Solve every point of a grid, say what changes along it, and find the break points between neighbours.

    Raises
    ------
    problems.issues.ProblemError, solver.whatif.vary.BadRequest
        For a field or price selector that cannot be varied so.
    """
    scenarios = grid(varied)
    base = study.solve(stop=how.stop)
    limits = tuple(v.path for v in varied if _implies(study, v, scenarios))
    answers = _answered(study, scenarios, _lines(study, scenarios, limits), how)
    points = [
        _point(study, s, answers.results[n], limits, implied=n in answers.implied)
        for n, s in enumerate(scenarios)
        if n in answers.results
    ]
    complete = answers.complete
    found: list[BreakPoint] = []
    least: dict[str, str] = {}
    if varied and how.breaks and complete:
        found, least = _all_breaks(study, varied, scenarios, answers.results, how)
        complete = not how.stop.is_set()
    points = _compared(study, points, varied)
    return Sweep(
        problem=base.problem,
        varied={v.path: v.values for v in varied},
        base=base,
        points=tuple(points),
        breaks=tuple(found),
        least=least,
        solved=len(points) - len(answers.implied) - answers.resumed,
        implied=len(answers.implied),
        resumed=answers.resumed,
        complete=complete,
        inputs=base.inputs,
    )


def sample(study: Study, laws: Sequence[Law], varied: Sequence[Vary], count: int, how: How) -> Sweep:
    """Solve `count` scenarios drawn at random (at each point of a grid, where one is given too) and sum up their cost."""
    drawn = draws(laws, count, study.seed)
    scenarios = [
        Scenario((*g.settings, *d.settings), d.factors, (*g.prices, *d.prices)) for g in grid(varied) for d in drawn
    ]
    base = study.solve(stop=how.stop)
    answers = _answered(study, scenarios, _lines(study, scenarios, ()), how)
    points = [
        Point(varied=s.varied, plan=plan_text(answers.results[n]), result=answers.results[n])
        for n, s in enumerate(scenarios)
        if n in answers.results
    ]
    return Sweep(
        problem=base.problem,
        varied={v.path: v.values for v in varied},
        sampled={law.path: f"{law.law}({', '.join(map(str, law.arguments))})" for law in laws},
        base=base,
        points=tuple(points),
        risk=risk_of([p.result for p in points]),
        solved=len(points) - answers.resumed,
        implied=0,
        resumed=answers.resumed,
        complete=answers.complete,
        inputs=base.inputs,
    )


def _implies(study: Study, vary: Vary, scenarios: Sequence[Scenario]) -> bool:
    """Whether answers follow from one another along this field: a limit, of known use, in the problem's currency."""
    if not is_limit(vary.path) or study.loaded.problem.objective == "scale":
        return False
    return all(number_at(study.at(s)[0], vary.path) is not None for s in (scenarios[0], scenarios[-1]))


def _lines(study: Study, scenarios: Sequence[Scenario], limits: tuple[str, ...]) -> list[Line]:
    """Scenarios that differ in limits only make a line, loosest first; others are cut into chunks of fixed size."""
    numbered = list(enumerate(scenarios))
    if not limits:
        chunks = [tuple(numbered[i : i + CHUNK]) for i in range(0, len(numbered), CHUNK)]
        return [Line(n, chunk) for n, chunk in enumerate(chunks)]
    groups: dict[Scenario, list[tuple[int, Scenario]]] = {}
    for number, scenario in numbered:
        rest = tuple(pair for pair in scenario.settings if pair[0] not in limits)
        groups.setdefault(Scenario(rest, scenario.factors, scenario.prices), []).append((number, scenario))

    def looseness(entry: tuple[int, Scenario]) -> tuple[float, ...]:
        loaded, _ = study.at(entry[1])
        return tuple(-(number_at(loaded, f) or 0.0) for f in limits)

    return [Line(n, tuple(sorted(group, key=looseness)), limits) for n, group in enumerate(groups.values())]


def _answered(study: Study, scenarios: Sequence[Scenario], lines: Sequence[Line], how: How) -> _Answers:
    """Run the lines, but for what the store holds already."""
    store = Store(how.store)
    keys = [study.key(s) for s in scenarios]
    held = store.load(keys)
    results = {n: Result.model_validate_json(held[k][1]) for n, k in enumerate(keys) if k in held}
    implied = {n for n, k in enumerate(keys) if k in held and held[k][0]}
    resumed = len(results)
    todo = []
    for line in lines:
        left = tuple(entry for entry in line.scenarios if entry[0] not in results)
        known = tuple(
            (s, held[keys[n]][1]) for n, s in line.scenarios if n in results and n not in implied and line.limits
        )
        if left:
            todo.append(Line(line.number, left, line.limits, known))
    started = time.monotonic()
    if resumed:
        how.tell(resumed, len(scenarios), f"{resumed} answers found in the store")

    def take(rows: list[Row]) -> None:
        store.add(rows)
        for row in rows:
            results[row.number] = Result.model_validate_json(row.result)
            if row.implied:
                implied.add(row.number)
        if rows:
            now = len(results)
            left_s = (time.monotonic() - started) / max(1, now - resumed) * (len(scenarios) - now)
            how.tell(now, len(scenarios), f"about {left_s:.0f} s left" if now < len(scenarios) else "")

    for rows in scattered(study, todo, how.workers, how.cluster, how.stop):
        take(rows)
    return _Answers(results, implied, resumed, len(results) == len(scenarios))


def _point(study: Study, scenario: Scenario, result: Result, limits: Sequence[str], *, implied: bool) -> Point:
    loaded, _ = study.at(scenario)
    values = {f: v for f, _ in scenario.settings if (v := number_at(loaded, f)) is not None}
    return Point(varied=scenario.varied, values=values, implied=implied, plan=plan_text(result), result=result)


def _compared(study: Study, points: Sequence[Point], varied: Sequence[Vary]) -> list[Point]:
    """Add to each point what changed from its neighbour below in the last varied field, and what its limits cost."""
    if not varied:
        return list(points)
    last = varied[-1].path
    out: list[Point] = []
    for point in points:
        before = out[-1] if out and _others(out[-1], last) == _others(point, last) else None
        update: dict[str, object] = {}
        if before is not None:
            update["change"] = change_text(before.result, point.result)
            update |= _marginal(before, point, last)
        update["binding"] = tuple(v.path for v in varied if is_limit(v.path) and _costs(point, v.path, points))
        out.append(point.model_copy(update=update))
    return out


def _others(point: Point, field_path: str) -> dict[str, str]:
    return {k: v for k, v in point.varied.items() if k != field_path}


def _costs(point: Point, path: str, points: Sequence[Point]) -> bool:
    """Whether a looser value of this one limit gives a cheaper plan, or one at all, by proof of both."""
    for other in points:
        if _others(other, path) != _others(point, path) or other.values.get(path, 0.0) <= point.values.get(path, 0.0):
            continue
        if other.result.objective is None:
            continue
        if point.result.status is Status.INFEASIBLE:
            return True
        here = point.result.objective if point.result.status is Status.OPTIMAL else None
        if here is not None and other.result.objective < here:
            return True
    return False


def _marginal(before: Point, point: Point, path: str) -> dict[str, object]:
    """Cost saved per unit of the limit and month, from the point before to this one."""
    if not is_limit(path) or before.result.cost is None or point.result.cost is None:
        return {}
    step = point.values.get(path, 0.0) - before.values.get(path, 0.0)
    if step <= 0:
        return {}
    saved = float(before.result.cost.total - point.result.cost.total)
    months = point.result.horizon_months
    currency = point.result.cost.currency
    if path.startswith("limits.budget."):
        return {"marginal": round(saved / step, 4), "marginal_unit": f"{currency} per {currency}"}
    if path.endswith("gpu_power_limit"):
        return {"marginal": round(saved / (step * 100) / months, 2), "marginal_unit": f"{currency} per % and month"}
    return {"marginal": round(saved / (step / 1000) / months, 2), "marginal_unit": f"{currency} per kW-month"}


def _all_breaks(
    study: Study,
    varied: Sequence[Vary],
    scenarios: Sequence[Scenario],
    results: dict[int, Result],
    how: How,
) -> tuple[list[BreakPoint], dict[str, str]]:
    """Break points along the last varied field, and the least value of it at which anything is feasible."""
    path, width = varied[-1].path, len(varied[-1].values)
    seeker = Breaks(study, how.stop)
    found: list[BreakPoint] = []
    least: dict[str, str] = {}
    done = 0
    for start in range(0, len(scenarios), width):
        row = range(start, start + width)
        others = {k: v for k, v in scenarios[start].varied.items() if k != path}
        if countable(path) and number_at(study.at(scenarios[start])[0], path) is not None:
            use, proved = seeker.least_use(scenarios[start], path, None)
            if use is not None and proved and results[start].status is Status.INFEASIBLE:
                label = ", ".join(f"{k}={v}" for k, v in others.items())
                text = limit_text(path, use * per_unit(path), study.loaded.problem.currency)
                least[f"{path} ({label})" if label else path] = text
        for a, b in itertools.pairwise(row):
            if how.stop.is_set():
                return found, least
            done += 1
            low, high = (scenarios[a], results[a]), (scenarios[b], results[b])
            if results[a].status == results[b].status and signature(results[a]) == signature(results[b]):
                continue
            how.tell(done, len(scenarios) - len(scenarios) // width, f"break points of {path}")
            found += seeker.between(path, low, high, others)
    return found, least


def total_of(result: Result) -> Decimal | None:
    """Total cost of a result, None where there is no plan."""
    return None if result.cost is None else result.cost.total
