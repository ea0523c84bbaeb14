"""Exact reductions of the candidate frames: rows that another row beats or equals in everything the model counts.

Each reduction only removes a row when some other row could stand in its place in any feasible plan without costing more,
drawing more or serving less; on a full tie the row with the smaller key stays, so the order of catalogue rows is of no
consequence.
"""

from __future__ import annotations

import polars as pl


def reduce_replicas(replicas: pl.DataFrame) -> pl.DataFrame:
    """Drop a replica kind where k smaller ones of the same pool together take no more GPUs and serve at least as much.

    `replicas` : work, pool, gpus, nodes, rates (list), extra_w, energy and `row` (a stable key).
    """
    left = replicas.select("work", "pool", "row", "gpus", "rates", "energy")
    pairs = left.join(left, on=["work", "pool"], suffix="_a").filter(
        (pl.col("row") != pl.col("row_a"))
        & (pl.col("gpus_a") <= pl.col("gpus"))
        & (pl.col("gpus") % pl.col("gpus_a") == 0)
    )
    fold = pl.col("gpus") // pl.col("gpus_a")
    gain = (pl.col("rates_a") * fold - pl.col("rates")).list
    as_good = (gain.min() >= 0) & (pl.col("energy_a") * fold <= pl.col("energy") * (1 + 1e-12))
    better = (gain.max() > 0) | (pl.col("energy_a") * fold < pl.col("energy")) | (pl.col("gpus_a") < pl.col("gpus"))
    beaten = pairs.filter(as_good & (better | (pl.col("row_a") < pl.col("row"))))
    return replicas.join(beaten.select("row").unique(), on="row", how="anti")


def reduce_options(options: pl.DataFrame, free_pools: pl.Series, extra: list[str]) -> pl.DataFrame:
    """Drop ways to run a job that another way of the same job beats or equals.

    Hired options only meet the rest of the plan in money (and what `extra` counts: duration, watts, carbon), so any hired
    option of a pool without a node limit may stand in for any other; pooled ones are compared inside their pool.
    """
    counted = ["cash", "cost", "monthly", *extra]
    free = options.with_columns(free=pl.col("pool").is_in(free_pools.implode()))
    left = free.select("work", "pool", "billing", "pooled", "row", "nodes", "gpus", "free", *counted)
    pairs = left.join(left, on=["work", "pooled"], suffix="_a").filter(pl.col("row") != pl.col("row_a"))
    same_pool = pl.col("pool") == pl.col("pool_a")
    may = (
        pl.when(pl.col("pooled"))
        .then(same_pool & (pl.col("gpus_a") <= pl.col("gpus")))
        .otherwise(pl.col("free_a") | (same_pool & (pl.col("nodes_a") <= pl.col("nodes"))))
    )
    as_good = pl.all_horizontal(pl.col(f"{c}_a") <= pl.col(c) for c in counted)
    strictly = pl.any_horizontal(
        *(pl.col(f"{c}_a") < pl.col(c) for c in counted),
        pl.col("pooled") & (pl.col("gpus_a") < pl.col("gpus")),
    )
    beaten = pairs.filter(may & as_good & (strictly | (pl.col("row_a") < pl.col("row"))))
    return options.join(beaten.select("row").unique(), on="row", how="anti")


def reduce_pools(
    pools: pl.DataFrame,
    capacity: pl.DataFrame,
    replicas: pl.DataFrame,
    pooled: pl.DataFrame,
    extra: list[str],
) -> pl.Series:
    """Names of pools that another pool of equal node size and place beats or equals for everything held on them.

    Pool A stands in for B where A has no node limit, draws no more, every way to hold B's nodes has one of A's that
    costs no more in every period, and every replica and pooled job of B has a counterpart on A.

    Parameters
    ----------
    pools : pool, gpus, site, spot, it_w, facility_w, node_limit
    capacity : pool, commit, costs, cashes, monthlies (lists over periods; one number for commitments), capex
    replicas : work, pool, row, gpus, rates, energy
    pooled : work, pool, row, gpus, cash, and the columns of `extra`
    """
    place = pl.col("site").fill_null("")
    left = pools.select("pool", "gpus", place.alias("place"), "spot", "it_w", "facility_w", "node_limit")
    pairs = (
        left.join(left, on=["gpus", "place", "spot"], suffix="_a")
        .filter((pl.col("pool") != pl.col("pool_a")) & pl.col("node_limit_a").is_null())
        .filter((pl.col("it_w_a") <= pl.col("it_w")) & (pl.col("facility_w_a") <= pl.col("facility_w")))
        .select("pool", "pool_a")
    )
    pairs = _covered(pairs, _as_cheap(pairs, capacity), capacity)
    pairs = _covered(pairs, _as_able(pairs, replicas), replicas)
    pairs = _covered(pairs, _as_short(pairs, pooled, extra), pooled)
    # A tie both ways keeps the smaller name; a chain always ends in a pool that stays, since "as good as" is transitive.
    both = pairs.join(pairs.select(pool="pool_a", pool_a="pool"), on=["pool", "pool_a"], how="semi")
    lost = pl.concat(
        [pairs.join(both, on=["pool", "pool_a"], how="anti"), both.filter(pl.col("pool_a") < pl.col("pool"))]
    )
    return lost["pool"].unique()


