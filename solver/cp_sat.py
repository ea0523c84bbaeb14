"""How every search by CP-SAT begins: one place for what is known of the solver itself."""

from __future__ import annotations

import os

from ortools.sat.python import cp_model

STRATEGIES = ("max_lp", "lb_tree_search", "default_lp")
"""By what they are worth; what workers are left look for better plans."""
MANY_WORKERS = 8
"""From so many workers on CP-SAT's own set has these and more."""


def new_solver() -> cp_model.CpSolver:
    """A solver without the one step of its presolve that is known to lose solutions.

    In ortools 9.15 the step that merges at-most-ones into linear rows can cut off the optimum and call a worse plan optimal
    (issue 5293 of google/or-tools; `tests/solver/test_presolve.py` has a case of ours). Without it presolve does the rest.
    CP-SAT's own handler of interrupts would end the process; ours stops the search and keeps the plan.
    """
    solver = cp_model.CpSolver()
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.max_presolve_iterations = 1
    solver.parameters.symmetry_level = 0
    solver.parameters.catch_sigint_signal = False
    return solver


def set_workers(solver: cp_model.CpSolver, workers: int, *, by_bound: bool = False) -> None:
    """Say how many workers search, and by which strategies; 0: as the machine's cores say.

    A plan's model is mostly linear rows: strategies that lean on the relaxation prove it in seconds, the rest of CP-SAT's
    default set takes their time away where cores are few. A worker alone searches almost without the relaxation unless told,
    and can fail on two dozen variables for minutes.

    `by_bound` : the relaxation is tight, so that a worker alone does best to raise its bound, node by node, until that is a plan.
    """
    cores = os.cpu_count() or 1
    solver.parameters.num_workers = workers or max(len(STRATEGIES) + 1, cores)
    if solver.parameters.num_workers == 1:
        solver.parameters.linearization_level = 2
        solver.parameters.optimize_with_lb_tree_search = by_bound
    elif solver.parameters.num_workers < MANY_WORKERS:
        solver.parameters.subsolvers.extend(STRATEGIES)
