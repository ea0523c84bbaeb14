"""Pools that count as one where nodes are lost: servers on one site with the same cards, as many of them, in the same power state.

Builds that differ in chassis, CPUs, RAM, drives or NICs alone fail alike, so a plan gains no safety by mixing them. Rented
pools count one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from solver.candidates.leases import is_lease

LIKE = ("site", "accelerator", "gpus", "power_limit_w")
"""Columns in which like pools agree."""


def like() -> pl.Expr:
    """Name of a pool's like ones, null for rented pools."""
    return pl.concat_str(
        "site", "accelerator", pl.col("gpus").cast(pl.Int64), pl.col("power_limit_w").cast(pl.String).fill_null(""),
        separator="\n",
    )  # fmt: skip


def like_numbers(pools: pl.DataFrame) -> list[int | None]:
    """Number of each pool's like ones, from 0 in the order of first pools; None for rented pools."""
    names = pools.select(like()).to_series()
    numbers = {name: n for n, name in enumerate(names.drop_nulls().unique(maintain_order=True))}
    return [None if name is None else numbers[name] for name in names]


@dataclass(frozen=True)
class Kept:
    """Pools that stay although another one offers as much.

    always : whatever the other one is.
    shared : those of services that must survive the loss of nodes; only to a like pool may these fall.
    uneven : pools on which a full node carries less of such a service than on a like one; only like pools may fall to these.
    whole : pools whose replicas only replicas of the same size stand in for, since nodes that may carry a service are counted.
    """

    always: pl.Series
    shared: pl.Series
    uneven: pl.Series
    whole: pl.Series

    def may_fall(self) -> pl.Expr:
        """True for a pair (pool, like; pool_a, like_a) in which the first may fall to the second."""
        same = (pl.col("like") == pl.col("like_a")).fill_null(False)
        free = ~pl.col("pool").is_in(self.shared.implode()) & ~pl.col("pool_a").is_in(self.uneven.implode())
        return ~pl.col("pool").is_in(self.always.implode()) & (same | free)


def kept_pools(
    pools: pl.DataFrame,
    capacity: pl.DataFrame,
    replicas: pl.DataFrame,
    pooled: pl.DataFrame,
    redundant: Sequence[str],
    calm: bool,
) -> Kept:
    """Pools that stay in whole or in part whatever another one offers (see `solver.candidates.reduce.reduce_pools`).

    A running lease is cheap or costs to give up, and there are only so many nodes of it: its pool stays, and no pool falls to
    one because of it.
    """
    shared = _shared(replicas, pooled, redundant)
    return Kept(
        always=capacity.filter(is_lease())["pool"],
        shared=shared,
        uneven=_uneven(pools, replicas, redundant),
        whole=shared if calm else shared.clear(),
    )


def _shared(replicas: pl.DataFrame, pooled: pl.DataFrame, redundant: Sequence[str]) -> pl.Series:
    """Pools where replicas of a redundant service cost energy, or where other work could want the same nodes."""
    if replicas.is_empty() or not redundant:
        return pl.Series("pool", [], pl.String)
    works = [f.select("pool", "work") for f in (replicas, pooled) if not f.is_empty()]
    crowded = pl.concat(works).group_by("pool").agg(pl.col("work").n_unique()).filter(pl.col("work") > 1)["pool"]
    mine = replicas.filter(pl.col("work").is_in(list(redundant)))
    return mine.filter((pl.col("energy") > 0) | pl.col("pool").is_in(crowded.implode()))["pool"].unique()


def _uneven(pools: pl.DataFrame, replicas: pl.DataFrame, redundant: Sequence[str]) -> pl.Series:
    """Pools whose full node carries less of a redundant service than that of a like pool, by the rate per accelerator."""
    if replicas.is_empty() or not redundant:
        return pl.Series("pool", [], pl.String)
    each = (pl.col("rates").list.sum() / pl.col("gpus")).max()
    best = replicas.filter(pl.col("work").is_in(list(redundant))).group_by("pool", "work").agg(each=each)
    named = best.join(pools.select("pool", like=like()), on="pool").filter(pl.col("like").is_not_null())
    most = pl.col("each").max().over("like", "work")
    return named.filter(pl.col("each") < most * (1 - 1e-12))["pool"].unique()
