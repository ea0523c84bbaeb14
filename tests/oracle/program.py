"""Integer programs for HiGHS, whose answers are rounded and checked again in integers.

Rows are divided by their largest coefficient and feasibility is asked for at 1e-10, because rates are integers near 1e9
whose last digit may count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import highspy
import numpy as np


class OracleError(Exception):
    """HiGHS gave no usable answer."""


@contextmanager
def quiet_stdout() -> Iterator[None]:
    """HiGHS prints its banner past Python's stdout, whatever its options say."""
    saved, sink = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(sink)


@dataclass
class Program:
    """Integer variables with bounds, rows low <= terms <= high, and the terms to minimise; integers throughout."""

    upper: list[int] = field(default_factory=list)
    rows: list[tuple[dict[int, int], int | None, int | None]] = field(default_factory=list)
    cost: dict[int, int] = field(default_factory=dict)

    def variable(self, upper: int) -> int:
        self.upper.append(upper)
        return len(self.upper) - 1

    def row(self, terms: dict[int, int], low: int | None = None, high: int | None = None) -> None:
        self.rows.append(({v: c for v, c in terms.items() if c}, low, high))

    def violated(self, values: list[int]) -> bool:
        """Whether integer values break a bound or a row."""
        if any(not 0 <= x <= u for x, u in zip(values, self.upper, strict=True)):
            return True
        for terms, low, high in self.rows:
            total = sum(c * values[v] for v, c in terms.items())
            if (low is not None and total < low) or (high is not None and total > high):
                return True
        return False

    def solve(self) -> int | None:
        """Least value of the cost; None where infeasible.

        Raises
        ------
        OracleError
            When HiGHS neither solves the program nor proves it infeasible, or its answer breaks a row once rounded.
        """
        for terms, low, high in self.rows:
            if not terms and ((low is not None and low > 0) or (high is not None and high < 0)):
                return None
        with quiet_stdout():
            highs = self.passed()
            highs.run()
        status = highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise OracleError(highs.modelStatusToString(status))
        values = [round(x) for x in highs.getSolution().col_value]
        if self.violated(values):
            raise OracleError("rounded solution breaks a row")
        return sum(c * values[v] for v, c in self.cost.items())

    def passed(self) -> highspy.Highs:
        """HiGHS with the program in it and the options of an oracle."""
        highs = highspy.Highs()
        options: dict[str, object] = {
            "output_flag": False,
            "threads": 1,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 1e-7,
            "mip_feasibility_tolerance": 1e-9,
            "primal_feasibility_tolerance": 1e-10,
            "dual_feasibility_tolerance": 1e-10,
        }
        for name, value in options.items():
            highs.setOptionValue(name, value)
        top = max((abs(c) for c in self.cost.values()), default=1) or 1
        count = len(self.upper)
        upper = np.array(self.upper, dtype=np.float64)
        highs.addVars(count, np.zeros(count), upper)
        every = np.arange(count, dtype=np.int32)
        highs.changeColsCost(count, every, np.array([self.cost.get(v, 0) / top for v in range(count)]))
        highs.changeColsIntegrality(count, every, np.full(count, highspy.HighsVarType.kInteger))
        rows = [row for row in self.rows if row[0]]
        scales = [max(abs(c) for c in terms.values()) for terms, _, _ in rows]
        most = highspy.kHighsInf
        lower = [-most if low is None else low / scale for (_, low, _), scale in zip(rows, scales, strict=True)]
        higher = [most if high is None else high / scale for (_, _, high), scale in zip(rows, scales, strict=True)]
        sizes = np.cumsum([0, *(len(terms) for terms, _, _ in rows)], dtype=np.int32)
        columns = np.fromiter((v for terms, _, _ in rows for v in terms), np.int32, sizes[-1])
        parts = (c / scale for (terms, _, _), scale in zip(rows, scales, strict=True) for c in terms.values())
        values = np.fromiter(parts, np.float64, sizes[-1])
        highs.addRows(len(rows), np.array(lower), np.array(higher), len(columns), sizes[:-1], columns, values)
        return highs
