"""Problem in, Result out: candidates, reduction, integers, CP-SAT, ties, runner-up, plan."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from problems.load import LoadedProblem
from problems.schema import Problem
from solver.alone import compared
from solver.assemble import Answer, assemble, no_plan
from solver.binding import binding_limits
from solver.bounding.restrict import Part
from solver.candidates import Candidates, build_candidates, reduced
from solver.cheaper import Cheaper, in_its_place
from solver.compare_plans import with_alternatives
from solver.events import Event, OnEvent, SolveOptions
from solver.hints import give_hint
from solver.instance import Instance
from solver.least import least
from solver.left_out import Limited, portfolio
from solver.loosened import Looked, any_of_all_menus, of_all_menus
from solver.model import build_model, nearest_model, tie_break_model
from solver.opening import Floor, many_builds, many_left, of_opened_builds, opened
from solver.plan import Result, Status, StopReason
from solver.priorities import Ranked, ranked
from solver.reuse import Known, scaled_inside
from solver.scale_up import STEPS, grown, has_a_limit, largest
from solver.scaling import Scaled, scale
from solver.search import Found, Values, run
from solver.search_state import How
from solver.settle import settled

OPEN_SHARE = 0.5
"""Share of the time limit in which builds are opened, where there are many."""
TIE_SHARE = 0.25
"""Share of the time limit, on top of it, that the tie-break and the runner-up search may each take."""
TIE_POOLS = 1_000
"""Among so many pools and fewer ties are broken."""
MOST_TURNS = 3
"""Most times that a better plan takes the plan's place."""
BESIDE_S, BESIDE_SHARE = 6.0, 0.4
"""What a plan is held against may take so long [s], or such a share of what the plan itself took, if that is longer."""


def base_dir(loaded: LoadedProblem) -> Path:
    """Folder that relative paths of a problem start from: that of its file, or the working one for stdin."""
    return Path() if loaded.path.startswith("<") else Path(loaded.path).parent


@dataclass(frozen=True)
class _Clock:
    started: float

    def now(self) -> float:
        return time.monotonic() - self.started


def solve(
    loaded: LoadedProblem,
    catalog: Catalog,
    options: SolveOptions | None = None,
    on_event: OnEvent | None = None,
    stop: threading.Event | None = None,
    user_measurements: pl.DataFrame | None = None,
    candidates: Candidates | None = None,
) -> Result:
    """Find the best plan for a problem and prove how good it is.

    Parameters
    ----------
    candidates : Candidates, optional
        Of this problem and catalogue, where the caller has compiled them already.
    stop : threading.Event, optional
        Set it to end the search; the best plan so far is returned with stop reason `interrupted`.

    Raises
    ------
    catalogs.errors.UnknownName
        For a model or accelerator that the catalogue does not know.
    ValueError
        For a budget in a currency without exchange rate.
    """
    options = options or SolveOptions()
    if loaded.problem.objective == "scale":
        return _largest_scale(loaded, catalog, options, on_event, stop, user_measurements)
    tell: OnEvent = on_event or (lambda event: None)
    clock = _Clock(time.monotonic())
    problem = loaded.problem
    time_limit = problem.time_limit if options.time_limit_s is None else options.time_limit_s
    gap = problem.gap if options.gap is None else options.gap
    found = candidates or build_candidates(problem, catalog, base_dir(loaded), user_measurements)
    floor: Floor | None = None
    begun = clock.now()
    small = None if many_builds(found) else reduced(found, within_watts=True)
    if small is None or many_left(small):

        def least(instance: Instance, limit: float) -> Looked:
            # Plans of merged builds are none; their bounds hold for all.
            return _search(instance, None, limit, gap, options, stop, _bounds_only(tell), clock)

        floor = opened(found, catalog, least, OPEN_SHARE * time_limit, gap)
        small = reduced(floor.candidates, within_watts=True)
        if small.unserved and floor.bound < math.inf:
            # Builds that stay merged could serve them: without a proof nothing is called impossible.
            small = reduced(found, within_watts=True)
        else:
            found = floor.candidates
    tell(Event("candidates", clock.now(), candidates=small.replicas.height + small.options.height))
    if small.unserved and (not problem.weighed or len(small.unserved) == len(problem.workloads)):
        return no_plan(loaded, catalog, small, options, clock.now())
    scaled = scale(small, catalog)
    begun = begun if floor is not None else clock.now()

    def look(instance: Instance, near: Values | None, share: float) -> Found:
        left = time_limit - (clock.now() - begun)
        return _search(instance, near, share * left, gap, options, stop, tell, clock).found

    ranks: Ranked | None = None
    if scaled.instance.wishes:
        ranks = ranked(scaled.instance, look)
        scaled = replace(scaled, instance=ranks.instance)
    part: Part | None = None
    unlimited = False
    if ranks is None:
        left = time_limit - (clock.now() - begun)
        lowest = -math.inf if floor is None else floor.bound
        outcome = _search(scaled.instance, None, left, gap, options, stop, tell, clock, lowest)
        search, part, unlimited = outcome.found, outcome.part, outcome.unlimited
        if floor is not None:
            search = floor.holds_for(search, gap)
    else:
        search = ranks.found
    if search.values is None:
        tell(Event("done", clock.now()))
        return assemble(Answer(loaded, catalog, small, scaled, search, None, None, options, clock.now()))
    limits = _Limits(time_limit, gap, options, stop)
    cheaper = Cheaper(math.inf if ranks is not None or search.objective is None else search.objective)
    plan = _Plan(small, scaled, search, part, unlimited)
    result = _held_against(loaded, catalog, found, plan, ranks, limits, clock, cheaper)
    for turn in range(MOST_TURNS):
        # Without a proof a comparison may come upon a better plan: then that is the plan, and is held against others anew.
        if cheaper.found is None or cheaper.small is None or cheaper.scaled is None:
            break
        searched = result.search
        plan = _Plan(cheaper.small, cheaper.scaled, in_its_place(cheaper.found, plan.search, gap))
        cheaper = Cheaper(cheaper.objective)
        if turn == MOST_TURNS - 1:
            limits = replace(limits, options=replace(options, runner_up=False, single_modes=False))
        result = _held_against(loaded, catalog, found, plan, None, limits, clock, cheaper)
        result = result.model_copy(update={"search": searched})
    tell(Event("done", clock.now(), best=result.objective, bound=result.bound, gap=result.gap))
    return result if floor is None else of_opened_builds(result)


