"""Search in stages where a plain model is slow: bound first, then few pools, then all that a better plan could use.

1. The linear relaxation with cuts gives a bound within moments and a price for every pool (`bounding`).
2. Branch and cut over node counts, on the pools nearest to paying first, then on all that the incumbent leaves. Every point
   with whole nodes is handed to the model, which makes a plan of it (or not): no plan is ever taken from floating point.
3. What is left open goes to CP-SAT, on the pools that are left, with the cuts, the hint and the bound.

Pools are left out for good only where holding a node of them costs strictly more than the incumbent allows.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from solver.blend import blended
from solver.bounding.branch import Counts, branch
from solver.bounding.linear import Floats, Ints, Linear, linear, narrow
from solver.bounding.relaxation import Cut, Relaxed, cut_in_integers, relax
from solver.bounding.restrict import Part, restricted
from solver.bounding.route import balanced
from solver.constraints import total as total_of
from solver.counts.cover import Cover
from solver.counts.model import countable
from solver.counts.search import CountSearch, bound_counts
from solver.counts.start import held_for, trimmed
from solver.counts.unbeaten import unbeaten
from solver.fixed_values import filled, objective_of
from solver.improve import improve
from solver.instance import Instance
from solver.model import PlanModel, build_model
from solver.plan import Status, StopReason
from solver.search import PATIENCE, Found, Values, relative_gap, run

Progress = Callable[[float | None, float | None], None]
RELAX_SHARE = 0.3
BLEND_SHARE = 0.1
TREE_SHARE = 0.4
IMPROVE_SHARE = 0.85
"""Shares of the time limit by whose end the relaxation, the tree and the neighbourhoods must be done."""
TREE_ALONE_SHARE = 0.95
FEW_COLUMNS = 60
"""With so many columns of nodes and fewer among the few pools the tree is what proves, and gets nearly all the time."""
COMMIT_SHARE, COUNTS_SHARE = 0.7, 0.96
"""By whose end the search over commitments, and that over all counts, must be done."""
EXTRA_POOLS = 4
"""Pools beside those that the relaxation uses, and as many again, among which better plans are looked for."""
SMALL_COUNTS = 1_500
"""With so many counts of replicas and fewer the whole model over counts is searched from the start."""
SMALL_LOADS = 2_000
"""So many loads and fewer CP-SAT takes at once, without neighbourhoods."""
LARGEST_LOADS = 40_000
"""With more loads no model of all that is left is built: neighbourhoods go on to the end."""
FEW_POOLS = 30
PROPOSAL_S = 2.0
ROUNDS = (60, 200, 600)
"""Tree nodes in the first rounds on few pools."""


@dataclass(frozen=True)
class How:
    """How to search: limits, threads, and who is told."""

    time_limit_s: float
    gap: float
    workers: int
    seed: int
    log: bool = False
    stop: threading.Event | None = None
    on_progress: Progress = lambda best, bound: None


@dataclass
class _State:
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


def staged(inst: Instance, how: How) -> Found | None:
    """Minimise an instance in stages; None where its objective is no sum over columns (then the plain search is all there is)."""
    started = time.monotonic()
    part = restricted(inst, unbeaten(inst).tolist())
    if len(part.pools) == len(inst.pools):
        return _staged(inst, how, started)
    found = _staged(part.instance, how, started)
    return found if found is None or found.values is None else replace(found, values=part.widened(found.values))


def _staged(inst: Instance, how: How, started: float) -> Found | None:
    """Minimise an instance whose pools are worth looking at."""
    lin = linear(inst) if simple(inst) else None
    if lin is None:
        return None
    state = _State(inst, how, started, step=cost_step(inst))
    relaxed = relax(lin, state.left(RELAX_SHARE), state.raise_bound, state.stopped)
    state.cuts = relaxed.cuts
    if relaxed.priced is not None and not state.over():
        if len(inst.periods) > 1 and countable(inst) and len(lin.load_kind) > SMALL_LOADS:
            _trimmed(state, lin, relaxed)
            _counts(state, lin, relaxed)
        else:
            _rounded(state, lin, relaxed)
            _blend(state, lin, relaxed)
            _tree(state, lin, relaxed)
            _improve(state, lin, relaxed)
    if not state.over():
        _rest(state, lin, relaxed)
    return _found(state)


def simple(inst: Instance) -> bool:
    """No hours of the week and nothing left out: what columns of pools can stand for."""
    return not (inst.runs or inst.wishes)


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


def _usable(state: _State, relaxed: Relaxed) -> Ints:
    """Pools of which a plan better than the incumbent could hold a node."""
    assert relaxed.priced is not None
    if state.objective is None:
        return np.arange(len(state.inst.pools))
    return np.flatnonzero(relaxed.priced.penalty <= state.objective - relaxed.priced.bound)


def _promising(state: _State, relaxed: Relaxed, extra: int) -> Ints:
    """Pools that the relaxation uses, and those nearest to it."""
    assert relaxed.priced is not None
    order = np.argsort(relaxed.priced.penalty, kind="stable")
    return np.unique(np.concatenate((relaxed.support, order[: len(relaxed.support) + extra])))


def _rounded(state: _State, lin: Linear, relaxed: Relaxed) -> None:
    """A first plan at once: the relaxation's replicas rounded up, and nodes for them; seldom good, but there."""
    inst = state.inst
    if len(inst.periods) == 1 or not len(relaxed.hold):
        return
    periods = len(inst.periods)
    busy = np.zeros((len(inst.replicas), periods))
    np.add.at(busy, (lin.load_kind, lin.load_period), relaxed.load)
    counts = np.ceil(busy - 1e-6)
    gpus = np.zeros((len(inst.pools), periods))
    for k, r in enumerate(inst.replicas):
        gpus[r.pool] += r.gpus * counts[k]
    hold = np.ceil(relaxed.hold - 1e-6)
    have = np.zeros((len(inst.pools), periods))
    np.add.at(have, lin.hold_pool, hold[:, None] * lin.hold_active)
    short = np.ceil(gpus / np.array([[p.gpus] for p in inst.pools]) - have)
    for o, p in zip(*np.nonzero(short > 0), strict=True):
        ways = np.flatnonzero((lin.hold_pool == o) & lin.hold_active[:, p])
        more = short[o, p] - (np.sum(hold[ways]) - have[o, p])
        if len(ways) and more > 0:
            hold[ways[np.argmin(lin.hold_cost[ways])]] += more
    pairs = zip(*np.nonzero(counts), strict=True)
    _plan_of(state, lin, hold, {(int(k), int(p)): int(counts[k, p]) for k, p in pairs})


