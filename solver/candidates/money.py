"""Money, watts and grams on the candidate frames, as floats in the problem's currency.

Lists run over load periods; a commitment's lists have one entry. `cash` is paid over the horizon, `cost` the same with the
policy's discount rate, `monthly` one month's payment, `capex` the part paid up front.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem
from solver.candidates.frames import RENTED_COLUMNS, fx_rates, money_in
from solver.candidates.leases import held_leases, is_running, is_term
from solver.candidates.owning import amount, instalments, owning, provider_frame, staff_per_node_month
from solver.candidates.periods import LoadCalendar, Period, Stage
from solver.candidates.starts import started
from solver.candidates.stretches import stretched
from solver.candidates.tariff import colocation_price, mean_price
from solver.candidates.terms import HOURS_PER_MONTH, assumption
from solver.features.cost import billed_hours, block_hours, discount_months, present_of_repeats, upfront_present
from solver.features.power import host_overhead_share, with_gpu_power
from solver.features.speed_tables import SpeedTables

HELD_BY_HOUR = ("on_demand", "spot", "compute_unit")
HIRED = ("on_demand", "spot", "capacity_block", "compute_unit")


@dataclass(frozen=True)
class Terms:
    """What turns prices and watts of this problem into money."""

    horizon: float  # [months]
    discounted: float  # present value of one unit a month over the horizon [months]
    periods: tuple[Period, ...]
    stages: tuple[Stage, ...]
    calendar: LoadCalendar

    def stage(self, period: Period) -> Stage:
        """Stage that a period belongs to."""
        return self.stages[period.stage]


def money_terms(
    problem: Problem, periods: tuple[Period, ...], stages: tuple[Stage, ...], calendar: LoadCalendar
) -> Terms:
    """Horizon, discounting, periods and stages of a problem."""
    worth = discount_months(problem.horizon, problem.policy.discount_rate)
    return Terms(problem.horizon, worth, periods, stages, calendar)


def hour_price() -> pl.Expr:
    """What an hour of a node costs, spot with the time expected on demand [problem's money/h]."""
    away = pl.col("fallback_share").fill_null(0.0)
    mixed = pl.col("price") * (1 - away) + pl.col("fallback_price").fill_null(0.0) * away
    return pl.when(away > 0).then(mixed).otherwise("price") * pl.col("rate_to_problem")


def site_frame(problem: Problem, catalog: Catalog) -> tuple[pl.DataFrame, list[str]]:
    """Electricity, PUE, carbon and space of own sites with the catalogue's figures where the problem gives none.

    Returns
    -------
    sites : site, pue, energy_price (mean of the week) [money/kWh], carbon_g_per_kwh, space_per_kw_month [money], counted
        (racks or circuits are limited or paid)
    assumed : list of str
        What was assumed, for the report.
    """
    rates = fx_rates(catalog, problem.currency)
    usd = rates.filter(pl.col("price_currency") == "USD")["rate_to_problem"]
    per_usd = float(usd[0]) if usd.len() else 1.0
    rows, assumed = [], []
    for site in problem.sites:
        pue = site.pue
        if pue is None:
            pue = assumption(catalog, "own_room_pue")
            assumed.append(f"sites.{site.name}.pue: {pue:g} (catalogue average; state the room's own)")
        price = mean_price(site, rates)
        if price is None:
            known = catalog.electricity.filter(pl.col("country") == (site.country or "")).sort(
                "region", nulls_last=False
            )
            usd_price = (
                float(known["price_per_kwh_usd"][0]) if known.height else assumption(catalog, "electricity_usd_per_kwh")
            )
            price = usd_price * per_usd
            assumed.append(
                f"sites.{site.name}.electricity: {price:.3f} {problem.currency}/kWh (catalogue, {site.country or 'country not given'})"
            )
        grams = site.carbon
        if grams is None:
            known = catalog.carbon.filter(pl.col("country") == (site.country or ""))
            grams = float(known["g_per_kwh"][0]) if known.height else assumption(catalog, "carbon_g_per_kwh")
        space = 0.0 if site.space is None else money_in(site.space, rates)
        if site.colocation is not None:
            space = colocation_price(site, catalog) * per_usd
            assumed.append(
                f"sites.{site.name}.colocation: {space:.0f} {problem.currency}/kW/mo ({site.colocation}, catalogue's price for {site.country})"
            )
        rows.append(
            {
                "site": site.name,
                "pue": pue,
                "energy_price": price,
                "carbon_g_per_kwh": grams,
                "space_per_kw_month": space,
                "counted": site.racks is not None or bool(site.circuits),
            }
        )
    schema = {
        "site": pl.String,
        "pue": pl.Float64,
        "energy_price": pl.Float64,
        "carbon_g_per_kwh": pl.Float64,
        "space_per_kw_month": pl.Float64,
        "counted": pl.Boolean,
    }
    return pl.DataFrame(rows, schema=schema), assumed


def with_watts(pools: pl.DataFrame, sites: pl.DataFrame, catalog: Catalog, tables: SpeedTables) -> pl.DataFrame:
    """Add it_w, facility_w (nameplate of a node), idle_w (drawn by an idle node) and GPU watts by phase [W].

    Own machines: nameplate of their parts. Rented ones: rated power of the cards plus the usual host share, behind a
    hyperscale PUE: an estimate that only the power and carbon objectives read.
    """
    cards = catalog.accelerators.select("accelerator", "tdp_w")
    phases = pl.DataFrame({"phase": ["mixed", "training", "idle"]})
    watts = with_gpu_power(cards.filter(pl.col("tdp_w").is_not_null()).join(phases, how="cross"), tables)
    by_phase = watts.pivot(on="phase", index="accelerator", values="gpu_expected_w", aggregate_function="first").rename(
        {"mixed": "serving_gpu_w", "training": "training_gpu_w", "idle": "idle_gpu_w"}
    )
    host = host_overhead_share(tables)
    draw = assumption(catalog, "host_draw_share")
    rented_pue = assumption(catalog, "rented_pue")
    own = pl.col("site").is_not_null()
    rented_host_w = pl.col("tdp_w") * pl.col("gpus") * host
    return (
        pools.join(cards, on="accelerator", how="left")
        .join(by_phase, on="accelerator", how="left")
        .join(sites, on="site", how="left")
        .join(catalog.carbon.select("country", grid_g="g_per_kwh"), on="country", how="left")
        .with_columns(
            pue=pl.col("pue").fill_null(rented_pue),
            energy_price=pl.col("energy_price").fill_null(0.0),
            space_per_kw_month=pl.col("space_per_kw_month").fill_null(0.0),
            carbon_g_per_kwh=pl.coalesce("carbon_g_per_kwh", "grid_g", pl.lit(assumption(catalog, "carbon_g_per_kwh"))),
            host_nameplate_w=pl.when(own).then("host_nameplate_w").otherwise(rented_host_w).fill_null(0.0),
            # Cards under a power limit draw no more than it.
            **{
                c: pl.min_horizontal(pl.col(c), "power_limit_w").fill_null(0.0)
                for c in ("serving_gpu_w", "training_gpu_w", "idle_gpu_w")
            },
        )
        .with_columns(
            it_w=pl.when(own)
            .then("nameplate_w")
            .otherwise(pl.col("tdp_w").fill_null(0.0) * pl.col("gpus") + pl.col("host_nameplate_w"))
        )
        .with_columns(
            facility_w=pl.col("it_w") * pl.col("pue"),
            idle_w=pl.col("host_nameplate_w") * draw + pl.col("idle_gpu_w") * pl.col("gpus"),
        )
        .drop("grid_g")
    )


def per_watt_month(terms: Terms) -> pl.Expr:
    """Money for one IT watt drawn through one month [money]."""
    return pl.col("energy_price") * pl.col("pue") * HOURS_PER_MONTH / 1000.0


def grams_per_watt_month() -> pl.Expr:
    """Emissions of one IT watt drawn through one month [g CO2e]."""
    return pl.col("carbon_g_per_kwh") * pl.col("pue") * HOURS_PER_MONTH / 1000.0


TAXED_SERVICES = ("storage", "egress")
"""Kinds of gear whose payments go to a provider: the tax on rentals is on them."""


def held_money(frame: pl.DataFrame, problem: Problem, catalog: Catalog, terms: Terms) -> pl.DataFrame:
    """Money of what is bought or held over the horizon, one unit each, by component of the bill.

    Parameters
    ----------
    frame : pl.DataFrame
        part_class (server, network, storage ...), price (bought; 0 where not), once, monthly [money], it_w, idle_w [W], pue,
        energy_price [money/kWh], space_per_kw_month [money], carbon_g_per_kwh; and start, the month from which it is held
        [months], where that is not the first.

    Returns
    -------
    pl.DataFrame
        The frame with c_server (purchase), c_spares, c_tax, c_financing (interest), c_replacement (what has worn out bought
        again, less what is got for it), c_residual (negative), c_maintenance, c_space, c_energy, c_once, c_monthly,
        c_service_tax over the horizon; held_cash (their sum), held_cost (discounted), held_capex, held_monthly (its parts
        held_running and held_instalment) [money], held_carbon [g]; instalment_months, every_months.

    Notes
    -----
    At the end of the horizon the residual value comes back (cash), or what is not worn off of price, spares and tax less
    residual value, with the residual value (straight_line, annuity; see `solver.features.cost.unworn_share`). What is held
    from a later month on is paid then, wears off in the months left, and is paid off within the horizon.
    """
    h, rate = terms.horizon, problem.policy.discount_rate
    if "start" not in frame.columns:
        frame = frame.with_columns(start=pl.lit(0.0))
    left = h - pl.col("start")
    own, starts = owning(problem, catalog, left), frame["start"].unique()
    pay = {x: instalments(problem, x) for x in starts}
    share = instalments(problem).upfront

    def each(values: Mapping[float, float]) -> pl.Expr:
        return pl.col("start").replace_strict(values, return_dtype=pl.Float64)

    # Present value of one unit a month from the start on.
    worth = each({x: terms.discounted - discount_months(x, rate) for x in starts})
    at_start = present_at_start(rate)
    months, payment = each({x: p.months for x, p in pay.items()}), each({x: p.payment for x, p in pay.items()})
    present = each({x: p.present for x, p in pay.items()})
    price = pl.col("price")
    tax = problem.tco.tax
    service = pl.col("part_class").is_in(TAXED_SERVICES) & (price == 0)
    parts = frame.with_columns(
        c_server=price,
        c_spares=price * own.spares,
        c_tax=price * (1 + own.spares) * tax.purchase,
        c_maintenance=price * own.maintenance / 12 * left,
        c_space=pl.col("space_per_kw_month") * pl.col("it_w") / 1000 * left,
        c_energy=pl.col("idle_w") * per_watt_month(terms) * left,
        c_once=pl.col("once"),
        c_monthly=pl.col("monthly") * left,
        c_service_tax=pl.when(service).then((pl.col("once") + pl.col("monthly") * left) * tax.rental).otherwise(0.0),
    ).with_columns(invested=pl.col("c_server") + pl.col("c_spares") + pl.col("c_tax"), resale=price * own.residual)
    worn = pl.col("invested") - pl.col("resale")
    borrowed = pl.col("invested") * (1 - share)
    parts = parts.with_columns(
        c_financing=borrowed * (payment * months - 1),
        c_replacement=worn * own.bought_again,
        c_residual=-(pl.col("resale") + worn * own.unworn),
    )
    running = pl.sum_horizontal("c_maintenance", "c_space", "c_energy", "c_monthly", "c_service_tax")
    once = pl.col("c_once")
    upfront = pl.col("invested") * share
    return parts.with_columns(
        held_cash=pl.col("invested") + once + pl.sum_horizontal("c_financing", "c_replacement", "c_residual") + running,
        held_cost=at_start
        * (upfront + once + borrowed * present + worn * present_of_repeats(own.bought_again, own.every, rate))
        + pl.col("c_residual") * (1 + rate) ** (-math.ceil(h - 1e-9) / 12)
        + running * (worth / left),
        held_capex=upfront + once,
        held_running=running / left,
        held_instalment=borrowed * payment,
        held_monthly=running / left + borrowed * payment,
        held_carbon=pl.col("idle_w") * grams_per_watt_month() * left,
        instalment_months=months.cast(pl.Int64),
        every_months=own.every.cast(pl.Float64),
    ).drop("invested", "resale")


def present_at_start(yearly_rate: float) -> pl.Expr:
    """Present value of one unit paid when something starts, with the month before it where that lies within a month."""
    return (1 + yearly_rate) ** (-(pl.col("start") + 1e-9).floor() / 12)


def _in_month(stage: Stage, own: pl.Expr, rent_month: pl.Expr) -> pl.Expr:
    """Highest payment of a commitment in a month of a stage [money]; 0 before its start and after its last."""
    paid_off = (pl.col("start") + 1e-9).floor() + pl.col("instalment_months")
    instalment = pl.when(paid_off > stage.start + 1e-9).then("held_instalment").otherwise(0.0)
    rent = pl.when(pl.col("start") + pl.col("held_months") > stage.start + 1e-9).then(rent_month).otherwise(0.0)
    paid = pl.when(own).then(pl.col("held_running") + instalment).otherwise(rent)
    return pl.when(pl.col("start") < stage.end - 1e-9).then(paid).otherwise(0.0)


def held_capacity(
    capacity: pl.DataFrame, pools: pl.DataFrame, problem: Problem, catalog: Catalog, terms: Terms
) -> pl.DataFrame:
    """Ways to hold nodes with their money: commit, costs, cashes, monthlies (lists), capex, carbons, and bill components.

    A commitment has a row for every stage that it may start in (`solver.candidates.starts`), and one of `monthlies` for each
    stage of the horizon: what a month of it costs while something is paid. Components (money over the
    horizon of one node): those of `held_money` (c_once is set-up, c_monthly staff), and c_rental with its surcharges
    c_goodput, c_support and c_rent_tax.
    """
    places = pools.select(
        "pool",
        "kind",
        "provider",
        "it_w",
        "idle_w",
        "pue",
        "energy_price",
        "carbon_g_per_kwh",
        "space_per_kw_month",
    )
    frame = (
        capacity.filter(pl.col("billing") != "capacity_block")
        .join(places, on="pool", how="inner")
        .join(provider_frame(problem, places["provider"].unique()), on="provider", how="left")
    )
    here = hour_price()
    bought = pl.col("billing") == "purchase"
    own = pl.col("kind") != "rental"
    by_hour = pl.col("billing").is_in(list(HELD_BY_HOUR)) | is_running()
    months = pl.col("paid_months")
    leads = catalog.offers.select(pool="offer_id", lead_time_days="lead_time_days")
    frame = frame.join(leads, on="pool", how="left", maintain_order="left").with_columns(commit=~by_hour)
    held = [started(frame.filter(~is_term()), problem, terms.stages), held_leases(frame, problem, terms.stages)]
    frame = (
        stretched(pl.concat(held, how="diagonal_relaxed"), terms.calendar, terms.stages)
        .with_columns(
            part_class=pl.lit("server"),
            price=pl.when(bought).then(here).otherwise(0.0),
            once=pl.when(bought).then(amount(problem.tco.setup.node, problem, catalog)).otherwise(0.0),
            monthly=pl.when(own).then(staff_per_node_month(problem, catalog)).otherwise(0.0),
            idle_w=pl.when(own).then("idle_w").otherwise(0.0),
            space_per_kw_month=pl.when(own).then("space_per_kw_month").otherwise(0.0),
            rented_w="idle_w",
            listed_price="price",
            c_rental=pl.when(own | ~pl.col("commit")).then(0.0).otherwise(here * pl.col("month_hours") * months),
            # What is sold by compute units costs nothing while it idles: its replicas pay.
            per_hour=pl.when(own | (pl.col("billing") == "compute_unit")).then(0.0).otherwise(here * pl.col("x_all")),
        )
        .with_columns(
            c_goodput=pl.col("c_rental") * pl.col("x_goodput"),
            c_support=pl.col("c_rental") * pl.col("x_support"),
            c_rent_tax=pl.col("c_rental") * pl.col("x_tax"),
        )
    )
    frame = held_money(frame, problem, catalog, terms).with_columns(price="listed_price").drop("listed_price")
    paid = pl.col("c_rental") * pl.col("x_all")
    upfront = paid * pl.col("upfront_share")
    rent_month = (paid - upfront) / months
    rate = problem.policy.discount_rate
    at_start = present_at_start(rate)
    # What is owed for months beyond the horizon is paid with its last.
    beyond = (months - pl.col("held_months")) * (1 + rate) ** (-math.ceil(terms.horizon - 1e-9) / 12)
    at_once = upfront * upfront_present(pl.col("term_months"), months, rate) * at_start
    upfront_now = pl.when(pl.col("upfront_share") > 0).then(at_once).otherwise(0.0)  # leases have no term of their own
    cash = pl.col("held_cash") + paid
    rented = upfront_now + rent_month * (pl.col("held_worth") + beyond)
    cost = pl.col("held_cost") + pl.when(own).then(0.0).otherwise(rented)
    a_month = pl.col("rented_w") * grams_per_watt_month()
    stage = [(p, terms.stage(p)) for p in terms.periods]

    def listed(once: pl.Expr, factors: list[float]) -> pl.Expr:
        hourly = pl.concat_list([pl.col("per_hour") * x for x in factors])
        return pl.when(pl.col("commit")).then(pl.concat_list(once)).otherwise(hourly)

    return frame.with_columns(
        capex=pl.col("held_capex") + pl.when(pl.col("commit") & ~own).then(upfront).otherwise(0.0),
        cashes=listed(cash, [p.hours_per_month * s.months for p, s in stage]),
        costs=listed(cost, [p.hours_per_month * s.discounted for p, s in stage]),
        monthlies=pl.when(pl.col("commit"))
        .then(pl.concat_list([_in_month(stage, own, rent_month) for stage in terms.stages]))
        .otherwise(pl.concat_list([pl.col("per_hour") * p.hours_per_month for p in terms.periods])),
        carbons=pl.when(pl.col("commit"))
        .then(pl.concat_list(a_month * pl.col("held_months") * _share_of_month(terms)))
        .otherwise(pl.concat_list([a_month * s.months * (p.hours_per_month / HOURS_PER_MONTH) for p, s in stage])),
    ).with_row_index("row")


def _share_of_month(terms: Terms) -> pl.Expr:
    """Share of the month's hours at the levels that a way is held at; 1 where it is held at all."""
    hours = [level.hours_per_month / HOURS_PER_MONTH for level in terms.calendar.levels]
    each = pl.col("levels").list.eval(pl.element().replace_strict(range(len(hours)), hours, return_dtype=pl.Float64))
    return each.list.sum().fill_null(1.0)


def replica_money(
    replicas: pl.DataFrame, pools: pl.DataFrame, capacity: pl.DataFrame, problem: Problem, terms: Terms
) -> pl.DataFrame:
    """Add extra_w (watts a busy replica draws above idle), energy (money per month of running it) and tariff.

    On own machines energy is electricity at the week's mean price, and tariff the price in each load period over that mean;
    on those sold by compute units it is the units that its accelerators take; elsewhere nothing.
    """
    watts = pools.select(
        "pool", "serving_gpu_w", "idle_gpu_w", "energy_price", "tariff", "pue", "carbon_g_per_kwh", "site"
    )
    units = capacity.filter(pl.col("billing") == "compute_unit").select("pool", unit_price=hour_price())
    places = pools.select("pool", "provider", pool_gpus="gpus")
    units = units.join(places, on="pool", how="inner").join(
        provider_frame(problem, places["provider"].unique()), on="provider", how="left"
    )
    units = units.select("pool", "pool_gpus", unit_price=pl.col("unit_price") * pl.col("x_all"))
    watts = watts.join(units, on="pool", how="left")
    extra = (pl.col("serving_gpu_w") - pl.col("idle_gpu_w")).clip(0.0) * pl.col("gpus")
    return (
        replicas.drop("site", strict=False)
        .join(watts, on="pool", how="left")
        .with_columns(
            extra_w=extra,
            energy=pl.when(pl.col("site").is_not_null())
            .then(extra * per_watt_month(terms))
            .otherwise((pl.col("unit_price") * HOURS_PER_MONTH * pl.col("gpus") / pl.col("pool_gpus")).fill_null(0.0)),
        )
        .with_columns(carbon=extra * grams_per_watt_month())
        .drop("unit_price", "pool_gpus")
    )


def option_money(
    options: pl.DataFrame,
    work: Pretrain | Finetune | Batch | Fixed,
    pools: pl.DataFrame,
    capacity: pl.DataFrame,
    problem: Problem,
    terms: Terms,
) -> pl.DataFrame:
    """Spread a job's options over the ways to pay, with cash, cost, monthly and carbon.

    Hired: whole nodes by the hour for every run, at the offer's granularity and minimum; by compute units only the accelerators
    in use; capacity blocks in the numbers of nodes and the lengths that they come in, paid when they begin. Pooled: on pools that can be
    held under a commitment, where only the energy of running is paid, and only if runs one after another fit the month.
    """
    per_month = isinstance(work, Fixed) or work.runs.per_month
    runs = 1.0 if isinstance(work, Fixed) else work.runs.value
    repeats = runs * terms.horizon if per_month else runs
    discounted = terms.discounted / terms.horizon if per_month else 1.0
    place = pools.select(
        "pool",
        "site",
        "pue",
        "energy_price",
        "carbon_g_per_kwh",
        "training_gpu_w",
        "serving_gpu_w",
        "idle_gpu_w",
        "it_w",
        "provider",
        node_gpus="gpus",
    ).join(provider_frame(problem, pools["provider"].unique()), on="provider", how="left")
    frame = options.drop("site", "node_gpus", strict=False).join(place, on="pool", how="inner")
    busy = pl.col("training_gpu_w") if isinstance(work, Pretrain | Finetune) else pl.col("serving_gpu_w")
    extra_w = (busy - pl.col("idle_gpu_w")).clip(0.0) * pl.col("gpus")

    prices = capacity.filter(pl.col("billing").is_in(list(HIRED)) & pl.col("pool").is_in(options["pool"].implode()))
    hours = billed_hours(pl.col("duration_h"), pl.col("granularity_s"), pl.col("min_hours"))
    hours = block_hours(hours, pl.col("long_hours"), pl.col("long_step_hours"))
    block = pl.col("billing") == "capacity_block"
    whole = pl.col("nodes").cast(pl.String).is_in(pl.col("block_nodes").str.split(";"))
    fits = (whole.fill_null(True) & (hours <= pl.col("max_hours") * (1 + 1e-9)).fill_null(True)) | ~block
    # Of a node sold by compute units only the accelerators in use are paid.
    paid_nodes = (
        pl.when(pl.col("billing") == "compute_unit").then(pl.col("gpus") / pl.col("node_gpus")).otherwise("nodes")
    )
    # One run of a block falls due as a whole in the month it begins in; other hours fall due as they pass.
    in_month = pl.when(block).then(1.0).otherwise((HOURS_PER_MONTH / (pl.col("duration_h") * runs)).clip(0.0, 1.0))
    hired = (
        # A hired node is paid whole, so only the option that uses all of it is of interest, or a smaller job's only one.
        frame.join(
            prices.select("pool", "billing", "granularity_s", "min_hours", *RENTED_COLUMNS, hour_price=hour_price()),
            on="pool",
            how="inner",
        )
        .filter(fits)
        .with_columns(rent=pl.col("hour_price") * pl.col("x_all") * hours * paid_nodes)
        .with_columns(
            pooled=pl.lit(False),
            cash=pl.col("rent") * repeats,
            cost=pl.col("rent") * repeats * discounted,
            monthly=pl.col("rent") * runs if per_month else pl.col("rent") * runs * in_month,
            carbon=pl.col("it_w")
            * pl.col("nodes")
            * pl.col("duration_h")
            * repeats
            * pl.col("pue")
            * pl.col("carbon_g_per_kwh")
            / 1000,
        )
    )
    committed = capacity.filter(~pl.col("billing").is_in(list(HIRED)) & ~is_running())["pool"].unique()
    room = HOURS_PER_MONTH / runs if per_month else terms.horizon * HOURS_PER_MONTH / runs
    energy = extra_w * pl.col("duration_h") / HOURS_PER_MONTH * per_watt_month(terms)
    pooled = (
        frame.filter(pl.col("pool").is_in(committed.implode()) & (pl.col("duration_h") <= room * (1 + 1e-9)))
        .with_columns(
            pooled=pl.lit(True),
            billing=pl.lit("held"),
            each=pl.when(pl.col("site").is_not_null()).then(energy).otherwise(0.0),
        )
        .with_columns(
            cash=pl.col("each") * repeats,
            cost=pl.col("each") * repeats * discounted,
            monthly=pl.col("each") * runs,
            carbon=extra_w * pl.col("duration_h") / HOURS_PER_MONTH * grams_per_watt_month() * repeats,
        )
    )
    shared = [*options.columns, "pooled", "billing", "cash", "cost", "monthly", "carbon"]
    return pl.concat([hired.select(shared), pooled.select(shared)])
