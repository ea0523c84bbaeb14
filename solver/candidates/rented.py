"""Rented pools: cloud offers under their billing modes; spot and machines sold by compute units as pools of their own."""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from catalogs.labels import has_accelerator, plain_machine, shown_accelerator, units
from problems.schema import AcceleratorNeed, Fixed, Problem
from solver.candidates.deploying import mode_reasons, with_modes
from solver.candidates.frames import (
    CAPACITY_COLUMNS,
    RENTED_COLUMNS,
    Pools,
    limit_reasons,
    split_by_reason,
    typed_capacity,
    typed_pools,
)
from solver.candidates.leases import lease_prices
from solver.candidates.terms import allowed, assumption, has_tags, trusted
from solver.features.cost import fallback_share


def rented_pools(problem: Problem, catalog: Catalog, rates: pl.DataFrame) -> Pools:
    limits, policy = problem.limits, problem.policy
    vendors = catalog.accelerators.select("accelerator", "vendor")
    offers = catalog.offers.join(vendors, on="accelerator", how="left")
    offers = with_modes(offers.with_columns(units=units()), catalog, "rental")
    # First, since most rows of a large price list go here: machines that only a fixed workload can ask for by name.
    reasons = [(~(plain_machine() | _asked_for(problem, catalog)), "no whole accelerator that the catalogue knows")]
    reasons += limit_reasons(problem, catalog) + mode_reasons(problem)
    if limits.providers is not None:
        lower = pl.col("provider").str.to_lowercase()
        allow = None if limits.providers.allow is None else [p.lower() for p in limits.providers.allow]
        reasons.append(
            (
                ~allowed(lower, allow, [p.lower() for p in limits.providers.deny]),
                "provider not allowed (limits.providers)",
            )
        )
    if limits.countries is not None:
        reasons.append((pl.col("country").is_null(), "country of the offer unknown (limits.countries)"))
        reasons.append((~allowed(pl.col("country"), limits.countries, ()), "country not allowed (limits.countries)"))
    if limits.regions is not None:
        reasons.append(
            (
                ~allowed(pl.col("region"), limits.regions.allow, limits.regions.deny),
                "region not allowed (limits.regions)",
            )
        )
    if limits.compliance:
        reasons.append(
            (
                ~has_tags(pl.col("compliance"), limits.compliance),
                "compliance tags missing (limits.compliance)",
            )
        )
    if not policy.include_doubtful:
        reasons.append((pl.col("doubtful"), "row marked doubtful in the catalogue (policy.include_doubtful)"))
    running = lease_prices(problem, catalog, rates)
    priced = pl.concat([catalog.prices["offer_id"], running["offer_id"]])
    reasons.append((~pl.col("offer_id").is_in(priced.implode()), "no price known"))
    kept, dropped = split_by_reason(offers, reasons, "offer_id")

    modes = problem.billing_modes
    default_interruption = assumption(catalog, "spot_interruption_per_month")
    # Machines without a whole card, and prices for a least number of nodes, have no place in the packing of pools.
    by_hour = kept.filter(~plain_machine() | (pl.col("min_nodes") > 1).fill_null(False))["offer_id"]
    prices, dropped_prices = split_by_reason(
        _with_full_price(catalog.prices.join(kept.select("offer_id"), on="offer_id", how="semi"), rates),
        [
            (~pl.col("billing").is_in(list(modes)), "billing mode not in policy (policy.billing)"),
            (
                ~pl.col("billing").is_in(["on_demand", "spot"]) & pl.col("offer_id").is_in(by_hour.implode()),
                "commitment to a quantity, or to a machine without a whole accelerator: only rented by the hour",
            ),
            (pl.col("rate_to_problem").is_null(), "no exchange rate for the price's currency"),
            (
                ~trusted("confidence", policy.min_confidence),
                "price below the confidence asked for (policy.min_confidence)",
            ),
            (
                (pl.col("billing") == "spot") & (pl.col("interruption_per_month") >= 1),
                "spot is always interrupted",
            ),
            (
                (pl.col("billing") == "spot")
                & (pl.col("interruption_per_month").fill_null(default_interruption) > policy.spot_max_interruption),
                "spot interrupted more often than allowed (policy.spot_max_interruption)",
            ),
            (
                (pl.col("billing") == "spot")
                & (policy.spot_min_saving > 0)
                & ~(
                    pl.col("price_per_hour") * pl.col("rate_to_problem")
                    <= pl.col("full_price") * (1 - policy.spot_min_saving) * (1 + 1e-9)
                ).fill_null(False),
                "spot saves too little, or there is no on-demand price to compare (policy.spot_min_saving)",
            ),
        ],
        "offer_id",
    )
    spot = pl.col("billing") == "spot"
    # What runs already may be kept whatever the billing policy; it is not a price that others could have.
    running = running.join(kept.select("offer_id"), on="offer_id", how="semi", maintain_order="left")
    apart = pl.col("billing").replace_strict({"spot": "#spot", "compute_unit": "#units"}, default="")
    capacity = pl.concat([prices, running], how="diagonal_relaxed").with_columns(
        pool=pl.col("offer_id") + apart,
        price=pl.col("price_per_hour"),
        interruption_per_month=pl.when(spot).then(pl.col("interruption_per_month").fill_null(default_interruption)),
    )
    capacity = _with_fallback(capacity, catalog, allowed="on_demand" in modes)
    capacity = _with_units(_with_blocks(capacity, catalog), catalog)
    held = capacity.unique("pool", keep="first", maintain_order=True).select(
        "pool", "offer_id", "interruption_per_month"
    )
    pools = held.join(kept, on="offer_id", how="inner").with_columns(
        kind=pl.lit("rental"),
        accelerator=shown_accelerator(),
        gpus=pl.col("accelerator_count").fill_null(0).cast(pl.Int64),
        # A vCPU is one thread: two of them make a core.
        cores=pl.col("vcpus") / 2,
        ram_gib=pl.col("ram_gib").cast(pl.Float64),
        nvme_tb=pl.col("local_storage_tb").cast(pl.Float64),
        nvme_gb_s=pl.lit(None, pl.Float64),
        network_gbps=pl.col("network_gbps").cast(pl.Float64),
        site=pl.lit(None, pl.String),
        spot=pl.col("pool").str.ends_with("#spot"),
        complete=pl.lit(True),
        nameplate_w=pl.lit(0.0),
        host_nameplate_w=pl.lit(0.0),
        node_limit=pl.min_horizontal(_quota(problem), "stock"),
        parts=pl.lit([], pl.List(pl.String)),
    )
    return Pools(
        typed_pools(pools),
        typed_capacity(capacity.select(*CAPACITY_COLUMNS, *RENTED_COLUMNS)),
        pl.concat([dropped, dropped_prices]),
    )


