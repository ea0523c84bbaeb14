"""Which cap curves the power states of a plan rest on: measured ones, those of a class, or none at all."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.candidates import Candidates
from solver.features.power import power_states
from solver.features.speed_tables import SpeedTables


def curve_notes(problem: Problem, catalog: Catalog, found: Candidates) -> Iterator[str]:
    """Say for the cards of own sites where their throughput at a power limit is from; nothing where no watt is limited."""
    limited = (
        problem.limits.power is not None
        or problem.objective == "power"
        or problem.policy.gpu_power_limit is not None
        or any(s.power is not None or s.it_power is not None for s in problem.sites)
    )
    own = found.pools.filter(pl.col("site").is_not_null() & (pl.col("gpus") > 0))
    if not limited or own.is_empty():
        return
    cards = catalog.accelerators.filter(
        pl.col("tdp_w").is_not_null() & pl.col("accelerator").is_in(own["accelerator"].implode())
    )
    states = power_states(cards, SpeedTables.of(catalog)).filter(pl.col("power_limit_w").is_not_null())
    by = {
        source: sorted(states.filter(pl.col("curve_source") == source)["accelerator"].unique())
        for source in ("measured", "class")
    }
    none = sorted(set(own["accelerator"]) - set(states["accelerator"]))
    if by["measured"]:
        yield "power limits: cap curve measured for " + ", ".join(by["measured"])
    if by["class"]:
        yield "power limits: cap curve of its class, error widened, for " + ", ".join(by["class"])
    if none:
        yield "power limits: no cap curve, so no power states, for " + ", ".join(none)
