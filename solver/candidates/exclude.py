"""Candidates without some of what could be used: accelerators, providers, billing modes, places."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from solver.candidates import Candidates

Thing = tuple[str, str]
"""Dimension (accelerator | provider | billing | place) and name."""


def excluding(found: Candidates, things: frozenset[Thing]) -> Candidates:
    """Candidates without some accelerators, providers, billing modes and places."""
    pools, capacity, options = found.pools, found.capacity, found.options
    for dimension, name in sorted(things):
        if dimension == "billing":
            capacity = capacity.filter(pl.col("billing") != name)
            if not options.is_empty():
                options = options.filter(pl.col("pooled") | (pl.col("billing") != name))
            continue
        column = {"accelerator": pl.col("accelerator"), "provider": pl.col("provider")}.get(
            dimension, pl.coalesce("site", "region")
        )
        mine = pl.col("site").is_null() if dimension == "provider" else pl.lit(True)
        pools = pools.filter(~(mine & (column == name).fill_null(False)))
    names = pools["pool"].implode()

    def rest(frame: pl.DataFrame) -> pl.DataFrame:
        return frame if frame.is_empty() else frame.filter(pl.col("pool").is_in(names))

    # Replicas and pooled jobs need a way to hold their nodes.
    capacity = rest(capacity)
    held = capacity["pool"].implode()
    replicas = found.replicas if found.replicas.is_empty() else found.replicas.filter(pl.col("pool").is_in(held))
    options = rest(options)
    if not options.is_empty():
        committed = capacity.filter("commit")["pool"].implode()
        options = options.filter(~pl.col("pooled") | pl.col("pool").is_in(committed))
    return replace(found, pools=pools, capacity=capacity, replicas=replicas, options=options)
