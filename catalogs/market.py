"""Schemas of what can be rented and on what terms: offers, prices, discounts, spot risk, currencies."""

from __future__ import annotations

from typing import get_args

import dataframely as dy
import polars as pl

from catalogs.columns import (
    CURRENCIES,
    Sourced,
    at_least_zero,
    choice,
    count,
    country,
    date_text,
    flag,
    number,
    positive,
    share,
    text,
)
from problems.schema import Billing, Deployment

BILLINGS = tuple(b for b in get_args(Billing) if b not in ("purchase", "owned"))
DEPLOYMENTS: tuple[str, ...] = get_args(Deployment)
LINK_CLASSES = ("nvlink", "bridge", "pcie", "other")


class Offers(Sourced):
    """An instance type in a region: its shape. Rows without a row in `prices` are listed, never chosen.

    `rdma`: an InfiniBand, RoCE or EFA network between nodes is stated. `interconnect_class` is the class of
    the links between the accelerators of one node; a single card counts as pcie. `country` is null where
    the place is not known.

    `label` is the accelerator as an imported price list spells it (null: only `accelerator` names it); an
    offer with a label and no `accelerator` has a card that the catalogue does not know, or a slice of a pod;
    one with neither is a machine without accelerators. `accelerator_share` is the part of one card that
    belongs to the machine (null: whole cards). `zone` is null where a price holds for the whole region.
    `stock` is how many nodes can be had, `min_nodes` how many must be taken at once, `lead_time_days` how
    long delivery takes; null: not stated.
    """

    offer_id = text(key=True)
    provider = text()
    offer = text()
    deployment_mode = choice(DEPLOYMENTS)
    accelerator = text(nullable=True)
    accelerator_count = count(nullable=True)
    vcpus = positive()
    ram_gib = positive()
    local_storage_tb = at_least_zero()
    network_gbps = positive()
    rdma = flag()
    interconnect = text(nullable=True)
    interconnect_class = choice(LINK_CLASSES)
    country = country()
    region = text()
    compliance = text(nullable=True)
    doubtful = flag()
    label = text(nullable=True)
    accelerator_share = share()
    zone = text(nullable=True)
    stock = count(nullable=True, minimum=0)
    min_nodes = count(nullable=True)
    lead_time_days = at_least_zero()

    @dy.rule()
    def counted(cls) -> pl.Expr:  # noqa: N805
        """An offer with accelerators says how many, one without gives no count."""
        named = pl.col("accelerator").is_not_null() | pl.col("label").is_not_null()
        return named == pl.col("accelerator_count").is_not_null()

    @dy.rule()
    def part_of_one_card(cls) -> pl.Expr:  # noqa: N805
        """A part of a card is a part of one card, above zero."""
        share = pl.col("accelerator_share")
        return share.is_null() | ((pl.col("accelerator_count") == 1) & (share > 0)).fill_null(False)


class Prices(Sourced):
    """One price of an offer. `term_months` 0: no commitment; `min_hours` the least that is billed at a time.

    `interruption_per_month` (spot) is the share of instances taken back within a month; null: no public
    figure.
    """

    offer_id = text(key=True)
    billing = choice(BILLINGS, key=True)
    term_months = at_least_zero(nullable=False, key=True)
    upfront_share = share(nullable=False, key=True)
    price_per_hour = positive(nullable=False)
    currency = choice(CURRENCIES)
    min_hours = at_least_zero(nullable=False)
    granularity_s = positive(nullable=False)
    interruption_per_month = share()

    @dy.rule()
    def commitment_has_term(cls) -> pl.Expr:  # noqa: N805
        """Reserved and subscription prices state their term."""
        return ~pl.col("billing").is_in(["reserved", "subscription"]) | (pl.col("term_months") > 0)


