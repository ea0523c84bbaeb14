"""Loads for given replica counts: the split of every request size that leaves the busiest replica the most room, by GLOP.

The room is what whole loads need: each is rounded up by less than one unit.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortools.linear_solver import pywraplp

from solver.bounding.linear import required
from solver.instance import LOAD_UNIT, Instance


def balanced(inst: Instance, replicas: Mapping[tuple[int, int], int]) -> dict[tuple[int, int, int], int]:
    """Loads of kind, bucket and period in units of 1/LOAD_UNIT replica; empty where the counts cannot carry the demand.

    They are a proposal: the model that takes them checks them.
    """
    out: dict[tuple[int, int, int], int] = {}
    for w, service in enumerate(inst.services):
        if len(service.demand) == 1:
            continue
        kinds = [k for k, r in enumerate(inst.replicas) if r.work == w]
        for p in range(len(inst.periods)):
            running = [k for k in kinds if replicas.get((k, p), 0) > 0]
            if any(by_period[p] for by_period in service.demand) and not _split(inst, w, p, running, replicas, out):
                return {}
    return out


def _split(
    inst: Instance,
    w: int,
    p: int,
    running: list[int],
    replicas: Mapping[tuple[int, int], int],
    out: dict[tuple[int, int, int], int],
) -> bool:
    """Loads of one service in one period."""
    demand = inst.services[w].demand
    solver = pywraplp.Solver.CreateSolver("GLOP")
    busiest = solver.NumVar(0.0, 1.0, "")
    rows = {k: solver.Constraint(-solver.infinity(), 0.0) for k in running}
    for k, row in rows.items():
        row.SetCoefficient(busiest, -float(replicas[k, p]))
    loads: dict[tuple[int, int], pywraplp.Variable] = {}
    for b, by_period in enumerate(demand):
        if not by_period[p]:
            continue
        cover = solver.Constraint(1.0, solver.infinity())
        need = required(by_period[p]) // 10
        for k in running:
            rate = inst.replicas[k].rate[b] // 10
            if rate > 0:
                load = solver.NumVar(0.0, solver.infinity(), "")
                cover.SetCoefficient(load, rate / need)
                rows[k].SetCoefficient(load, 1.0)
                loads[k, b] = load
    goal = solver.Objective()
    goal.SetMinimization()
    goal.SetCoefficient(busiest, 1.0)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return False
    for b, by_period in enumerate(demand):
        need = required(by_period[p]) // 10 * LOAD_UNIT
        mine = sorted(
            ((k, loads[k, b].solution_value()) for k in running if (k, b) in loads), key=lambda pair: -pair[1]
        )
        have = 0
        for k, x in mine:
            out[k, b, p] = int(x * LOAD_UNIT + 1e-7)
            have += out[k, b, p] * (inst.replicas[k].rate[b] // 10)
        # What rounding down lost is added where the size is served most.
        for k, _ in mine:
            if have >= need:
                break
            more = -(-(need - have) // (inst.replicas[k].rate[b] // 10))
            out[k, b, p] += more
            have += more * (inst.replicas[k].rate[b] // 10)
    return True
