"""Named checks of a catalogue that has loaded: figures and prices that are allowed but look wrong.

Each check is a function catalogue, day -> findings; `check` runs them all. An `error` is a contradiction, a
`warning` wants a look, a `note` says what a reader should know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date

import polars as pl

from catalogs.catalog import Catalog
from catalogs.money import age_days, convert
from catalogs.query import price_list
from catalogs.schema import REFERENCES, TABLES
from catalogs.validate import orphans

FINDING = {"check": pl.String, "severity": pl.String, "table": pl.String, "row": pl.String, "what": pl.String}

# Offers of an accelerator before a median says anything, and how far from it a price may lie.
OUTLIER_MIN_OFFERS = 5
OUTLIER_LOW = 0.25
OUTLIER_HIGH = 4.0
SPOT_OUTLIER_LOW = 0.1
# Time to read the whole memory once [ms]: DRAM of every generation lies well inside, a slip of ten does not.
SWEEP_MS = (10.0, 120.0)
# Most that dense FP16 exceeds FP32 by architecture and memory; sparse figures are twice that. Measured on the
# catalogue's own rows and the vendors' block diagrams.
FP16_OVER_FP32 = {
    ("Volta", "HBM"): 8.5,
    ("Turing", "GDDR"): 8.5,
    ("Ampere", "HBM"): 16.5,
    ("Ampere", "GDDR"): 4.2,
    ("Ada", "GDDR"): 4.2,
    ("Hopper", "HBM"): 17.0,
    ("Blackwell", "HBM"): 32.0,
    ("Blackwell", "GDDR"): 4.2,
    ("CDNA2", "HBM"): 8.5,
    ("CDNA3", "HBM"): 8.5,
    ("CDNA4", "HBM"): 16.5,
}


def check(catalog: Catalog, today: date | None = None) -> pl.DataFrame:
    """Run every named check; one row per finding: check, severity, table, row, what."""
    day = today or date.today()
    found = [
        function(catalog, day).select(pl.lit(name).alias("check"), "severity", "table", "row", "what")
        for name, function in CHECKS.items()
    ]
    return pl.concat([pl.DataFrame(schema=FINDING), *found])


def _findings(frame: pl.DataFrame, severity: str, table: str, row: pl.Expr, what: pl.Expr) -> pl.DataFrame:
    # Text put together from columns whose chunks differ (as a join leaves them) makes polars 2.1 panic.
    return frame.rechunk().select(
        severity=pl.lit(severity), table=pl.lit(table), row=row.cast(pl.String), what=what.cast(pl.String)
    )


def price_outlier(catalog: Catalog, day: date) -> pl.DataFrame:
    """Prices per accelerator-hour far from the on-demand median of the accelerator."""
    rows = price_list(catalog, "USD", day).filter(pl.col("price").is_not_null())
    medians = (
        rows.filter(pl.col("billing") == "on_demand")
        .group_by("accelerator")
        .agg(median=pl.col("price_per_gpu_hour").median(), offers=pl.len())
        .filter(pl.col("offers") >= OUTLIER_MIN_OFFERS)
    )
    low = pl.when(pl.col("billing") == "spot").then(SPOT_OUTLIER_LOW).otherwise(OUTLIER_LOW)
    ratio = pl.col("price_per_gpu_hour") / pl.col("median")
    far = rows.join(medians, on="accelerator", how="inner", maintain_order="left").filter(
        (ratio < low) | (ratio > OUTLIER_HIGH)
    )
    what = pl.format(
        "{} USD per accelerator-hour, {} times the on-demand median {} of {}",
        pl.col("price_per_gpu_hour").round(3),
        ratio.round(2),
        pl.col("median").round(3),
        "accelerator",
    )
    return _findings(far, "warning", "prices", pl.format("{} {}", "offer_id", "billing"), what)


def spot_above_on_demand(catalog: Catalog, day: date) -> pl.DataFrame:
    """Spot prices that save nothing."""
    prices = convert(catalog.prices, "price_per_hour", catalog, "USD", "usd")
    on_demand = prices.filter(pl.col("billing") == "on_demand").select("offer_id", full="usd")
    spot = (
        prices.filter(pl.col("billing") == "spot")
        .join(on_demand, on="offer_id")
        .filter(pl.col("usd") >= pl.col("full"))
    )
    what = pl.format("spot {} USD/h, on demand {} USD/h", pl.col("usd").round(4), pl.col("full").round(4))
    return _findings(spot, "warning", "prices", pl.col("offer_id"), what)


def bandwidth_of_memory(catalog: Catalog, day: date) -> pl.DataFrame:
    """Memory bandwidth that does not go with the size: DRAM is read through in tens of milliseconds."""
    sweep = pl.col("memory_gib") * 1.073741824 / pl.col("bandwidth_gb_s") * 1000
    rows = catalog.accelerators.filter(
        pl.col("memory_type").str.contains("^(HBM|GDDR|LPDDR)") & ~sweep.is_between(*SWEEP_MS)
    )
    what = pl.format(
        "{} GiB at {} GB/s is read through in {} ms, expected {} to {}",
        "memory_gib",
        "bandwidth_gb_s",
        sweep.round(1),
        pl.lit(SWEEP_MS[0]),
        pl.lit(SWEEP_MS[1]),
    )
    return _findings(rows, "error", "accelerators", pl.col("accelerator"), what)


def dense_not_sparse(catalog: Catalog, day: date) -> pl.DataFrame:
    """Matrix rates that look like figures with sparsity, twice the dense ones."""
    half = pl.max_horizontal("fp16_dense_tflops", "bf16_dense_tflops")
    gddr = pl.col("memory_type").str.starts_with("GDDR")
    hbm = pl.col("memory_type").str.starts_with("HBM")
    limits = pl.DataFrame([{"arch": a, "memory": m, "limit": x} for (a, m), x in FP16_OVER_FP32.items()], orient="row")
    rows = (
        catalog.accelerators.with_columns(
            arch=pl.col("architecture").str.extract(r"^(\w+)"),
            memory=pl.col("memory_type").str.extract("^(HBM|GDDR)"),
        )
        .join(limits, on=["arch", "memory"], how="left", maintain_order="left")
        .with_columns(half=half)
    )
    tests = (
        (pl.col("half") / pl.col("fp32_tflops"), pl.col("limit"), "FP16 over FP32"),
        (pl.col("fp8_dense_tflops") / pl.col("half"), pl.lit(2.1), "FP8 over FP16"),
        # FP16 of GeForce cards is counted with FP32 accumulation, half the rate, so INT8 is four times that.
        (
            pl.col("int8_dense_tops") / pl.col("half"),
            pl.when(gddr).then(4.1).when(hbm).then(2.6),
            "INT8 over FP16",
        ),
        (
            pl.col("fp4_dense_tflops") / pl.col("half"),
            pl.when(gddr).then(8.2).when(hbm).then(6.1),
            "FP4 over FP16",
        ),
    )
    parts = [
        _findings(
            rows.filter(ratio > limit),
            "error",
            "accelerators",
            pl.col("accelerator"),
            pl.format("{} is {}, dense figures give at most {}", pl.lit(label), ratio.round(2), limit),
        )
        for ratio, limit, label in tests
    ]
    return pl.concat(parts)


def missing_as_of(catalog: Catalog, day: date) -> pl.DataFrame:
    """Prices whose source gives no date: their age is unknown."""
    rows = catalog.prices.filter(pl.col("as_of").is_null())
    row = pl.format("{} {}", "offer_id", "billing")
    return _findings(rows, "note", "prices", row, pl.format("no date in {}", "source"))


def stale_price(catalog: Catalog, day: date) -> pl.DataFrame:
    """Prices older than the assumptions allow for their billing mode."""
    limits = dict(catalog.assumptions.select("key", "value").iter_rows())
    limit = (
        pl.when(pl.col("billing") == "spot")
        .then(limits.get("spot_stale_days"))
        .otherwise(limits.get("on_demand_stale_days"))
    )
    rows = catalog.prices.with_columns(age=age_days("as_of", day)).filter(pl.col("age") > limit)
    row = pl.format("{} {}", "offer_id", "billing")
    return _findings(rows, "note", "prices", row, pl.format("{} days old, of {}", "age", "as_of"))


def doubtful_offer(catalog: Catalog, day: date) -> pl.DataFrame:
    """Offers whose shape or price the source leaves in doubt; plans use them only where a problem says so."""
    rows = catalog.offers.filter(pl.col("doubtful"))
    what = pl.concat_str("source", "notes", separator="; ", ignore_nulls=True)
    return _findings(rows, "warning", "offers", pl.col("offer_id"), what)


def unpriced_offer(catalog: Catalog, day: date) -> pl.DataFrame:
    """Offers without any price: listed, never chosen."""
    rows = catalog.offers.join(catalog.prices, on="offer_id", how="anti", maintain_order="left")
    return _findings(rows, "note", "offers", pl.col("offer_id"), pl.lit("no price"))


def orphan_reference(catalog: Catalog, day: date) -> pl.DataFrame:
    """Names that refer to no row."""
    tables = {name: getattr(catalog, name) for name in TABLES}
    parts = []
    for reference in REFERENCES:
        lost = orphans(tables, reference)
        row = pl.concat_str(TABLES[reference.table].primary_key(), separator=" ")
        what = pl.format("{} {} is not in table {}", pl.lit(reference.column), "name", pl.lit(reference.target))
        parts.append(_findings(lost, "error", reference.table, row, what))
    return pl.concat(parts)


def storage_box(catalog: Catalog, day: date) -> pl.DataFrame:
    """Boxes quicker than their ports, and systems whose box does not take their drive."""
    ports = catalog.network.select("network", port_gb_s="gb_s_per_port")
    boxes = catalog.storage_boxes.join(ports, on="network", how="left", maintain_order="left")
    carried = pl.col("ports") * pl.col("port_gb_s")
    quick = boxes.filter(pl.max_horizontal("read_gb_s", "write_gb_s") > carried)
    media = pl.col("class").replace({"nvme_tlc": "nvme", "nvme_qlc": "nvme", "sata_ssd": "sata"})
    drives = catalog.storage.select(drive="storage", media=media, size="capacity_tb")
    systems = catalog.storage_systems.join(drives, on="drive", how="left").join(
        catalog.storage_boxes.select("box", "holds"), on="box", how="left", maintain_order="left"
    )
    wrong = systems.filter(~pl.col("media").eq_missing(pl.col("holds")) | pl.col("size").is_null())
    said = pl.format("reads or writes more than the {} GB/s of its ports", carried)
    other = pl.format("{} does not go into a box for {}", "drive", "holds")
    return pl.concat(
        [
            _findings(quick, "error", "storage_boxes", pl.col("box"), said),
            _findings(wrong, "error", "storage_systems", pl.col("system"), other),
        ]
    )


CHECKS: Mapping[str, Callable[[Catalog, date], pl.DataFrame]] = {
    "orphan_reference": orphan_reference,
    "bandwidth_of_memory": bandwidth_of_memory,
    "dense_not_sparse": dense_not_sparse,
    "storage_box": storage_box,
    "price_outlier": price_outlier,
    "spot_above_on_demand": spot_above_on_demand,
    "doubtful_offer": doubtful_offer,
    "unpriced_offer": unpriced_offer,
    "missing_as_of": missing_as_of,
    "stale_price": stale_price,
}