class ComputeUnits(Sourced):
    """Accelerators that a provider sells by normalised compute units, charged on the work consumed.

    An accelerator in use takes `units_per_accelerator_hour` units, each at `price_per_unit`; one that idles takes none. The
    built-in table is empty: unit prices stand in contracts, and these in the buyer's own overlay.
    """

    provider = text(key=True)
    accelerator = text(key=True)
    unit = text()
    units_per_accelerator_hour = positive(nullable=False)
    price_per_unit = positive(nullable=False)
    currency = choice(CURRENCIES)
    min_hours = at_least_zero(nullable=False)
    granularity_s = positive(nullable=False)


class CapacityBlocks(Sourced):
    """Shape of a provider's capacity blocks, which are reserved for a fixed time and paid up front.

    `nodes`: numbers of nodes that a block comes in, split by ";" (null: any). A block lasts at most `max_hours`; what is longer
    than `long_hours` lasts a multiple of `long_step_hours`. Steps and minimum below that are the price's own.
    """

    provider = text(key=True)
    nodes = text(nullable=True)
    max_hours = positive()
    long_hours = positive()
    long_step_hours = positive()

    @dy.rule()
    def both_of_long_blocks(cls) -> pl.Expr:  # noqa: N805
        """Long blocks have a length from which on they are long, and a step."""
        return pl.col("long_hours").is_null() == pl.col("long_step_hours").is_null()


class Book(Sourced):
    """What a buyer has negotiated: `discount` off the listed price, or a price. `*` stands for any.

    `family`: offers whose name begins with it. The built-in table is empty: contracts stay in the buyer's own overlay.
    """

    provider = text(key=True)
    family = text(key=True)
    offer = text(key=True)
    billing = choice((*BILLINGS, "*"), key=True)
    discount = share()
    price_per_hour = positive()
    currency = choice(CURRENCIES, nullable=True)
    valid_until = date_text()

    @dy.rule()
    def discount_or_price(cls) -> pl.Expr:  # noqa: N805
        """A row gives a discount or a price, and a price its currency."""
        discount, price = pl.col("discount").is_not_null(), pl.col("price_per_hour").is_not_null()
        return (discount != price) & (price == pl.col("currency").is_not_null())


class Discounts(Sourced):
    """Savings against on-demand. `role`: observed on an offer, maximum advertised, or working value."""

    provider = text(key=True)
    item = text(key=True)
    region = text(nullable=True)
    billing = choice((*BILLINGS, "flex_start"))
    term_months = at_least_zero()
    role = choice(("observed", "maximum", "working"))
    discount = share()
    discount_low = share()
    discount_high = share()


class SpotInterruption(Sourced):
    """Share of spot instances taken back within a month, by offer family and region; null: none published."""

    provider = text(key=True)
    family = text(key=True)
    region = text(nullable=True)
    interruption_per_month = share()
    low = share()
    high = share()


class Terms(Sourced):
    """Rules of a provider that are not prices: steps of capacity blocks, notice before a spot stop."""

    provider = text(key=True)
    term = text(key=True)
    region = text(nullable=True)
    value = number()
    unit = text(nullable=True)
    low = number()
    high = number()


class Egress(Sourced):
    """Price of traffic that leaves a provider."""

    provider = text(key=True)
    item = text(key=True)
    region = text(nullable=True)
    price_usd_per_gb = at_least_zero(nullable=False)
    price_low_usd_per_gb = at_least_zero()
    price_high_usd_per_gb = at_least_zero()


class Fx(Sourced):
    """One unit of `from_currency` is `rate` units of `to_currency`."""

    from_currency = choice(CURRENCIES, key=True)
    to_currency = choice(CURRENCIES, key=True)
    rate = positive(nullable=False)
    rate_low = positive()
    rate_high = positive()

    @dy.rule()
    def two_currencies(cls) -> pl.Expr:  # noqa: N805
        """A rate is between two different currencies."""
        return pl.col("from_currency") != pl.col("to_currency")


class Regions(Sourced):
    """Country of a provider's region, null where it spans countries. Provider * stands for any."""

    provider = text(key=True)
    region = text(key=True)
    country = country()


class Refused(Sourced):
    """A fact that was not taken over, and why."""

    file = text(key=True)
    row = count(key=True)
    item = text(key=True)
    reason = text()