def _blend(state: _State, lin: Linear, relaxed: Relaxed) -> None:
    """A first plan with blended rates on few pools, where dives take long."""
    if len(state.inst.periods) == 1:
        return
    part = restricted(state.inst, _promising(state, relaxed, 4).tolist() + _option_pools(state.inst))
    found = run(
        build_model(blended(part.instance)),
        time_limit_s=min(BLEND_SHARE * state.how.time_limit_s, max(0.1, state.left())),
        gap=0.03,
        workers=state.how.workers,
        seed=state.how.seed,
        stop=state.how.stop,
        patience=0.3,
    )
    if found.values is None:
        return
    wide = part.widened(replace(found.values, load={}))
    hold = np.array(
        [
            wide.commit[i] if p < 0 else wide.hourly[i, p]
            for i, p in zip(lin.hold_way.tolist(), lin.hold_period.tolist(), strict=True)
        ],
        float,
    )
    _plan_of(state, lin, hold, {key: n for key, n in wide.replicas.items() if n})


def _tree(state: _State, lin: Linear, relaxed: Relaxed) -> None:
    """Branch and cut, on few pools until the incumbent leaves few."""
    assert relaxed.priced is not None
    held = len(relaxed.support)
    # Every period multiplies what a node of the tree takes.
    few = _promising(state, relaxed, max(FEW_POOLS - held, held) if len(state.inst.periods) == 1 else 4)
    turn = 0
    share = TREE_ALONE_SHARE if int(np.isin(lin.hold_pool, few).sum()) <= FEW_COLUMNS else TREE_SHARE
    while not state.over() and state.left(share) > 0:
        usable = _usable(state, relaxed)
        whole = len(usable) <= 1.5 * len(few) or turn >= len(ROUNDS)
        pools = usable if whole else few[np.isin(few, usable)]
        part = narrow(lin, pools)
        crowd = [len(pools)]

        def proposal(hold: Floats, counts: Counts, part_holds: Ints = part.holds) -> float | None:
            full = np.zeros(len(lin.hold_way))
            full[part_holds] = hold
            return _plan_of(state, lin, full, counts)

        def shrunk(whole: bool = whole, crowd: list[int] = crowd) -> bool:
            """A better incumbent leaves so few pools that starting anew is worth it."""
            if state.stopped() or state.enough():
                return True
            return whole and len(_usable(state, relaxed)) <= 0.8 * crowd[0]

        tree = branch(
            part.lin,
            cutoff=math.inf if state.objective is None else state.objective,
            step=state.step,
            time_limit_s=max(0.0, state.left(share)),
            on_proposal=proposal,
            cuts=_mapped(state.cuts, part.loads),
            on_bound=state.raise_bound if whole else lambda bound: None,
            stop=shrunk,
            node_limit=None if whole else ROUNDS[turn],
        )
        _remember(state, [replace(c, loads=tuple(part.loads[list(c.loads)].tolist())) for c in tree.cuts])
        if whole:
            # Pools left out would make a plan at least as dear as the incumbent, which `raise_bound` keeps to.
            state.raise_bound(tree.bound)
            if tree.complete or state.over() or len(_usable(state, relaxed)) > 0.8 * crowd[0]:
                return
        turn += 1


