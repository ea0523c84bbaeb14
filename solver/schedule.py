"""The rule `schedule`: runs of jobs as optional intervals in the representative week, on what services leave free.

start[w,j] is the first hour of run j of job w. On a pool every option of the job is an optional interval of whole hours, and
what the load period of an hour leaves free is the rest of a cumulative resource. The week is a ring. Jobs that hire their own
machines have a start too where the problem orders them (windows, jobs that wait for one another).

Cumulative resources of a thousand pools cost more than they tell, since a plan uses a few. So every pool has linear rows that
any schedule obeys (`_implied`), and its cumulative resource only where there are few pools, or once a plan of the rows alone
turned out to have no schedule (`unplaced`): bounds stay valid throughout, and a plan is only shown with its schedule.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model

from solver.context import Context
from solver.cp_sat import new_solver
from solver.expressions import Expr, total
from solver.instance import Instance, Option, Runs

FEW_POOLS = 12
"""Up to so many pools have their cumulative resource from the start."""
PLACING_S = 5.0
Spans = tuple[tuple[int, int], ...]


def place_runs(ctx: Context) -> None:
    """Add starts, spans and order of the runs, the implied rows of every pool, and the hours of few pools in full."""
    inst = ctx.instance
    for w, runs in enumerate(inst.runs if ctx.hours else ()):
        mine = [(q, o) for q, o in enumerate(inst.options) if o.work == w and o.slots]
        if mine:
            _order(ctx, w, runs, mine)
    shared = sorted({x.pool for x in inst.options if x.pooled and x.slots})
    for o in shared:
        _implied(ctx, o)
        if ctx.hours and len(shared) <= FEW_POOLS:
            share_pool(ctx, o)


def timed_options(ctx: Context, pool: int) -> list[tuple[int, Option]]:
    """Options that take hours of the week on held nodes of a pool."""
    options = ctx.instance.options
    return [(q, options[q]) for q in ctx.pooled.get(pool, ()) if options[q].slots]


def _order(ctx: Context, w: int, runs: Runs, mine: list[tuple[int, Option]]) -> None:
    """Spans, the order of a job's own runs, and jobs waited for."""
    inst, var = ctx.instance, ctx.variables
    for q, option in mine if runs.spans else ():
        free = cp_model.Domain.from_intervals(starts_within(runs.spans, option.slots, len(inst.weeks[0])))
        for j in range(len(runs.starts)):
            ctx.model.add_linear_expression_in_domain(var.start[w, j], free).only_enforce_if(var.chosen[q])
    for j in range(1, len(runs.starts)):
        ctx.model.add(var.start[w, j - 1] <= var.start[w, j])
    for before in runs.after:
        took = total(o.slots * var.chosen[q] for q, o in enumerate(inst.options) if o.work == before)
        last = len(inst.runs[before].starts) - 1
        for j in range(len(runs.starts)):
            # Run j waits for run j of the other, or for its last where that has fewer.
            ctx.model.add(var.start[w, j] >= var.start[before, min(j, last)] + took)


def starts_within(spans: Spans, slots: int, week: int) -> list[list[int]]:
    """Hours of the week in which a run of `slots` hours may start to end within one of the spans: first and last of each."""
    if not spans or any(b - a >= week for a, b in spans):
        return [[0, week - 1]]
    may = [(a, b - slots) for a, b in spans if b - a >= slots]
    # A span may pass the end of the week; starts are counted within it.
    parts = [part for a, b in may for part in ((a, min(b, week - 1)), (0, b - week))]
    return [list(part) for part in parts if part[1] >= part[0]]


def _free(ctx: Context, o: int, week: tuple[int, ...]) -> dict[int, Expr]:
    """GPUs of a pool that replicas and jobs without hours leave free, by period of the week."""
    inst, var = ctx.instance, ctx.variables
    always = [inst.options[q].gpus * var.chosen[q] for q in ctx.pooled.get(o, ()) if not inst.options[q].slots]
    whole = _most_gpus(ctx, o)
    free: dict[int, Expr] = {}
    for p in sorted(set(week)):
        taken = [inst.replicas[k].gpus * var.replicas[k, p] for k in ctx.kinds.get(o, ())]
        rest = inst.pools[o].gpus * ctx.nodes(o, p) - total([*taken, *always])
        if ctx.hours:
            free[p] = ctx.model.new_int_var(0, whole, f"free[{o},{p}]")
            ctx.model.add(free[p] == rest)
        else:
            free[p] = rest
            ctx.model.add(rest >= 0)
    return free


def _most_gpus(ctx: Context, o: int) -> int:
    """GPUs of a pool at the most nodes that any plan holds."""
    return ctx.instance.pools[o].gpus * sum(ctx.instance.capacities[i].max_nodes for i in ctx.ways.get(o, ()))


def _implied(ctx: Context, o: int) -> None:
    """Rows that every schedule obeys: GPU-hours that runs cannot but take in the busiest periods are free there.

    For a set of periods (the busiest one, the two busiest ...) a run takes at least m of its hours in them, wherever it
    may start; summed over runs, gpus x m is at most what the periods leave free.
    """
    inst, var = ctx.instance, ctx.variables
    timed = timed_options(ctx, o)
    for week in dict.fromkeys(inst.weeks):
        free = _free(ctx, o, week)
        order = sorted(free)
        for n in range(1, len(order) + 1):
            inside = frozenset(order[:n])
            least = {q: _least_inside(inst.runs[x.work], x.slots, week, inside) for q, x in timed}
            need = [x.gpus * sum(least[q]) * var.chosen[q] for q, x in timed if any(least[q])]
            if need:
                ctx.model.add(total(need) <= total(week.count(p) * free[p] for p in inside))
        # A job runs in one way at most, so that its ways add up: wherever a run is, its GPUs are free then.
        for w in sorted({x.work for _, x in timed}):
            mine = [(q, x) for q, x in timed if x.work == w]
            for p in order:
                bound = [x.gpus * var.chosen[q] for q, x in mine if _surely_inside(inst.runs[w], x.slots, week, p)]
                if bound:
                    ctx.model.add(total(bound) <= free[p])
            ctx.model.add(total(x.gpus * var.chosen[q] for q, x in mine) <= total(free.values()))


