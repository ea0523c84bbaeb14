"""gpuhunt catalogues (`<provider>.csv`, a folder of them, or the zip they come in) -> offers and prices.

On demand and spot are rows of their own there and are joined. Old files have no vendor (NVIDIA, or Google where the
name says TPU) and no processor architecture.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import CatalogError, Issue
from catalogs.importers.market import build_market
from catalogs.importers.report import Imported, ImportReport
from catalogs.importers.rows import FILE, LINE, csv_rows, need_columns, numbers

NEEDED = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "spot")
OPTIONAL = ("gpu_name", "gpu_memory", "gpu_vendor", "disk_size")
NUMBERS = ("price", "cpu", "memory", "gpu_count", "gpu_memory", "disk_size")
SOURCE = "gpuhunt catalogue {file}"
MACHINE = ["instance_name", "location", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "disk_size"]
MOST_BYTES = 1_000_000_000


def import_gpuhunt(path: Path, catalog: Catalog, *, as_of: str | None = None, encoding: str | None = None) -> Imported:
    """Import one provider's file, a folder of them, or a zip of them.

    Raises
    ------
    CatalogError
        Nothing of the format there, missing columns, cells that are no number.
    """
    report = ImportReport("gpuhunt")
    with tempfile.TemporaryDirectory() as room:
        files = [path]
        if path.is_dir():
            files = sorted(path.glob("*.csv"))
        elif zipfile.is_zipfile(path):
            files = _unpacked(path, Path(room))
        if not files:
            raise CatalogError([Issue(str(path), None, None, "holds no <provider>.csv", "gpuhunt's files")])
        machines = [_machines(file, report, encoding) for file in files]
    return build_market(pl.concat(machines), catalog, report, source=SOURCE, as_of=as_of)


def _unpacked(path: Path, room: Path) -> list[Path]:
    """CSV files of a zip, written flat into `room`."""
    files = []
    with zipfile.ZipFile(path) as packed:
        for entry in packed.infolist():
            name = Path(entry.filename).name
            if entry.is_dir() or not name.endswith(".csv"):
                continue
            if entry.file_size > MOST_BYTES:
                raise CatalogError([Issue(str(path), None, None, f"{name} is larger than 1 GB unpacked")])
            (room / name).write_bytes(packed.read(entry))
            files.append(room / name)
    return sorted(files)


def _machines(file: Path, report: ImportReport, encoding: str | None) -> pl.DataFrame:
    """Machines of one provider, its on-demand and spot rows joined."""
    rows = csv_rows(file, report, encoding)
    need_columns(rows, NEEDED, str(file), "gpuhunt's catalogue")
    rows = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in OPTIONAL if name not in rows.columns)
    spot = pl.col("spot").str.to_lowercase()
    odd = rows.filter(~spot.is_in(["true", "false"]).fill_null(False))
    if odd.height:
        row = odd.row(0, named=True)
        raise CatalogError([Issue(str(file), row[LINE], "spot", f"{row['spot']!r}", "True | False")])
    rows = numbers(rows, NUMBERS).with_columns(spot=spot == "true", file=pl.lit(file.name))
    once = rows.unique([*MACHINE, "spot", "price"], keep="first", maintain_order=True)
    report.drop("duplicate", rows.height - once.height)
    priced = once.filter(pl.col("price") > 0)
    report.drop("no price", once.height - priced.height)
    sides = [
        priced.filter(pl.col("spot") == is_spot).select(*MACHINE, FILE, LINE, pl.col("price").alias(name))
        for is_spot, name in ((False, "on_demand"), (True, "spot_price"))
    ]
    joined = sides[0].join(
        sides[1], on=MACHINE, how="full", nulls_equal=True, coalesce=True, maintain_order="left_right"
    )
    report.remark("spot row joined to its on-demand row", joined.drop_nulls(["on_demand", "spot_price"]).height)
    with_gpu = pl.col("gpu_count") > 0
    return joined.select(
        provider=pl.lit(file.stem),
        offer="instance_name",
        region="location",
        zone=pl.lit(None, pl.String),
        label=pl.when(with_gpu).then("gpu_name"),
        label_count=pl.when(with_gpu).then("gpu_count"),
        memory_gib=pl.when(pl.col("gpu_memory") > 0).then("gpu_memory"),
        vcpus=pl.when(pl.col("cpu") > 0).then("cpu"),
        ram_gib=pl.when(pl.col("memory") > 0).then("memory"),
        price="on_demand",
        spot="spot_price",
        # Marketplaces list the same machine type with several cards and shapes.
        attached=pl.struct("gpu_name", "gpu_count").n_unique().over("instance_name", "location") > 1,
        file=pl.coalesce(FILE, f"{FILE}_right"),
        line=pl.coalesce(LINE, f"{LINE}_right"),
    )