def _trimmed(state: _State, lin: Linear, relaxed: Relaxed) -> None:
    """A first plan at once: the relaxation's replicas rounded up, less those that nothing needs."""
    counts = trimmed(lin, Cover(state.inst), relaxed.load)
    _plan_of(state, lin, held_for(lin, counts), counts)
    if state.values is None:
        _rounded(state, lin, relaxed)


def _counts(state: _State, lin: Linear, relaxed: Relaxed) -> None:
    """Better plans over whole counts, and a bound beside the last of them."""
    if state.values is None or state.objective is None:
        return
    threads = state.how.workers or 2
    each = len(state.inst.services) * len(state.inst.periods)
    # Where the whole is small HiGHS has something to say of it soon; else few pools and plans come first.
    small = len(_usable(state, relaxed)) * each <= SMALL_COUNTS
    pools = _promising(state, relaxed, EXTRA_POOLS).tolist()
    search = CountSearch(
        state.inst,
        lin,
        relaxed,
        sorted({*pools, *_held(state), *_option_pools(state.inst)}),
        state.values,
        left=state.left,
        over=state.over,
        on_better=state.take,
    )
    faults: list[BaseException] = []

    def bound() -> None:
        try:
            assert state.values is not None
            pools = _usable(state, relaxed).tolist()
            bound_counts(
                state.inst,
                lin,
                relaxed,
                pools,
                state.values,
                left=lambda: state.left(COUNTS_SHARE),
                over=state.over,
                on_bound=state.raise_bound,
                on_better=state.take,
            )
        except BaseException as fault:  # handed on below
            faults.append(fault)

    beside = threading.Thread(target=bound, daemon=True)
    if small:
        beside.start()
    search.commitments(max(1, threads - small), lambda: state.left(COMMIT_SHARE))
    if not small and not state.over():
        beside.start()
    if not state.over():
        share, several = COUNTS_SHARE, max(1, threads - 1)
        search.neighbours(several, lambda: state.left(share), seed=state.how.seed, step=state.step)
    if beside.is_alive():
        beside.join()
    if faults:
        raise faults[0]


def _held(state: _State) -> set[int]:
    """Pools that the incumbent holds nodes of."""
    if state.values is None:
        return set()
    held = {state.inst.capacities[i].pool for i, n in state.values.commit.items() if n}
    return held | {state.inst.capacities[i].pool for (i, _), n in state.values.hourly.items() if n}


def _improve(state: _State, lin: Linear, relaxed: Relaxed) -> None:
    """Neighbourhoods of the incumbent, where the tree left a gap."""
    if state.over() or state.values is None or state.objective is None or relaxed.priced is None:
        return
    usable = _usable(state, relaxed)
    loads = int(np.isin(lin.load_pool, usable).sum())
    if loads <= SMALL_LOADS:
        return  # the whole model is as quick
    share = 1.0 if loads > LARGEST_LOADS else IMPROVE_SHARE
    order = usable[np.argsort(relaxed.priced.penalty[usable], kind="stable")]
    improve(
        state.inst,
        state.values,
        state.objective,
        order[: 4 * FEW_POOLS].tolist(),
        step=state.step,
        seed=state.how.seed,
        workers=min(2, state.how.workers or 2),
        left=lambda: state.left(share),
        over=state.over,
        on_better=state.take,
    )


