"""Run CP-SAT on one built model: watch bound and incumbent, stop on gap, time or request, read the values back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ortools.sat.python import cp_model

from solver.cp_sat import new_solver, set_workers
from solver.instance import Instance
from solver.model import PlanModel
from solver.plan import Status, StopReason
from solver.schedule import share_pool, starts_for

PATIENCE = 0.5
"""Share of the time limit in which a full proof is tried although the asked gap is already reached."""
PROOF_S = 6.0
"""Longest time for which that is tried [s]."""
POLL_S = 0.05


@dataclass(frozen=True)
class Values:
    """Values of all variables of a solution, keyed like `Variables`."""

    commit: dict[int, int]
    hourly: dict[tuple[int, int], int]
    replicas: dict[tuple[int, int], int]
    load: dict[tuple[int, int, int], int]
    chosen: dict[int, int]
    gear: dict[int, int] = field(default_factory=dict)
    start: dict[tuple[int, int], int] = field(default_factory=dict)
    share: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """Outcome of one search. `objective` and `bound` in the model's integers; `gap` relative."""

    status: Status
    stop_reason: StopReason
    objective: int | None
    bound: float | None
    values: Values | None
    wall_s: float
    first_s: float | None
    variables: int
    constraints: int

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0 where both are 0."""
        return relative_gap(self.objective, self.bound)


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """Relative distance of a minimisation's objective to its bound, never negative."""
    if objective is None or bound is None:
        return None
    if objective == 0:
        return 0.0 if bound >= 0 else 1.0
    return max(0.0, (objective - bound) / abs(objective))


class _Watch(cp_model.CpSolverSolutionCallback):
    """Keeps the incumbent and hands each improvement on."""

    def __init__(self, report: Callable[[float, float], None]) -> None:
        super().__init__()
        self.best: float | None = None
        self.first_s: float | None = None
        self._start = time.monotonic()
        self._report = report

    def on_solution_callback(self) -> None:
        self.best = self.objective_value
        if self.first_s is None:
            self.first_s = time.monotonic() - self._start
        self._report(self.objective_value, self.best_objective_bound)


def run(
    built: PlanModel,
    *,
    time_limit_s: float,
    gap: float,
    workers: int,
    seed: int,
    log: bool = False,
    stop: threading.Event | None = None,
    on_progress: Callable[[float | None, float | None], None] | None = None,
    patience: float = PATIENCE,
    deterministic_limit: float | None = None,
    known_bound: float | None = None,
    by_bound: bool = False,
) -> Found:
    """Minimise a model; plans whose jobs have no schedule are no plans (see `solver.schedule`).

    A full proof is tried for `patience` of the time limit, `PROOF_S` at most; after that the asked gap is enough.
    `deterministic_limit` also bounds the work in the solver's own unit (about a second of one core), so that with one
    worker the outcome does not depend on how busy the machine is. `known_bound`: no plan's objective is below it.
    `by_bound`: how a worker alone searches (`solver.cp_sat.set_workers`).

    Raises
    ------
    RuntimeError
        When CP-SAT calls the model invalid: a fault of ours, never of the problem.
    """
    started = time.monotonic()
    while True:
        left = time_limit_s - (time.monotonic() - started)
        found = _run_once(
            built,
            time_limit_s=left,
            gap=gap,
            workers=workers,
            seed=seed,
            log=log,
            stop=stop,
            on_progress=on_progress,
            patience=patience,
            deterministic_limit=deterministic_limit,
            known_bound=known_bound,
            by_bound=by_bound,
        )
        found = replace(found, wall_s=time.monotonic() - started)
        if found.values is None or not found.values.start:
            return found
        placed = _with_starts(built, found.values)
        if placed is not None:
            return replace(found, values=placed)
        pools = {x.pool for q, x in enumerate(built.context.instance.options) if x.slots and found.values.chosen[q]}
        missing = sorted(pools - built.context.placed)
        late = time.monotonic() - started >= time_limit_s or (stop is not None and stop.is_set())
        if late or not missing:
            # What was found has no schedule; its bound holds all the same.
            return replace(found, status=Status.UNKNOWN, objective=None, values=None)
        for o in missing:
            share_pool(built.context, o)
        built.model.clear_hints()  # type: ignore[no-untyped-call]


def scheduled(built: PlanModel, values: Values) -> Values | None:
    """Values with the starts of a schedule for all runs on what they leave free; None where none is found."""
    inst = built.context.instance
    if not inst.runs:
        return values
    starts = starts_for(inst, values.chosen, _free_gpus(built, values))
    # A job that hires its machines freely has a start of no consequence; it keeps the one it has.
    return None if starts is None else replace(values, start={**values.start, **starts})


def _with_starts(built: PlanModel, values: Values) -> Values | None:
    """Values with the starts of a schedule: their own where all pools in use are in the model in full, else found apart."""
    placed = scheduled(built, values)
    if placed is None and all(o in built.context.placed for o, _ in _free_gpus(built, values)):
        return values
    return placed


