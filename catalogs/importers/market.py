"""Machines with their prices, as importers read them -> the tables offers and prices.

The frame `machines` that every importer of a price list builds, one row per machine and place:
provider, offer, region, zone, label, label_count (accelerators as the source counts; parts of a card below one),
memory_gib (accelerator memory that the source states), vcpus, ram_gib, price, spot [currency/h], file, line. Optional:
attached (one machine type comes with several accelerators or counts of them), network_gbps, local_storage_tb, country,
deployment_mode, stock, min_nodes, lead_time_days, interruption_per_month (of spot).
"""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from catalogs.importers.cards import with_cards, with_countries
from catalogs.importers.facts_offers import link_class
from catalogs.importers.report import Imported, ImportReport
from catalogs.importers.rows import FILE, LINE
from catalogs.read import column_order
from catalogs.schema import TABLES

# Regions that a type must be seen in before its median says anything, and how far under it a price is doubted.
OUTLIER_REGIONS = 5
OUTLIER_PRICE = 0.25
OUTLIER_SPOT = 0.1
CONTAINERS = ("vast", "vastai", "runpod")
CLUSTERS = ("coreweave",)
BARE_METAL = r"(?i)^bm[.\-]|(^|[.\-_ ])(bare[\-_ ]?)?metal\b"
"""Names of whole machines without a hypervisor, as clouds write them: BM.GPU4.8, g4dn.metal, gpu-baremetal."""


def build_market(
    machines: pl.DataFrame,
    catalog: Catalog,
    report: ImportReport,
    *,
    source: str,
    as_of: str | None,
    currency: str = "USD",
    reserved: pl.DataFrame | None = None,
    own_names: bool = False,
) -> Imported:
    """Write machines as offers and prices, and count in `report` what was left out.

    Parameters
    ----------
    source
        What provenance says; "{file}" stands for the row's file.
    reserved
        Commitment prices: provider, offer, region, term_months, upfront_share, price_per_hour.
    own_names
        The list's names say more than a reading of them would ("A100" is the 40 GB card): they are kept as labels, by
        which offers are asked for. Otherwise only names that the catalogue does not know are.
    """
    # One chunk: text made of columns that joins left in several makes polars 2.1 panic.
    frame = _with_ids(_sound(machines, report).rechunk())
    frame = _one_price(frame, report)
    frame = with_cards(frame, catalog, report)
    if not own_names:
        frame = frame.with_columns(label=pl.when(pl.col("accelerator").is_null()).then("label"))
    if "country" not in frame.columns:
        frame = with_countries(frame, catalog)
    frame = _shaped(frame, catalog, report, source, as_of)
    offers = frame.select(column_order(TABLES["offers"]))
    prices = _prices(frame, currency, reserved, source, as_of).select(column_order(TABLES["prices"]))
    report.offers = offers.height
    report.kept = report.read - sum(report.dropped.values())
    return Imported({"offers": offers, "prices": prices}, report)


def _sound(machines: pl.DataFrame, report: ImportReport) -> pl.DataFrame:
    """Machines with at least one price and a count that makes sense; prices of zero or below are none."""
    label, count = pl.col("label"), pl.col("label_count")
    # What has a count but no name (FPGAs in some lists) is no accelerator that anyone could ask for.
    nameless = machines.filter(label.is_null() & (count > 0)).height
    report.remark("accelerator count without a name, kept as a machine without accelerators", nameless)
    machines = machines.with_columns(label_count=pl.when(label.is_not_null()).then(count))
    faults = {
        "accelerator without a count": label.is_not_null() & ~(count > 0).fill_null(False),
        "count of accelerators is no whole number": (count > 1) & (count != count.round()),
        "no price": ~((pl.col("price") > 0).fill_null(False) | (pl.col("spot") > 0).fill_null(False)),
    }
    why = pl.coalesce([pl.when(bad).then(pl.lit(reason)) for reason, bad in faults.items()])
    marked = machines.with_columns(reason=why)
    for reason, rows in marked.filter(pl.col("reason").is_not_null())["reason"].value_counts(sort=True).iter_rows():
        report.drop(reason, rows)
    kept = marked.filter(pl.col("reason").is_null()).drop("reason")
    report.drop_prices("on-demand price of zero or below", kept.filter(pl.col("price") <= 0).height)
    report.drop_prices("spot price of zero or below", kept.filter(pl.col("spot") <= 0).height)
    report.drop_prices("no on-demand price", kept.filter(pl.col("price").is_null()).height)
    report.remark("spot above on demand", kept.filter(pl.col("spot") > pl.col("price")).height)
    report.remark("spot equals on demand", kept.filter(pl.col("spot") == pl.col("price")).height)
    return kept.with_columns(
        price=pl.when(pl.col("price") > 0).then("price"), spot=pl.when(pl.col("spot") > 0).then("spot")
    )


def _with_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """Add `offer_id`: provider/offer/place, with the accelerators where a machine comes with several."""
    if "attached" not in frame.columns:
        frame = frame.with_columns(attached=pl.lit(False))
    with_card = pl.format(
        "{}+{}x{}", "offer", pl.col("label_count").round(3).cast(pl.String).str.strip_suffix(".0"), "label"
    )
    machine = pl.when("attached").then(with_card).otherwise("offer")
    return frame.with_columns(offer_id=pl.format("{}/{}/{}", "provider", machine, pl.coalesce("zone", "region")))