def _remember(state: _State, cuts: list[Cut]) -> None:
    """Keep the cuts of the last tree: they are those that its optimum leant on, and what came after."""
    if cuts:
        state.cuts = cuts


def _mapped(cuts: list[Cut], loads: Ints) -> list[Cut]:
    """Cuts whose columns all are in a part, in the part's numbers."""
    number = {int(j): i for i, j in enumerate(loads)}
    return [replace(c, loads=tuple(number[f] for f in c.loads)) for c in cuts if all(f in number for f in c.loads)]


def _plan_of(state: _State, lin: Linear, hold: Floats, counts: Counts) -> float | None:
    """Value of the plan that the model makes of given node counts; None where it finds none.

    The replica counts proposed are tried first; then the nodes alone are given.
    """
    at_once = _at_once(state, lin, hold, counts)
    if at_once is not None:
        return at_once
    for replicas in (counts, {}) if counts else ({},):
        found, part = _fixed(state, lin, hold, replicas)
        if found.values is not None and found.objective is not None:
            state.take(found.objective, part.widened(found.values))
            return float(found.objective)
    return None


def _at_once(state: _State, lin: Linear, hold: Floats, counts: Counts) -> float | None:
    """Value of the plan with exactly these nodes and replicas and nothing else, where it is one."""
    inst = state.inst
    loads = balanced(inst, counts) if counts and not inst.gear and not inst.options else {}
    if not loads:
        return None
    part = restricted(inst, np.unique(lin.hold_pool[hold > 0.5]).tolist())
    way, kind = ({j: i for i, j in enumerate(x)} for x in (part.capacities, part.replicas))
    if any(k not in kind for k, _ in counts):
        return None
    held = [(int(lin.hold_way[h]), int(lin.hold_period[h]), round(hold[h])) for h in np.flatnonzero(hold > 0.5)]
    values = Values(
        commit={way[i]: n for i, p, n in held if p < 0},
        hourly={(way[i], p): n for i, p, n in held if p >= 0},
        replicas={(kind[k], p): n for (k, p), n in counts.items()},
        load={(kind[k], b, p): n for (k, b, p), n in loads.items()},
        chosen={},
    )
    built = build_model(part.instance)
    objective = objective_of(built, values)
    if objective is not None:
        state.take(objective, part.widened(filled(built, values)))
    return objective


def _fixed(state: _State, lin: Linear, hold: Floats, counts: Counts) -> tuple[Found, Part]:
    inst = state.inst
    part = restricted(inst, np.unique(lin.hold_pool[hold > 0.5]).tolist() + _option_pools(inst))
    built = build_model(part.instance)
    number = {j: i for i, j in enumerate(part.capacities)}
    kinds = {j: i for i, j in enumerate(part.replicas)}
    var = built.context.variables
    for h, count in enumerate(hold.tolist()):
        i = int(lin.hold_way[h])
        if i in number:
            at = int(lin.hold_period[h])
            held = var.commit[number[i]] if at < 0 else var.hourly[number[i], at]
            built.model.add(held == round(count))
    replicas = _replicas(state, lin, hold, counts)
    loads = balanced(inst, replicas)
    for (k, p), n in replicas.items():
        if k in kinds:
            built.model.add_hint(var.replicas[kinds[k], p], n)
            if (k, p) in counts:
                built.model.add(var.replicas[kinds[k], p] == n)
    for (k, b, p), load in var.load.items():
        built.model.add_hint(load, loads.get((part.replicas[k], b, p), 0))
    found = run(
        built,
        time_limit_s=min(PROPOSAL_S, max(0.05, state.left())),
        gap=0.0,
        workers=1,
        seed=state.how.seed,
        stop=state.how.stop,
    )
    return found, part


