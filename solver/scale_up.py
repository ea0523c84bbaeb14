"""Objective `scale`: the largest common multiple of the workloads that the limits allow, by bisection over proofs.

Services scale in traffic, batch jobs in requests, recurring training in runs a month, one-off training in tokens. Fixed
reservations keep their size. The multiple is rounded down to 1/1000.
"""

from __future__ import annotations

from collections.abc import Callable

from problems.schema import Batch, Fixed, Problem, Serve, Workload
from problems.units import Runs

STEPS = 1000
"""The multiple is counted in 1/STEPS."""
MOST = 1024 * STEPS


def grown(problem: Problem, steps: int) -> Problem:
    """The problem with its workloads at steps/STEPS of their size, to be met at least cost."""
    factor = steps / STEPS
    workloads = tuple(_grown(w, factor) for w in problem.workloads)
    return problem.model_copy(update={"workloads": workloads, "objective": "cost"})


def _grown(work: Workload, factor: float) -> Workload:
    if isinstance(work, Serve):
        traffic = work.traffic
        if traffic.rate is not None:
            new = traffic.model_copy(update={"rate": traffic.rate * factor})
        elif traffic.concurrency is not None:
            new = traffic.model_copy(update={"concurrency": traffic.concurrency * factor})
        elif traffic.users is not None:
            new = traffic.model_copy(
                update={"users": traffic.users.model_copy(update={"total": traffic.users.total * factor})}
            )
        else:
            new = traffic.model_copy(update={"rate": traffic.load * factor})
        return work.model_copy(update={"traffic": new})
    if isinstance(work, Batch):
        return work.model_copy(update={"requests": work.requests * factor})
    if isinstance(work, Fixed):
        return work
    if work.runs.per_month:
        return work.model_copy(update={"runs": Runs(work.runs.value * factor, per_month=True)})
    return work.model_copy(update={"tokens": work.tokens * factor})


def largest(feasible: Callable[[int], bool | None]) -> tuple[int, int | None]:
    """Bisect for the most steps that are feasible.

    Parameters
    ----------
    feasible : callable
        Steps -> True, False (proved) or None (not known in time).

    Returns
    -------
    best, ceiling : int, int or None
        Most steps found feasible (0: none), and the fewest proved infeasible (None: not proved).
    """
    low, high = 0, STEPS
    ceiling: int | None = None
    while high <= MOST:
        verdict = feasible(high)
        if verdict is not True:
            ceiling = high if verdict is False else None
            break
        low, high = high, high * 2
    else:
        return low, None
    while high - low > 1:
        middle = (low + high) // 2
        verdict = feasible(middle)
        if verdict is True:
            low = middle
        else:
            high = middle
            ceiling = middle if verdict is False else None
    return low, ceiling


def has_a_limit(problem: Problem) -> bool:
    """True where anything bounds the scale: money, power, work on machines or quotas."""
    limits = problem.limits
    money = (limits.budget.capex, limits.budget.monthly, limits.budget.total)
    return (
        any(x is not None for x in (*money, limits.power, limits.operations))
        or bool(limits.quota)
        or any(s.power is not None or s.it_power is not None for s in problem.sites)
    )
