"""Builds that another build equals or beats in everything that a requirement level, a room or a bill asks about."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from solver.features.parts import CONFIDENCE_RANK, HOST_NEEDS, undominated

ALIKE = (
    "accelerator",
    "gpus",
    "deployment_mode",
    "complete",
    "cooling",
    "network",
    "nic_count",
    "network_gbps",
    "has_rdma",
)


def unbeaten(
    builds: pl.DataFrame,
    levels: pl.DataFrame,
    accelerators: pl.DataFrame,
    also_alike: Sequence[str] = (),
    least_confidence: str = "recalled",
    watt_usd: float = math.inf,
) -> pl.DataFrame:
    """Builds less those for which another with the same cards and NICs can stand in.

    One stands in for another that costs and draws no less, if it meets every need of a level that the other meets: what a
    machine has beyond the needs counts for nothing, as nothing asked for it. Those that are there for work across nodes only
    (`spans`) stand in for such alone. For one that is of use only where watts are not
    limited (`spare`), another will do that draws more but costs less, whatever a watt is worth up to `watt_usd`.

    Parameters
    ----------
    builds : pl.DataFrame
        `ALIKE`, price_usd, price_confidence, nameplate_w [W], cores, ram_gib, nvme_have_tb, nvme_have_gb_s; spare and spans (optional).
    levels : pl.DataFrame
        As `solver.features.parts.LEVEL_SCHEMA`.
    accelerators : pl.DataFrame
        accelerator, memory_gib.
    also_alike : sequence of str
        More columns in which one and the other must be equal.
    least_confidence : str
        A price that is less sure than this stands in for none that is as sure.
    watt_usd : float
        The most that a watt may be worth where none is limited [USD/W].
    """
    alike = (*ALIKE, *also_alike)
    numbered = builds.with_row_index("row")
    kinds = builds.select("accelerator", "gpus").unique(maintain_order=True)
    needs = (
        kinds.join(accelerators.select("accelerator", "memory_gib"), on="accelerator", how="left")
        .join(levels.select(list(HOST_NEEDS)).unique(maintain_order=True), how="cross")
        .select(
            "accelerator",
            "gpus",
            "nvme_tb",
            "nvme_gb_s",
            cores=pl.max_horizontal("cores_min", pl.col("cores_per_gpu") * pl.col("gpus")),
            ram_gib=pl.max_horizontal(
                pl.col("ram_ratio") * pl.col("memory_gib") * pl.col("gpus"), pl.col("ram_min_gib")
            ),
        )
    )
    have = ("cores", "ram_gib", "nvme_tb", "nvme_gb_s")
    missed = (
        numbered.select(
            "row", "accelerator", "gpus", "cores", "ram_gib", nvme_tb="nvme_have_tb", nvme_gb_s="nvme_have_gb_s"
        )
        .join(needs, on=["accelerator", "gpus"], how="left", suffix="_need")
        .group_by("row")
        # Needs of one kind are ordered, so their number says which are met. What is not known meets nothing.
        .agg(
            (~(pl.col(c) >= pl.col(f"{c}_need")).fill_null(False)).sum().cast(pl.Int64).alias(f"missed_{c}")
            for c in have
        )
    )
    asked = CONFIDENCE_RANK[least_confidence]
    rank = pl.col("price_confidence").replace_strict(CONFIDENCE_RANK, default=0, return_dtype=pl.Int64)
    marked = (
        numbered.join(missed, on="row", how="left")
        .with_columns(pl.lit(False).alias(c) for c in ("spare", "spans") if c not in builds.columns)
        .with_columns(
            worth_usd=pl.col("price_usd") + (pl.col("nameplate_w") * watt_usd if math.isfinite(watt_usd) else 0.0),
            spare=pl.col("spare") & math.isfinite(watt_usd),
            unsure=asked - pl.min_horizontal(rank.fill_null(0), pl.lit(asked)),
        )
        # Null equals null here: two machines of which a figure is not told are alike in it.
        .with_columns(pl.col(c).cast(pl.String).fill_null("").alias(f"alike_{c}") for c in alike)
        .sort("price_usd", "nameplate_w", "row")
    )
    lower = ["price_usd", "worth_usd", "nameplate_w", "unsure", "spans", *(f"missed_{c}" for c in have)]
    best = undominated(marked, [f"alike_{c}" for c in alike], lower, ("nameplate_w", "spare")).select("row")
    return numbered.join(best, on="row", how="semi", maintain_order="left").drop("row")