def _free_gpus(built: PlanModel, values: Values) -> dict[tuple[int, int], int]:
    """GPUs that replicas and jobs without hours leave free, by pool and period, where runs need some."""
    inst = built.context.instance
    free: dict[tuple[int, int], int] = {}
    for o in {x.pool for q, x in enumerate(inst.options) if x.slots and x.pooled and values.chosen[q]}:
        always = sum(
            x.gpus * values.chosen[q] for q, x in enumerate(inst.options) if x.pool == o and x.pooled and not x.slots
        )
        for p in range(len(inst.periods)):
            nodes = sum(
                (values.commit[i] if inst.capacities[i].holds(p) else 0)
                if inst.capacities[i].commit
                else values.hourly[i, p]
                for i in built.context.ways.get(o, ())
            )
            taken = sum(r.gpus * values.replicas[k, p] for k, r in enumerate(inst.replicas) if r.pool == o)
            free[o, p] = inst.pools[o].gpus * nodes - taken - always
    return free


def _run_once(
    built: PlanModel,
    *,
    time_limit_s: float,
    gap: float,
    workers: int,
    seed: int,
    log: bool,
    stop: threading.Event | None,
    on_progress: Callable[[float | None, float | None], None] | None,
    patience: float,
    deterministic_limit: float | None,
    known_bound: float | None,
    by_bound: bool,
) -> Found:
    """One search of the model as it stands."""
    solver = new_solver()
    solver.parameters.max_time_in_seconds = max(0.01, time_limit_s)
    set_workers(solver, workers, by_bound=by_bound)
    solver.parameters.random_seed = seed
    solver.parameters.log_search_progress = log
    if deterministic_limit is not None:
        solver.parameters.max_deterministic_time = deterministic_limit
    solver.parameters.log_to_stdout = False
    if log:
        solver.log_callback = lambda line: print(line, file=__import__("sys").stderr)
    started = time.monotonic()
    bound: list[float] = [] if known_bound is None else [known_bound]
    tell = on_progress or (lambda best, low: None)
    watch = _Watch(lambda best, low: tell(best, low))

    def new_bound(value: float) -> None:
        bound[:] = [value if known_bound is None else max(value, known_bound)]
        tell(watch.best, bound[0])

    solver.best_bound_callback = new_bound
    done = threading.Event()
    why: list[StopReason] = []

    def guard() -> None:
        while not done.wait(POLL_S):
            if stop is not None and stop.is_set():
                why.append(StopReason.INTERRUPTED)
                solver.stop_search()
                return
            late = time.monotonic() - started >= min(PROOF_S, patience * time_limit_s)
            reached = relative_gap(watch.best, bound[0] if bound else None)
            if late and reached is not None and reached <= gap:
                why.append(StopReason.GAP_REACHED)
                solver.stop_search()
                return

    thread = threading.Thread(target=guard, daemon=True)
    thread.start()
    try:
        code = solver.solve(built.model, watch)
    finally:
        done.set()
        thread.join()
    proto = built.model.proto
    size = (len(proto.variables), len(proto.constraints))
    wall = time.monotonic() - started
    if code == cp_model.MODEL_INVALID:
        raise RuntimeError("CP-SAT refused the model: " + built.model.validate())
    if code == cp_model.INFEASIBLE:
        return Found(Status.INFEASIBLE, StopReason.PROVED, None, None, None, wall, None, *size)
    stopped = why[0] if why else StopReason.TIME_LIMIT
    if code == cp_model.UNKNOWN:
        return Found(Status.UNKNOWN, stopped, None, bound[0] if bound else None, None, wall, None, *size)
    objective = round(solver.objective_value)
    low = solver.best_objective_bound
    if known_bound is not None:
        low = max(low, min(known_bound, objective))
    status = Status.OPTIMAL if code == cp_model.OPTIMAL else Status.FEASIBLE
    if status is Status.OPTIMAL:
        stopped, low = StopReason.PROVED, float(objective)
    return Found(status, stopped, objective, low, _values(built, solver), wall, watch.first_s, *size)


def _without_spare(inst: Instance, values: Values) -> Values:
    """Values without nodes that cost nothing and nobody uses: what is sold by compute units is there when it is wanted."""
    hourly = dict(values.hourly)
    for i, c in enumerate(inst.capacities):
        if c.billing != "compute_unit":
            continue
        for p in range(len(inst.periods)):
            taken = sum(r.gpus * values.replicas[k, p] for k, r in enumerate(inst.replicas) if r.pool == c.pool)
            hourly[i, p] = min(hourly[i, p], -(-taken // inst.pools[c.pool].gpus))
    return replace(values, hourly=hourly)


def _values(built: PlanModel, solver: cp_model.CpSolver) -> Values:
    v = built.context.variables
    found = Values(
        commit={k: solver.value(x) for k, x in v.commit.items()},
        hourly={k: solver.value(x) for k, x in v.hourly.items()},
        replicas={k: solver.value(x) for k, x in v.replicas.items()},
        load={k: solver.value(x) for k, x in v.load.items()},
        chosen={k: solver.value(x) for k, x in v.chosen.items()},
        gear={k: solver.value(x) for k, x in v.gear.items()},
        start={k: solver.value(x) for k, x in v.start.items()},
        share={k: solver.value(x) for k, x in v.share.items()},
    )
    return _without_spare(built.context.instance, found)
