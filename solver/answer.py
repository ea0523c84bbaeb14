"""Everything that a Result is made from."""

from __future__ import annotations

from dataclasses import dataclass

from catalogs.catalog import Catalog
from problems.load import LoadedProblem
from solver.candidates import Candidates
from solver.events import SolveOptions
from solver.plan import (
    Portfolio,
)
from solver.scaling import Scaled
from solver.search import Found


@dataclass(frozen=True)
class Answer:
    """Everything that a Result is made from. `final` holds the values after the tie-break, where there was one.

    With `cheapest`, the objective of the best plan, `search` is for the fewest changes among plans that are nearly as good.
    """

    loaded: LoadedProblem
    catalog: Catalog
    found: Candidates
    scaled: Scaled
    search: Found
    final: Found | None
    binding: dict[str, bool] | None
    options: SolveOptions
    wall_s: float
    portfolio: Portfolio | None = None
    cheapest: int | None = None
