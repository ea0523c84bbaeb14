"""How much of a mix of request sizes a set of replicas carries: one small linear programme."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.linear_solver import pywraplp


def largest_mix(shares: Sequence[float], replicas: Sequence[tuple[Sequence[float], int]]) -> float:
    """Maximise t with sum_k rate[k,b] f[k,b] >= t share[b] for every size b and sum_b f[k,b] <= count[k].

    Parameters
    ----------
    shares
        Share of each size in the demand, adding up to 1.
    replicas
        Rate of one replica for each size [1/s, or in flight] and how many there are.

    Returns
    -------
    float
        Largest total demand [unit of the rates].
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    most = sum(max(rates) * count for rates, count in replicas)
    t = solver.NumVar(0.0, most * 2 + 1, "t")
    load = [[solver.NumVar(0.0, float(count), "") for _ in shares] for _, count in replicas]
    for b, share in enumerate(shares):
        solver.Add(sum(load[k][b] * rates[b] for k, (rates, _) in enumerate(replicas)) >= t * share)
    for row, (_, count) in zip(load, replicas, strict=True):
        solver.Add(sum(row) <= count)
    solver.Maximize(t)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return 0.0
    return float(t.solution_value())
