"""Implied rows on whole nodes: what nodes that are held carry of a service covers its demand, rounded to whole nodes.

A pool with G GPUs per node carries at most a = max_k rate_k G / gpus_k per node, since its replicas take no more GPUs than it
has. Of the nodes held, those that jobs fill all month carry nothing, so with m_o = n_o - sum_q floor(gpus_q / G) x_q >= 0

    sum_o a_o m_o >= demand

in every period. That much the relaxation knows; what it does not know is that the m_o are whole. With a pool r as the measure,
q = ceil(demand / a_r) and f = demand - (q - 1) a_r, mixed-integer rounding (Nemhauser and Wolsey 1990) gives

    sum_o (f floor(a_o / a_r) + min(f, a_o mod a_r)) m_o >= f q,

which cuts off no plan, and says that 1.1 nodes are two. Likewise a job that takes one GPU of a node takes a node with it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from solver.expressions import Expr, required, total
from solver.instance import Instance

if TYPE_CHECKING:
    from solver.context import Context

MEASURES = 8
"""Pools that serve as the measure, per service and period: those that carry the demand the cheapest."""
UNIT = 1_000_000
"""The demand in the units of the rows, so that sums stay far from 2^63."""


def node_cuts(ctx: Context) -> None:
    """Implied: whole nodes for jobs, and for services with one request size, one row per pool taken as the measure."""
    for w, service in enumerate(ctx.instance.services):
        if len(service.demand) != 1 or ctx.wish(w, job=False) is not None:
            continue
        kinds = [k for k, r in enumerate(ctx.instance.replicas) if r.work == w]
        for p, demand in enumerate(service.demand[0]):
            if demand:
                whole_nodes(ctx, p, _carried(ctx.instance, kinds, required(demand)))
    _nodes_of_jobs(ctx)


def _nodes_of_jobs(ctx: Context) -> None:
    """A job that uses held nodes runs on whole ones: sum over its ways on a pool of ceil(gpus / G) x[q] <= n[o,p].

    A job without hours of the week is there in every period, any other in one of them at least.
    """
    inst, periods = ctx.instance, ctx.period_range()
    for o, pooled in sorted(ctx.pooled.items()):
        by_job: dict[tuple[int, bool], list[int]] = defaultdict(list)
        for q in pooled:
            by_job[inst.options[q].work, bool(inst.options[q].slots)].append(q)
        changing = any(not inst.capacities[i].commit or inst.capacities[i].active for i in ctx.ways.get(o, ()))
        for (_, timed), ways in sorted(by_job.items()):
            needed = total(-(-inst.options[q].gpus // inst.pools[o].gpus) * ctx.variables.chosen[q] for q in ways)
            if timed:
                ctx.model.add(needed <= _held_in_any(ctx, o))
            else:
                for p in periods if changing else (0,):
                    ctx.model.add(needed <= ctx.nodes(o, p))


def _held_in_any(ctx: Context, pool: int) -> Expr:
    """At least the nodes of a pool that are held in any one period."""
    ways = ctx.ways.get(pool, ())
    commits = [ctx.variables.commit[i] for i in ways if ctx.instance.capacities[i].commit]
    hourly = [i for i in ways if not ctx.instance.capacities[i].commit]
    return total(commits + [ctx.variables.hourly[i, p] for i in hourly for p in ctx.period_range()])


def _carried(inst: Instance, kinds: list[int], demand: int) -> dict[int, int]:
    """What a full node of each pool carries of a demand, in parts of UNIT."""
    carried: dict[int, int] = defaultdict(int)
    for k in kinds:
        r = inst.replicas[k]
        # No replica, and no node, counts for more than all that is asked: a replica on four nodes makes each a quarter.
        most = -(-min(r.rate[0], demand) * inst.pools[r.pool].gpus * UNIT // (r.gpus * demand))
        carried[r.pool] = max(carried[r.pool], min(most, UNIT))
    return carried


def add_nodes(ctx: Context, period: int, carried: dict[int, int]) -> None:
    """As `whole_nodes`, with the row itself, where nothing else says it."""
    ctx.model.add(total(a * _free_nodes(ctx, o, period) for o, a in carried.items()) >= UNIT)
    whole_nodes(ctx, period, carried)


def whole_nodes(ctx: Context, period: int, carried: dict[int, int]) -> None:
    """Rows on the nodes held in one period that together must carry UNIT of something, a node of each pool so much of it."""
    carried = {o: a for o, a in carried.items() if a > 0}
    nodes = {o: _free_nodes(ctx, o, period) for o in carried}
    for a in _measures(ctx, carried):
        whole = -(-UNIT // a)
        rest = UNIT - (whole - 1) * a
        if rest == a:
            continue  # nothing is rounded
        row = total((rest * (x // a) + min(rest, x % a)) * nodes[o] for o, x in carried.items())
        ctx.model.add(row >= rest * whole)


def _measures(ctx: Context, carried: dict[int, int]) -> list[int]:
    """What a node carries of the pools that carry most for their cost."""
    price: dict[int, float] = {}
    for c in ctx.instance.capacities:
        if c.pool in carried:
            each = sum(c.cost) / carried[c.pool]
            price[c.pool] = min(each, price.get(c.pool, each))
    cheapest = sorted(price, key=lambda o: (price[o], o))
    return list(dict.fromkeys(carried[o] for o in cheapest))[:MEASURES]


def _free_nodes(ctx: Context, pool: int, period: int) -> Expr:
    """m[o,p]: nodes held less those that jobs without hours of the week fill."""
    inst, gpus = ctx.instance, ctx.instance.pools[pool].gpus
    mine = [(q, inst.options[q]) for q in ctx.pooled.get(pool, ())]
    filled = total((x.gpus // gpus) * ctx.variables.chosen[q] for q, x in mine if not x.slots and x.gpus >= gpus)
    return ctx.nodes(pool, period) - filled
