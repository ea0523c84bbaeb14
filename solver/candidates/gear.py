"""Gear: what a plan holds beside nodes, as whole numbers of units, with the rows that tie it to nodes and jobs.

Each kind of gear has a module of its own that turns the kept candidates into options and rules: switches and cables
(`fabric_gear`), storage tiers (`storage_gear`), racks and circuits (`rack_gear`), and what is charged once per place
(`charge_gear`). Options and rules name pools, job options and other gear by their keys; `solver.scaling` turns names into
indices and money into cents, and leaves out of a sum what is no candidate any more. Coefficients are whole numbers already:
who makes them rounds against the buyer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem
from solver.candidates.money import Terms, held_money

if TYPE_CHECKING:
    from solver.candidates import Candidates


@dataclass(frozen=True)
class GearOption:
    """Something that may be held over the whole horizon, as `count` units. Money is in the problem's currency.

    Parameters
    ----------
    key : str
        Unique name.
    kind : str
        Kind of its line on the bill: network, storage, rack, setup, staff, support, egress, operations, sale, choice (no line).
    item : str
        What the bill calls it.
    site : str, optional
        Own site that it stands at; None elsewhere.
    place : str
        Site or provider, for the bill.
    max_count : int
        Most units that any plan wants.
    price : float
        Of one unit when bought, hardware that is maintained and has a residual value [money].
    once : float
        Paid up front beside it: set-up, transfer [money].
    credit : float
        Comes in at the start for one unit: what something sold brings [money].
    monthly : float
        Paid every month for one unit: rent, fees [money/month].
    it_w, draw_w : float
        Nameplate and mean draw of one unit, before PUE [W].
    unit, per_unit : str, float
        What the bill counts, and how much of it one unit is ("TB", 0.1).
    parts : tuple of str
        What one unit is made of ("8 x MODEL").
    pieces, rack_units : int, float
        Boxes in one unit that stand in a rack, and the height of each [U]; 0 where nothing does.
    rack_w : float, optional
        Nameplate of one such box with what stands in it under keys of its own (drives); None: that of one unit [W].
    narrow : bool
        A rack or circuit that others of a menu stand in for where its rows are `loose`.
    as_of, confidence, source : str, optional
        Of the price.
    """

    key: str
    kind: str
    item: str
    site: str | None
    place: str
    max_count: int
    price: float = 0.0
    once: float = 0.0
    credit: float = 0.0
    monthly: float = 0.0
    it_w: float = 0.0
    draw_w: float = 0.0
    unit: str = ""
    per_unit: float = 1.0
    parts: tuple[str, ...] = ()
    pieces: int = 1
    rack_units: float = 0.0
    rack_w: float | None = None
    narrow: bool = False
    as_of: str | None = None
    confidence: str | None = None
    source: str | None = None


@dataclass(frozen=True, eq=False)
class GearSum:
    """A sum over nodes (by pool) and job options (by candidate row) that several rules share, as one thing.

    Of one `chain` (any object that is the same) the later in the rules' order ask for less and less (`solver.instance.Sum`).
    """

    nodes: dict[str, int]
    options: dict[int, int] = dataclasses.field(default_factory=dict)
    chain: object | None = None


@dataclass(frozen=True)
class GearRule:
    """low <= sum <= high over nodes held (by pool), nodes by the hour (by pool and number of the period), pools in use, job
    options (by candidate row), replicas (by row) and gear.

    `field` is the limit of the problem that the rule states, or empty. A rule over replicas holds in every period. One of a
    `stage` counts the nodes that are there in it, and holds in its periods; others count all nodes, whenever they come. `ways`
    are single ways to hold nodes, by candidate row of the capacity and number of the period (of no consequence for commitments).
    `loose` has the place of `gear` where what was cut off a menu counts as well (`solver.loosened`); empty: nothing was.
    """

    rule: str  # fabric | storage | racks | charges | operations | sales | fleet
    field: str
    low: int | None
    high: int | None
    nodes: dict[str, int] = dataclasses.field(default_factory=dict)
    hourly: dict[tuple[str, int], int] = dataclasses.field(default_factory=dict)
    used: dict[str, int] = dataclasses.field(default_factory=dict)
    options: dict[int, int] = dataclasses.field(default_factory=dict)
    replicas: dict[int, int] = dataclasses.field(default_factory=dict)
    gear: dict[str, int] = dataclasses.field(default_factory=dict)
    served: dict[str, int] = dataclasses.field(default_factory=dict)
    ways: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    loose: dict[str, int] = dataclasses.field(default_factory=dict)
    stage: int | None = None
    sums: dict[GearSum, int] = dataclasses.field(default_factory=dict)


Made = tuple[list[GearOption], list[GearRule]]


@dataclass(frozen=True)
class Gears:
    """Options with their money (one row each, columns as `GearOption` and `solver.candidates.money.held_money`), and rules."""

    options: pl.DataFrame
    rules: tuple[GearRule, ...]


@dataclass(frozen=True)
class GearContext:
    """What gear is made from: kept candidates, the catalogue, own sites, and the most nodes of each pool worth holding.

    `options` are those that makers before this one gave: racks are for what the others make.
    """

    found: Candidates
    catalog: Catalog
    sites: pl.DataFrame
    most_nodes: dict[str, int]
    options: tuple[GearOption, ...] = ()

    @property
    def terms(self) -> Terms:
        """What turns prices into money over the horizon."""
        return self.found.terms


def build_gear(context: GearContext) -> Gears:
    """Collect options and rules of every kind of gear, with money.

    Raises
    ------
    ValueError
        Two options have the same key: a fault of ours.
    """
    from solver.candidates.shared_sums import shared

    options: list[GearOption] = []
    rules: list[GearRule] = []
    for make in makers():
        some, tied = make(dataclasses.replace(context, options=tuple(options)))
        options += some
        rules += tied
    keys = [o.key for o in options]
    if len(set(keys)) < len(keys):
        raise ValueError("gear keys are not unique")
    frame = pl.DataFrame([asdict(o) for o in options], schema=GEAR_TYPES)
    joined = frame.join(context.sites, on="site", how="left", maintain_order="left").with_columns(
        pue=pl.col("pue").fill_null(1.0),
        energy_price=pl.col("energy_price").fill_null(0.0),
        carbon_g_per_kwh=pl.col("carbon_g_per_kwh").fill_null(0.0),
        space_per_kw_month=pl.col("space_per_kw_month").fill_null(0.0),
        part_class=pl.col("kind"),
        idle_w="draw_w",
    )
    money = held_money(joined, context.found.problem, context.catalog, context.terms)
    money = _with_credit(money, context.found.problem)
    return Gears(money.with_columns(facility_w=pl.col("it_w") * pl.col("pue")), tuple(shared(rules)))


def _with_credit(money: pl.DataFrame, problem: Problem) -> pl.DataFrame:
    """Take what comes in at the start off cash and cost; off capex only where the policy lets sales pay for purchases."""
    funds = pl.col("credit") if problem.policy.sales_fund_capex else pl.lit(0.0)
    return money.with_columns(
        c_sale=-pl.col("credit"),
        held_cash=pl.col("held_cash") - pl.col("credit"),
        held_cost=pl.col("held_cost") - pl.col("credit"),
        held_capex=pl.col("held_capex") - funds,
    )


GEAR_TYPES: dict[str, Any] = {
    "key": pl.String,
    "kind": pl.String,
    "item": pl.String,
    "site": pl.String,
    "place": pl.String,
    "max_count": pl.Int64,
    "price": pl.Float64,
    "once": pl.Float64,
    "credit": pl.Float64,
    "monthly": pl.Float64,
    "it_w": pl.Float64,
    "draw_w": pl.Float64,
    "unit": pl.String,
    "per_unit": pl.Float64,
    "parts": pl.List(pl.String),
    "pieces": pl.Int64,
    "rack_units": pl.Float64,
    "rack_w": pl.Float64,
    "narrow": pl.Boolean,
    "as_of": pl.String,
    "confidence": pl.String,
    "source": pl.String,
}


def makers() -> tuple[Callable[[GearContext], Made], ...]:
    """One function per kind of gear; racks come last, since other gear stands in them."""
    from solver.candidates.charge_gear import charge_gear
    from solver.candidates.fabric_gear import fabric_gear
    from solver.candidates.fleet_gear import fleet_gear
    from solver.candidates.operations_gear import operations_gear
    from solver.candidates.rack_gear import rack_gear
    from solver.candidates.sale_gear import sale_gear
    from solver.candidates.storage_gear import storage_gear

    return (charge_gear, fabric_gear, fleet_gear, operations_gear, sale_gear, storage_gear, rack_gear)
