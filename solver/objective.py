"""What is minimised, as named linear expressions over the model's variables."""

from __future__ import annotations

from collections.abc import Callable

from solver.constraints import Context, Expr, money, total


def cost(ctx: Context) -> Expr:
    """Money over the horizon, discounted where the problem gives a rate [cents]."""
    return money(ctx, "cost")


def power(ctx: Context) -> Expr:
    """Nameplate of all nodes: own ones after PUE, rented ones as estimated from their accelerators [W].

    Committed nodes count in the stage in which they draw most, nodes held by the hour in the period in which most of them
    run; nodes that jobs hire, and gear, always count.
    """
    inst, var = ctx.instance, ctx.variables
    commits = [(var.commit[i], inst.pools[c.pool].facility_w, c) for i, c in enumerate(inst.capacities) if c.commit]
    by_stage = [total(watts * x for x, watts, c in commits if c.holds(stage[0])) for stage in inst.stages]
    terms: list[Expr] = [ctx.highest(by_stage, "committed_watts")]
    for i, c in enumerate(inst.capacities):
        if not c.commit:
            peak = ctx.model.new_int_var(0, c.max_nodes, f"peak[{i}]")
            for p in ctx.period_range():
                ctx.model.add(peak >= var.hourly[i, p])
            terms.append(inst.pools[c.pool].facility_w * peak)
    terms.extend(g.facility_w * var.gear[n] for n, g in enumerate(inst.gear) if g.facility_w)
    for q, option in enumerate(inst.options):
        if not option.pooled:
            terms.append(inst.pools[option.pool].facility_w * option.nodes * var.chosen[q])
    return total(terms)


def carbon(ctx: Context) -> Expr:
    """Emissions of the energy drawn over the horizon [g CO2e]."""
    return money(ctx, "carbon")


def time(ctx: Context) -> Expr:
    """Duration of the longest job [s]."""
    longest = ctx.model.new_int_var(0, max((o.duration_s for o in ctx.instance.options), default=0), "longest")
    for q, option in enumerate(ctx.instance.options):
        ctx.model.add(longest >= option.duration_s * ctx.variables.chosen[q])
    return total([longest])


def distinct_pools(ctx: Context) -> Expr:
    """Number of pools in use."""
    return total(list(ctx.variables.used.values()))


OBJECTIVES: dict[str, Callable[[Context], Expr]] = {
    "cost": cost,
    "power": power,
    "carbon": carbon,
    "time": time,
}