@dataclass(frozen=True)
class _Limits:
    """Time limit of the search [s], gap asked for, and how to search."""

    time_limit: float
    gap: float
    options: SolveOptions
    stop: threading.Event | None

    @property
    def beside_s(self) -> float:
        """Time for a search beside the plan's [s]."""
        return TIE_SHARE * self.time_limit

    def stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()


@dataclass(frozen=True)
class _Plan:
    """A plan that was found, among which candidates, and the part in which all plans as good lie, where one is known.

    `unlimited` : no plan is better without any limit either.
    """

    small: Candidates
    scaled: Scaled
    search: Found
    part: Part | None = None
    unlimited: bool = False


def _held_against(
    loaded: LoadedProblem,
    catalog: Catalog,
    found: Candidates,
    plan: _Plan,
    ranks: Ranked | None,
    limits: _Limits,
    clock: _Clock,
    cheaper: Cheaper,
) -> Result:
    """The result of a plan, with what it is held against; `cheaper` is told of plans that are found on the way."""
    problem, options, stop = loaded.problem, limits.options, limits.stop
    small, scaled, search = plan.small, plan.scaled, plan.search
    lowest = -math.inf if search.bound is None or ranks is not None else search.bound
    final = _break_ties(scaled.instance, plan.part, search, limits.beside_s, options, stop) or search
    if final.values is not None:
        final = replace(final, values=settled(scaled.instance, final.values))
    names = [s.name for s in problem.sites]
    limit_s = min(5.0, limits.beside_s)
    binding = binding_limits(scaled.instance, names, search, options, stop, limit_s, unlimited=plan.unlimited)
    kept = None
    if ranks is not None:
        limited = Limited(limits.beside_s, options, stop)
        kept = portfolio(problem, found, catalog, scaled, ranks, final, limited)
    cheapest = None
    near = _nearest(scaled, search, final.values, problem, limits.beside_s, options, stop)
    if near is not None and near.values is not None:
        cheapest, search = search.objective, near
        final = replace(near, values=settled(scaled.instance, near.values))
    answer = Answer(loaded, catalog, small, scaled, search, final, binding, options, clock.now(), kept, cheapest)
    result = assemble(answer)
    if options.runner_up and not limits.stopped() and (ranks is None or ranks.unproved is None):
        floors = scaled.instance.floors
        known = (small, scaled) if ranks is None else None
        runner = _runner_up(found, catalog, known, result, limits, lowest, cheaper, floors)
        if runner is not None:
            result = result.model_copy(update={"runner_up": runner})
        result = with_alternatives(found, catalog, result, limits.beside_s, options, stop, lowest, cheaper)
    if options.compares and ranks is None and result.status in (Status.OPTIMAL, Status.FEASIBLE):
        values = (final or search).values
        assert values is not None
        beside_s = _beside(search, limits.time_limit)
        held = compared(
            found, catalog, small, scaled, values, result, beside_s, options, stop, floor=lowest, cheaper=cheaper
        )
        result = result.model_copy(update=held.stated())
    return result


