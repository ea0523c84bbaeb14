"""Cloud offers of the fact tables -> offers and their prices, one row per billing mode.

What a fact row does not state is derived and said in the row's notes: `rdma` and `interconnect_class` from
the interconnect text, and where that is silent from the accelerator's form factor.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from catalogs.importers.facts_common import clean_name, confidence, joined, number, read_facts

CAPACITY_BLOCK = " capacity block"
GPU_PART_ONLY = " (GPU part only)"
# Spot Advisor gives classes; the mid-point stands for the class, 25 % for the open class above 20 %.
CLASS_MIDPOINT = {"<5%": 0.025, "5-10%": 0.075, "10-15%": 0.125, "15-20%": 0.175, ">20%": 0.25}
SPOT_ADVISOR = "github alexei-led/spotinfo spot-advisor-data.json (2025-07-28): saving applied to the on-demand price"
VANTAGE = "Vantage export of 2023-11 held by github Boavizta/boaviztapi"
LINKED_FORM_FACTORS = r"^(SXM|OAM|module|NVL72)"


def link_class(count: pl.Expr, stated: pl.Expr, form_factor: pl.Expr) -> pl.Expr:
    """Class of the links between the accelerators of a node (nvlink, bridge, pcie, other).

    Direct links between all cards of a node (NVLink boards, Infinity Fabric, HCCS, the Gaudi mesh) count as
    nvlink, bridged pairs of PCIe cards as bridge, TPU and Neuron tori as other. A single card reaches
    others over PCIe.
    """
    text = stated.fill_null("")
    return (
        pl.when(count <= 1)
        .then(pl.lit("pcie"))
        .when(text.str.contains("bridge"))
        .then(pl.lit("bridge"))
        .when(text.str.contains("NVLink|Infinity Fabric|HCCS"))
        .then(pl.lit("nvlink"))
        .when(text.str.contains("ICI|NeuronLink"))
        .then(pl.lit("other"))
        .when(text.str.contains("^PCIe"))
        .then(pl.lit("pcie"))
        .when(form_factor.str.contains(LINKED_FORM_FACTORS))
        .then(pl.lit("nvlink"))
        .when(form_factor.str.starts_with("PCIe"))
        .then(pl.lit("pcie"))
        .otherwise(pl.lit("other"))
    )


def has_rdma(stated: pl.Expr) -> pl.Expr:
    """An RDMA network between nodes is stated: EFA, InfiniBand or RoCE (GPUDirect-TCPX is none)."""
    text = stated.fill_null("").str.replace("no IB", "", literal=True)
    return text.str.contains(r"\bEFA\b|\bIB\b|InfiniBand|RoCE")


def shaped_offers(facts: Path, accelerators: pl.DataFrame, regions: pl.DataFrame) -> pl.DataFrame:
    """Fact rows with catalogue names, country, link class; still one row per fact row."""
    frame = read_facts(facts / "cloud_offers.csv").with_columns(
        confidence(),
        pl.col("gpu_count").cast(pl.Int64).alias("accelerator_count"),
        accelerator=clean_name("gpu"),
        fact_offer="offer",
        is_block=pl.col("offer").str.ends_with(CAPACITY_BLOCK),
        offer=pl.col("offer")
        .str.replace(CAPACITY_BLOCK, "", literal=True)
        .str.replace(GPU_PART_ONLY, "", literal=True),
        ram_gib=number("ram_gib"),
        local_storage_tb=number("local_storage_tb"),
        network_gbps=number("network_gbps"),
        vcpus=number("vcpus"),
        compliance=pl.col("compliance").str.split(";").list.sort().list.join(";"),
        doubtful=(pl.col("verified") == "doubtful") | pl.col("notes").fill_null("").str.contains("shape doubtful"),
    )
    frame = frame.join(
        accelerators.select("accelerator", "form_factor"), on="accelerator", how="left", maintain_order="left"
    )
    frame = with_country(frame, regions)
    stated = pl.col("interconnect")
    silent = ~stated.fill_null("").str.contains("NVLink|Infinity Fabric|ICI|NeuronLink|PCIe|HCCS")
    derived = pl.when(silent & (pl.col("accelerator_count") > 1)).then(
        pl.format("interconnect_class derived from form factor {}", "form_factor")
    )
    return frame.with_columns(
        joined(pl.col("notes"), derived),
        offer_id=pl.format("{}/{}/{}", "provider", "offer", "region"),
        rdma=has_rdma(stated),
        interconnect_class=link_class(pl.col("accelerator_count"), stated, pl.col("form_factor")),
    )


def with_country(frame: pl.DataFrame, regions: pl.DataFrame) -> pl.DataFrame:
    """Add `country` by provider and region, else by the region alone (rows of provider *)."""
    own = regions.select("provider", "region", "country", known=pl.lit(True))
    anyone = regions.filter(pl.col("provider") == "*").select("region", any_country="country")
    return (
        frame.join(own, on=["provider", "region"], how="left", maintain_order="left")
        .join(anyone, on="region", how="left", maintain_order="left")
        .with_columns(pl.when(pl.col("known")).then("country").otherwise("any_country").alias("country"))
        .drop("known", "any_country")
    )


def offers(shaped: pl.DataFrame) -> pl.DataFrame:
    """One row per offer: a capacity block is a price of an instance type and folds into its row."""
    one = shaped.sort("is_block", "fact_row").unique("offer_id", keep="first", maintain_order=True).sort("fact_row")
    unstated = ("label", "accelerator_share", "zone", "stock", "min_nodes", "lead_time_days")
    return one.with_columns(pl.lit(None, pl.String).alias(name) for name in unstated)


def refused_prices(shaped: pl.DataFrame) -> pl.DataFrame:
    """Prices that are not the price of the machine."""
    return shaped.filter(pl.col("fact_offer").str.ends_with(GPU_PART_ONLY)).select(
        file=pl.lit("cloud_offers.csv"),
        row=pl.col("fact_row").cast(pl.Int64),
        item=pl.format("spot price of {}", "fact_offer"),
        reason=pl.lit("covers the accelerators only, the host's vCPU and RAM cost extra; the offer is listed unpriced"),
        source="source",
        as_of="as_of",
        confidence="confidence",
        notes="notes",
    )


def prices(shaped: pl.DataFrame, interruption: pl.DataFrame) -> pl.DataFrame:
    """Long price table: on demand, capacity block, reserved for a year, spot; blanks give no row."""
    usable = shaped.filter(~pl.col("fact_offer").str.ends_with(GPU_PART_ONLY))
    text = pl.col("notes").fill_null("")
    common = ["fact_row", "offer_id", "currency", "notes"]
    listed = usable.filter(pl.col("on_demand_per_hour").is_not_null()).select(
        *common,
        "source",
        "as_of",
        "confidence",
        billing=pl.when("is_block").then(pl.lit("capacity_block")).otherwise(pl.lit("on_demand")),
        term_months=pl.lit(0.0),
        upfront_share=pl.when("is_block").then(1.0).otherwise(0.0),
        price_per_hour=number("on_demand_per_hour"),
        min_hours=number("min_commit_hours"),
        granularity_s=number("billing_granularity_s"),
    )
    years = [
        usable.filter(pl.col(column).is_not_null()).select(
            *common,
            source=pl.when(text.str.contains("Vantage")).then(pl.lit(VANTAGE)).otherwise("source"),
            as_of="reserved_as_of",
            # The figure was read, its term or way of payment was not.
            confidence=pl.lit("derived"),
            billing=pl.lit("reserved"),
            term_months=pl.lit(months),
            upfront_share=pl.lit(0.0),
            price_per_hour=number(column),
            min_hours=pl.lit(0.0),
            granularity_s=number("billing_granularity_s"),
        )
        for column, months in (("reserved_1y_per_hour", 12.0), ("reserved_3y_per_hour", 36.0))
    ]
    advisor = text.str.contains("(?i)Spot Advisor")
    spot = usable.filter(pl.col("spot_per_hour").is_not_null()).select(
        *common,
        source=pl.when(advisor)
        .then(pl.lit(SPOT_ADVISOR))
        .when(text.str.contains("spot from the Vantage"))
        .then(pl.lit(VANTAGE))
        .otherwise("source"),
        as_of="spot_as_of",
        confidence=pl.when(advisor).then(pl.lit("derived")).otherwise("confidence"),
        billing=pl.lit("spot"),
        term_months=pl.lit(0.0),
        upfront_share=pl.lit(0.0),
        price_per_hour=number("spot_per_hour"),
        min_hours=pl.lit(0.0),
        granularity_s=number("billing_granularity_s"),
        interruption_per_month=text.str.extract(r"interruption class (<5%|5-10%|10-15%|15-20%|>20%)").replace_strict(
            CLASS_MIDPOINT, default=None, return_dtype=pl.Float64
        ),
    )
    long = pl.concat([listed, *years, spot], how="diagonal")
    return _family_interruption(long, usable, interruption).sort("fact_row", "billing", "term_months")


def _family_interruption(long: pl.DataFrame, shaped: pl.DataFrame, interruption: pl.DataFrame) -> pl.DataFrame:
    """Fill spot rows without a class of their own from the table by family, in the region it speaks of."""
    rates = interruption.select("provider", "family", "region", family_rate="interruption_per_month")
    named = long.join(shaped.select("fact_row", "provider", "offer", "region"), on="fact_row", how="left").with_columns(
        family=pl.col("offer").str.split(".").list.first()
    )
    for key in ("offer", "family"):
        named = named.join(
            rates.rename({"family": key, "family_rate": f"{key}_rate"}),
            on=["provider", key, "region"],
            how="left",
            maintain_order="left",
        )
    filled = pl.coalesce("interruption_per_month", "offer_rate", "family_rate")
    return named.with_columns(pl.when(pl.col("billing") == "spot").then(filled).alias("interruption_per_month"))
