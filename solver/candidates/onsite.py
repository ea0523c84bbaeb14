"""Pools on own sites: servers that could be bought, machines already there, and the power states of their cards."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import resolve_accelerator
from problems.schema import Problem
from solver.candidates.deploying import mode_reasons, with_modes
from solver.candidates.frames import (
    CAPACITY_COLUMNS,
    Pools,
    limit_reasons,
    nothing,
    split_by_reason,
    typed_capacity,
    typed_pools,
)
from solver.candidates.levels import NOTHING, requirement_levels
from solver.candidates.rooms import room_reasons
from solver.candidates.storage_boxes import storage_networks
from solver.candidates.storage_needs import classes_of
from solver.candidates.terms import allowed, has_tags, trusted
from solver.candidates.watts import largest_node_w, largest_site_w, most_per_watt, watts_scarce
from solver.features.builds import Unpowered, complete_systems, least_w, server_builds
from solver.features.parts import LEVEL_SCHEMA, Parts
from solver.features.power import power_states
from solver.features.speed_tables import SpeedTables
from solver.features.storage_room import INSIDE


def catalog_parts(catalog: Catalog) -> Parts:
    """Tables that builds are made from."""
    return Parts(catalog.servers, catalog.accelerators, catalog.cpus, catalog.ram, catalog.storage, catalog.network)


def _site_frame(problem: Problem) -> pl.DataFrame:
    rows = [{"site": s.name, "country": s.country, "compliance": ";".join(s.compliance)} for s in problem.sites]
    return pl.DataFrame(rows, schema={"site": pl.String, "country": pl.String, "compliance": pl.String})


def _site_reasons(problem: Problem) -> list[tuple[pl.Expr, str]]:
    limits = problem.limits
    reasons: list[tuple[pl.Expr, str]] = []
    if limits.countries is not None:
        reasons.append(
            (
                ~allowed(pl.col("country"), limits.countries, ()),
                "site's country unknown or not allowed (limits.countries)",
            )
        )
    if limits.compliance:
        reasons.append(
            (
                ~has_tags(pl.col("compliance"), limits.compliance),
                "site lacks compliance tags (limits.compliance)",
            )
        )
    return [*reasons, *room_reasons(problem)]


def _on_sites(problem: Problem, builds: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Builds x sites as pools."""
    return (
        builds.join(_site_frame(problem), how="cross")
        .rechunk()
        .with_columns(
            kind=pl.lit(kind),
            provider=pl.col("site"),
            offer=pl.format("{} {}x {}", "server", "gpus", "accelerator"),
            region=pl.col("site"),
            nvme_tb=pl.col("nvme_have_tb"),
            nvme_gb_s=pl.col("nvme_have_gb_s"),
            rdma=pl.col("has_rdma"),
            interconnect_class=pl.col("link_class"),
            spot=pl.lit(False),
            interruption_per_month=pl.lit(None, pl.Float64),
            chosen=pl.when(pl.col("variant") > 0).then(pl.format("{}~{}", "level", "variant")).otherwise("level"),
        )
        .with_columns(
            pool=pl.format("{}/{}/{}", "site", "offer", "chosen")
            if kind == "server"
            else pl.format("{}/owned/{}", "site", "offer")
        )
    )


def link_class(accelerators: pl.DataFrame) -> pl.DataFrame:
    """Link class of each accelerator inside a server on premises: nvlink (switched, 4 or more), bridge (pairs) or pcie."""
    domain = pl.col("nvlink_domain").fill_null(1)
    return accelerators.select(
        "accelerator",
        "vendor",
        link_class=pl.when(domain >= 4)
        .then(pl.lit("nvlink"))
        .when(domain >= 2)
        .then(pl.lit("bridge"))
        .otherwise(pl.lit("pcie")),
    )