def _with_fallback(capacity: pl.DataFrame, catalog: Catalog, *, allowed: bool) -> pl.DataFrame:
    """Add fallback_share and fallback_price of spot: what is expected to run on demand on the same machine after interruptions.

    Nothing where on-demand machines are not allowed or have no price: then the work waits for spot to come back.
    """
    usual = fallback_share(pl.col("interruption_per_month"), assumption(catalog, "spot_fallback_h"))
    price = pl.col("full_price") / pl.col("rate_to_problem")
    known = (pl.col("billing") == "spot") & price.is_not_null() & pl.lit(allowed)
    return capacity.with_columns(
        fallback_share=pl.when(known & (usual > 0)).then(usual), fallback_price=pl.when(known & (usual > 0)).then(price)
    )


def _with_blocks(capacity: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Add the shape of capacity blocks: block_nodes, max_hours, long_hours, long_step_hours."""
    shapes = catalog.capacity_blocks.select(
        "provider", "max_hours", "long_hours", "long_step_hours", billing=pl.lit("capacity_block"), block_nodes="nodes"
    )
    who = catalog.offers.select("offer_id", "provider")
    joined = capacity.join(who, on="offer_id", how="left", maintain_order="left")
    return joined.join(shapes, on=["provider", "billing"], how="left", maintain_order="left").drop("provider")


def _with_units(capacity: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Add unit and units_per_hour, what a node of which every accelerator is in use takes of compute units."""
    sold = catalog.offers.join(catalog.compute_units, on=["provider", "accelerator"], how="inner").select(
        "offer_id",
        "unit",
        billing=pl.lit("compute_unit"),
        units_per_hour=pl.col("units_per_accelerator_hour") * pl.col("accelerator_count"),
    )
    return capacity.join(sold, on=["offer_id", "billing"], how="left", maintain_order="left")


def _with_full_price(prices: pl.DataFrame, rates: pl.DataFrame) -> pl.DataFrame:
    """Prices with their rate of exchange and `full_price`, the on-demand price of the same machine [problem's money/h]."""
    priced = prices.rename({"currency": "price_currency"}).join(rates, on="price_currency", how="left")
    full = priced.filter(pl.col("billing") == "on_demand").select(
        "offer_id", full_price=pl.col("price_per_hour") * pl.col("rate_to_problem")
    )
    return priced.join(full.unique("offer_id"), on="offer_id", how="left", maintain_order="left")


def _asked_for(problem: Problem, catalog: Catalog) -> pl.Expr:
    """Offers whose accelerator a fixed workload names; reads label and units."""
    asked = pl.lit(False)
    for work in problem.workloads:
        if isinstance(work, Fixed) and not isinstance(work.accelerator, AcceleratorNeed):
            for name in [work.accelerator] if isinstance(work.accelerator, str) else work.accelerator:
                asked |= has_accelerator(catalog, name, work.count)
    return asked


def _quota(problem: Problem) -> pl.Expr:
    """Smallest quota that names the offer, as `offer`, `provider/offer` or `provider/offer/region`; null: no quota."""
    limits = []
    for quota in problem.limits.quota:
        named = pl.any_horizontal(
            pl.col("offer") == quota.offer,
            pl.col("provider") + "/" + pl.col("offer") == quota.offer,
            pl.col("offer_id") == quota.offer,
        )
        limits.append(pl.when(named).then(pl.lit(quota.max, pl.Int64)))
    return pl.min_horizontal(limits) if limits else pl.lit(None, pl.Int64)
