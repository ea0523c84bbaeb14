"""How every search by CP-SAT begins: one place for what is known of the solver itself."""

from __future__ import annotations

from ortools.sat.python import cp_model


def new_solver() -> cp_model.CpSolver:
    """A solver without the one step of its presolve that is known to lose solutions.

    In ortools 9.15 the step that merges at-most-ones into linear rows can cut off the optimum and call a worse plan optimal
    (issue 5293 of google/or-tools; `tests/solver/test_presolve.py` has a case of ours). Without it presolve does the rest.
    CP-SAT's own handler of interrupts would end the process; ours stops the search and keeps the plan.
    """
    solver = cp_model.CpSolver()
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.catch_sigint_signal = False
    return solver