def bought_pools(
    problem: Problem,
    catalog: Catalog,
    rates: pl.DataFrame,
    every_state: bool = False,
    any_watts: bool = False,
    tables: SpeedTables | None = None,
) -> Pools:
    """Servers that could be bought for own sites.

    `every_state`: watts are counted beside money (fronts). `any_watts`: also lean builds that no site could power at all,
    for questions that lift limits of watts by more than one at a time, or only in part. `tables`: power states of cards.
    """
    if not problem.sites or "purchase" not in problem.billing_modes:
        return nothing()
    scarce = every_state or watts_scarce(problem)
    worth = most_per_watt(problem, catalog)
    site_w = largest_site_w(problem)
    lowest = _lowest_states(catalog, tables or SpeedTables.of(catalog, None))
    limits = Unpowered(largest_node_w(problem, catalog), lowest, worth, site_w)
    unpowered = None if any_watts or every_state else limits
    parts, barred = _allowed_parts(problem, catalog)
    levels = requirement_levels(problem, catalog, _networks_inside(parts, unpowered), site_w)
    stored = _storage_networks(problem, catalog)
    built = server_builds(
        parts,
        levels,
        watt_usd=math.inf if scarce else worth,
        unpowered=unpowered,
        alike=_alike(problem),
        least_confidence=problem.policy.min_confidence,
        stored=stored,
    )
    builds = built.builds.join(link_class(catalog.accelerators), on="accelerator", how="left")
    usd = rates.filter(pl.col("price_currency") == "USD")
    placed = with_modes(_on_sites(problem, builds, "server"), catalog, "server").with_columns(
        node_limit=pl.lit(None, pl.Int64), storage_room=_room(stored)
    )
    reasons = [
        *mode_reasons(problem),
        *_site_reasons(problem),
        (
            ~trusted("price_confidence", problem.policy.min_confidence),
            "price below the confidence asked for (policy.min_confidence)",
        ),
    ]
    kept, dropped = split_by_reason(placed, reasons, "pool")
    capacity = (
        kept.join(usd, how="cross")
        .with_columns(
            billing=pl.lit("purchase"),
            term_months=pl.lit(0.0),
            upfront_share=pl.lit(1.0),
            price=pl.col("price_usd"),
            as_of=pl.col("price_as_of"),
            confidence=pl.col("price_confidence"),
            source=pl.lit("sum of the catalogue's part prices"),
            min_hours=pl.lit(0.0),
            granularity_s=pl.lit(0.0),
        )
        .select(CAPACITY_COLUMNS)
    )
    return Pools(
        typed_pools(kept),
        typed_capacity(capacity),
        pl.concat([barred, dropped, _beaten(built.beaten), _refused(built.refused)]),
    )


def _networks_inside(parts: Parts, unpowered: Unpowered | None) -> list[str]:
    """Networks of systems sold whole that some site could power."""
    systems, _ = complete_systems(parts)
    if unpowered is not None:
        systems = systems.filter(least_w(unpowered.cap_share) <= unpowered.watts)
    return systems["network"].drop_nulls().unique().to_list()


def _lowest_states(catalog: Catalog, tables: SpeedTables) -> dict[str, float]:
    """Share of its rated power that the lowest power state of each card has, to the whole watts that limits are set in."""
    cards = catalog.accelerators.filter(pl.col("tdp_w").is_not_null())
    states = power_states(cards, tables).join(cards.select("accelerator", "tdp_w"), on="accelerator")
    share = (pl.col("power_limit_w").fill_null(pl.col("tdp_w")) / pl.col("tdp_w")).min()
    return dict(states.group_by("accelerator").agg(share).iter_rows())


def _allowed_parts(problem: Problem, catalog: Catalog) -> tuple[Parts, pl.DataFrame]:
    """Tables without servers and cards that limits bar, so that nothing is built of them; those as drops (item, reason)."""
    parts = catalog_parts(catalog)
    pairs = (
        parts.servers.select("server", "deployment_mode", "slots", accelerator=pl.col("fits").str.split(";"))
        .explode("accelerator")
        .with_columns(pl.col("accelerator").str.strip_chars())
        .join(link_class(catalog.accelerators), on="accelerator", how="inner", maintain_order="left")
        .rechunk()
        .with_columns(item=pl.format("{} {}x {}", "server", pl.col("slots").cast(pl.Int64), "accelerator"))
    )
    kept, barred = split_by_reason(pairs, limit_reasons(problem, catalog), "item")
    fits = kept.group_by("server", maintain_order=True).agg(fits=pl.col("accelerator").str.join(";"))
    servers = parts.servers.drop("fits").join(fits, on="server", how="inner", maintain_order="left")
    least = problem.policy.min_confidence
    return (
        replace(
            parts,
            servers=servers.select(parts.servers.columns),
            cpus=_sure(parts.cpus, ["family"], least),
            ram=_sure(parts.ram, ["type"], least),
            storage=_sure(parts.storage, ["class", "location"], least, "price_usd_per_tb"),
        ),
        barred,
    )


def _sure(parts: pl.DataFrame, group: list[str], least: str, price: str = "price_usd") -> pl.DataFrame:
    """Parts without those prices that are less sure than asked for, where others of their group are as sure.

    Of parts that do the same only the cheapest are built in: one that may not be bought must not take the place of one that may.
    Where no part of a group may be bought all prices stay, so that what is built of them is dropped for what is the matter with it.
    """
    sure = trusted("confidence", least)
    return parts.with_columns(pl.when(sure | ~sure.any().over(group)).then(price).alias(price))


def _storage_networks(problem: Problem, catalog: Catalog) -> list[str]:
    """Networks that storage boxes of the sites may hang on; none where there is no data to keep."""
    return storage_networks(catalog) if _keeps_data(problem) else []


