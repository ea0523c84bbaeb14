"""The rules of the model, one function each; `CONSTRAINTS` lists the whole model on one screen.

Symbols: w service, b request-size bucket, p load period, k replica kind, o pool, c commitment, e hourly way, q option
of a job. n[o,p] = sum of C[c] + sum of E[e,p] are the nodes of pool o held in period p.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from solver.context import Context as Context
from solver.context import Variables as Variables
from solver.expressions import Expr as Expr
from solver.expressions import required as required
from solver.expressions import total as total
from solver.expressions import weighted
from solver.gear_cuts import gear_cuts as gear_cuts
from solver.instance import DEMAND_UNIT, LOAD_UNIT, SHARE_UNIT, Gear, Pool
from solver.loss_cuts import loss_cuts
from solver.losses import redundancy, spread
from solver.node_cuts import node_cuts as node_cuts
from solver.row_cuts import telling
from solver.schedule import place_runs


def coverage(ctx: Context) -> None:
    """Every demand is served: sum_k rate[k,b] F[k,b,p] >= demand[w,b,p] (R in place of F where w has one bucket)."""
    for w, service in enumerate(ctx.instance.services):
        kinds = [k for k, r in enumerate(ctx.instance.replicas) if r.work == w]
        for b, by_period in enumerate(service.demand):
            for p, demand in enumerate(by_period):
                if demand == 0:
                    continue
                if len(service.demand) == 1:
                    supply = total(ctx.instance.replicas[k].rate[b] * ctx.variables.replicas[k, p] for k in kinds)
                    ctx.model.add(supply >= ctx.asked(w, required(demand)))
                else:
                    # One unit of F is 1/LOAD_UNIT replica; both sides are divided by 10 so that sums stay far from 2^63.
                    supply = total(ctx.instance.replicas[k].rate[b] // 10 * ctx.variables.load[k, b, p] for k in kinds)
                    ctx.model.add(supply >= ctx.asked(w, required(demand) // 10 * LOAD_UNIT))


def replica_capacity(ctx: Context) -> None:
    """A replica's time is shared among buckets: sum_b F[k,b,p] <= LOAD_UNIT R[k,p]."""
    for k, replica in enumerate(ctx.instance.replicas):
        buckets = len(ctx.instance.services[replica.work].demand)
        if buckets == 1:
            continue
        for p in ctx.period_range():
            if (k, p) in ctx.variables.replicas:
                loads = [ctx.variables.load[k, b, p] for b in range(buckets)]
                ctx.model.add(total(loads) <= LOAD_UNIT * ctx.variables.replicas[k, p])


