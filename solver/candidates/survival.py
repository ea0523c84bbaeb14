"""What a service must survive, in terms of pools: groups that may be lost whole, and how many nodes chance may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Serve
from solver.candidates.terms import assumption
from solver.features.availability import ladder, node_unavailability, nodes_to_lose
from solver.instance import MOST_TO_LOSE, Ladder

APART: dict[str, list[str]] = {
    "provider": ["provider"],
    "region": ["provider", "region"],
    "zone": ["provider", "region", "zone"],
    "site": ["provider", "region"],
}
"""Columns of pools that name a group. Own rooms have their name as provider and region; what states no zone is one zone."""


def with_unavailability(pools: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Add `unavailability` of one node of each pool by the catalogue's assumptions [ratio]."""
    return node_unavailability(
        pools,
        interruptions_per_gpu_month=assumption(catalog, "accelerator_interruptions_per_month"),
        rented_repair_h=assumption(catalog, "rented_node_repair_h"),
        own_repair_h=assumption(catalog, "own_node_repair_h"),
        spot_replace_h=assumption(catalog, "spot_replace_h"),
    )


def survival(work: Serve, pools: pl.DataFrame, catalog: Catalog, most_nodes: Callable[[int], int]) -> dict[str, Any]:
    """Groups and ladders of a service over pools numbered by row (`solver.instance.Service`).

    Own rooms count as one provider: all of them are the buyer's. `most_nodes` is the most nodes that any plan worth having
    puts the service on where so many of them may be lost.
    """
    out: dict[str, Any] = {}
    numbered = pools.with_columns(provider=pl.when(pl.col("site").is_null()).then("provider").otherwise(pl.lit("")))
    groups = []
    for apart in work.spread:
        rows = numbered.with_row_index("number").group_by(APART[apart], maintain_order=True).agg("number")
        groups += [tuple(int(n) for n in numbers) for numbers in rows["number"]]
    if groups:
        out["groups"] = tuple(dict.fromkeys(groups))
    if work.availability is not None:
        risky = with_unavailability(pools, catalog).with_row_index("number")
        classes = risky.group_by("unavailability").agg("number").sort("unavailability")
        worst = float(classes["unavailability"][-1])
        depth = 1
        while depth < MOST_TO_LOSE and nodes_to_lose(most_nodes(depth), worst, work.availability) > depth:
            depth += 1
        out["ladders"] = tuple(
            Ladder(
                tuple(int(n) for n in numbers),
                tuple(ladder(u, work.availability, MOST_TO_LOSE, most_nodes(depth))),
            )
            for u, numbers in classes.iter_rows()
        )
    return out
