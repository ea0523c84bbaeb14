"""Search over commitments: once they are given, load periods have nothing to do with one another, and each is a small program.

Commitments near those of the relaxation come first, then neighbours of the best ones found, in the order of what the
relaxations of their periods say, which is a bound of what they can come to: those above the incumbent are never tried.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from solver.counts.model import CountsModel
from solver.counts.program import Answer, Program

EACH_S = 4.0
"""Longest search of one period [s]."""
RELAX_S = 2.0
SLACK = 0.002
"""What all periods together may stay above their best, over the incumbent."""
REPAIRS = 12
ROUNDINGS = 24
"""Roundings of the relaxation whose own relaxation is looked at."""
UNSURE = 8
"""Commitments that may be rounded either way; the others go to the nearest."""

Commit = tuple[int, ...]


class Commitments:
    """The search. `columns` : numbers of the commitments' variables, in the order of a `Commit`."""

    def __init__(
        self,
        counts: CountsModel,
        *,
        threads: int,
        left: Callable[[], float],
        over: Callable[[], bool],
        on_better: Callable[[int, list[int]], None],
    ) -> None:
        self.counts, self.left, self.over, self.on_better = counts, left, over, on_better
        self.threads = max(1, threads)
        self.columns = [x.index for x in counts.built.context.variables.commit.values()]
        self.cost = np.array([counts.cost.get(v, 0) for v in self.columns], float)
        self.programs = [Program(counts, p) for p in range(len(counts.inst.periods))]
        free = {v: float(c) for v, c in counts.cost.items() if v not in set(self.columns)}
        for program in self.programs:
            program.price(free)
        self.best: int | None = None
        self._hints: dict[int, dict[int, float]] = {}
        self._lows: dict[Commit, list[float]] = {}

    def run(self, relaxed: NDArray[np.float64], best: int) -> None:
        """Search from the relaxation's commitments (one number per column); `best`: what must be beaten."""
        self.best = best
        with ThreadPoolExecutor(self.threads) as crew:
            queue: list[tuple[float, Commit]] = []
            seen: set[Commit] = set()
            for commit in self._roundings(relaxed):
                self._push(crew, queue, seen, commit)
            while queue and not self._late():
                bound, commit = heapq.heappop(queue)
                if self.best is not None and bound >= self.best:
                    return
                if self._evaluate(crew, commit):
                    for near in self._near(commit, relaxed):
                        if self._late():
                            return
                        self._push(crew, queue, seen, near)

    def _late(self) -> bool:
        return self.over() or self.left() <= 0.1

    def _roundings(self, relaxed: NDArray[np.float64]) -> list[Commit]:
        """Roundings of the relaxation, those that change it least in money first."""
        whole = np.floor(relaxed + 1e-6)
        part = np.maximum(0.0, relaxed - whole)
        unsure = [int(i) for i in np.argsort(-np.minimum(part, 1 - part) * self.cost)[:UNSURE] if part[i] > 0.02]
        nearest = whole + (part >= 0.5)
        out: list[tuple[float, Commit]] = []
        for ups in itertools.product((0, 1), repeat=len(unsure)):
            each = nearest.copy()
            each[unsure] = whole[unsure] + np.array(ups)
            moved = float(np.abs((each - relaxed) * self.cost).sum() + abs(((each - relaxed) * self.cost).sum()))
            out.append((moved, tuple(each.astype(int).tolist())))
        return [commit for _, commit in sorted(out)[:ROUNDINGS]]

    def _near(self, commit: Commit, relaxed: NDArray[np.float64]) -> list[Commit]:
        """One node more, less or of another pool, among commitments that are held or that the relaxation would hold."""
        some = [i for i in range(len(commit)) if commit[i] or relaxed[i] > 1e-6]
        out = []
        for i in some:
            for j in [None, *some]:
                if j == i:
                    continue
                each = list(commit)
                each[i] -= 1
                if j is not None:
                    each[j] += 1
                if min(each) >= 0:
                    out.append(tuple(each))
            more = list(commit)
            more[i] += 1
            out.append(tuple(more))
        return out

    def _push(
        self, crew: ThreadPoolExecutor, queue: list[tuple[float, Commit]], seen: set[Commit], commit: Commit
    ) -> None:
        if commit in seen or self._late():
            return
        seen.add(commit)
        lows = list(crew.map(lambda p: self._relaxed(p, commit), range(len(self.programs))))
        bound = self._own(commit) + sum(lows)
        self._lows[commit] = lows
        if math.isfinite(bound) and (self.best is None or bound < self.best):
            heapq.heappush(queue, (bound, commit))

    def _own(self, commit: Commit) -> float:
        return float(self.cost @ np.array(commit, float)) + float(self.counts.model.proto.objective.offset)

    def _relaxed(self, p: int, commit: Commit) -> float:
        """Bound of what a period costs beside the commitments."""
        program = self.programs[p]
        program.grow_safely()
        program.fix(self._values(commit))
        return program.relaxed(min(RELAX_S, self.left())).bound

    def _values(self, commit: Commit) -> dict[int, int]:
        return dict(zip(self.columns, commit, strict=True))

    def _evaluate(self, crew: ThreadPoolExecutor, commit: Commit) -> bool:
        """Search all periods with given commitments; True where that beats the best."""
        assert self.best is not None
        lows = self._lows[commit]
        room = [self.best - self._own(commit) - sum(lows)]

        def one(p: int) -> Answer | None:
            if room[0] <= 0 or self._late():
                return None
            answer = self._period(p, commit)
            # What a period comes to beyond its relaxation is room that the others no longer have.
            room[0] -= max(0.0, answer.objective - lows[p]) if answer.values is not None else math.inf
            return answer

        # Those with most at stake first: they tell soonest.
        order = sorted(range(len(self.programs)), key=lambda p: -lows[p])
        answers = dict(zip(order, crew.map(one, order), strict=True))
        if room[0] <= 0 or any(a is None or a.values is None for a in answers.values()):
            return False
        solution = [0] * len(self.counts.model.proto.variables)
        for answer in answers.values():
            assert answer is not None
            assert answer.values is not None
            for v, x in answer.values.items():
                solution[v] = round(x)
        total = self.counts.objective(solution)
        if total >= self.best:
            return False
        for p, answer in answers.items():
            assert answer is not None
            assert answer.values is not None
            self._hints[p] = answer.values
        self.best = total
        self.on_better(total, self.counts.completed(solution))
        return True

    def _period(self, p: int, commit: Commit) -> Answer:
        """The best of one period with given commitments that carries its demands."""
        program = self.programs[p]
        program.fix(self._values(commit))
        answer = Answer(None, math.inf, -math.inf, False)
        for _ in range(REPAIRS):
            program.grow_safely()
            answer = program.solve(min(EACH_S, max(0.05, self.left())), slack=self._slack(), hint=self._hint(p, commit))
            if answer.values is None:
                return answer
            replicas = self._replicas(p, answer.values)
            if not self.counts.unserved(replicas, p):
                return answer
        return Answer(None, math.inf, answer.bound, False)

    def _slack(self) -> float:
        """What a period may stay above its best."""
        return SLACK * (self.best or 0) / len(self.programs)

    def _hint(self, p: int, commit: Commit) -> Mapping[int, float] | None:
        known = self._hints.get(p)
        return None if known is None else {**known, **self._values(commit)}

    def _replicas(self, p: int, values: Mapping[int, float]) -> dict[tuple[int, int], float]:
        var = self.counts.built.context.variables.replicas
        return {key: values[x.index] for key, x in var.items() if key[1] == p}