def _keeps_data(problem: Problem) -> bool:
    return bool(problem.data) or any(classes_of(w) for w in problem.workloads)


def _room(stored: list[str]) -> pl.Expr:
    """Room for storage NICs where it is of consequence."""
    return pl.col("storage_room") if stored else pl.lit(None, pl.String)


def _alike(problem: Problem) -> list[str]:
    """What a build must have in common with one that stands in for it, beside cards and NICs.

    Exact for services that must survive the loss of a node, too: the other has the same cards, and counts as one with it.
    """
    alike: list[str] = []
    if any(s.racks is not None or s.circuits for s in problem.sites):
        # Nodes of one height share racks; others, though smaller, could need one more.
        alike += ["rack_units"]
    if _keeps_data(problem):
        # Data may lie on drives that nothing else asks for.
        alike += ["storage", "drive_count"]
        # And a storage network may ask for NICs.
        alike += ["storage_room"]
    return alike


def _beaten(beaten: pl.DataFrame) -> pl.DataFrame:
    """Builds for which another stands in, as drops."""
    text = "another build with the same cards and NICs meets the same needs for no more money and watts"
    item = pl.format("{} {}x {}/{}", "server", "gpus", "accelerator", "level")
    return beaten.rechunk().select(item.alias("item"), reason=pl.lit(text))


def _refused(refused: pl.DataFrame) -> pl.DataFrame:
    """Servers that cannot be built as drops, each incompatibility of a server and card once."""
    once = refused.unique(["server", "accelerator", "gpus", "reason"], keep="first", maintain_order=True).rechunk()
    return once.select(pl.format("{} {}x {} ({})", "server", "gpus", "accelerator", "level").alias("item"), "reason")


def owned_machines(problem: Problem, catalog: Catalog) -> pl.DataFrame:
    """Machines that `problem.owned` makes: one row per kind of machine and entry, the named build or any that fits.

    Rows as pools, with entry (number in `problem.owned`, the first where several make one stock), count (accelerators of the
    stock) and node_limit (whole machines).
    """
    # RAM, CPU and drives of a machine that stands already are not known here: a level that asks for nothing gives its
    # nameplate, and the practice rules warn about it as they do about rented machines.
    level = pl.DataFrame([{"level": "owned", **NOTHING}], schema=LEVEL_SCHEMA)
    free = catalog.accelerators.with_columns(price_usd=pl.col("price_usd").fill_null(0.0))
    builds = server_builds(replace(catalog_parts(catalog), accelerators=free), level).builds
    builds = builds.join(link_class(catalog.accelerators), on="accelerator", how="left")
    wanted = pl.DataFrame(
        [
            {
                "accelerator": resolve_accelerator(catalog, o.accelerator),
                "site": o.site,
                "server": o.build,
                "count": o.count,
                "entry": n,
            }
            for n, o in enumerate(problem.owned)
        ],
        schema={
            "accelerator": pl.String,
            "site": pl.String,
            "server": pl.String,
            "count": pl.Int64,
            "entry": pl.Int64,
        },
    )
    # Two entries of one kind of machine at one site are one stock.
    wanted = wanted.group_by("accelerator", "site", "server", maintain_order=True).agg(
        pl.col("count").sum(), pl.col("entry").first()
    )
    return (
        _on_sites(problem, builds, "owned")
        .join(wanted.rename({"server": "named"}), on=["accelerator", "site"], how="inner")
        .filter((pl.col("named").is_null() | _named_server()) & (pl.col("gpus") <= pl.col("count")))
        .sort("gpus", "nameplate_w", descending=[True, False])
        .group_by("accelerator", "site", "named", maintain_order=True)
        .first()
        .with_columns(
            node_limit=pl.col("count") // pl.col("gpus"),
            complete=pl.lit(True),
            cores=pl.lit(None, pl.Float64),
            ram_gib=pl.lit(None, pl.Float64),
            nvme_tb=pl.lit(None, pl.Float64),
            nvme_gb_s=pl.lit(None, pl.Float64),
            network=pl.lit(None, pl.String),
            nic_count=pl.lit(None, pl.Int64),
            storage_room=pl.lit(INSIDE if _keeps_data(problem) else None, pl.String),
        )
    )