def _one_price(frame: pl.DataFrame, report: ImportReport) -> pl.DataFrame:
    """Exact duplicates once; machines that stand with two prices or shapes are refused, none of them is the right one."""
    said = [name for name in frame.columns if name not in (FILE, LINE)]
    once = frame.unique(said, keep="first", maintain_order=True)
    report.drop("duplicate", frame.height - once.height)
    twice = once.filter(pl.len().over("offer_id") > 1)
    for offer_id, file, line in twice.select("offer_id", FILE, LINE).iter_rows():
        report.refuse("two prices or shapes for one machine", f"{file}:{line}  {offer_id}")
    return once.join(twice.select("offer_id"), on="offer_id", how="anti", maintain_order="left")


def _outlier(report_key: list[str]) -> pl.Expr:
    median = pl.col("price").median().over(report_key)
    many = pl.col("region").n_unique().over(report_key) >= OUTLIER_REGIONS
    low = (pl.col("price") < OUTLIER_PRICE * median) | (pl.col("spot") < OUTLIER_SPOT * median)
    return (many & low).fill_null(False)


def _shaped(
    frame: pl.DataFrame, catalog: Catalog, report: ImportReport, source: str, as_of: str | None
) -> pl.DataFrame:
    """All columns of the offers, with provenance."""
    given = frame.columns
    part = (pl.col("label_count") < 1).fill_null(False)
    defaults = {
        "network_gbps": pl.lit(None, pl.Float64),
        "local_storage_tb": pl.lit(None, pl.Float64),
        "interconnect": pl.lit(None, pl.String),
        "compliance": pl.lit(None, pl.String),
        "stock": pl.lit(None, pl.Int64),
        "min_nodes": pl.lit(None, pl.Int64),
        "lead_time_days": pl.lit(None, pl.Float64),
        "interruption_per_month": pl.lit(None, pl.Float64),
        "rdma": pl.lit(False),
        "deployment_mode": pl.when(pl.col("offer").str.contains(BARE_METAL))
        .then(pl.lit("bare_metal"))
        .when(pl.col("provider").is_in(CONTAINERS))
        .then(pl.lit("container"))
        .when(pl.col("provider").is_in(CLUSTERS))
        .then(pl.lit("container_cluster"))
        .otherwise(pl.lit("vm")),
    }
    forms = catalog.accelerators.select("accelerator", "form_factor")
    frame = frame.with_columns(value.alias(name) for name, value in defaults.items() if name not in given)
    frame = (
        frame.join(forms, on="accelerator", how="left", maintain_order="left")
        .with_columns(
            accelerator_count=pl.when(part).then(1.0).otherwise("label_count").cast(pl.Int64),
            accelerator_share=pl.when(part).then("label_count"),
            doubtful=_outlier(["provider", "offer", "label", "label_count"]),
            source=pl.format(source.replace("{file}", "{}"), FILE) if "{file}" in source else pl.lit(source),
            as_of=pl.lit(as_of, pl.String),
            confidence=pl.lit("listed"),
        )
        .with_columns(
            # A machine without accelerators has no links between them; other says no more than that.
            interconnect_class=link_class(
                pl.col("accelerator_count").fill_null(0), pl.col("interconnect"), pl.col("form_factor").fill_null("")
            ),
            notes=pl.when("doubtful").then(pl.lit("price far under the median of its type over the regions")),
        )
    )
    report.remark("doubted: price far under the median of its type", frame.filter("doubtful").height)
    report.remark("part of a card", frame.filter(pl.col("accelerator_share").is_not_null()).height)
    return frame


def _prices(
    frame: pl.DataFrame, currency: str, reserved: pl.DataFrame | None, source: str, as_of: str | None
) -> pl.DataFrame:
    """Long price table; granularity and minimum are not stated by such lists: whole hours are counted."""
    common = ["offer_id", "source", "as_of", "confidence", "notes", "interruption_per_month"]
    modes = [
        frame.filter(pl.col(column).is_not_null()).select(
            *common,
            billing=pl.lit(billing),
            term_months=pl.lit(0.0),
            upfront_share=pl.lit(0.0),
            price_per_hour=pl.col(column).round(9),
        )
        for billing, column in (("on_demand", "price"), ("spot", "spot"))
    ]
    if reserved is not None and reserved.height:
        committed = frame.select(*common, "provider", "offer", "region").join(
            reserved, on=["provider", "offer", "region"], how="inner", maintain_order="left"
        )
        modes.append(
            committed.select(
                *common, pl.lit("reserved").alias("billing"), "term_months", "upfront_share", "price_per_hour"
            )
        )
    return pl.concat(modes).with_columns(
        currency=pl.lit(currency),
        min_hours=pl.lit(0.0),
        granularity_s=pl.lit(3600.0),
        interruption_per_month=pl.when(pl.col("billing") == "spot").then("interruption_per_month"),
    )