def _bounds_only(tell: OnEvent) -> OnEvent:
    """Events of a search whose plans are none, without them."""

    def told(event: Event) -> None:
        if event.bound is not None:
            tell(replace(event, kind="bound", best=None, gap=None))

    return told


def _largest_scale(
    loaded: LoadedProblem,
    catalog: Catalog,
    options: SolveOptions,
    on_event: OnEvent | None,
    stop: threading.Event | None,
    user_measurements: pl.DataFrame | None,
) -> Result:
    """Objective `scale`: bisect the multiple, then the cheapest plan at the largest one."""
    problem = loaded.problem
    if not has_a_limit(problem):
        raise ValueError("objective scale needs a limit: limits.budget, limits.power, a site's power or a quota")
    started = time.monotonic()
    time_limit = problem.time_limit if options.time_limit_s is None else options.time_limit_s

    def feasible(steps: int) -> bool | None:
        left = time_limit - (time.monotonic() - started)
        if left <= 0 or (stop is not None and stop.is_set()):
            return None
        found = build_candidates(grown(problem, steps), catalog, base_dir(loaded), user_measurements)
        small = reduced(found)
        if small.unserved:
            return False

        def possible(inst: Instance) -> bool | None:
            search = run(
                build_model(inst),
                time_limit_s=left,
                gap=1.0,
                workers=options.workers,
                seed=options.seed,
                stop=stop,
                patience=0.0,
            )
            return True if search.values is not None else (False if search.status is Status.INFEASIBLE else None)

        return any_of_all_menus(scale(small, catalog).instance, possible)

    best, ceiling = largest(feasible)
    at = replace(loaded, problem=grown(problem, max(best, 1)))
    result = solve(at, catalog, options, on_event, stop, user_measurements)
    if best == 0 or result.cost is None:
        return result.model_copy(update={"objective_name": "scale"})
    proved = ceiling is not None and ceiling == best + 1
    top = None if ceiling is None else ceiling / STEPS
    multiple = best / STEPS
    return result.model_copy(
        update={
            "objective_name": "scale",
            "objective": multiple,
            "bound": multiple if proved else top,
            "gap": 0.0 if proved else (None if top is None else (top - multiple) / multiple),
            "status": Status.OPTIMAL if proved else Status.FEASIBLE,
            "stop_reason": StopReason.PROVED if proved else StopReason.TIME_LIMIT,
            # The cheapest plan at this scale leaves what the next step of scale would need: under 1 % is none.
            "limits": tuple(x.model_copy(update={"binding": x.slack <= 0.01 * x.limit}) for x in result.limits),
            "assumptions": (
                *result.assumptions,
                f"largest multiple of all workloads: {multiple:g} (rounded down to 1/1000)",
            ),
        }
    )


def _search(
    instance: Instance,
    near: Values | None,
    time_limit: float,
    gap: float,
    options: SolveOptions,
    stop: threading.Event | None,
    tell: OnEvent,
    clock: _Clock,
    floor: float = -math.inf,
) -> Looked:
    unit = 0.01 if instance.objective == "cost" else 1.0
    known: dict[str, float | None] = {"best": None, "bound": None}

    def progress(best: float | None, bound: float | None) -> None:
        kind = "incumbent" if best != known["best"] else "bound"
        known.update(best=best, bound=bound)
        b = None if best is None else best * unit
        low = None if bound is None else bound * unit
        relative = None if b is None or low is None or b == 0 else (b - low) / abs(b)
        tell(Event("incumbent" if kind == "incumbent" else "bound", clock.now(), b, low, relative))

    how = How(time_limit, gap, options.workers, options.seed, options.log, stop, progress, floor=floor)
    if near is None:
        return least(instance, how, slack_first=True)
    started = clock.now()

    def search(some: Instance, low: float) -> Looked:
        built = build_model(some)
        if some.pools == instance.pools:
            give_hint(built, near)
        low = max(low, floor)
        found = run(
            built,
            time_limit_s=max(1.0, time_limit - (clock.now() - started)),
            gap=gap,
            workers=options.workers,
            seed=options.seed,
            log=options.log,
            stop=stop,
            # What is told is the problem's objective; the value of a priority is not.
            on_progress=progress if some is instance and instance.goal is None else None,
            known_bound=low if math.isfinite(low) else None,
        )
        return Looked(found)

    return of_all_menus(instance, search, gap)