def owned_pools(problem: Problem, catalog: Catalog, rates: pl.DataFrame) -> Pools:
    """Machines already there as they stand, without any purchase price."""
    if not problem.owned or "owned" not in problem.billing_modes:
        return nothing()
    machines = owned_machines(problem, catalog)
    # A named build and any build may turn out to be the same machine.
    together = pl.col("node_limit").sum().over("pool")
    placed = with_modes(
        machines.with_columns(node_limit=together).unique("pool", maintain_order=True), catalog, "owned"
    )
    reasons = [*limit_reasons(problem, catalog), *mode_reasons(problem), *_site_reasons(problem)]
    kept, dropped = split_by_reason(placed, reasons, "pool")
    capacity = kept.join(rates.filter(pl.col("price_currency") == problem.currency), how="cross").with_columns(
        billing=pl.lit("owned"),
        term_months=pl.lit(0.0),
        upfront_share=pl.lit(0.0),
        price=pl.lit(0.0),
        as_of=pl.lit(None, pl.String),
        confidence=pl.lit("measured"),
        source=pl.lit("owned: sunk cost"),
        min_hours=pl.lit(0.0),
        granularity_s=pl.lit(0.0),
    )
    return Pools(typed_pools(kept), typed_capacity(capacity.select(CAPACITY_COLUMNS)), dropped)


def _named_server() -> pl.Expr:
    """True where the server is the named one: the same name, or one that starts with it (without the maker's part number)."""
    return (pl.col("server") == pl.col("named")) | pl.col("server").str.starts_with(pl.col("named"))


def with_power_states(
    found: Pools, problem: Problem, catalog: Catalog, tables: SpeedTables, every_state: bool = False
) -> Pools:
    """Add every pool once more per power limit of its cards, where watts are scarce.

    A state belongs to a pool: its nodes draw less and work slower, as the cards' measured cap curves (or a widened
    curve of their class) say. Without a limit of watts (of the site, its circuits or racks), and unless power is the
    objective, running capped cannot pay;
    `every_state` adds them all the same (fronts that count watts). Under policy.gpu_power_limit only the states at or
    below that share of rated power stay.
    """
    limited = {
        s.name
        for s in problem.sites
        if s.power is not None or s.it_power is not None or s.racks is not None or s.circuits
    }
    ceiling = problem.policy.gpu_power_limit
    if problem.limits.power is not None or problem.objective == "power" or ceiling is not None or every_state:
        limited = {s.name for s in problem.sites}
    if found.pools.is_empty() or not limited:
        return found
    cards = catalog.accelerators.filter(
        pl.col("tdp_w").is_not_null() & pl.col("accelerator").is_in(found.pools["accelerator"].implode())
    )
    states = power_states(cards, tables).filter(pl.col("power_limit_w").is_not_null())
    states = states.select(
        "accelerator",
        "power_limit_w",
        "cap_share",
        "relative_mixed",
        "relative_prefill",
        "relative_training",
        "curve_error",
    ).join(cards.select("accelerator", "tdp_w"), on="accelerator")
    plain = found.pools.filter(pl.col("site").is_in(sorted(limited)) & (pl.col("gpus") > 0))
    capped = (
        plain.drop("power_limit_w", "relative_mixed", "relative_prefill", "relative_training", "curve_error")
        .join(states, on="accelerator", how="inner")
        .with_columns(uncapped=pl.col("pool"))
        .rechunk()
        .with_columns(
            pool=pl.format("{}@{}W", "pool", pl.col("power_limit_w").cast(pl.Int64)),
            nameplate_w=pl.col("nameplate_w") - pl.col("gpus") * (pl.col("tdp_w") - pl.col("power_limit_w")),
        )
    )
    ways = capped.select("uncapped", renamed="pool").join(
        found.capacity, left_on="uncapped", right_on="pool", how="inner"
    )
    capacity = ways.with_columns(pool=pl.col("renamed")).select(CAPACITY_COLUMNS)
    both = Pools(
        pl.concat([found.pools, typed_pools(capped)]),
        pl.concat([found.capacity, typed_capacity(capacity)]),
        found.dropped,
    )
    return both if ceiling is None or ceiling >= 1 else _under_ceiling(both, cards, ceiling)


def _under_ceiling(found: Pools, cards: pl.DataFrame, ceiling: float) -> Pools:
    """Take out pools whose cards may draw more than `ceiling` of their rated power."""
    rated = cards.select("accelerator", "tdp_w")
    marked = found.pools.join(rated, on="accelerator", how="left")
    # A limit is set in whole watts; rounding it is no breach.
    within = (pl.col("power_limit_w") <= pl.col("tdp_w") * ceiling + 0.5).fill_null(False)
    over = (pl.col("gpus") > 0) & ~within
    gone = marked.filter(over)
    kept = found.pools.filter(~pl.col("pool").is_in(gone["pool"].implode()))
    dropped = gone.select(item="pool", reason=pl.lit("cards may draw more than allowed (policy.gpu_power_limit)"))
    return Pools(
        kept,
        found.capacity.filter(pl.col("pool").is_in(kept["pool"].implode())),
        pl.concat([found.dropped, dropped.cast(pl.String)]),
    )
