"""Branch and cut on node counts: the relaxation of `relaxation`, its cuts, and whole numbers of nodes by branching.

Nodes held and replicas are whole here, loads stay continuous. The least value is therefore a lower bound of the model, and a
point with whole counts is a proposal: the model itself (with those counts given) says whether it is a plan.

The bound of a tree node is computed from GLOP's duals, not taken from its objective: with any y of the right signs
sum_r y_r rhs_r + sum_j min over l_j <= x_j <= u_j of (c_j - sum_r y_r a_rj) x_j is one, less a margin for rounding.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from solver.bounding.blocks import MARGIN
from solver.bounding.linear import Floats, Ints, Linear
from solver.bounding.relaxation import Cut, broken_counts, broken_cuts, cut_weights

WAYS = ("use_dual_simplex: true use_preprocessing: false", "use_dual_simplex: true", "use_dual_simplex: false")
Counts = dict[tuple[int, int], int]
"""Replicas by kind and period, where they are counted apart from nodes."""
WHOLE = 1e-6
STRONG = 6
"""Candidates that are tried out before one is branched on, while little is known of them."""
KNOWN = 3
SURE = 0.15
"""Parts so near to a whole number are rounded together in a dive."""
DIVE_EVERY = 50
ROOT_ROUNDS = 40
ROOT_SHARE = 0.2
"""Share of the time in which the root may gather cuts."""
NODE_ROUNDS = 2
MOST_CUTS = 800


@dataclass
class Tree:
    """Outcome: the best proposal (nodes by hold column) with its value, and a bound for all of the columns given."""

    bound: float = -math.inf
    value: float = math.inf
    hold: Floats | None = None
    nodes: int = 0
    complete: bool = False
    cuts: list[Cut] = field(default_factory=list)


@dataclass(order=True)
class _Node:
    bound: float
    number: int
    low: Floats = field(compare=False)
    high: Floats = field(compare=False)


class _Program:
    """The linear program of all columns, kept as triplets beside GLOP's copy so that bounds can be recomputed."""

    def __init__(self, lin: Linear, cutoff_scale: float) -> None:
        self.lin, self.scale = lin, cutoff_scale
        self.holds, self.loads, self.picks = len(lin.hold_way), len(lin.load_kind), len(lin.pick_job)
        self.periods = len(lin.instance.periods)
        self.counted = _counted(lin)
        self.number = {key: self.holds + i for i, key in enumerate(self.counted)}
        # Columns: whole numbers first (nodes, then replicas), then loads, then options.
        self.wholes = self.holds + len(self.counted)
        zeros, most = np.zeros(len(self.counted)), [lin.instance.replicas[k].max_count for k, _ in self.counted]
        self.cost = np.concatenate((lin.hold_cost, zeros, lin.load_cost, lin.pick_cost)) / self.scale
        self.low = np.zeros(len(self.cost))
        self.high = np.concatenate((lin.hold_upper, np.array(most, float), lin.load_upper, np.ones(self.picks)))
        self.rows: list[Ints] = []
        self.columns: list[Ints] = []
        self.values: list[Floats] = []
        self.rhs: list[float] = []
        self.sense: list[int] = []  # 1: >=, -1: <=, 0: =
        self.solver = pywraplp.Solver.CreateSolver("GLOP")
        self.infinity = self.solver.infinity()
        self.variables = [self.solver.NumVar(float(a), float(b), "") for a, b in zip(self.low, self.high, strict=True)]
        goal = self.solver.Objective()
        goal.SetMinimization()
        for var, c in zip(self.variables, self.cost.tolist(), strict=True):
            goal.SetCoefficient(var, c)
        self.goal = goal
        self.solved = False
        self.constraints: list[pywraplp.Constraint] = []
        self._packed: tuple[Ints, Ints, Floats, Floats, NDArray[np.int64]] | None = None
        self._linking()
        self._rooms()

    def _add(self, columns: Ints, values: Floats, rhs: float, sense: int) -> None:
        low = rhs if sense >= 0 else -self.infinity
        high = rhs if sense <= 0 else self.infinity
        row = self.solver.Constraint(low, high)
        for c, v in zip(columns.tolist(), values.tolist(), strict=True):
            row.SetCoefficient(self.variables[c], v)
        self.rows.append(np.full(len(columns), len(self.rhs), np.int64))
        self.columns.append(columns)
        self.values.append(values)
        self.rhs.append(rhs)
        self.sense.append(sense)
        self.constraints.append(row)
        self._packed = None

    def _linking(self) -> None:
        lin = self.lin
        after = self.wholes + self.loads
        parts = ((lin.hold_entries, 0), (lin.load_entries, self.wholes), (lin.pick_entries, after))
        rows = np.concatenate([e.rows for e, _ in parts])
        columns = np.concatenate([e.columns + offset for e, offset in parts])
        values = np.concatenate([e.values for e, _ in parts])
        order = np.argsort(rows, kind="stable")
        edges = np.searchsorted(rows[order], np.arange(len(lin.rhs) + 1))
        for r in range(len(lin.rhs)):
            mine = order[edges[r] : edges[r + 1]]
            self._add(columns[mine], values[mine], float(lin.rhs[r]), 1 if lin.at_least[r] else -1)
        for j in range(len(lin.instance.jobs)):
            mine = np.flatnonzero(lin.pick_job == j) + after
            self._add(mine, np.ones(len(mine)), 1.0, 0)

    def _rooms(self) -> None:
        lin = self.lin
        gpus = np.array([p.gpus for p in lin.instance.pools], float)
        weight = lin.load_gpus / gpus[lin.load_pool] if self.loads else np.zeros(0)
        group = lin.load_pool * self.periods + lin.load_period
        order = np.argsort(group, kind="stable")
        group = group[order]
        for g in np.unique(group).tolist():
            o, p = divmod(g, self.periods)
            loads = order[np.searchsorted(group, g) : np.searchsorted(group, g, side="right")]
            there = np.flatnonzero((lin.hold_pool == o) & lin.hold_active[:, p])
            kinds = lin.load_kind[loads]
            if (int(kinds[0]), p) not in self.number:
                columns = np.concatenate((there, loads + self.wholes))
                self._add(columns, np.concatenate((-np.ones(len(there)), weight[loads])), 0.0, -1)
                continue
            each = np.unique(kinds)
            counts = np.array([self.number[int(k), p] for k in each])
            share = np.array([lin.instance.replicas[int(k)].gpus for k in each]) / gpus[o]
            self._add(np.concatenate((there, counts)), np.concatenate((-np.ones(len(there)), share)), 0.0, -1)
            for k, count in zip(each, counts, strict=True):
                mine = loads[kinds == k] + self.wholes
                self._add(np.append(mine, count), np.append(np.ones(len(mine)), -1.0), 0.0, -1)

    def add_cut(self, cut: Cut) -> None:
        lin = self.lin
        loads = np.array(cut.loads, np.int64)
        weight = cut_weights(lin, cut)
        whole = float(np.sum(lin.load_upper[loads] * weight))
        ceiling = math.ceil(whole - 1e-9)
        r = whole - ceiling + 1
        if cut.kind is not None:
            held = np.array([self.number[cut.kind, cut.period]], np.int64)
        else:
            held = np.flatnonzero((lin.hold_pool == cut.pool) & lin.hold_active[:, cut.period])
        columns = np.concatenate((held, loads + self.wholes))
        # A hair of room, so that a rounded r or whole cuts off nothing.
        self._add(columns, np.concatenate((np.full(len(held), -r), weight)), whole - r * ceiling + 1e-9, -1)

    def bound_holds(self, low: Floats, high: Floats) -> None:
        for h in np.flatnonzero((low != self.low[: self.wholes]) | (high != self.high[: self.wholes])).tolist():
            self.variables[h].SetBounds(float(low[h]), float(high[h]))
        self.low[: self.wholes], self.high[: self.wholes] = low, high

    def solve(self, time_limit_s: float) -> int:
        """Solve from the last basis; where that fails, anew and with presolve.

        Infeasible is believed when two ways say so: from a poor basis GLOP can say it of a program that has a solution, and
        no dual ray is at hand to check it by.
        """
        status, refused = pywraplp.Solver.ABNORMAL, 0
        for way in WAYS:
            self.solver.SetSolverSpecificParametersAsString(way)
            self.solver.SetTimeLimit(max(1, int(time_limit_s * 1000)))
            status = self.solver.Solve()
            refused += status == pywraplp.Solver.INFEASIBLE
            if status == pywraplp.Solver.OPTIMAL or refused == 2:
                break
        if status == pywraplp.Solver.INFEASIBLE and refused < 2:
            status = pywraplp.Solver.ABNORMAL
        self.solved = status == pywraplp.Solver.OPTIMAL
        return int(status)

    def held(self) -> Floats:
        return np.array([v.solution_value() for v in self.variables[: self.wholes]])

    def loaded(self) -> Floats:
        return np.array([v.solution_value() for v in self.variables[self.wholes : self.wholes + self.loads]])

    def bound(self) -> tuple[float, Floats]:
        """A safe bound from the present duals, and the reduced costs of the nodes held."""
        if self._packed is None:
            self._packed = (
                np.concatenate(self.rows),
                np.concatenate(self.columns),
                np.concatenate(self.values),
                np.array(self.rhs),
                np.array(self.sense),
            )
        rows, columns, values, rhs, sense = self._packed
        y = np.array([c.dual_value() for c in self.constraints])
        y = np.where(sense > 0, np.maximum(y, 0.0), np.where(sense < 0, np.minimum(y, 0.0), y))
        reduced = self.cost - np.bincount(columns, values * y[rows], len(self.cost))
        least = np.minimum(reduced * self.low, reduced * self.high)
        magnitude = float(np.sum(np.abs(y * rhs)) + np.sum(np.abs(least)))
        value = float(np.dot(y, rhs) + np.sum(least)) - MARGIN * magnitude + self.lin.given / self.scale
        return value * self.scale, reduced[: self.wholes] * self.scale