def _covered(pairs: pl.DataFrame, matches: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Keep pairs in which every row of `pool` (key: row) found a match on `pool_a`."""
    if rows.is_empty():
        return pairs
    need = rows.group_by("pool").agg(need=pl.col("row").n_unique())
    have = matches.group_by("pool", "pool_a").agg(have=pl.col("row").n_unique())
    return (
        pairs.join(need, on="pool", how="left")
        .join(have, on=["pool", "pool_a"], how="left")
        .filter(pl.col("have").fill_null(0) >= pl.col("need").fill_null(0))
        .select("pool", "pool_a")
    )


def _as_cheap(pairs: pl.DataFrame, capacity: pl.DataFrame) -> pl.DataFrame:
    held = capacity.select("pool", "row", "commit", "costs", "cashes", "monthlies", "capex", "carbons")
    both = pairs.join(held, on="pool").join(held.rename({"pool": "pool_a"}), on="pool_a", suffix="_a")
    lists = ("costs", "cashes", "monthlies", "carbons")
    same = (pl.col("commit") == pl.col("commit_a")) & pl.all_horizontal(
        pl.when(pl.col("commit") == pl.col("commit_a"))
        .then((pl.col(f"{c}_a") - pl.col(c)).list.max() <= 0)
        .otherwise(False)
        for c in lists
    )
    # An hourly way held in every period stands in for a commitment.
    hourly = (
        pl.col("commit")
        & ~pl.col("commit_a")
        & pl.all_horizontal(pl.col(f"{c}_a").list.sum() <= pl.col(c).list.sum() for c in lists)
    )
    return both.filter((same | hourly) & (pl.col("capex_a") <= pl.col("capex"))).select("pool", "pool_a", "row")


def _as_able(pairs: pl.DataFrame, replicas: pl.DataFrame) -> pl.DataFrame:
    if replicas.is_empty():
        return pl.DataFrame(schema={"pool": pl.String, "pool_a": pl.String, "row": pl.UInt32})
    kinds = replicas.select("work", "pool", "row", "gpus", "rates", "energy")
    both = pairs.join(kinds, on="pool").join(kinds.rename({"pool": "pool_a"}), on=["pool_a", "work"], suffix="_a")
    both = both.filter((pl.col("gpus_a") <= pl.col("gpus")) & (pl.col("gpus") % pl.col("gpus_a") == 0))
    fold = pl.col("gpus") // pl.col("gpus_a")
    able = ((pl.col("rates_a") * fold - pl.col("rates")).list.min() >= 0) & (
        pl.col("energy_a") * fold <= pl.col("energy") * (1 + 1e-12)
    )
    return both.filter(able).select("pool", "pool_a", "row")


def _as_short(pairs: pl.DataFrame, pooled: pl.DataFrame, extra: list[str]) -> pl.DataFrame:
    if pooled.is_empty():
        return pl.DataFrame(schema={"pool": pl.String, "pool_a": pl.String, "row": pl.UInt32})
    columns = ["cash", "cost", "monthly", *extra]
    jobs = pooled.select("work", "pool", "row", "gpus", *columns)
    both = pairs.join(jobs, on="pool").join(jobs.rename({"pool": "pool_a"}), on=["pool_a", "work"], suffix="_a")
    able = (pl.col("gpus_a") <= pl.col("gpus")) & pl.all_horizontal(pl.col(f"{c}_a") <= pl.col(c) for c in columns)
    return both.filter(able).select("pool", "pool_a", "row")
