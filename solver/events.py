"""Options of a search and the events it reports; free of ortools, for whoever only talks to the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

EventKind = Literal["candidates", "incumbent", "bound", "done"]


@dataclass(frozen=True)
class SolveOptions:
    """How to search.

    Attributes
    ----------
    time_limit_s
        Wall time for the search [s]; None takes the problem's own limit.
    gap
        Relative gap at which to stop [ratio]; None takes the problem's own gap.
    workers
        Solver threads; 0 uses every core.
    seed
        Random seed of the solver.
    log
        Pass the solver's own log on to stderr.
    runner_up
        Also look for the best plan without the main accelerator of the chosen one, and for the best all-rented and
        all-bought plans.
    single_modes
        Also look what each billing mode alone would cost, and what machines shared over time save; None: as `runner_up`.
    additions
        Where workloads are left out, also price adding them, and look how far single billing modes come.
    """

    time_limit_s: float | None = None
    gap: float | None = None
    workers: int = 0
    seed: int = 1
    log: bool = False
    runner_up: bool = True
    additions: bool = True
    single_modes: bool | None = None

    @property
    def compares(self) -> bool:
        """Whether single billing modes are looked at."""
        return self.runner_up if self.single_modes is None else self.single_modes


@dataclass(frozen=True)
class Event:
    """One step of a search: `seconds` since it began, and what is known by then (None: not yet known).

    `best` and `bound` are in the unit of the problem's objective; `gap` is relative [ratio].
    """

    kind: EventKind
    seconds: float
    best: float | None = None
    bound: float | None = None
    gap: float | None = None
    candidates: int | None = None


OnEvent = Callable[[Event], None]
