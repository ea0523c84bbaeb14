"""Where the simplex fails or errs: another way is gone, nothing is claimed, and nothing is printed past the progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ortools.linear_solver import pywraplp

from solver.bounding import branch
from solver.bounding.linear import linear
from solver.bounding.relaxation import relax
from solver.plan import Status
from solver.search_state import How
from solver.staged import staged
from tests.oracle.highs import highs_optimum
from tests.solver.mixes import random_mix

Solve = Callable[..., int]


def every(turn: int, answer: int, of: Solve) -> Solve:
    """`of`, except that each answer number `turn` is another."""
    count = 0

    def solve(self: Any, *more: Any) -> int:
        nonlocal count
        count += 1
        return answer if count % turn == 0 else of(self, *more)

    return solve


@pytest.mark.parametrize("seed", range(1, 5))
def test_nothing_is_printed(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    inst = random_mix(seed, types=8, sizes=16, spread=1.0)
    found = staged(inst, How(10.0, 0.0, 1, 1))
    assert found is not None
    assert found.values is not None
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


@pytest.mark.parametrize("answer", [pywraplp.Solver.ABNORMAL, pywraplp.Solver.INFEASIBLE])
def test_a_false_answer_now_and_then_makes_no_false_proof(answer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """GLOP has said "infeasible" of programs with a solution, from a poor basis."""
    inst = random_mix(2, types=5, sizes=8, spread=1.0)
    best = highs_optimum(inst).objective
    assert best is not None
    for turn in (2, 3, 5):
        with monkeypatch.context() as patch:
            patch.setattr(branch, "pywraplp", _Answering(every(turn, answer, pywraplp.Solver.Solve)))
            found = staged(inst, How(10.0, 0.0, 1, 1))
        assert found is not None
        assert found.bound is None or found.bound <= best
        assert found.objective is None or found.objective >= best
        if found.status is Status.OPTIMAL:
            assert found.objective == best


def test_the_relaxation_is_the_same_where_the_first_way_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    lin = linear(random_mix(3, types=6, sizes=8, spread=1.0))
    assert lin is not None
    whole = relax(lin, 20.0)
    real = pywraplp.Solver.Solve
    calls = 0

    def solve(self: Any, *more: Any) -> int:
        nonlocal calls
        calls += 1
        return int(pywraplp.Solver.ABNORMAL) if calls % 2 else int(real(self, *more))

    monkeypatch.setattr(pywraplp.Solver, "Solve", solve)
    other = relax(lin, 20.0)
    assert calls > 1
    assert other.bound == pytest.approx(whole.bound, rel=1e-3)


class _Answering:
    """pywraplp whose solvers answer by a given function."""

    def __init__(self, solve: Solve) -> None:
        class Solver(pywraplp.Solver):
            Solve = solve

            @staticmethod
            def CreateSolver(name: str) -> Any:  # noqa: N802
                return Solver(name, pywraplp.Solver.GLOP_LINEAR_PROGRAMMING)

        self.Solver = Solver
