"""Large-neighbourhood search over counts: free a part of the best counts, hold the rest, and look for better ones.

Neighbourhoods: some load periods (what is hired and runs in them, and all commitments), some pools (all on them), some workloads
(their replicas everywhere, and all nodes), or everything but the commitments in some periods. Which kind is tried next, and
how large, follows what each has won so far. Several threads search at once, each from the best counts there are.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.counts.model import CountsModel
from solver.counts.program import Program

Mask = NDArray[np.bool_]
FIRST_S, LONGEST_S = 1.0, 4.0
"""How long one neighbourhood is searched at first, and at most [s]."""
FORGET = 0.7
"""What earlier wins of a kind still count for, per try."""
RARE = 0.15
"""Share of the best kind's weight that every kind keeps."""
REPAIRS = 12
"""How often rows that the best counts of a neighbourhood break are added before it is given up."""


@dataclass
class Kind:
    """A kind of neighbourhood: how much of it is freed, what it has won per second, and how long it may take."""

    name: str
    size: float
    most: int
    won: float = 0.0
    tries: int = 0
    each_s: float = FIRST_S

    def learn(self, gain: float, spent_s: float, closed: bool) -> None:
        """Grow where a search ended without a win, shrink where it did not end."""
        self.tries += 1
        self.won = FORGET * self.won + (1 - FORGET) * gain / max(1e-3, spent_s)
        if closed and not gain:
            self.size = min(self.most, self.size * 1.15 + 0.1)
        elif not closed:
            self.size = max(1.0, self.size * 0.93)
            self.each_s = min(LONGEST_S, self.each_s * 1.05)


class Neighbours:
    """The search, from counts that carry all demands.

    Parameters
    ----------
    solution
        Values of all variables of the model.
    over
        True when the search must end.
    step
        Every plan costs a multiple of it.
    """

    def __init__(
        self, counts: CountsModel, solution: list[int], *, seed: int, over: Callable[[], bool], step: int = 1
    ) -> None:
        inst, var = counts.inst, counts.built.context.variables
        self.counts, self.best, self.over, self.step = counts, solution, over, step
        self.objective = counts.objective(solution)
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        rows = [(x.index, inst.capacities[i].pool, -1, -1) for i, x in var.commit.items()]
        rows += [(x.index, inst.capacities[i].pool, p, -1) for (i, p), x in var.hourly.items()]
        rows += [(x.index, inst.replicas[k].pool, p, inst.replicas[k].work) for (k, p), x in var.replicas.items()]
        self._index, self._pool, self._period, self._work = np.array(rows, np.int64).T
        periods, pools, works = len(inst.periods), len(inst.pools), len(inst.services)
        self.kinds = [
            Kind("hired", min(4, periods), periods),
            Kind("works", 1, works),
            Kind("pools", min(4, pools), pools),
            Kind("periods", min(2, periods), periods),
        ]

    def run(
        self, threads: int, left: Callable[[], float], on_better: Callable[[int, list[int]], None] | None = None
    ) -> None:
        """Search until time is over. `on_better` gets every better point, in the calling thread."""
        news = threading.Event()
        faults: list[BaseException] = []

        def work() -> None:
            try:
                program = Program(self.counts)
                while not self.over() and left() > 0.05 and not faults:
                    if self._turn(program, left):
                        news.set()
            except BaseException as fault:  # handed to the caller
                faults.append(fault)
            finally:
                news.set()

        crew = [threading.Thread(target=work, daemon=True) for _ in range(max(1, threads))]
        for thread in crew:
            thread.start()
        told = self.objective
        while any(t.is_alive() for t in crew):
            news.wait(0.2)
            news.clear()
            with self._lock:
                now, solution = self.objective, self.best
            if now < told and on_better is not None:
                told = now
                on_better(now, solution)
        if faults:
            raise faults[0]
        if self.objective < told and on_better is not None:
            on_better(self.objective, self.best)

    def _pick(self) -> Kind:
        fresh = [k for k in self.kinds if k.tries == 0]
        if fresh:
            return self._rng.choice(fresh)
        best = max(k.won for k in self.kinds)
        return self._rng.choices(self.kinds, [k.won + RARE * best + 1e-9 for k in self.kinds])[0]

    def _free(self, kind: Kind, best: list[int]) -> Mask:
        """Variables of nodes and replicas that a try of the kind may change."""
        size = max(1, round(kind.size))
        inst = self.counts.inst
        if kind.name in ("periods", "hired"):
            some = self._rng.sample(range(len(inst.periods)), min(size, len(inst.periods)))
            here: Mask = np.isin(self._period, some)
            return here | (self._period < 0) if kind.name == "periods" else here
        if kind.name == "works":
            some = self._rng.sample(range(len(inst.services)), min(size, len(inst.services)))
            mine: Mask = np.isin(self._work, some) | (self._work < 0)
            return mine
        used = sorted(set(self._pool[np.array(best)[self._index] > 0].tolist()))
        some = self._rng.sample(used, min(len(used), max(1, size // 2)))
        rest = sorted(set(range(len(inst.pools))) - set(some))
        some += self._rng.sample(rest, min(len(rest), size - len(some)))
        return np.isin(self._pool, some)

    def _turn(self, program: Program, left: Callable[[], float]) -> bool:
        """Search one neighbourhood; True where it gave something better."""
        with self._lock:
            kind, best, objective = self._pick(), self.best, self.objective
            fixed = self._index[~self._free(kind, best)]
            each_s = kind.each_s
        started = time.monotonic()
        found, closed = self._search(program, fixed, best, objective, each_s, left)
        with self._lock:
            won = 0 if found is None else self.objective - self.counts.objective(found)
            if found is not None and won > 0:
                self.best, self.objective = found, self.objective - won
            kind.learn(max(0, won), time.monotonic() - started, closed)
        return won > 0

    def _search(
        self,
        program: Program,
        fixed: NDArray[np.int64],
        best: list[int],
        objective: int,
        each_s: float,
        left: Callable[[], float],
    ) -> tuple[list[int] | None, bool]:
        """The best point of a neighbourhood that carries all demands, if it beats `objective`; whether it was searched to its end."""
        program.grow_safely()
        program.fix({v: best[v] for v in fixed.tolist()})
        for _ in range(REPAIRS):
            if left() <= 0.05 or self.over():
                break
            answer = program.solve(min(each_s, left()), cutoff=objective - self.step)
            solution = None if answer.values is None else [round(answer.values[v]) for v in range(len(best))]
            if solution is None or self.counts.objective(solution) > objective - self.step:
                return None, answer.closed
            var = self.counts.built.context.variables.replicas
            replicas = {key: solution[x.index] for key, x in var.items()}
            with self.counts.lock:
                if not self.counts.broken(replicas):
                    # Nothing tells the program why runs have no schedule: the neighbourhood is given up.
                    return (solution if self.counts.placed(solution) else None), answer.closed
                self.counts.grow()
                program.grow()
        return None, False
