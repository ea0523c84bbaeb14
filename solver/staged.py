"""Search in stages where a plain model is slow: bound first, then few pools, then all that a better plan could use.

1. The linear relaxation with cuts gives a bound within moments and a price for every pool (`bounding`).
2. Branch and cut over node counts, on the pools nearest to paying first, then on all that the incumbent leaves. Every point
   with whole nodes is handed to the model, which makes a plan of it (or not): no plan is ever taken from floating point.
3. What is left open goes to CP-SAT, on the pools that are left, with the cuts, the hint and the bound.

Pools are left out for good only where holding a node of them costs strictly more than the incumbent allows.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from solver.blend import blended
from solver.bounding.branch import Counts, branch
from solver.bounding.linear import Floats, Ints, Linear, linear, narrow
from solver.bounding.relaxation import Cut, Relaxed, cut_in_integers, relax
from solver.bounding.restrict import Part, restricted
from solver.constraints import total as total_of
from solver.counts.model import countable
from solver.counts.stage import over_counts, trimmed_start
from solver.counts.unbeaten import unbeaten
from solver.hints import give_whole_hint
from solver.improve import improve
from solver.instance import Instance
from solver.model import PlanModel, build_model
from solver.plan import Status
from solver.proposals import plan_of
from solver.search import PATIENCE, Found, run
from solver.search_state import How, State, cost_step, likely_pools, outcome, promising, usable_part, usable_pools

RELAX_SHARE = 0.3
LARGE_SHARE = 0.6
"""Share by whose end the relaxation of a large instance must be done: without it there is nothing to go by."""
BLEND_SHARE = 0.1
TREE_SHARE = 0.4
IMPROVE_SHARE = 0.85
"""Shares of the time limit by whose end the relaxation, the tree and the neighbourhoods must be done."""
TREE_ALONE_SHARE = 0.95
FEW_COLUMNS = 60
"""With so many columns of nodes and fewer among the few pools the tree is what proves, and gets nearly all the time."""
SMALL_LOADS = 2_000
"""So many loads and fewer CP-SAT takes at once, without neighbourhoods."""
SMALL_COUNTED = 400
"""With so many loads and fewer there is nothing to be won by searching counts alone."""
LARGEST_LOADS = 40_000
"""With more loads no model of all that is left is built: neighbourhoods go on to the end."""
FEW_POOLS = 30
ROUNDS = (60, 200, 600)
"""Tree nodes in the first rounds on few pools."""


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
    state = State(inst, how, started, step=cost_step(inst))
    share = RELAX_SHARE if len(lin.load_kind) <= LARGEST_LOADS else LARGE_SHARE
    relaxed = relax(lin, state.left(share), state.raise_bound, state.stopped)
    state.cuts = relaxed.cuts
    if relaxed.priced is not None:
        state.hired = relaxed.priced.hired
    if relaxed.priced is not None and not state.over():
        if len(inst.periods) > 1 and countable(inst) and len(lin.load_kind) > SMALL_COUNTED:
            trimmed_start(state, lin, relaxed)
            if state.values is None:
                _rounded(state, lin, relaxed)
            if state.values is None:
                _blend(state, lin, relaxed)
            over_counts(state, lin, relaxed)
        else:
            _rounded(state, lin, relaxed)
            _blend(state, lin, relaxed)
            _tree(state, lin, relaxed)
            _improve(state, lin, relaxed)
    if not state.over():
        _rest(state, lin, relaxed)
    return outcome(state)


def simple(inst: Instance) -> bool:
    """Nothing may be left out, no mix is to outlive a loss: what columns of pools can stand for."""
    mixed = [s for s in inst.services if len(s.demand) > 1]
    return not inst.wishes and not any(s.redundant or s.groups or s.ladders for s in mixed)


def _rounded(state: State, lin: Linear, relaxed: Relaxed) -> None:
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
    plan_of(state, lin, hold, {(int(k), int(p)): int(counts[k, p]) for k, p in pairs})


def _blend(state: State, lin: Linear, relaxed: Relaxed) -> None:
    """A first plan with blended rates on few pools, where dives take long."""
    if len(state.inst.periods) == 1:
        return
    part = restricted(state.inst, promising(state, relaxed, 4).tolist() + likely_pools(state))
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
    plan_of(state, lin, hold, {key: n for key, n in wide.replicas.items() if n})


def _tree(state: State, lin: Linear, relaxed: Relaxed) -> None:
    """Branch and cut, on few pools until the incumbent leaves few."""
    assert relaxed.priced is not None
    held = len(relaxed.support)
    # Every period multiplies what a node of the tree takes.
    few = promising(state, relaxed, max(FEW_POOLS - held, held) if len(state.inst.periods) == 1 else 4)
    turn = 0
    share = TREE_ALONE_SHARE if int(np.isin(lin.hold_pool, few).sum()) <= FEW_COLUMNS else TREE_SHARE
    while not state.over() and state.left(share) > 0:
        usable = usable_pools(state, relaxed)
        whole = len(usable) <= 1.5 * len(few) or turn >= len(ROUNDS)
        pools = usable if whole else few[np.isin(few, usable)]
        part = narrow(lin, pools)
        crowd = [len(pools)]

        def proposal(hold: Floats, counts: Counts, part_holds: Ints = part.holds) -> float | None:
            full = np.zeros(len(lin.hold_way))
            full[part_holds] = hold
            return plan_of(state, lin, full, counts)

        def shrunk(whole: bool = whole, crowd: list[int] = crowd) -> bool:
            """A better incumbent leaves so few pools that starting anew is worth it."""
            if state.stopped() or state.enough():
                return True
            return whole and len(usable_pools(state, relaxed)) <= 0.8 * crowd[0]

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
            if tree.complete or state.over() or len(usable_pools(state, relaxed)) > 0.8 * crowd[0]:
                return
        turn += 1


def _improve(state: State, lin: Linear, relaxed: Relaxed) -> None:
    """Neighbourhoods of the incumbent, where the tree left a gap."""
    if state.over() or state.values is None or state.objective is None or relaxed.priced is None:
        return
    usable = usable_pools(state, relaxed)
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


def _remember(state: State, cuts: list[Cut]) -> None:
    """Keep the cuts of the last tree: they are those that its optimum leant on, and what came after."""
    if cuts:
        state.cuts = cuts


def _mapped(cuts: list[Cut], loads: Ints) -> list[Cut]:
    """Cuts whose columns all are in a part, in the part's numbers."""
    number = {int(j): i for i, j in enumerate(loads)}
    return [replace(c, loads=tuple(number[f] for f in c.loads)) for c in cuts if all(f in number for f in c.loads)]


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