def _replicas(state: _State, lin: Linear, hold: Floats, counts: Counts) -> Counts:
    """Replicas on given nodes: as counted, or as many as the nodes hold where a pool has one kind that fills a node."""
    inst = state.inst
    nodes: dict[tuple[int, int], int] = {}
    for h in np.flatnonzero(hold > 0.5).tolist():
        for p in np.flatnonzero(lin.hold_active[h]).tolist():
            key = int(lin.hold_pool[h]), p
            nodes[key] = nodes.get(key, 0) + round(float(hold[h]))
    out = dict(counts)
    for k, r in enumerate(inst.replicas):
        if r.gpus == inst.pools[r.pool].gpus:
            for p in range(len(inst.periods)):
                if (k, p) not in out and nodes.get((r.pool, p), 0):
                    out[k, p] = min(r.max_count, nodes[r.pool, p])
    return out


def _option_pools(inst: Instance) -> list[int]:
    """Pools that jobs may hire nodes of."""
    return [o.pool for o in inst.options]


def add_cuts(built: PlanModel, lin: Linear, part: Part, cuts: list[Cut]) -> int:
    """Give cuts to the model of a part, in whole numbers."""
    pools = {j: i for i, j in enumerate(part.pools)}
    kinds = {j: i for i, j in enumerate(part.replicas)}
    load = built.context.variables.load
    added = 0
    for cut in cuts:
        if cut.pool not in pools:
            continue
        terms, constant, factor = cut_in_integers(lin, cut)
        if any((kinds[k], b, cut.period) not in load for _, k, b, _ in terms):
            continue
        if cut.kind is None:
            nodes = built.context.nodes(pools[cut.pool], cut.period)
        else:
            nodes = total_of([built.context.variables.replicas[kinds[cut.kind], cut.period]])
        total = sum(gpus * load[kinds[k], b, cut.period] for gpus, k, b, _ in terms)
        built.model.add(total <= constant + factor * nodes)
        added += 1
    return added


def _rest(state: _State, lin: Linear, relaxed: Relaxed) -> None:
    """CP-SAT on the pools that are left: it makes the proof where the tree could not, and finds what it did not."""
    usable = _usable(state, relaxed) if relaxed.priced is not None else np.arange(len(state.inst.pools))
    if state.values is not None and int(np.isin(lin.load_pool, usable).sum()) > LARGEST_LOADS:
        return  # to build it would take longer than is left
    extra = _option_pools(state.inst)
    part = restricted(state.inst, sorted(set(usable.tolist()) | set(extra)))
    built = build_model(part.instance)
    add_cuts(built, lin, part, state.cuts)
    if math.isfinite(state.bound):
        built.model.add(built.objective >= round(state.bound))
    if state.values is not None:
        known = part.narrowed(state.values)
        if known is not None:
            hint_all(built, known)

    def progress(best: float | None, bound: float | None) -> None:
        if bound is not None:
            state.raise_bound(bound)
        if best is not None and (state.objective is None or best < state.objective):
            state.how.on_progress(best, state.bound if math.isfinite(state.bound) else None)

    found = run(
        built,
        time_limit_s=max(0.1, state.left()),
        gap=state.how.gap,
        workers=state.how.workers,
        seed=state.how.seed,
        log=state.how.log,
        stop=state.how.stop,
        on_progress=progress,
        patience=max(0.0, PATIENCE * state.how.time_limit_s - state.elapsed()) / max(0.1, state.left()),
    )
    state.size = (found.variables, found.constraints)
    if found.values is not None and found.objective is not None:
        state.take(found.objective, part.widened(found.values))
    if found.status is Status.OPTIMAL and found.objective is not None:
        state.raise_bound(found.objective)
    elif found.status is Status.INFEASIBLE:
        # No plan on these pools: none at all, or none better than the incumbent.
        state.raise_bound(math.inf if state.objective is None else state.objective)
        if state.objective is None:
            state.bound = math.inf
    elif found.bound is not None:
        state.raise_bound(found.bound)


def hint_all(built: PlanModel, values: Values) -> None:
    """Hint every variable of the model with a plan."""
    var, add = built.context.variables, built.model.add_hint
    for i, commit in var.commit.items():
        add(commit, values.commit.get(i, 0))
    for ip, hourly in var.hourly.items():
        add(hourly, values.hourly.get(ip, 0))
    for kp, replicas in var.replicas.items():
        add(replicas, values.replicas.get(kp, 0))
    for kbp, load in var.load.items():
        add(load, values.load.get(kbp, 0))
    for g, gear in var.gear.items():
        add(gear, values.gear.get(g, 0))
    for q, chosen in var.chosen.items():
        add(chosen, values.chosen.get(q, 0))


def _found(state: _State) -> Found:
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