def mix_cuts(ctx: Context) -> None:
    """Implied: whole replicas needed for a mix of sizes, one inequality per replica kind j taken as the measure.

    With weights y_b = 1 / rate[j,b] every kind k does at most max_b rate[k,b] y_b of work per replica, so
    sum_k (max_b rate[k,b] / rate[j,b]) R[k,p] >= sum_b demand[b,p] / rate[j,b]. These speak of counts alone and close
    most of the gap that fractional loads leave; they cut off no feasible plan. One replica of a kind never counts for more
    than all that is needed; with many kinds only some are taken as the measure, evenly over their speed.
    """
    unit, most_measures, largest_need = 1_000_000, 40, 10**12
    for w, service in enumerate(ctx.instance.services):
        if len(service.demand) == 1:
            continue
        kinds = [k for k, r in enumerate(ctx.instance.replicas) if r.work == w]
        measures = {ctx.instance.replicas[j].rate for j in kinds if min(ctx.instance.replicas[j].rate) > 0}
        for p in ctx.period_range():
            if not any(by_period[p] for by_period in service.demand):
                continue
            chosen = sorted(measures)
            for rates in chosen[:: max(1, -(-len(chosen) // most_measures))]:
                need = sum(unit * (required(d[p]) // 10 * 10) // r for d, r in zip(service.demand, rates, strict=True))
                need -= len(service.demand)
                if not 0 < need <= largest_need:
                    continue
                done = {
                    k: max(-(-unit * x // r) for x, r in zip(ctx.instance.replicas[k].rate, rates, strict=True))
                    for k in kinds
                }
                wish = ctx.wish(w, job=False)
                least = need if wish is None else need // SHARE_UNIT * ctx.variables.share[wish]
                ctx.model.add(total(min(done[k], need) * ctx.variables.replicas[k, p] for k in kinds) >= least)


def packing(ctx: Context) -> None:
    """Replicas and jobs that run all month fit on the nodes held: sum_k gpus_k R[k,p] + sum_q gpus_q x[q] <= gpus_o n[o,p].

    Exact because the replica sizes of a pool form a divisor chain that divides its node (see candidates), and larger
    ones take whole nodes.
    """
    kinds: dict[int, list[int]] = defaultdict(list)
    for k, replica in enumerate(ctx.instance.replicas):
        kinds[replica.pool].append(k)
    pooled: dict[int, list[int]] = defaultdict(list)
    for q, option in enumerate(ctx.instance.options):
        if option.pooled and not option.slots:
            pooled[option.pool].append(q)
    for o in sorted(set(kinds) | set(pooled)):
        for p in ctx.period_range():
            taken = total(ctx.instance.replicas[k].gpus * ctx.variables.replicas[k, p] for k in kinds[o])
            taken = taken + total(ctx.instance.options[q].gpus * ctx.variables.chosen[q] for q in pooled[o])
            ctx.model.add(taken <= ctx.instance.pools[o].gpus * ctx.nodes(o, p))


def jobs(ctx: Context) -> None:
    """Every job runs in exactly one way: sum_q x[q] = 1, or served[i] where it may be left out."""
    for w in range(len(ctx.instance.jobs)):
        ways = [ctx.variables.chosen[q] for q, o in enumerate(ctx.instance.options) if o.work == w]
        wish = ctx.wish(w, job=True)
        if wish is None:
            ctx.model.add_exactly_one(ways)
        else:
            ctx.model.add(total(ways) == ctx.variables.served[wish])


def level_value(ctx: Context, level: int) -> Expr:
    """Value served of a priority [1/SHARE_UNIT of Wish.value]."""
    wishes = enumerate(ctx.instance.wishes)
    return total(wish.value * ctx.variables.share[i] for i, wish in wishes if wish.level == level)


def wishes(ctx: Context) -> None:
    """A workload is left out or served to at least its least share, and the value of settled priorities is kept."""
    for i, wish in enumerate(ctx.instance.wishes):
        share, served = ctx.variables.share[i], ctx.variables.served[i]
        ctx.model.add(share >= wish.least * served)
        ctx.model.add(share <= SHARE_UNIT * served)
        if wish.must:
            ctx.model.add(served == 1)
        for before in ctx.instance.runs[wish.work].after if wish.job and ctx.instance.runs else ():
            other = ctx.wish(before, job=True)
            if other is not None:
                ctx.model.add_implication(served, ctx.variables.served[other])
    for level, floor in enumerate(ctx.instance.floors):
        ctx.model.add(level_value(ctx, level) >= floor)


def spot_share(ctx: Context) -> None:
    """Were all spot nodes lost at once, 1 - share of every demand would still be served by the others.

    Jobs, which can wait, are not counted. Stated on what firm nodes serve, not on node counts, so that idle cheap
    nodes cannot buy room for spot; with several request sizes, on the load that firm nodes carry of each.
    """
    firm_ppm = 1_000_000 - ctx.instance.spot_share_ppm
    if firm_ppm <= 0:
        return
    for w, service in enumerate(ctx.instance.services):
        kinds = [k for k, r in enumerate(ctx.instance.replicas) if r.work == w]
        if not any(ctx.instance.pools[ctx.instance.replicas[k].pool].spot for k in kinds):
            continue
        firm = [k for k in kinds if not ctx.instance.pools[ctx.instance.replicas[k].pool].spot]
        for p in ctx.period_range():
            for b, by_period in enumerate(service.demand):
                demand = by_period[p]
                if demand == 0:
                    continue
                if len(service.demand) == 1:
                    supply = total(ctx.instance.replicas[k].rate[b] * ctx.variables.replicas[k, p] for k in firm)
                    ctx.model.add(supply >= ctx.asked(w, required(demand) * firm_ppm // 1_000_000))
                else:
                    supply = total(ctx.instance.replicas[k].rate[b] // 10 * ctx.variables.load[k, b, p] for k in firm)
                    least = required(demand) // 10 * LOAD_UNIT * firm_ppm // 1_000_000
                    ctx.model.add(supply >= ctx.asked(w, least))


def node_limits(ctx: Context) -> None:
    """Quotas and counts of owned machines: nodes held, and nodes that jobs hire beside them, stay within them."""
    inst = ctx.instance
    groups: list[tuple[tuple[int, ...], int]] = [
        ((o,), pool.node_limit) for o, pool in enumerate(inst.pools) if pool.node_limit is not None
    ]
    groups += [(quota.pools, quota.max_nodes) for quota in inst.quotas]
    for pools, most in groups:
        hired = total(
            option.nodes * ctx.variables.chosen[q]
            for q, option in enumerate(inst.options)
            if option.pool in pools and not option.pooled
        )
        for p in ctx.period_range():
            ctx.model.add(total(ctx.nodes(o, p) for o in pools) + hired <= most)


def site_watts(ctx: Context, sites: Iterable[int], stage: list[int], *, facility: bool) -> Expr:
    """Nameplate of all nodes and gear at some sites, idle ones included, in one stage [W], after PUE or before."""
    inst, var, here = ctx.instance, ctx.variables, set(sites)

    def each(x: Pool | Gear) -> int:
        return x.facility_w if facility else x.it_w

    nodes = [
        each(inst.pools[c.pool]) * var.commit[i]
        for i, c in enumerate(inst.capacities)
        if c.commit and inst.pools[c.pool].site in here and c.holds(stage[0])
    ]
    return total(nodes + [each(x) * var.gear[g] for g, x in enumerate(inst.gear) if x.site in here])


def site_power(ctx: Context) -> None:
    """Nameplate at each site and summed over sites, before and after PUE, in every stage."""
    inst = ctx.instance
    for stage in inst.stages:
        for s, site in enumerate(inst.sites):
            if site.limit_it_w is not None:
                ctx.model.add(site_watts(ctx, [s], stage, facility=False) <= site.limit_it_w)
            if site.limit_facility_w is not None:
                ctx.model.add(site_watts(ctx, [s], stage, facility=True) <= site.limit_facility_w)
        if inst.limit_power_w is not None:
            ctx.model.add(site_watts(ctx, range(len(inst.sites)), stage, facility=True) <= inst.limit_power_w)


def money(ctx: Context, part: str) -> Expr:
    """Linear expression of one kind of money [cents]: cost (objective), cash (over the horizon), capex, or of carbon [g].

    For `monthly` it is the highest month of any stage.
    """
    if part != "monthly":
        return _paid(ctx, part, None)
    return ctx.highest([_paid(ctx, part, s) for s in range(len(ctx.instance.stages))], "highest_month")


def _paid(ctx: Context, part: str, number: int | None) -> Expr:
    """Sum of one kind of money over everything, or of what is paid in a month of one stage."""
    inst, var = ctx.instance, ctx.variables
    stage = None if number is None else set(inst.stages[number])
    terms: list[tuple[int, Any]] = []
    for i, c in enumerate(inst.capacities):
        amounts: tuple[int, ...] = (c.capex,) if part == "capex" else getattr(c, part)
        if c.commit:
            terms.append((amounts[number or 0], var.commit[i]))
        elif part != "capex":
            terms.extend((amounts[p], var.hourly[i, p]) for p in ctx.period_range() if stage is None or p in stage)
    for n, g in enumerate(inst.gear):
        each = getattr(g, part) if number is None else g.in_month(number)
        if each:
            terms.append((each, var.gear[n]))
    if part != "capex":
        for (k, p), count in var.replicas.items():
            amount = getattr(inst.replicas[k], part)[p]
            if amount and (stage is None or p in stage):
                terms.append((amount, count))
        terms.extend((getattr(o, part), var.chosen[q]) for q, o in enumerate(inst.options))
    return weighted(terms)


def budget(ctx: Context) -> None:
    """Capex, the highest month, and all payments over the horizon stay within their caps."""
    for part, limit in (
        ("capex", ctx.instance.limit_capex),
        ("monthly", ctx.instance.limit_monthly),
        ("cash", ctx.instance.limit_total),
    ):
        if limit is not None:
            ctx.model.add(money(ctx, part) <= limit)


def pool_use(ctx: Context) -> None:
    """used[o] is 1 as soon as a node of the pool is held or hired."""
    inst, var = ctx.instance, ctx.variables
    for i, c in enumerate(inst.capacities):
        if c.commit:
            ctx.model.add(var.commit[i] <= c.max_nodes * var.used[c.pool])
        else:
            for p in ctx.period_range():
                ctx.model.add(var.hourly[i, p] <= c.max_nodes * var.used[c.pool])
    for q, option in enumerate(inst.options):
        if not option.pooled:
            ctx.model.add_implication(var.chosen[q], var.used[option.pool])


def _rows(ctx: Context, rule: str) -> None:
    """Add the prepared rows of one rule, but for those that others imply."""
    var, sums = ctx.variables, ctx.instance.sums
    for row in telling([row for row in ctx.instance.rows if row.rule == rule], sums):
        terms: list[tuple[int, Any]] = [(factor, var.commit[i]) for i, factor in row.commit]
        for s, factor in row.sums:
            if s in var.sums:
                terms.append((factor, var.sums[s]))
            else:
                terms += [(factor * f, var.commit[i]) for i, f in sums[s].commit]
                terms += [(factor * f, var.chosen[q]) for q, f in sums[s].chosen]
        terms += [(factor, var.hourly[i, p]) for i, p, factor in row.hourly]
        terms += [(factor, var.chosen[q]) for q, factor in row.chosen]
        terms += [(factor, var.used[o]) for o, factor in row.used]
        terms += [(factor, var.gear[g]) for g, factor in row.gear]
        terms += [(factor, var.served[i]) for i, factor in row.served]
        terms += [(factor, var.replicas[k, row.period]) for k, factor in row.replicas]
        if row.low is not None:
            ctx.model.add(weighted(terms) >= row.low)
        if row.high is not None:
            ctx.model.add(weighted(terms) <= row.high)


def fabric(ctx: Context) -> None:
    """Every NIC port of the nodes at a site has a port on a switch of its network: sum nics n[o] <= sum ports G[step]."""
    _rows(ctx, "fabric")


def storage(ctx: Context) -> None:
    """Every data class lies on one tier with the room and speed for it, near its compute or with egress paid."""
    _rows(ctx, "storage")


def racks(ctx: Context) -> None:
    """Nodes and gear stand in racks and hang on circuits, and these are limited in number, watts and height."""
    _rows(ctx, "racks")


def charges(ctx: Context) -> None:
    """What is paid once per site or provider as soon as something is held there: set-up, staff, support."""
    _rows(ctx, "charges")


def schedule(ctx: Context) -> None:
    """Jobs with a place in the week: every run in its span, after those it waits for, GPUs free in each of its hours."""
    place_runs(ctx)


def operations(ctx: Context) -> None:
    """Work that machines make for their user is done and, where paid, paid: sum hours n[o,p] <= limit, <= hours G[paid]."""
    _rows(ctx, "operations")


def sales(ctx: Context) -> None:
    """An owned machine is used or sold, not both: n[o] + G[sold] <= machines owned."""
    _rows(ctx, "sales")


def fleet(ctx: Context) -> None:
    """Nodes of a running lease are kept or given up, and nodes beyond the fleet are started: C + G = count, n <= G."""
    _rows(ctx, "fleet")


CONSTRAINTS: tuple[Callable[[Context], None], ...] = (
    coverage,
    replica_capacity,
    mix_cuts,
    node_cuts,
    gear_cuts,
    packing,
    jobs,
    schedule,
    wishes,
    redundancy,
    loss_cuts,
    spread,
    spot_share,
    node_limits,
    site_power,
    fabric,
    storage,
    racks,
    charges,
    operations,
    sales,
    fleet,
    budget,
    pool_use,
)

assert DEMAND_UNIT % 10 == 0
