"""Implied rows on what a service must have to outlive the loss of nodes: more than its demand, by what the nodes lost carried.

Nodes. Of the nodes that carry a service, a node of pool o at most c_o, any j may go and the others still carry the demand D
(`solver.losses` asks for no less: what it takes for lost is at least what the j largest nodes carry). Let T be what the smallest
of the j largest carries; the others carry no more each. With the weights w_o = c_o / (D + j c_o), by which D / c_o + j nodes
of any one pool weigh 1, the j largest weigh at least j T / (D + j T), for w grows with c, and the others, which carry D at no less
than 1 / (D + j T) each unit, at least D / (D + j T). So whatever the nodes,

    sum_o w_o n_o >= 1,

which is tight for every pool alone, and is rounded to whole nodes like any row on nodes (`solver.node_cuts`).

Replicas, where nodes are shared with other services. Sets s of like pools carry a_s >= 0 of the service, a full node of them at
most c_s; j nodes of one set take the smaller of C_s = j c_s and a_s with them, so sum_s a_s - max_s min(C_s, a_s) >= D. With v_s =
1 / (D + C_s)

    sum_s v_s a_s >= z,    z = min {sum_s v_s a_s : the rule above}.

For a greatest loss L the sets with C_s > L carry at most L each and the others what they like, so that z is found by filling them
in the order of v; in between it is linear in L, so that only L = C_s, and L = D / (m - 1) where m sets carry all, need be
looked at.

The relaxation takes little notice of losses without these rows: it thinks of one as of a fraction of one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from solver.expressions import required, total
from solver.instance import Service
from solver.node_cuts import UNIT, add_nodes

if TYPE_CHECKING:
    from solver.context import Context

ROUND = 1e-9
"""Rows ask for so much less than they could, for the rounding of floating point (relative)."""


def loss_cuts(ctx: Context) -> None:
    """Implied: what services that outlive the loss of nodes carry, and the whole nodes that takes."""
    inst = ctx.instance
    number = {o: n for n, pools in enumerate(inst.like_pools) for o in pools}
    for w, service in enumerate(inst.services):
        if not (service.redundant or service.ladders) or ctx.wish(w, job=False) is not None:
            continue
        kinds = [(k, r) for k, r in enumerate(inst.replicas) if r.work == w and r.blend > 0]
        node: dict[int, int] = defaultdict(int)
        carried: dict[int, float] = defaultdict(float)
        for _, r in kinds:
            node[number[r.pool]] = max(node[number[r.pool]], r.node_blend)
            carried[r.pool] = max(carried[r.pool], r.blend * inst.pools[r.pool].gpus / r.gpus)
        for p, demand in enumerate(service.demand[0]):
            if not demand or not kinds:
                continue
            asked = required(demand)
            lost = max(service.redundant, _surely_lost(service, set(carried), asked / max(carried.values())))
            if not lost:
                continue
            most = {s: lost * c for s, c in node.items()}
            least = least_weight(asked, tuple(sorted(Counter(most.values()).items())))
            share = {s: (1 + ROUND) / (asked + c) / least for s, c in most.items()}
            parts = {k: min(UNIT, math.ceil(UNIT * r.blend * share[number[r.pool]])) for k, r in kinds}
            ctx.model.add(total(n * ctx.variables.replicas[k, p] for k, n in parts.items()) >= UNIT)
            weighed = {o: (1 + ROUND) * UNIT * a / (asked + lost * a) for o, a in carried.items()}
            add_nodes(ctx, p, {o: math.ceil(x) for o, x in weighed.items()})


def _surely_lost(service: Service, pools: set[int], nodes: float) -> int:
    """Nodes that the ladders ask to do without at the least, where no fewer than `nodes` carry the service."""
    if not service.ladders or pools - {o for x in service.ladders for o in x.pools}:
        return 0
    fewest = math.ceil(nodes * (1 - ROUND))
    return min(sum(step <= fewest for step in x.steps) for x in service.ladders if pools & set(x.pools))


@lru_cache(maxsize=4096)
def least_weight(demand: int, losses: tuple[tuple[int, int], ...]) -> float:
    """z: the least of sum_s v_s a_s with v_s = 1 / (demand + C_s).

    Parameters
    ----------
    losses
        Each C_s, from the smallest, with how many sets have it.
    """
    sets = sum(n for _, n in losses)
    smallest = max(1, losses[0][0])
    shared = range(2, min(sets, 2 + demand // smallest) + 1)
    best = math.inf
    for top in [*(float(c) for c, _ in losses), *(demand / (m - 1) for m in shared)]:
        rest, cost = demand + top, 0.0
        for c, n in reversed(losses):
            if rest <= 0:
                break
            taken = rest if c <= top else min(rest, n * top)
            cost += taken / (demand + c)
            rest -= taken
        if rest <= demand * ROUND:
            best = min(best, cost)
    return best
