"""What the drives of nodes offer to data."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from solver.candidates.storage_boxes import SPEED
from solver.candidates.storage_tiers import GB
from solver.features.storage import MAX_FILL


def local_drives(pools: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """What a node's own drives hold and how fast they are: pool, local_gb, local_read, local_write, local_iops.

    Whole numbers [GB, 0.1 MB/s, 1/s], rounded down; GB after the fill rule. Drives named among a server's parts have their
    own speeds, others the usual ones per TB. Nothing is known of owned machines: they have none.
    """
    drives = catalog.storage.filter(pl.col("capacity_tb").is_not_null()).select(
        "storage", "capacity_tb", drive_write="write_gb_s", drive_iops=pl.min_horizontal("read_iops", "write_iops")
    )
    listed = (
        pools.select("pool", "parts")
        .explode("parts", empty_as_null=True)
        .with_columns(n=pl.col("parts").str.extract(r"^(\d+) x ", 1).cast(pl.Int64, strict=False))
        .with_columns(storage=pl.col("parts").str.extract(r"^\d+ x (.+)$", 1))
        .join(drives, on="storage", how="inner")
        .group_by("pool")
        .agg(
            parts_write=(pl.col("n") * pl.col("drive_write")).sum(),
            parts_iops=(pl.col("n") * pl.col("drive_iops")).sum(),
        )
    )
    tb = pl.col("nvme_tb").fill_null(0.0)
    read = pl.coalesce("nvme_gb_s", tb * catalog.assumption("local_nvme_read_gb_s_per_tb"))
    write = pl.coalesce("parts_write", tb * catalog.assumption("local_nvme_write_gb_s_per_tb"))
    iops = pl.coalesce("parts_iops", tb * catalog.assumption("local_nvme_iops_per_tb"))

    def whole(value: pl.Expr, unit: float) -> pl.Expr:
        has = pl.when(tb > 0).then(value * unit).otherwise(0.0)
        return (has + 1e-6).floor().cast(pl.Int64)

    return (
        pools.join(listed, on="pool", how="left", maintain_order="left")
        .with_columns(
            local_gb=whole(tb * MAX_FILL, GB),
            local_read=whole(read, SPEED),
            local_write=whole(write, SPEED),
            local_iops=whole(iops.cast(pl.Float64), 1.0),
        )
        .select("pool", "local_gb", "local_read", "local_write", "local_iops")
    )
