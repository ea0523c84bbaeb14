"""A search in stages under way: how to search, what is known so far, and which pools still matter."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solver.bounding.linear import Floats, Ints
from solver.bounding.relaxation import Cut, Relaxed
from solver.instance import Instance
from solver.plan import Status, StopReason
from solver.search import PATIENCE, Found, Values, relative_gap

LIKELY = 4
"""Pools on which a job is likely to run, where only some are looked at."""
Progress = Callable[[float | None, float | None], None]


@dataclass(frozen=True)
class How:
    """How to search: limits, threads, and who is told.

    `work_limit` : limit in the solver's own unit (see `solver.search.run`), by which nothing depends on the clock.
    `floor` : what no plan is known to cost less than.
    """

    time_limit_s: float
    gap: float
    workers: int
    seed: int
    log: bool = False
    stop: threading.Event | None = None
    on_progress: Progress = lambda best, bound: None
    work_limit: float | None = None
    floor: float = -math.inf


@dataclass
class State:
    """What is known so far."""

    inst: Instance
    how: How
    started: float
    bound: float = -math.inf
    objective: int | None = None
    values: Values | None = None
    first_s: float | None = None
    step: int = 1
    size: tuple[int, int] = (0, 0)
    cuts: list[Cut] = field(default_factory=list)
    hired: Floats | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def left(self, share: float = 1.0) -> float:
        return share * self.how.time_limit_s - self.elapsed()

    def stopped(self) -> bool:
        return self.how.stop is not None and self.how.stop.is_set()

    def raise_bound(self, bound: float) -> None:
        if not math.isfinite(bound):
            return
        with self.lock:
            self._raise(bound)

    def _raise(self, bound: float) -> None:
        bound = math.ceil(bound / self.step - 1e-9) * self.step
        if self.objective is not None:
            bound = min(bound, self.objective)
        if bound > self.bound:
            self.bound = bound
            self.how.on_progress(self.objective, self.bound)

    def take(self, objective: int, values: Values) -> None:
        with self.lock:
            if self.objective is None or objective < self.objective:
                self.objective, self.values = objective, values
                if self.first_s is None:
                    self.first_s = self.elapsed()
                self.how.on_progress(objective, self.bound if math.isfinite(self.bound) else None)

    def proved(self) -> bool:
        return self.objective is not None and self.bound >= self.objective

    def enough(self) -> bool:
        """The asked gap is reached and the time for a full proof is over, or the proof is there."""
        if self.proved():
            return True
        gap = relative_gap(self.objective, self.bound if math.isfinite(self.bound) else None)
        return gap is not None and gap <= self.how.gap and self.elapsed() >= PATIENCE * self.how.time_limit_s

    def over(self) -> bool:
        return self.left() <= 0 or self.stopped() or self.enough()


def cost_step(inst: Instance) -> int:
    """Greatest number of which every plan's objective is a multiple."""
    part = inst.objective
    step = 0
    for c in inst.capacities:
        step = math.gcd(step, *getattr(c, part))
    for r in inst.replicas:
        step = math.gcd(step, *getattr(r, part))
    for o in inst.options:
        step = math.gcd(step, getattr(o, part))
    for g in inst.gear:
        step = math.gcd(step, getattr(g, part))
    return max(step, 1)


def usable_pools(state: State, relaxed: Relaxed) -> Ints:
    """Pools of which a plan better than the incumbent could hold a node."""
    assert relaxed.priced is not None
    if state.objective is None:
        return np.arange(len(state.inst.pools))
    return np.flatnonzero(relaxed.priced.penalty <= state.objective - relaxed.priced.bound)


def promising(state: State, relaxed: Relaxed, extra: int) -> Ints:
    """Pools that the relaxation uses, and those nearest to it."""
    assert relaxed.priced is not None
    order = np.argsort(relaxed.priced.penalty, kind="stable")
    return np.unique(np.concatenate((relaxed.support, order[: len(relaxed.support) + extra])))


def held_pools(state: State) -> set[int]:
    """Pools that the incumbent holds nodes of."""
    if state.values is None:
        return set()
    held = {state.inst.capacities[i].pool for i, n in state.values.commit.items() if n}
    return held | {state.inst.capacities[i].pool for (i, _), n in state.values.hourly.items() if n}


def likely_pools(state: State) -> list[int]:
    """Pools of the ways to run jobs that a good plan is likely to use: a few of every job, and those of the incumbent.

    A few on nodes that are held, and as many that hire their own: to hire is possible whatever is held.
    """
    options = state.inst.options
    if not options:
        return []
    hired = [o.cost for o in options] if state.hired is None else state.hired
    order = np.argsort(np.asarray(hired, float), kind="stable").tolist()
    taken: dict[tuple[int, bool], set[int]] = {}
    for q in order:
        mine = taken.setdefault((options[q].work, options[q].pooled), set())
        if len(mine) < LIKELY:
            mine.add(options[q].pool)
    chosen = {} if state.values is None else state.values.chosen
    return sorted({o for mine in taken.values() for o in mine} | {options[q].pool for q, n in chosen.items() if n})


def usable_part(state: State, relaxed: Relaxed) -> tuple[list[int], list[int]]:
    """Pools and options that a plan better than the incumbent could use: by nodes that are held, or for a job that hires its own."""
    options = state.inst.options
    if relaxed.priced is None or state.objective is None:
        return list(range(len(state.inst.pools))), list(range(len(options)))
    held = set(usable_pools(state, relaxed).tolist())
    room = state.objective - relaxed.priced.bound
    some = [q for q, o in enumerate(options) if relaxed.priced.hired[q] <= room and (not o.pooled or o.pool in held)]
    return sorted(held | {options[q].pool for q in some}), some


def outcome(state: State) -> Found:
    wall = state.elapsed()
    if state.objective is None and state.bound == math.inf:
        return Found(Status.INFEASIBLE, StopReason.PROVED, None, None, None, wall, None, *state.size)
    bound = state.bound if math.isfinite(state.bound) else None
    if state.proved():
        assert state.objective is not None
        best = float(state.objective)
        status, why = Status.OPTIMAL, StopReason.PROVED
        return Found(status, why, state.objective, best, state.values, wall, state.first_s, *state.size)
    why = (
        StopReason.INTERRUPTED
        if state.stopped()
        else StopReason.GAP_REACHED
        if state.enough()
        else StopReason.TIME_LIMIT
    )
    status = Status.UNKNOWN if state.objective is None else Status.FEASIBLE
    return Found(status, why, state.objective, bound, state.values, wall, state.first_s, *state.size)