def _rest(state: State, lin: Linear, relaxed: Relaxed) -> None:
    """CP-SAT on the pools that are left: it makes the proof where the tree could not, and finds what it did not."""
    pools, options = usable_part(state, relaxed)
    whole = int(np.isin(lin.load_pool, pools).sum()) <= LARGEST_LOADS
    if not whole:
        if state.values is not None or relaxed.priced is None:
            return  # to build it would take longer than is left
        # Any plan is worth having, from what the relaxation would use.
        pools = sorted({*promising(state, relaxed, FEW_POOLS).tolist(), *likely_pools(state)})
        options = [q for q, o in enumerate(state.inst.options) if o.pool in set(pools)]
    part = restricted(state.inst, pools, options)
    built = build_model(part.instance)
    add_cuts(built, lin, part, state.cuts)
    if math.isfinite(state.bound):
        built.model.add(built.objective >= round(state.bound))
    if state.values is not None:
        known = part.narrowed(state.values)
        if known is not None:
            give_whole_hint(built, known)

    def progress(best: float | None, bound: float | None) -> None:
        if bound is not None and whole:
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
    if not whole:
        return
    if found.status is Status.OPTIMAL and found.objective is not None:
        state.raise_bound(found.objective)
    elif found.status is Status.INFEASIBLE:
        # No plan on these pools: none at all, or none better than the incumbent.
        state.raise_bound(math.inf if state.objective is None else state.objective)
        if state.objective is None:
            state.bound = math.inf
    elif found.bound is not None:
        state.raise_bound(found.bound)
