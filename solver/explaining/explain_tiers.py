"""How a choice sits against the usual tiers: consumer cards to 7B, cards of 40 GB and more to 70B, clusters above."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from catalogs.models import resolve_model
from problems.load import LoadedProblem
from solver.plan import Result
from solver.solve import base_dir

SMALL_B, LARGE_B = 13.0, 75.0
"""Model sizes up to which the first and the second tier are usual [billions of parameters]; "7B" and "70B" in round words."""
LARGE_CARD_GIB = 37.0
"""A card sold as 40 GB has at least so much memory."""
TIERS = (
    "consumer cards (up to 7B class)",
    "data-centre cards of 40 GB and more (up to 70B class)",
    "clusters of such cards (above 70B class)",
)


def tier_of_size(params_b: float) -> int:
    """Usual tier of a model of that size."""
    return 0 if params_b <= SMALL_B else 1 if params_b <= LARGE_B else 2


def tier_of_choice(memory_gib: float, nodes: int) -> int:
    """Tier that a choice of card and of nodes working together belongs to."""
    if nodes > 1:
        return 2
    return 1 if memory_gib >= LARGE_CARD_GIB else 0


def tier_remarks(result: Result, loaded: LoadedProblem, catalog: Catalog) -> tuple[str, ...]:
    """One line per workload with a model: the usual tier for it, and what was chosen."""
    memory = dict(catalog.accelerators.select("accelerator", pl.col("memory_gib").fill_null(0.0)).iter_rows())
    out = []
    plans = {w.name: w for w in result.workloads}
    for work in loaded.problem.workloads:
        model = getattr(work, "model", None)
        plan = plans.get(work.name)
        if model is None or plan is None or not plan.placements:
            continue
        size = float(resolve_model(catalog, model, base_dir(loaded)).columns["params_total_b"])
        usual = tier_of_size(size)
        chosen = sorted({tier_of_choice(memory.get(p.accelerator, 0.0), p.nodes) for p in plan.placements})
        cards = ", ".join(sorted({p.accelerator for p in plan.placements}))
        if chosen == [usual]:
            said = f"as usual: {TIERS[usual]}"
        else:
            said = f"usual are {TIERS[usual]}; chosen are {' and '.join(TIERS[c] for c in chosen)}"
        out.append(f"{work.name} ({size:g}B) on {cards}: {said}")
    return tuple(out)
