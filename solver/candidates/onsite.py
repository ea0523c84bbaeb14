"""Pools on own sites: servers that could be bought, machines already there, and the power states of their cards."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import resolve_accelerator
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, Serve
from solver.candidates.frames import (
    CAPACITY_COLUMNS,
    Pools,
    limit_reasons,
    nothing,
    split_by_reason,
    typed_capacity,
    typed_pools,
)
from solver.candidates.terms import allowed, effective_rules, has_tags, trusted
from solver.features.builds import LEVEL_SCHEMA, Parts, server_builds
from solver.features.power import power_states
from solver.features.speed_tables import SpeedTables


def requirement_levels(problem: Problem, catalog: Catalog) -> pl.DataFrame:
    """What one node must have for each class of work in the problem, and for all of them together.

    Columns as `solver.features.builds.LEVEL_SCHEMA`; only rules that are hard for bought machines ask for anything.
    """
    rules = effective_rules(problem, catalog)

    def hard(name: str) -> float:
        return rules[name].hard_value(bought=True)  # type: ignore[index]

    rows: list[dict[str, object]] = []

    def level(name: str, **need: object) -> None:
        empty = {"ram_ratio": 0.0, "ram_min_gib": 0.0, "cores_min": 1.0, "cores_per_gpu": 0.0, "nvme_tb": 0.0}
        rows.append(
            {
                "level": name,
                **empty,
                "nvme_gb_s": 0.0,
                "nic_gbps": 0.0,
                "nic_per_gpu": False,
                "rdma": False,
                **need,
            }
        )

    works = problem.workloads
    if any(isinstance(w, Serve | Batch) for w in works):
        serve = {
            "ram_ratio": hard("serving_ram_ratio"),
            "cores_per_gpu": hard("cores_per_gpu"),
            "nvme_tb": hard("serving_nvme_tb"),
            "nic_gbps": hard("serving_network_gbps"),
        }
        level("serving", **serve)
        level("serving-large", **serve, ram_min_gib=hard("serving_large_ram_gib"))
        level(
            "serving-multinode",
            **{**serve, "nic_gbps": hard("serving_network_gbps_multinode")},
            ram_min_gib=hard("serving_large_ram_gib"),
            rdma=True,
        )
    trains = [w for w in works if isinstance(w, Pretrain | Finetune)]
    if trains:
        cached = max((w.dataset or 0.0) / 2**30 for w in trains) if any(w.dataset_in_ram for w in trains) else 0.0
        train = {
            "ram_ratio": hard("training_ram_ratio"),
            "cores_min": max(1.0, hard("training_cores_per_node")),
            "cores_per_gpu": hard("cores_per_gpu"),
            "nvme_tb": hard("training_nvme_tb"),
            "nvme_gb_s": hard("training_nvme_gb_s"),
        }
        level("training", **train, ram_min_gib=cached)
        for name, rule in (
            ("cluster", "training_network_gbps"),
            ("cluster-large", "training_network_gbps_large"),
        ):
            level(name, **train, nic_gbps=hard(rule), rdma=True)
            level(f"{name}-rail", **train, nic_gbps=hard(rule), rdma=True, nic_per_gpu=True)
    fixed = [w for w in works if isinstance(w, Fixed)]
    if fixed:
        level(
            "fixed",
            ram_min_gib=max(((w.ram or 0.0) / 2**30 for w in fixed), default=0.0),
            cores_min=max([1.0, *((w.cpus or 0.0) / 2 for w in fixed)]),
        )
    if len(rows) > 1:
        keys = [k for k in LEVEL_SCHEMA if k not in ("level", "rdma", "nic_per_gpu", "nic_gbps")]
        together = {k: max(float(r[k]) for r in rows) for k in keys}  # type: ignore[arg-type]
        one_node = [r for r in rows if not r["rdma"]]
        level("all", **together, nic_gbps=max(float(r["nic_gbps"]) for r in one_node))  # type: ignore[arg-type]
    return pl.DataFrame(rows, schema=LEVEL_SCHEMA)


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
    return reasons


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
            gpus=pl.col("gpus").cast(pl.Int64),
            cores=pl.col("cores").cast(pl.Float64),
            nvme_tb=pl.col("nvme_have_tb").cast(pl.Float64),
            nvme_gb_s=pl.col("nvme_have_gb_s").cast(pl.Float64),
            network_gbps=pl.col("network_gbps").cast(pl.Float64),
            rdma=pl.col("has_rdma"),
            interconnect_class=pl.col("link_class"),
            spot=pl.lit(False),
            nameplate_w=pl.col("nameplate_w").cast(pl.Float64),
            host_nameplate_w=pl.col("host_nameplate_w").cast(pl.Float64),
            interruption_per_month=pl.lit(None, pl.Float64),
        )
        .with_columns(
            pool=pl.format("{}/{}/{}", "site", "offer", "level")
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


def bought_pools(problem: Problem, catalog: Catalog, rates: pl.DataFrame) -> Pools:
    if not problem.sites or "purchase" not in problem.billing_modes:
        return nothing()
    builds, refused = server_builds(catalog_parts(catalog), requirement_levels(problem, catalog))
    # Levels that led to the very same machine are one pool.
    builds = builds.unique(["server", "accelerator", "gpus", "parts"], keep="first", maintain_order=True)
    builds = builds.drop("vendor", strict=False).join(link_class(catalog.accelerators), on="accelerator", how="left")
    usd = rates.filter(pl.col("price_currency") == "USD")
    placed = _on_sites(problem, builds, "server").with_columns(node_limit=pl.lit(None, pl.Int64))
    reasons = [
        *limit_reasons(problem, catalog),
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
    gone = refused.select(item=pl.format("{} {}x {} ({})", "server", "gpus", "accelerator", "level"), reason="reason")
    return Pools(typed_pools(kept), typed_capacity(capacity), pl.concat([dropped, gone]))


def owned_pools(problem: Problem, catalog: Catalog, rates: pl.DataFrame) -> Pools:
    """Machines already there: the named build (or any that fits) as it stands, without any purchase price."""
    if not problem.owned or "owned" not in problem.billing_modes:
        return nothing()
    # RAM, CPU and drives of a machine that stands already are not known here: a level that asks for nothing gives its
    # nameplate, and the practice rules warn about it as they do about rented machines.
    bare = pl.DataFrame(
        [
            {
                "level": "owned",
                "nvme_tb": 0.0,
                "cores_min": 1.0,
                "nic_gbps": 0.0,
                "nic_per_gpu": False,
                "rdma": False,
            }
        ],
    )
    level = bare.with_columns(**{c: pl.lit(0.0) for c in LEVEL_SCHEMA if c not in bare.columns}).select(
        list(LEVEL_SCHEMA)
    )
    free = catalog.accelerators.with_columns(price_usd=pl.col("price_usd").fill_null(0.0))
    builds, _ = server_builds(replace(catalog_parts(catalog), accelerators=free), level)
    builds = builds.drop("vendor", strict=False).join(link_class(catalog.accelerators), on="accelerator", how="left")
    wanted = pl.DataFrame(
        [
            {
                "accelerator": resolve_accelerator(catalog, o.accelerator),
                "site": o.site,
                "server": o.build,
                "count": o.count,
            }
            for o in problem.owned
        ],
        schema={"accelerator": pl.String, "site": pl.String, "server": pl.String, "count": pl.Int64},
    )
    # Two entries of one kind of machine at one site are one stock.
    wanted = wanted.group_by("accelerator", "site", "server", maintain_order=True).agg(pl.col("count").sum())
    placed = (
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
        )
    )
    kept, dropped = split_by_reason(placed, [*limit_reasons(problem, catalog), *_site_reasons(problem)], "pool")
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
    curve of their class) say. Without a power limit, and unless power is the objective, running capped cannot pay;
    `every_state` adds them all the same (fronts that count watts). Under policy.gpu_power_limit only the states at or
    below that share of rated power stay.
    """
    limited = {s.name for s in problem.sites if s.power is not None or s.it_power is not None}
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
