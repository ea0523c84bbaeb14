"""HiGHS on an instance within a time limit: what it reaches, and whether that holds in integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import highspy

from solver.instance import Instance
from tests.oracle.highs import program_of
from tests.oracle.program import Program, quiet_stdout

Heard = Callable[[float | None, float | None], None]
# Feasibility as HiGHS has it by default; at the oracle's own it is far slower.
DEFAULTS = {"mip_feasibility_tolerance": 1e-6, "primal_feasibility_tolerance": 1e-7, "dual_feasibility_tolerance": 1e-7}


@dataclass(frozen=True)
class Reached:
    """What HiGHS has at the end, in the integers' own unit; None for what it does not have.

    `objective`, `bound` : as it says them, in floating point.
    `exact` : cost of its plan rounded to whole numbers, if that breaks no row.
    `proved` : it calls the plan optimal, or the instance infeasible.
    """

    objective: float | None
    bound: float | None
    exact: int | None
    proved: bool


def timed(inst: Instance, time_limit_s: float, threads: int) -> Reached:
    """What HiGHS reaches on an instance in a time [s]."""
    return reached(program_of(inst), time_limit_s, threads)


def reached(program: Program, time_limit_s: float, threads: int, heard: Heard | None = None) -> Reached:
    """Run HiGHS on a program, at its own tolerances.

    Parameters
    ----------
    time_limit_s
        For HiGHS alone [s]; it may overrun, between two looks at its clock.
    heard
        Told objective and bound as they come.
    """
    top = max((abs(c) for c in program.cost.values()), default=1) or 1

    def scaled(value: float) -> float | None:
        return None if abs(value) >= highspy.kHighsInf else value * top

    with quiet_stdout():
        highs = program.passed()
        options = {"threads": threads, "time_limit": time_limit_s, **DEFAULTS}
        for name, value in options.items():
            highs.setOptionValue(name, value)
        if heard is not None:

            def tell(event: highspy.highs.HighsCallbackEvent) -> None:
                data = event.data_out
                heard(scaled(data.mip_primal_bound), scaled(data.mip_dual_bound))

            highs.cbMipImprovingSolution += tell
            highs.cbMipInterrupt += tell
        # Threads are those of the process's first run unless its scheduler is begun anew; other runs here want one.
        highspy.Highs.resetGlobalScheduler(True)
        highs.run()
        info, status = highs.getInfo(), highs.getModelStatus()
        values = [round(x) for x in highs.getSolution().col_value]
        highspy.Highs.resetGlobalScheduler(True)
    objective, bound = scaled(info.objective_function_value), scaled(info.mip_dual_bound)
    proved = status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Reached(None, bound, None, proved)
    exact = None if program.violated(values) else sum(c * values[v] for v, c in program.cost.items())
    return Reached(objective, bound, exact, proved)