def _counted(lin: Linear) -> list[tuple[int, int]]:
    """Replica kinds and periods that need counts of their own: where a node is more than one replica of one kind."""
    inst = lin.instance
    on_pool: dict[int, set[int]] = {}
    for k in np.unique(lin.load_kind).tolist():
        on_pool.setdefault(inst.replicas[k].pool, set()).add(k)
    split = {o for o, kinds in on_pool.items() if len(kinds) > 1 or inst.replicas[min(kinds)].gpus < inst.pools[o].gpus}
    pairs = zip(lin.load_kind.tolist(), lin.load_period.tolist(), strict=True)
    return sorted({(k, p) for k, p in pairs if inst.replicas[k].pool in split})


class _Search:
    def __init__(
        self,
        lin: Linear,
        cutoff: float,
        step: int,
        deadline: float,
        stop: Callable[[], bool],
        on_proposal: Callable[[Floats, Counts], float | None],
    ) -> None:
        self.lin, self.step, self.deadline, self.stop = lin, step, deadline, stop
        self.program = _Program(lin, max(1.0, float(np.max(lin.hold_cost, initial=1.0))))
        self.root_deadline = time.monotonic() + ROOT_SHARE * (deadline - time.monotonic())
        self.out = Tree(value=cutoff)
        self.known: set[tuple[int, int, int, tuple[int, ...]]] = set()
        self.gain = np.zeros((2, self.program.wholes))
        self.tries = np.zeros((2, self.program.wholes))
        self.refused = math.inf  # least bound of a proposal of which the model made no plan, or a dearer one
        self.on_proposal = on_proposal

    def raised(self, bound: float) -> float:
        """Plans cost a multiple of `step`: a bound may be raised to the next one."""
        return bound if not math.isfinite(bound) else float(math.ceil(bound / self.step - 1e-9) * self.step)

    def hopeless(self, bound: float) -> bool:
        return self.raised(bound) >= self.out.value

    def late(self) -> bool:
        return time.monotonic() >= self.deadline or self.stop()

    def purge(self) -> None:
        """Start anew with the cuts that the present optimum leans on: rows that do nothing only cost time."""
        program = self.program
        if not program.solved:
            return
        first = len(program.constraints) - len(self.out.cuts)
        tight = [
            c for c, row in zip(self.out.cuts, program.constraints[first:], strict=True) if abs(row.dual_value()) > 1e-9
        ]
        self.program = _Program(self.lin, program.scale)
        self.known.clear()
        self.out.cuts.clear()
        self.add_cuts(tight)

    def add_cuts(self, cuts: Iterable[Cut]) -> int:
        added = 0
        for cut in cuts:
            if cut.kind is not None and (cut.kind, cut.period) not in self.program.number:
                continue
            if cut.key not in self.known and len(self.known) < MOST_CUTS:
                self.known.add(cut.key)
                self.program.add_cut(cut)
                self.out.cuts.append(cut)
                added += 1
        return added

    def relax(self, low: Floats, high: Floats, rounds: int) -> tuple[float, Floats, Floats] | None:
        """Bound, nodes and reduced costs of a tree node; None where nothing better lies below it."""
        self.program.bound_holds(low, high)
        bound = -math.inf
        for turn in range(rounds + 1):
            status = self.program.solve(self.deadline - time.monotonic())
            if status == pywraplp.Solver.INFEASIBLE:
                return None
            if status != pywraplp.Solver.OPTIMAL:
                hold = np.clip(low + 0.5 * (high > low), low, high)
                return bound, hold, np.zeros(len(low))
            value, reduced = self.program.bound()
            gained = value - bound
            bound = max(bound, value)
            if self.hopeless(bound):
                return None
            hold = self.program.held()
            if rounds == ROOT_ROUNDS and time.monotonic() > self.root_deadline:
                break
            if turn == rounds or (turn and gained < 2e-5 * abs(bound)):
                break
            load = self.program.loaded()
            found = broken_cuts(self.lin, hold[: self.program.holds], load)
            found += broken_counts(self.lin, self.program.number, hold, load)
            if not self.add_cuts(found):
                break
        return bound, hold, reduced

    def branching(self, low: Floats, high: Floats, bound: float, hold: Floats) -> int | None:
        """Column to branch on: most gained on both sides, tried out where that is not yet known."""
        part = hold - np.floor(hold + WHOLE)
        open_ = np.flatnonzero((part > WHOLE) & (high > low))
        if not len(open_):
            return None
        mean = [float(self.gain[s].sum() / max(1.0, self.tries[s].sum())) for s in (0, 1)]

        def score(h: int) -> float:
            rates = [self.gain[s, h] / self.tries[s, h] if self.tries[s, h] else mean[s] for s in (0, 1)]
            down, up = rates[0] * part[h], rates[1] * (1 - part[h])
            return float(max(down, 1e-6) * max(up, 1e-6) + 1e-9 * min(part[h], 1 - part[h]))

        ranked = sorted(open_.tolist(), key=lambda h: (-score(h), h))
        unknown = [h for h in ranked if min(self.tries[0, h], self.tries[1, h]) < KNOWN][:STRONG]
        for h in unknown:
            if self.late():
                break
            for side in (0, 1):
                a, b = low.copy(), high.copy()
                if side == 0:
                    b[h] = math.floor(hold[h])
                else:
                    a[h] = math.floor(hold[h]) + 1
                found = self.relax(a, b, 0)
                rise = (
                    (self.out.value if math.isfinite(self.out.value) else bound * 1.01) - bound
                    if found is None
                    else found[0] - bound
                )
                width = part[h] if side == 0 else 1 - part[h]
                self.gain[side, h] += max(rise, 0.0) / width
                self.tries[side, h] += 1
        return int(max(open_.tolist(), key=lambda h: (score(h), -h)))

    def dive(self, low: Floats, high: Floats, hold: Floats) -> None:
        """Round and solve again until all counts are whole: nodes first, then replicas; a plan early, no proof of anything."""
        low, high = low.copy(), high.copy()
        holds = self.program.holds
        while not self.late():
            part = np.abs(hold - np.round(hold))
            open_ = np.flatnonzero((part > WHOLE) & (high > low))
            if not len(open_):
                self.try_out(hold)
                return
            nodes = open_[open_ < holds]
            among = nodes if len(nodes) else open_
            nearest = among[np.argsort(part[among], kind="stable")]
            sure = [h for h in nearest[: max(1, len(nearest) // 4)].tolist() if part[h] < SURE]
            for chosen, up in ((sure or [int(nearest[0])], False), ([int(nearest[-1])], True)):
                a, b = low.copy(), high.copy()
                for h in chosen:
                    a[h] = b[h] = min(math.ceil(hold[h] - WHOLE) if up else round(float(hold[h])), high[h])
                found = self.relax(a, b, 0)
                if found is not None:
                    break
            if found is None:
                return
            low, high, hold = a, b, found[1]

    def try_out(self, hold: Floats) -> float | None:
        """Hand a point to the model, and keep what it makes of it."""
        counts = {key: round(float(hold[i])) for key, i in self.program.number.items()}
        value = self.on_proposal(np.round(hold[: self.program.holds]), counts)
        if value is not None and value < self.out.value:
            self.out.value, self.out.hold = value, np.round(hold)
        return value

    def propose(self, hold: Floats, bound: float) -> None:
        """A point with whole nodes: take it if the model makes a plan of it."""
        value = self.try_out(hold)
        if value is None or self.raised(bound) < value:
            # A better plan with these counts is not ruled out by what is known.
            self.refused = min(self.refused, bound)


def branch(
    lin: Linear,
    *,
    cutoff: float,
    step: int,
    time_limit_s: float,
    on_proposal: Callable[[Floats, Counts], float | None],
    cuts: Iterable[Cut] = (),
    on_bound: Callable[[float], None] = lambda bound: None,
    stop: Callable[[], bool] = lambda: False,
    node_limit: int | None = None,
) -> Tree:
    """Minimise over whole node counts.

    Parameters
    ----------
    cutoff
        Only values below it are of interest.
    step
        Every plan costs a multiple of it [objective's integers].
    on_proposal
        Told a point with whole nodes; gives the value of the plan made of it, or None where none could be made. Below a
        refused point nothing is searched: its bound is the tree's from then on.
    cuts
        Known to be useful.

    Returns
    -------
    Tree
        `bound`: no plan within these columns is better than min(bound, cutoff); `complete`: the tree was searched to its end.
    """
    search = _Search(lin, cutoff, step, time.monotonic() + time_limit_s, stop, on_proposal)
    search.add_cuts(cuts)
    out = search.out
    program = search.program
    heap: list[_Node] = [
        _Node(-math.inf, 0, program.low[: program.wholes].copy(), program.high[: program.wholes].copy())
    ]
    number = 0
    node: _Node | None = None
    told = -math.inf
    while heap or node is not None:
        if search.late() or (node_limit is not None and out.nodes >= node_limit):
            break
        if node is None:
            node = heapq.heappop(heap)
        if search.hopeless(node.bound):
            node = None
            continue
        lowest = min([node.bound, *([heap[0].bound] if heap else []), search.refused])
        if lowest > told:
            told = lowest
            on_bound(search.raised(lowest))
        out.nodes += 1
        found = search.relax(node.low, node.high, ROOT_ROUNDS if out.nodes == 1 else NODE_ROUNDS)
        if found is None:
            node = None
            continue
        if out.nodes == 1:
            search.purge()
        bound, hold, reduced = found
        if out.nodes % DIVE_EVERY == 1:
            search.dive(node.low, node.high, hold)
        bound = max(bound, node.bound)
        low, high = _tightened(node.low, node.high, hold, reduced, bound, out.value, search.step)
        h = search.branching(low, high, bound, hold)
        if h is None:
            search.propose(hold, bound)
            node = None
            continue
        children = []
        for side in (0, 1):
            a, b = low.copy(), high.copy()
            if side == 0:
                b[h] = math.floor(hold[h])
            else:
                a[h] = math.floor(hold[h]) + 1
            number += 1
            children.append(_Node(bound, number, a, b))
        # Dive where the part lies; the other side waits.
        up = hold[h] - math.floor(hold[h]) >= 0.5
        node, other = (children[1], children[0]) if up else (children[0], children[1])
        heapq.heappush(heap, other)
    out.complete = not heap and node is None
    waiting = [n.bound for n in heap] + ([node.bound] if node is not None else [])
    out.bound = search.raised(min([out.value, search.refused, *waiting]))
    return out


def _tightened(
    low: Floats, high: Floats, hold: Floats, reduced: Floats, bound: float, best: float, step: int
) -> tuple[Floats, Floats]:
    """Counts that would raise the bound beyond the best value are out of range (for counts that stand at a limit)."""
    if not math.isfinite(best):
        return low, high
    room = max(0.0, best - step - bound) * (1 + 1e-9) + 1e-6
    low, high = low.copy(), high.copy()
    for h in np.flatnonzero(np.abs(reduced) > 1e-6).tolist():
        reach = math.floor(room / abs(reduced[h]) + 1e-6)
        if reduced[h] > 0 and hold[h] <= low[h] + WHOLE:
            high[h] = min(high[h], low[h] + reach)
        elif reduced[h] < 0 and hold[h] >= high[h] - WHOLE:
            low[h] = max(low[h], high[h] - reach)
    return low, high