def _surely_inside(runs: Runs, slots: int, week: tuple[int, ...], period: int) -> bool:
    """Whether the first run is in a period for an hour at least, wherever it starts."""
    return all(_least_inside(runs, slots, week, frozenset({period}))[:1])


@lru_cache(maxsize=4096)
def _least_inside(runs: Runs, slots: int, week: tuple[int, ...], inside: frozenset[int]) -> tuple[int, ...]:
    """Per run, the fewest of its hours that fall into periods of `inside`, over all hours that it may start in.

    The same for every pool, of which there may be thousands.
    """
    length = len(week)
    counts = [int(p in inside) for p in week]
    sums = [0]
    for h in range(length + slots):
        sums.append(sums[-1] + counts[h % length])
    allowed = {h for a, b in starts_within(runs.spans, slots, length) for h in range(a, b + 1)}
    return tuple(
        min((sums[h + slots] - sums[h] for h in range(first, last + 1) if h in allowed), default=0)
        for first, last in runs.starts
    )


def share_pool(ctx: Context, o: int) -> None:
    """GPUs of a pool in every hour of the week, as a cumulative resource."""
    inst, var, model = ctx.instance, ctx.variables, ctx.model
    whole = _most_gpus(ctx, o)
    for number, week in enumerate(dict.fromkeys(inst.weeks)):
        free, length = _free(ctx, o, week), len(week)
        intervals: list[cp_model.IntervalVar] = []
        demands: list[Any] = []
        for q, x in timed_options(ctx, o):
            for j in range(len(inst.runs[x.work].starts)):
                for turn in (0, length):
                    # A run that passes the end of the week is seen again at its beginning: hours length .. 2 length count.
                    start, name = var.start[x.work, j] + turn, f"run[{q},{j},{turn},{number}]"
                    intervals.append(model.new_optional_fixed_size_interval_var(start, x.slots, var.chosen[q], name))
                    demands.append(x.gpus)
        for first, last, p in stretches(week):
            name = f"load[{o},{first},{number}]"
            intervals.append(model.new_fixed_size_interval_var(length + first, last - first, name))
            demands.append(whole - free[p])
        model.add_cumulative(intervals, demands, whole)
    ctx.placed.add(o)


def stretches(week: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Hours in a row with the same period: first hour, hour after the last, period."""
    cuts = [0, *(h for h in range(1, len(week)) if week[h] != week[h - 1]), len(week)]
    return [(a, b, week[a]) for a, b in pairwise(cuts)]


def starts_for(
    inst: Instance, chosen: dict[int, int], free: dict[tuple[int, int], int]
) -> dict[tuple[int, int], int] | None:
    """Starts of all runs for options and free GPUs that are fixed; None where there are none.

    Parameters
    ----------
    chosen : option -> 0 or 1
    free : (pool, period) -> GPUs that replicas and jobs without hours leave free on the nodes held
    """
    model = cp_model.CpModel()
    picked = [x for q, x in enumerate(inst.options) if x.slots and chosen[q]]
    start = {
        (x.work, j): model.new_int_var(first, last, f"start[{x.work},{j}]")
        for x in picked
        for j, (first, last) in enumerate(inst.runs[x.work].starts)
    }
    took = {x.work: x.slots for x in picked}
    for x in picked:
        runs = inst.runs[x.work]
        spans = cp_model.Domain.from_intervals(starts_within(runs.spans, x.slots, len(inst.weeks[0])))
        for j in range(len(runs.starts)):
            model.add_linear_expression_in_domain(start[x.work, j], spans)
            if j:
                model.add(start[x.work, j - 1] <= start[x.work, j])
            for before in runs.after:
                if before not in took:
                    continue  # a job that is left out keeps nobody waiting
                last = len(inst.runs[before].starts) - 1
                model.add(start[x.work, j] >= start[before, min(j, last)] + took[before])
    for o in sorted({x.pool for x in picked if x.pooled}):
        here = [x for x in picked if x.pool == o and x.pooled]
        for week in dict.fromkeys(inst.weeks):
            length = len(week)
            whole = max(0, *(free[o, p] for p in set(week)))
            intervals, demands = [], []
            for x in here:
                for j in range(len(inst.runs[x.work].starts)):
                    for turn in (0, length):
                        intervals.append(
                            model.new_fixed_size_interval_var(
                                start[x.work, j] + turn, x.slots, f"run[{x.work},{j},{turn}]"
                            )
                        )
                        demands.append(x.gpus)
            for first, last, p in stretches(week):
                intervals.append(model.new_fixed_size_interval_var(length + first, last - first, f"load[{first}]"))
                demands.append(whole - free[o, p])
            model.add_cumulative(intervals, demands, whole)
    # Runs as early as they may be: the same schedule every time.
    model.minimize(total(start.values()))
    solver = new_solver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = PLACING_S
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return {key: solver.value(s) for key, s in start.items()}