def _beside(search: Found, time_limit: float) -> float:
    """Time for what a plan is held against: no more than a share of what the plan itself took, where that was long."""
    return min(TIE_SHARE * time_limit, max(BESIDE_S, BESIDE_SHARE * search.wall_s))


def _break_ties(
    instance: Instance,
    part: Part | None,
    search: Found,
    time_limit: float,
    options: SolveOptions,
    stop: threading.Event | None,
) -> Found | None:
    """Second solve at objective <= best: fewer distinct pools, then less power. Only after proof.

    `part` : part of the instance that no plan as good leaves, where one is known.
    """
    if search.status is not Status.OPTIMAL or search.objective is None or search.values is None:
        return None
    if stop is not None and stop.is_set():
        return None
    if len(instance.pools if part is None else part.pools) > TIE_POOLS:
        return None  # building the model alone takes longer than the proof did
    built = tie_break_model(instance if part is None else part.instance, search.objective)
    known = search.values if part is None else part.narrowed(search.values)
    if known is not None:
        give_hint(built, known)
    found = run(
        built,
        time_limit_s=min(2.0, time_limit),
        gap=0.0,
        workers=options.workers,
        seed=options.seed,
        stop=stop,
    )
    if found.values is None:
        return None
    return found if part is None else replace(found, values=part.widened(found.values))


def _nearest(
    scaled: Scaled,
    search: Found,
    values: Values | None,
    problem: Problem,
    time_limit: float,
    options: SolveOptions,
    stop: threading.Event | None,
) -> Found | None:
    """Fewest nodes changed among plans within policy.keep_unless_saves of the best, and the cheapest of those; else None."""
    tolerance = problem.policy.keep_unless_saves
    if not tolerance or not scaled.instance.moved or search.objective is None or values is None:
        return None
    if search.objective < 0 or (stop is not None and stop.is_set()):
        return None  # the value of a priority is not proved: that comes first
    most = search.objective + math.floor(Fraction(repr(tolerance)) * search.objective)

    def look(changes: int | None, near: Values) -> Found:
        built = nearest_model(scaled.instance, most, changes)
        give_hint(built, near)
        return run(
            built, time_limit_s=time_limit, gap=0.0, workers=options.workers, seed=options.seed, stop=stop, patience=1.0
        )

    fewest = look(None, values)
    if fewest.values is None:
        return None
    best = look(fewest.objective, fewest.values)
    proved = search.status is Status.OPTIMAL and fewest.status is Status.OPTIMAL
    return replace(fewest, status=Status.OPTIMAL if proved else Status.FEASIBLE, values=best.values or fewest.values)


def _runner_up(
    found: Candidates,
    catalog: Catalog,
    known: Known | None,
    result: Result,
    limits: _Limits,
    lowest: float,
    cheaper: Cheaper,
    floors: tuple[int, ...] = (),
) -> object:
    """Best plan without the accelerator that the chosen plan spends most on; it serves as much of every priority."""
    from solver.assemble import main_accelerator, runner_up_of

    main = main_accelerator(result)
    if main is None or result.objective is None:
        return None
    other = reduced(found, without_accelerator=main, within_watts=True)
    if other.unserved and not found.problem.weighed:
        return runner_up_of(main, None, None, result, "no other accelerator serves " + ", ".join(other.unserved))
    part = None if known is None else scaled_inside(other, known)
    scaled = scale(other, catalog) if known is None or part is None else replace(known[1], instance=part.instance)
    if floors:
        scaled = replace(scaled, instance=replace(scaled.instance, floors=floors))
    options = limits.options
    how = How(min(5.0, limits.beside_s), 0.005, options.workers, options.seed, stop=limits.stop, floor=lowest)
    search = least(scaled.instance, how, patience=0.3).found
    if known is None or part is None:
        cheaper.offer(other, scaled, search)
    elif search.values is not None:
        cheaper.offer(*known, replace(search, values=part.widened(search.values)))
    return runner_up_of(main, scaled, search, result, "no plan without it meets the limits")


__all__ = ["Callable", "SolveOptions", "StopReason", "solve"]
