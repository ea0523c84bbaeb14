"""What data adds to the comparison of candidates, so that leaving out beaten ones stays exact.

A way to run a job stands in for another only at the same place, if it reads training data no faster, leaves as much time
and is no dearer for staging, and if its nodes' drives hold as much and are as quick, and it has as many ports or as many as it
needs; a kind of replica only if it has the
same size and rates. Whole numbers are those of the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from solver.candidates.storage_boxes import SPEED
from solver.candidates.storage_needs import DataNeed
from solver.candidates.storage_tiers import place, site_place
from solver.candidates.storage_use import DRIVES, STREAM_STEP

COUNTED = ["stream", "late", "staging_rent", "less_ports", *(f"less_{c}" for c in DRIVES)]


def with_data_columns(options: pl.DataFrame, pools: pl.DataFrame, needs: Sequence[DataNeed]) -> pl.DataFrame:
    """Add the columns `COUNTED` (none of which may be higher) and `apart`, the place of work that has data.

    Parameters
    ----------
    options : work, pool, gpus, nodes, pooled, rate, rate_unit, duration_h, cash, and apart where there is one
    pools : pool, site, provider, gpus and `solver.candidates.storage_drives.local_drives`
    """
    with_data = sorted({n.work for n in needs if n.work is not None})
    token_bytes = {n.work: n.token_bytes for n in needs if n.token_bytes}
    staging = sorted({n.work for n in needs if n.staged != "no" and n.stage_h > 0 and n.work is not None})
    local = sorted({n.work for n in needs if n.local and n.work is not None})

    def of(works: Sequence[str]) -> pl.Expr:
        return pl.col("work").is_in(list(works))

    each = pl.col("work").replace_strict(token_bytes, default=0.0, return_dtype=pl.Float64)
    rate = pl.when(pl.col("rate_unit") == "tokens/s").then("rate").otherwise(0.0)
    steps = (rate * each / 1e9 * SPEED / STREAM_STEP - 1e-9).ceil().clip(0.0)
    share = pl.when(pl.col("pooled") & (pl.col("per_node") > 0)).then(pl.col("gpus") / pl.col("per_node"))
    part = share.otherwise(pl.col("nodes"))
    late = pl.lit(0)
    for n in needs:
        if n.staged != "no" and n.deadline_h is not None:
            slow = pl.col("duration_h") + n.stage_h > n.deadline_h * (1 + 1e-9)
            late = pl.when(pl.col("work") == n.work).then(slow.cast(pl.Int32)).otherwise(late)
    # Once the slowest ports carry all that is asked, more nodes are of no use to it.
    ports = {n.work: n.port_gb_s for n in needs if n.work is not None}
    reads, writes = (
        pl.col("work").replace_strict(_sums(needs, name), default=0.0, return_dtype=pl.Float64)
        for name in ("read_gb_s", "write_gb_s")
    )
    port = pl.col("work").replace_strict(ports, default=math.inf, return_dtype=pl.Float64)
    staged: dict[str, float] = {}
    for n in needs:
        if n.staged != "no" and n.work is not None:
            staged[n.work] = staged.get(n.work, 0.0) + n.stage_gb_s
    stage = pl.col("work").replace_strict(staged, default=0.0, return_dtype=pl.Float64)
    needed = (pl.max_horizontal(reads + steps * STREAM_STEP / SPEED, writes) + stage) / port
    own = pl.col("data_place").str.starts_with(site_place(""))
    had = pl.col("apart") if "apart" in options.columns else pl.lit("")
    return (
        options.join(
            pools.select("pool", *DRIVES, per_node="gpus", data_place=place()),
            on="pool",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            stream=steps.cast(pl.Int64) * STREAM_STEP,
            late=late,
            staging_rent=pl.when(of(staging) & ~pl.col("pooled"))
            .then(pl.col("cash") / pl.col("duration_h"))
            .otherwise(0.0),
            less_ports=pl.when(own).then(-pl.min_horizontal(part, needed)).otherwise(0.0),
            apart=pl.when(of(with_data)).then("data_place").otherwise(had),
            **{f"less_{c}": pl.when(of(local)).then(-(pl.col(c) * part + 1e-9).floor()).otherwise(0.0) for c in DRIVES},
        )
        .drop(*DRIVES, "per_node", "data_place")
    )


def _sums(needs: Sequence[DataNeed], name: str) -> dict[str, float]:
    """A speed of all classes of each workload [GB/s]."""
    sums: dict[str, float] = {}
    for n in needs:
        if n.work is not None:
            sums[n.work] = sums.get(n.work, 0.0) + float(getattr(n, name))
    return sums


def with_alike(replicas: pl.DataFrame, needs: Sequence[DataNeed]) -> pl.DataFrame:
    """Add alike: what a kind of replica must have in common with one that stands in for it."""
    local = sorted({n.work for n in needs if n.work is not None and (n.local or n.fast)})
    text = pl.format("{} {}", "gpus", pl.col("rates").list.eval(pl.element().cast(pl.String)).list.join(" "))
    return replicas.with_columns(alike=pl.when(pl.col("work").is_in(local)).then(text).otherwise(pl.lit("")))
