"""Ways to serve whose rates per request size the user measured as a whole: no model, no memory reckoning.

The catalogue's table `user_rates` holds them under the name that the workload gives as `profile`. A pair of machine and
size without a row cannot be served there: its rate is zero.
"""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Serve

PROFILE_ERROR = 0.03
"""Expected relative error of the user's own measurement: run-to-run spread of one configuration."""


def profiled_candidates(work: Serve, pools: pl.DataFrame, catalog: Catalog) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Replicas of a service on the pools that its profile speaks of.

    Parameters
    ----------
    pools : pool, provider, offer, accelerator, gpus, power_limit_w and what else a pool has.

    Returns
    -------
    candidates : pl.DataFrame
        The columns of a pool (its card count as node_gpus), gpus (per replica), nodes, tp, pp, precision, rates (list of
        requests/s per request size in the problem's order, 0 where it cannot be served), blend, share, rate_source,
        rate_error.
    dropped : pl.DataFrame
        item, reason.
    """
    rates = catalog.user_rates.filter(pl.col("profile") == work.profile)
    if rates.is_empty():
        missing = f"the catalogue has no profile {work.profile} (table user_rates; lay it over with --catalog)"
        item = pl.lit(work.name + " on ") + pl.col("pool")
        return pl.DataFrame(), pools.select(item=item, reason=pl.lit(missing))
    free = pools.filter(pl.col("power_limit_w").is_null())
    placed = _placed(free, rates, _sizes(work))
    gone = free.join(placed, on="pool", how="anti").select(
        item=pl.lit(work.name + " on ") + pl.col("pool"),
        reason=pl.lit("no rate for any of the request sizes in profile ") + pl.lit(work.profile),
    )
    return placed, gone


def _sizes(work: Serve) -> pl.DataFrame:
    buckets = work.traffic.buckets
    return pl.DataFrame(
        {
            "bucket": range(len(buckets)),
            "isl": [round(b.isl) for b in buckets],
            "osl": [round(b.osl) for b in buckets],
            "share": [b.share for b in buckets],
        },
        schema={"bucket": pl.Int64, "isl": pl.Int64, "osl": pl.Int64, "share": pl.Float64},
    )


def _placed(pools: pl.DataFrame, rates: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """One row per pool and replica size: rows of the very offer where there are any, else those of its accelerator."""
    names = pools.select(
        "pool",
        "accelerator",
        by_id=pl.col("pool").str.replace("#(spot|units)$", ""),
        by_name=pl.format("{}/{}", "provider", "offer"),
        by_offer=pl.col("offer"),
        by_card=pl.lit("*"),
    )
    ways = names.unpivot(index=["pool", "accelerator"], value_name="offer_named", variable_name="way").drop_nulls()
    found = (
        ways.join(
            rates.select(
                "accelerator", offer_named="offer", gpus="accelerators", isl="isl", osl="osl", rate="rate_req_s"
            ),
            on=["accelerator", "offer_named"],
            how="inner",
        )
        .with_columns(near=pl.col("way").replace_strict({"by_id": 0, "by_name": 1, "by_offer": 2, "by_card": 3}))
        .filter(pl.col("near") == pl.col("near").min().over("pool"))
    )
    kinds = found.select("pool", "gpus").unique().join(sizes, how="cross")
    table = (
        kinds.join(found, on=["pool", "gpus", "isl", "osl"], how="left")
        .sort("pool", "gpus", "bucket")
        .group_by("pool", "gpus", maintain_order=True)
        .agg(rates=pl.col("rate").fill_null(0.0), share=pl.col("share"))
        .filter(pl.col("rates").list.max() > 0)
    )
    inverse = (pl.col("share") / pl.col("rates")).list.sum()
    return (
        table.join(pools.rename({"gpus": "node_gpus"}), on="pool", how="inner")
        .filter((pl.col("gpus") <= pl.col("node_gpus")) & (pl.col("node_gpus") % pl.col("gpus") == 0))
        .with_columns(
            nodes=pl.lit(1, pl.Int32),
            tp=pl.col("gpus"),
            pp=pl.lit(1, pl.Int64),
            precision=pl.lit("as measured"),
            blend=pl.when(pl.col("rates").list.min() > 0).then(1.0 / inverse).otherwise(0.0),
            rate_source=pl.lit("user"),
            rate_error=pl.lit(PROFILE_ERROR),
            weights_gib_per_gpu=pl.lit(None, pl.Float64),
            memory_slack_gib=pl.lit(None, pl.Float64),
        )
        .sort("pool", "gpus")
    )
