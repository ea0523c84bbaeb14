"""The linear relaxation by GLOP: pools enter as they pay, residual-capacity cuts as they are broken.

Residual-capacity cut of pool o in period p, in nodes: y_i = GPUs x load / GPUs of a node, y_i <= v_i, sum_i y_i <= n. For a set T
of loads with V = sum_T v_i and r = V - ceil(V) + 1,

    sum_T y_i <= V - r (ceil(V) - n).

It holds for whole n and is broken most by T = {i : y_i / v_i > frac(n)} where it is broken at all (Magnanti, Mirchandani and
Vachani 1993), so separation is exact. Given to CP-SAT the same cut is written in its own integers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp

from solver.bounding.blocks import Priced, evaluate
from solver.bounding.linear import Entries, Floats, Ints, Linear
from solver.instance import LOAD_UNIT

FIRST_POOLS = 24
NEW_POOLS = 24
NEW_CUTS = 400
BROKEN = 1e-4
"""A cut counts as broken from so many nodes on."""
ARTIFICIAL = 100.0
"""Cost of leaving a demand unserved while pools are still missing, over the dearest cost of serving it."""


@dataclass(frozen=True)
class Cut:
    """Loads T (columns) of one pool and period; of one replica kind against the count of its replicas where `kind` is given."""

    pool: int
    period: int
    loads: tuple[int, ...]
    kind: int | None = None

    @property
    def key(self) -> tuple[int, int, int, tuple[int, ...]]:
        return self.pool, self.period, -1 if self.kind is None else self.kind, self.loads


@dataclass
class Relaxed:
    """Where the loop got to. `bound` [objective's integers] is valid at any time; `duals` are those that gave it."""

    bound: float = -math.inf
    duals: Floats = field(default_factory=lambda: np.zeros(0))
    priced: Priced | None = None
    cuts: list[Cut] = field(default_factory=list)
    support: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    hold: Floats = field(default_factory=lambda: np.zeros(0))
    load: Floats = field(default_factory=lambda: np.zeros(0))
    value: float = math.inf
    rounds: int = 0
    complete: bool = False


class Relaxation:
    """A linear program that grows by pools and cuts."""

    def __init__(self, lin: Linear) -> None:
        self.lin = lin
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._inside = np.zeros(lin.pools, bool)
        self._hold: dict[int, pywraplp.Variable] = {}
        self._load: dict[int, pywraplp.Variable] = {}
        self._pick: dict[int, pywraplp.Variable] = {}
        self._room: dict[tuple[int, int], pywraplp.Constraint] = {}
        self._known: set[tuple[int, int, int, tuple[int, ...]]] = set()
        self._hold_of = _Grouped(lin.hold_pool, lin.pools)
        self._load_of = _Grouped(lin.load_pool, lin.pools)
        self._entries = {
            "hold": _by_column(lin.hold_entries, len(lin.hold_way)),
            "load": _by_column(lin.load_entries, len(lin.load_kind)),
            "pick": _by_column(lin.pick_entries, len(lin.pick_job)),
        }
        self.objective_scale = max(1.0, float(np.max(lin.hold_cost, initial=1.0)))
        infinity = self._solver.infinity()
        self._goal = self._solver.Objective()
        self._goal.SetMinimization()
        self._rows = []
        penalty = ARTIFICIAL * self._dearest()
        self._slack: list[pywraplp.Variable] = []
        for rhs, at_least in zip(lin.rhs.tolist(), lin.at_least.tolist(), strict=True):
            row = self._solver.Constraint(rhs, infinity) if at_least else self._solver.Constraint(-infinity, rhs)
            if at_least and rhs > 0:
                short = self._solver.NumVar(0.0, infinity, "")
                row.SetCoefficient(short, 1.0)
                self._goal.SetCoefficient(short, penalty)
                self._slack.append(short)
            self._rows.append(row)
        for _ in lin.instance.jobs:
            self._rows.append(self._solver.Constraint(1.0, 1.0))
        for q in range(len(lin.pick_job)):
            pick = self._solver.NumVar(0.0, 1.0, "")
            self._pick[q] = pick
            self._goal.SetCoefficient(pick, float(lin.pick_cost[q]) / self.objective_scale)
            self._rows[len(lin.rhs) + int(lin.pick_job[q])].SetCoefficient(pick, 1.0)
            self._fill("pick", q, pick)

    def _dearest(self) -> float:
        """A cost per unit of unserved demand [scaled] that no good plan pays."""
        lin = self.lin
        entries = lin.load_entries
        if not len(entries.values):
            return 1.0
        cheapest = np.full(lin.pools, np.inf)
        np.minimum.at(cheapest, lin.hold_pool, lin.hold_cost)
        node_gpus = np.array([p.gpus for p in lin.instance.pools], float)
        each = cheapest[lin.load_pool] * lin.load_gpus / node_gpus[lin.load_pool] + lin.load_cost
        unit = each[entries.columns] / entries.values
        least = np.full(len(lin.rhs), np.inf)
        np.minimum.at(least, entries.rows, unit)
        self.unit_cost = unit
        finite = least[np.isfinite(least)]
        return max(1.0, float(finite.max(initial=1.0)) / self.objective_scale)

    def _fill(self, kind: str, column: int, variable: pywraplp.Variable) -> None:
        entries = self._entries[kind]
        for r, v in zip(entries.of(column, 1), entries.of(column, 2), strict=True):
            self._rows[r].SetCoefficient(variable, v)

    def first_pools(self, count: int) -> list[int]:
        """Pools that serve some demand the cheapest, by the price of a full node, in turns over the demands."""
        entries = self.lin.load_entries
        if not len(entries.values):
            return list(range(min(count, self.lin.pools)))
        pool = self.lin.load_pool[entries.columns]
        order = np.lexsort((self.unit_cost, entries.rows))
        first = np.searchsorted(entries.rows[order], np.arange(len(self.lin.rhs)))
        chosen: dict[int, None] = {}
        for turn in range(self.lin.pools):
            before = len(chosen)
            for r in range(len(self.lin.rhs)):
                at = first[r] + turn
                if at < len(order) and entries.rows[order[at]] == r:
                    chosen.setdefault(int(pool[order[at]]))
            if len(chosen) >= count or (turn > 20 and len(chosen) == before):
                break
        return list(chosen)[: max(count, 1)]

    def add_pools(self, pools: list[int]) -> None:
        lin, solver = self.lin, self._solver
        infinity = solver.infinity()
        periods = len(lin.instance.periods)
        for o in pools:
            if self._inside[o]:
                continue
            self._inside[o] = True
            gpus = float(lin.instance.pools[o].gpus)
            for p in range(periods):
                self._room[o, p] = solver.Constraint(-infinity, 0.0)
            for h in self._hold_of.of(o):
                var = solver.NumVar(0.0, infinity, "")
                self._hold[h] = var
                self._goal.SetCoefficient(var, float(lin.hold_cost[h]) / self.objective_scale)
                for p in np.flatnonzero(lin.hold_active[h]).tolist():
                    self._room[o, p].SetCoefficient(var, -1.0)
                self._fill("hold", h, var)
            for f in self._load_of.of(o):
                var = solver.NumVar(0.0, float(lin.load_upper[f]), "")
                self._load[f] = var
                self._goal.SetCoefficient(var, float(lin.load_cost[f]) / self.objective_scale)
                self._room[o, int(lin.load_period[f])].SetCoefficient(var, float(lin.load_gpus[f]) / gpus)
                self._fill("load", f, var)

    def add_cut(self, cut: Cut) -> None:
        if cut.key in self._known:
            return
        self._known.add(cut.key)
        lin = self.lin
        gpus = float(lin.instance.pools[cut.pool].gpus)
        loads = np.array(cut.loads)
        whole = float(np.sum(lin.load_upper[loads] * lin.load_gpus[loads])) / gpus
        ceiling = math.ceil(whole - 1e-9)
        r = whole - ceiling + 1
        row = self._solver.Constraint(-self._solver.infinity(), whole - r * ceiling)
        for f in cut.loads:
            row.SetCoefficient(self._load[f], float(lin.load_gpus[f]) / gpus)
        for h in self._hold_of.of(cut.pool):
            if lin.hold_active[h, cut.period]:
                row.SetCoefficient(self._hold[h], -r)

    def solve(self, time_limit_s: float) -> bool:
        """Solve from the last basis; where the simplex loses its way, anew by another one."""
        started, status = time.monotonic(), pywraplp.Solver.ABNORMAL
        for way in ("", "use_dual_simplex: true", "use_dual_simplex: false"):
            left = time_limit_s - (time.monotonic() - started)
            self._solver.SetSolverSpecificParametersAsString(way)
            self._solver.SetTimeLimit(max(1, int(left * 1000)))
            status = self._solver.Solve()
            if status != pywraplp.Solver.ABNORMAL:
                break
        self._solver.SetSolverSpecificParametersAsString("")
        return bool(status == pywraplp.Solver.OPTIMAL)

    def read(self) -> tuple[Floats, Floats, Floats, float]:
        """Nodes, loads, duals of the linking rows and the value, in the instance's units."""
        lin = self.lin
        hold, load = np.zeros(len(lin.hold_way)), np.zeros(len(lin.load_kind))
        for h, var in self._hold.items():
            hold[h] = var.solution_value()
        for f, var in self._load.items():
            load[f] = var.solution_value()
        duals = np.array([self._rows[r].dual_value() for r in range(len(lin.rhs))]) * self.objective_scale
        short = any(s.solution_value() > 1e-7 for s in self._slack)
        return hold, load, duals, math.inf if short else self._goal.Value() * self.objective_scale


def broken_cuts(lin: Linear, hold: Floats, load: Floats) -> list[Cut]:
    """Residual-capacity cuts that the solution breaks, the worst first."""
    periods = len(lin.instance.periods)
    nodes = np.zeros((lin.pools, periods))
    np.add.at(nodes, lin.hold_pool, hold[:, None] * lin.hold_active)
    fraction = nodes - np.floor(nodes + 1e-9)
    used = np.flatnonzero((load > 1e-9) & (lin.load_upper > 0))
    at = fraction[lin.load_pool[used], lin.load_period[used]]
    full = load[used] / lin.load_upper[used]
    taken = used[(at > 1e-6) & (full > at)]
    group = lin.load_pool[taken] * periods + lin.load_period[taken]
    order = np.argsort(group, kind="stable")
    taken, group = taken[order], group[order]
    gpus = np.array([p.gpus for p in lin.instance.pools], float)
    found: list[tuple[float, Cut]] = []
    for g in np.unique(group).tolist():
        mine = taken[np.searchsorted(group, g) : np.searchsorted(group, g, side="right")]
        o, p = divmod(g, periods)
        weight = lin.load_gpus[mine] / gpus[o]
        whole = float(np.sum(lin.load_upper[mine] * weight))
        ceiling = math.ceil(whole - 1e-9)
        r = whole - ceiling + 1
        over = float(np.sum(load[mine] * weight)) - (whole - r * (ceiling - float(nodes[o, p])))
        if over > BROKEN:
            found.append((over, Cut(o, p, tuple(mine.tolist()))))
    found.sort(key=lambda pair: -pair[0])
    return [cut for _, cut in found[:NEW_CUTS]]


def cut_weights(lin: Linear, cut: Cut) -> Floats:
    """Part of a node (of a replica, for a cut of one kind) that one load of the cut takes."""
    loads = np.array(cut.loads, np.int64)
    if cut.kind is not None:
        return np.ones(len(loads))
    return lin.load_gpus[loads] / float(lin.instance.pools[cut.pool].gpus)


def broken_counts(lin: Linear, number: Mapping[tuple[int, int], int], whole: Floats, load: Floats) -> list[Cut]:
    """The same cuts for each replica kind against its own count, the worst first.

    `number` : column of `whole` by kind and period.
    """
    found: list[tuple[float, Cut]] = []
    used = np.flatnonzero((load > 1e-9) & (lin.load_upper > 0))
    mine: dict[tuple[int, int], list[int]] = {}
    for f in used.tolist():
        key = (int(lin.load_kind[f]), int(lin.load_period[f]))
        if key in number:
            mine.setdefault(key, []).append(f)
    for (k, p), loads in mine.items():
        count = float(whole[number[k, p]])
        fraction = count - math.floor(count + 1e-9)
        taken = [f for f in loads if load[f] / lin.load_upper[f] > fraction]
        if fraction <= 1e-6 or not taken:
            continue
        whole_load = float(np.sum(lin.load_upper[taken]))
        ceiling = math.ceil(whole_load - 1e-9)
        over = float(np.sum(load[taken])) - (whole_load - (whole_load - ceiling + 1) * (ceiling - count))
        if over > BROKEN:
            found.append((over, Cut(lin.instance.replicas[k].pool, p, tuple(taken), k)))
    found.sort(key=lambda pair: -pair[0])
    return [cut for _, cut in found[:NEW_CUTS]]


def relax(
    lin: Linear,
    time_limit_s: float,
    on_bound: Callable[[float], None] = lambda bound: None,
    stop: Callable[[], bool] = lambda: False,
) -> Relaxed:
    """Solve the relaxation with cuts as far as time allows; every bound on the way is valid."""
    started = time.monotonic()
    out = Relaxed()
    program = Relaxation(lin)
    program.add_pools(program.first_pools(FIRST_POOLS))

    def left() -> float:
        return time_limit_s - (time.monotonic() - started)

    stalled = 0
    while left() > 0 and not stop():
        if not program.solve(left()):
            break
        hold, load, duals, value = program.read()
        priced = evaluate(lin, duals, exact=lin.pools * len(lin.instance.periods) <= 5000)
        out.rounds += 1
        missing = np.flatnonzero((priced.saved > 1e-6 * max(1.0, abs(priced.bound))) & ~program._inside)
        out.hold, out.load, out.value = hold, load, value
        gained = priced.bound - out.bound
        if priced.bound > out.bound:
            out.bound, out.duals, out.priced = priced.bound, duals, priced
            on_bound(out.bound)
        if len(missing):
            order = missing[np.argsort(-priced.saved[missing])]
            program.add_pools(order[:NEW_POOLS].tolist())
            continue
        cuts = broken_cuts(lin, hold, load)
        fresh = [c for c in cuts if c.key not in program._known]
        stalled = stalled + 1 if gained <= 1e-5 * abs(out.bound) else 0
        if not fresh or stalled >= 6:
            out.complete = math.isfinite(value)
            break
        out.cuts.extend(fresh)
        for cut in fresh:
            program.add_cut(cut)
    held = lin.hold_pool[out.hold > 1e-7] if len(out.hold) else np.zeros(0, np.int64)
    out.support = np.unique(held)
    return out


def cut_in_integers(lin: Linear, cut: Cut) -> tuple[list[tuple[int, int, int, int]], int, int]:
    """A cut for the model: terms (GPUs, kind, bucket) of T, constant and factor of n (R for one kind), all whole numbers.

    With M = LOAD_UNIT x GPUs of a node, U = sum_T GPUs x upper bound and r = U - (ceil(U / M) - 1) M:
    sum_T GPUs x F <= U - r (ceil(U / M) - n).
    """
    inst = lin.instance
    unit = LOAD_UNIT * (inst.pools[cut.pool].gpus if cut.kind is None else inst.replicas[cut.kind].gpus)
    terms, whole = [], 0
    for f in cut.loads:
        k, b = int(lin.load_kind[f]), int(lin.load_bucket[f])
        upper = round(float(lin.load_upper[f]) * LOAD_UNIT)
        gpus = inst.replicas[k].gpus
        terms.append((gpus, k, b, upper))
        whole += gpus * upper
    ceiling = -(-whole // unit)
    r = whole - (ceiling - 1) * unit
    return terms, whole - r * ceiling, r


class _Grouped:
    """Positions by group, and values beside them: row lists of a sparse table, made for the groups that are asked for."""

    def __init__(self, group: Ints, groups: int, *beside: Floats | Ints) -> None:
        order = np.argsort(group, kind="stable")
        self._first = np.searchsorted(group[order], np.arange(groups + 1))
        self._beside = [order, *(x[order] for x in beside)]

    def of(self, group: int, column: int = 0) -> list[Any]:
        """Positions of a group (`column` 0), or what stands beside them."""
        values: list[Any] = self._beside[column][self._first[group] : self._first[group + 1]].tolist()
        return values


def _by_column(entries: Entries, size: int) -> _Grouped:
    return _Grouped(entries.columns, size, entries.rows, entries.values)
