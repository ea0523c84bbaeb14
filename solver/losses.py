"""Rules of the model on what a service survives: the loss of nodes, so many or as many as chance takes, and of whole places.

Where nodes are lost, like pools (`Instance.like_pools`) count as one: builds that differ in their hosts alone are no safer
together. Their sets are numbered as in that list.
With several request sizes supply is counted by the blended rate, which is sufficient (every replica serves the mix).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from solver.expressions import Expr, required, total
from solver.instance import MOST_TO_LOSE, Service

if TYPE_CHECKING:
    from solver.context import Context


@dataclass(frozen=True)
class _Carried:
    """What a service's replicas carry in one period: in all, and by set of pools with the most that a full node carries."""

    work: int
    period: int
    inside: dict[int, Expr]
    node: dict[int, int]
    kinds: dict[int, list[int]]

    @property
    def supply(self) -> Expr:
        return total(self.inside.values())


def _carried(ctx: Context, work: int, period: int, sets: list[tuple[int, ...]]) -> _Carried:
    replicas = ctx.instance.replicas
    number = {o: n for n, pools in enumerate(sets) for o in pools}
    kinds: dict[int, list[int]] = defaultdict(list)
    for k, r in enumerate(replicas):
        if r.work == work:
            kinds[number[r.pool]].append(k)
    node = {o: max(replicas[k].node_blend for k in mine) for o, mine in kinds.items()}
    inside = {
        o: total(replicas[k].blend * ctx.variables.replicas[k, period] for k in mine) for o, mine in kinds.items()
    }
    return _Carried(work, period, inside, node, dict(kinds))


def redundancy(ctx: Context) -> None:
    """After the loss of any j nodes demand still holds, whichever way replicas were spread over nodes.

    j is the service's own number, or at least what its chance constraint asks for the nodes that carry it. supply - loss
    >= demand, where from every set o of like pools with j_o of the lost nodes is lost the smaller of what j_o full nodes of o
    carry and what o carries in all (all of it is on those nodes), and j_o add up to j.
    """
    sets = ctx.instance.like_pools
    for w, service in enumerate(ctx.instance.services):
        if not service.redundant and not service.ladders:
            continue
        for p in ctx.period_range():
            demand = service.demand[0][p]
            if demand == 0:
                continue
            at = _carried(ctx, w, p, sets)
            needed = ctx.asked(w, required(demand))
            if service.ladders:
                for j, allowed in enumerate(_to_lose(ctx, at, service, sets), start=1):
                    loss = _most_lost(ctx, at, j)
                    ctx.model.add(at.supply - loss >= needed).only_enforce_if(allowed)
            if service.redundant:
                ctx.model.add(at.supply - _most_lost(ctx, at, service.redundant) >= needed)


def _lost_with(ctx: Context, at: _Carried, like: int, nodes: int) -> cp_model.IntVar:
    """At least the smaller of what `nodes` full nodes of a set of like pools carry and what it carries in all."""
    most = nodes * at.node[like]
    name = f"[{at.work},{at.period},{like},{nodes}]"
    lost = ctx.model.new_int_var(0, most, f"lost{name}")
    whole = ctx.model.new_bool_var(f"lose_pool{name}")
    ctx.model.add(lost >= most).only_enforce_if(~whole)
    ctx.model.add(lost >= at.inside[like]).only_enforce_if(whole)
    return lost


def _most_lost(ctx: Context, at: _Carried, nodes: int) -> cp_model.IntVar:
    """At least what the worst `nodes` nodes carry, set by set: most[i, j] >= most[i-1, j-j'] + lost with j' of set i."""
    top = nodes * max(at.node.values(), default=0)
    name = f"[{at.work},{at.period}]"
    if nodes == 1:
        loss = ctx.model.new_int_var(0, top, f"loss{name}")
        for o in sorted(at.node):
            ctx.model.add(loss >= _lost_with(ctx, at, o, 1))
        return loss
    before: list[cp_model.IntVar | int] = [0] * (nodes + 1)
    for o in sorted(at.node):
        here: list[cp_model.IntVar | int] = [0, *(_lost_with(ctx, at, o, j) for j in range(1, nodes + 1))]
        after: list[cp_model.IntVar | int] = [0]
        for j in range(1, nodes + 1):
            most = ctx.model.new_int_var(0, top, f"most_lost[{at.work},{at.period},{o},{j}]")
            for taken in range(j + 1):
                ctx.model.add(most >= before[j - taken] + here[taken])
            after.append(most)
        before = after
    last = before[nodes]
    return last if isinstance(last, cp_model.IntVar) else ctx.model.new_int_var(0, 0, f"loss{name}")


def _to_lose(ctx: Context, at: _Carried, service: Service, sets: list[tuple[int, ...]]) -> list[cp_model.IntVar]:
    """allowed[j]: more than j nodes must be allowed to fail, for j = 0, 1 ... as far as any ladder goes.

    The nodes that may carry the service are, in each set of like pools, no more than are held and no more than its replicas
    stand on. Where pools of several ladders are used each node counts as one of the least sure of them.
    """
    model, var, replicas = ctx.model, ctx.variables, ctx.instance.replicas
    name = f"[{at.work},{at.period}]"
    counts: list[cp_model.IntVar] = []
    ceiling = 0
    for o, kinds in sorted(at.kinds.items()):
        spanned = total(replicas[k].nodes * var.replicas[k, at.period] for k in kinds)
        most = sum(replicas[k].nodes * replicas[k].max_count for k in kinds)
        count = model.new_int_var(0, most, f"carrying[{at.work},{at.period},{o}]")
        few = model.new_bool_var(f"few_held[{at.work},{at.period},{o}]")
        model.add(count >= spanned).only_enforce_if(~few)
        model.add(count >= total(ctx.nodes(x, at.period) for x in sets[o])).only_enforce_if(few)
        counts.append(count)
        ceiling += most
    nodes = total(counts)
    depth = min(MOST_TO_LOSE, max((len(x.steps) for x in service.ladders), default=0))
    allowed = [model.new_bool_var(f"to_lose{name}[{j}]") for j in range(depth)]
    for low, high in pairwise(allowed):
        model.add_implication(high, low)
    for number, rungs in enumerate(service.ladders):
        kinds = [k for mine in at.kinds.values() for k in mine if replicas[k].pool in rungs.pools]
        if not kinds:
            continue
        used = model.new_bool_var(f"ladder{name}[{number}]")
        for k in kinds:
            model.add(var.replicas[k, at.period] <= replicas[k].max_count * used)
        for j, step in enumerate(rungs.steps[: MOST_TO_LOSE + 1]):
            if j < depth:
                model.add(nodes <= step - 1 + ceiling * allowed[j] + ceiling * (1 - used))
            else:
                model.add(nodes <= step - 1 + ceiling * (1 - used))
    return allowed


def spread(ctx: Context) -> None:
    """After the loss of any one zone, region, provider or site demand still holds: sum over pools elsewhere >= demand."""
    for w, service in enumerate(ctx.instance.services):
        for p in ctx.period_range() if service.groups else ():
            demand = service.demand[0][p]
            if demand == 0:
                continue
            at = _carried(ctx, w, p, [(o,) for o in range(len(ctx.instance.pools))])
            for group in service.groups:
                elsewhere = total(x for o, x in at.inside.items() if o not in group)
                ctx.model.add(elsewhere >= ctx.asked(w, required(demand)))
