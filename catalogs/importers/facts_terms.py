"""billing.csv -> one table per kind: discounts, spot interruption, egress, electricity, fx ..."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from catalogs.importers.facts_common import confidence, number, read_facts

COUNTRY_OF_CODE = {"uk": "GB"}
PUE_KINDS = {
    ("world average", "1.58"): "world_average",
    ("world average", "1.54"): "world_average_2025",
    ("facilities built after 2020", "1.25"): "new_facility",
    ("hyperscale", "1.1"): "hyperscale",
    ("server room in an office", "1.9"): "office_room",
}


def billing_rows(facts: Path) -> pl.DataFrame:
    """All rows of billing.csv with confidence and numbers."""
    return read_facts(facts / "billing.csv").with_columns(
        confidence(), value=number("value"), low=number("low"), high=number("high")
    )


def _of(rows: pl.DataFrame, *kinds: str) -> pl.DataFrame:
    return rows.filter(pl.col("kind").is_in(list(kinds)))


def discounts(rows: pl.DataFrame) -> pl.DataFrame:
    """Savings against on-demand; mode, term and role are read from the item's words."""
    item = pl.col("item")
    spot = (pl.col("kind") == "spot_saving") | item.str.contains(r"(?i)\bspot\b|preemptible|interruptible")
    term = (
        pl.when(item.str.contains("1y/3y"))
        .then(None)
        .when(item.str.contains(r"\b1y\b") | pl.col("notes").fill_null("").str.contains("1y assumed"))
        .then(12.0)
        .when(item.str.contains(r"\b3y\b"))
        .then(36.0)
        .when(item.str.contains("monthly"))
        .then(1.0)
    )
    return _of(rows, "discount", "spot_saving").with_columns(
        billing=pl.when(spot)
        .then(pl.lit("spot"))
        .when(item.str.contains("flex-start"))
        .then(pl.lit("flex_start"))
        .when(item.str.contains("subscription"))
        .then(pl.lit("subscription"))
        .otherwise(pl.lit("reserved")),
        term_months=pl.when(spot | item.str.contains("flex-start")).then(0.0).otherwise(term),
        role=pl.when(item.str.contains("working value|subscription"))
        .then(pl.lit("working"))
        .when(item.str.contains("(?i)maximum|range|flex-start"))
        .then(pl.lit("maximum"))
        .otherwise(pl.lit("observed")),
        item=pl.when(pl.col("kind") == "spot_saving").then(pl.format("spot {}", "item")).otherwise("item"),
        discount=(pl.col("value") / 100).round(6),
        discount_low=(pl.col("low") / 100).round(6),
        discount_high=(pl.col("high") / 100).round(6),
    )


def spot_interruption(rows: pl.DataFrame) -> pl.DataFrame:
    return _of(rows, "spot_interruption").with_columns(
        family=pl.col("item").str.replace(" family", "", literal=True),
        interruption_per_month=(pl.col("value") / 100).round(6),
        low=(pl.col("low") / 100).round(6),
        high=(pl.col("high") / 100).round(6),
    )


def terms(rows: pl.DataFrame) -> pl.DataFrame:
    return _of(rows, "commit_rule", "notice").with_columns(term="item")


def egress(rows: pl.DataFrame, own: Path) -> pl.DataFrame:
    """Egress prices of the facts, then those of `own`."""
    seen = _of(rows, "egress").with_columns(
        price_usd_per_gb="value", price_low_usd_per_gb="low", price_high_usd_per_gb="high"
    )
    more = pl.read_csv(own, infer_schema=False)
    prices = [c for c in more.columns if c.startswith("price_")]
    return pl.concat([seen.select(more.columns), more.with_columns(number(c) for c in prices)])


def electricity(rows: pl.DataFrame) -> pl.DataFrame:
    """Electricity; `us-ca` is country US, region CA; a country's own rows have region *."""
    code = pl.col("region").str.split("-").list.first()
    return _of(rows, "electricity").with_columns(
        country=code.replace(COUNTRY_OF_CODE).str.to_uppercase(),
        region=pl.col("region").str.splitn("-", 2).struct.field("field_1").str.to_uppercase().fill_null("*"),
        kind="item",
        price_per_kwh_usd="value",
        price_low_per_kwh_usd="low",
        price_high_per_kwh_usd="high",
    )


def pue(rows: pl.DataFrame) -> pl.DataFrame:
    kinds = pl.DataFrame(
        [{"item": i, "value": float(v), "pue_kind": k} for (i, v), k in PUE_KINDS.items()], orient="row"
    )
    return (
        _of(rows, "pue")
        .join(kinds, on=["item", "value"], how="left", maintain_order="left")
        .with_columns(kind=pl.coalesce("pue_kind", "item"), pue="value", pue_low="low", pue_high="high")
    )


def colocation(rows: pl.DataFrame) -> pl.DataFrame:
    return _of(rows, "colocation").with_columns(
        country=pl.col("region").str.to_uppercase(),
        price_usd_per_kw_month="value",
        price_low_usd_per_kw_month="low",
        price_high_usd_per_kw_month="high",
    )


def maintenance(rows: pl.DataFrame) -> pl.DataFrame:
    return _of(rows, "maintenance", "software", "depreciation")


def trends(rows: pl.DataFrame) -> pl.DataFrame:
    return _of(rows, "trend", "list_change")


def fx(rows: pl.DataFrame, own: Path) -> pl.DataFrame:
    """Rates of the facts ("CNY per USD" is one USD in CNY), then those of `own`."""
    pair = pl.col("item").str.extract_groups(r"^(?<to>[A-Z]{3}) per (?<from>[A-Z]{3})$")
    seen = _of(rows, "fx").select(
        from_currency=pair.struct.field("from"),
        to_currency=pair.struct.field("to"),
        rate="value",
        rate_low="low",
        rate_high="high",
        source="source",
        as_of="as_of",
        confidence="confidence",
        notes="notes",
    )
    more = pl.read_csv(own, infer_schema=False).with_columns(number("rate"), number("rate_low"), number("rate_high"))
    return pl.concat([seen, more.select(seen.columns)])


KINDS_TAKEN = (
    "discount",
    "spot_saving",
    "spot_interruption",
    "commit_rule",
    "notice",
    "egress",
    "electricity",
    "pue",
    "colocation",
    "maintenance",
    "software",
    "depreciation",
    "trend",
    "list_change",
    "fx",
)


def refused(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a kind that no table takes."""
    return rows.filter(~pl.col("kind").is_in(list(KINDS_TAKEN))).select(
        file=pl.lit("billing.csv"),
        row=pl.col("fact_row").cast(pl.Int64),
        item="item",
        reason=pl.format("no catalogue table for rows of kind {}", "kind"),
        source="source",
        as_of="as_of",
        confidence="confidence",
        notes="notes",
    )
