"""Problem x catalogue -> Candidates: pools, ways to hold them, replicas and job options, and why the rest was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from catalogs.labels import COUNT_TOLERANCE
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, RuleName, Serve, Workload
from solver.candidates.deploying import closed_to, open_to, operations_count, with_operations
from solver.candidates.fabric_pools import with_fabric
from solver.candidates.jobs import batch_options, fixed_options, training_options
from solver.candidates.levels import FEW_COUNTS, few_counts
from solver.candidates.likeness import kept_pools
from solver.candidates.memo import Made, Memo, technical
from solver.candidates.money import (
    Terms,
    held_capacity,
    money_terms,
    option_money,
    replica_money,
    site_frame,
    with_watts,
)
from solver.candidates.periods import LoadCalendar, Period, load_calendar, load_periods, stages_of
from solver.candidates.pools import build_pools
from solver.candidates.reduce import reduce_options, reduce_pools, reduce_replicas
from solver.candidates.serving import serving_candidates
from solver.candidates.storage_drives import local_drives
from solver.candidates.storage_needs import DataNeed, data_needs
from solver.candidates.storage_reduce import COUNTED as DATA_COUNTED
from solver.candidates.storage_reduce import with_alike, with_data_columns
from solver.candidates.storage_use import DRIVES
from solver.candidates.survival import APART
from solver.candidates.tariff import with_tariff
from solver.candidates.terms import HOURS_PER_MONTH, Rule, effective_rules
from solver.candidates.weekly import with_slots
from solver.candidates.within import counted_money, idle_rdma, outside, without_idle_nics, without_room
from solver.features.speed_tables import SpeedTables

__all__ = ["Candidates", "Memo", "build_candidates", "reduced"]

COUNTED = {"time": ["duration_h"], "power": ["draw_w"], "carbon": ["carbon"], "risk": ["risk"], "latency": ["latency"]}
"""What an option is compared by, beside money, where an axis or objective counts it."""


@dataclass(frozen=True)
class Candidates:
    """Everything that could be chosen. Frames are keyed by `pool` and `row`; money is in the problem's currency.

    `unserved` names workloads without any candidate; then no plan exists and the solver is not started.
    """

    problem: Problem
    calendar: LoadCalendar
    periods: tuple[Period, ...]
    terms: Terms
    pools: pl.DataFrame
    capacity: pl.DataFrame
    prices: pl.DataFrame
    replicas: pl.DataFrame
    options: pl.DataFrame
    dropped: pl.DataFrame
    dominated: int
    rules: dict[RuleName, Rule]
    assumed: tuple[str, ...]
    unserved: tuple[str, ...]
    data: tuple[DataNeed, ...] = ()


def build_candidates(
    problem: Problem,
    catalog: Catalog,
    base_dir: Path,
    user_measurements: pl.DataFrame | None = None,
    *,
    memo: Memo | None = None,
    every_state: bool = False,
    any_watts: bool = False,
) -> Candidates:
    """Compile a problem and a catalogue into candidates; nothing is reduced yet (see `reduced`).

    Parameters
    ----------
    memo : Memo, optional
        Features of earlier calls with the same catalogue but for its prices.
    every_state : bool
        Offer the power states of cards on own sites although nothing in the problem limits watts.
    any_watts : bool
        Offer builds that no site could power at all, too: for questions about looser limits of watts.

    Raises
    ------
    catalogs.errors.UnknownName
        For a model or accelerator that the catalogue does not know.
    """
    calendar, stages = load_calendar(problem, catalog), stages_of(problem)
    periods = load_periods(problem, calendar, stages)
    terms = money_terms(problem, periods, stages, calendar)
    rules = effective_rules(problem, catalog)
    tables = SpeedTables.of(catalog, user_measurements)
    found = build_pools(problem, catalog, tables, every_state, any_watts)
    sites, assumed = site_frame(problem, catalog)
    pools = with_watts(found.pools, with_tariff(sites, problem, catalog, calendar, periods), catalog, tables)
    pools = with_fabric(pools, problem, catalog)
    # Models are placed on whole cards that the catalogue knows, on nodes that can be had one by one.
    whole = pl.col("accelerator").is_in(catalog.accelerators["accelerator"].implode()) & (
        (pl.col("units") >= 1 - COUNT_TOLERANCE) & (pl.col("min_nodes").fill_null(1) <= 1)
    )
    bare = technical(pools)
    usable = bare.filter(whole)
    held = memo or Memo()

    def features(work: Workload, on: pl.DataFrame) -> Made:
        if isinstance(work, Serve):
            return serving_candidates(work, on, catalog, tables, base_dir, rules)
        return _job(work, problem, on, catalog, tables, base_dir, rules)

    replicas, options, dropped, unserved = [], [], [found.dropped], []
    for work in problem.workloads:
        on = open_to(work, bare if isinstance(work, Fixed) else usable, problem)
        mine, gone = held.features(work, problem, on, partial(features, work, on))
        if isinstance(work, Serve):
            if not mine.is_empty():
                replicas.append(mine)
        else:
            if not mine.is_empty():
                mine = option_money(mine, work, pools, found.capacity, problem, terms)
                mine, late = with_slots(mine, work, problem, len(calendar.levels))
                options.append(mine)
                dropped.append(late)
        if mine.is_empty():
            unserved.append(work.name)
        dropped += [gone, closed_to(work, pools, problem)]
    all_replicas = pl.concat(replicas, how="diagonal_relaxed").with_row_index("row") if replicas else pl.DataFrame()
    if not all_replicas.is_empty():
        all_replicas = replica_money(all_replicas, pools, found.capacity, problem, terms)
    all_options = pl.concat(options, how="diagonal_relaxed").with_row_index("row") if options else pl.DataFrame()
    capacity = held_capacity(found.capacity, pools, problem, catalog, terms)
    data = data_needs(problem, catalog, base_dir)
    if data:
        pools = pools.join(local_drives(pools, catalog), on="pool", how="left", maintain_order="left")
    return Candidates(
        problem=problem,
        calendar=calendar,
        periods=periods,
        terms=terms,
        pools=pools,
        capacity=capacity,
        prices=found.capacity,
        replicas=all_replicas,
        options=all_options,
        dropped=pl.concat(dropped),
        dominated=0,
        rules=rules,
        assumed=(*assumed, *([FEW_COUNTS] if few_counts(problem) and pools["spans"].any() else [])),
        unserved=tuple(unserved),
        data=data,
    )


def _job(
    work: Pretrain | Finetune | Batch | Fixed,
    problem: Problem,
    pools: pl.DataFrame,
    catalog: Catalog,
    tables: SpeedTables,
    base_dir: Path,
    rules: dict[RuleName, Rule],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    if isinstance(work, Pretrain | Finetune):
        return training_options(work, problem, pools, catalog, tables, base_dir, rules)
    if isinstance(work, Batch):
        return batch_options(work, problem, pools, catalog, tables, base_dir, rules)
    return fixed_options(work, pools, catalog)


def reduced(
    found: Candidates,
    without_accelerator: str | None = None,
    *,
    prune: bool = True,
    axes: Sequence[str] = (),
    within_watts: bool = False,
    within_accelerator: bool = False,
) -> Candidates:
    """Candidates without rows that another beats (exact), after leaving out one accelerator where asked.

    Parameters
    ----------
    without_accelerator : str, optional
        For the runner-up: pools of this accelerator are taken out first, so that what they dominated comes back.
    prune : bool
        False keeps dominated rows (for tests that compare).
    axes : sequence of str
        What is counted beside money and the problem's objective (fronts): a row only falls to one no worse in any of it.
    within_watts : bool
        Leave out what the problem's limits of watts leave no room for, too (see `solver.candidates.within`). Only for plans
        within these limits, not for questions about others.
    within_accelerator : bool
        A row only falls to one of the same accelerator, so that each accelerator keeps all that it may do best.
    """
    pools, replicas, options = found.pools, found.replicas, found.options
    if without_accelerator is not None:
        pools = pools.filter(pl.col("accelerator") != without_accelerator)
        names = pools["pool"].implode()
        replicas = replicas if replicas.is_empty() else replicas.filter(pl.col("pool").is_in(names))
        options = options if options.is_empty() else options.filter(pl.col("pool").is_in(names))
    before = replicas.height + options.height
    capacity = found.capacity
    if prune:
        money = counted_money(found.problem, axes)
        pools, replicas, options = without_idle_nics(pools, replicas, options)
        if within_watts:
            pools, replicas, options = without_room(pools, replicas, options, found.problem, axes)
        counted = dict.fromkeys((found.problem.objective, *axes))
        extra = [column for name in counted for column in COUNTED.get(name, [])]
        if operations_count(found.problem):
            extra.append("operations")
        data = [n for n in found.data if n.work is not None]
        more = DATA_COUNTED if data else []
        if not options.is_empty():
            # Whole watts, as the model counts them.
            draw = pools.select("pool", node_w=pl.col("facility_w").round(6).ceil())
            options = (
                options.join(draw, on="pool", how="left")
                .with_columns(draw_w=pl.col("node_w") * pl.col("nodes"))
                .drop("node_w")
            )
            if "risk" in extra:
                options = with_risk(options, pools)
            if "operations" in extra:
                options = with_operations(options, pools)
            apart = ["provider"] * charged_by_provider(found.problem) + ["accelerator"] * within_accelerator
            if apart:
                together = pl.concat_str(*(pl.col(c).fill_null("") for c in apart), separator="\n")
                options = options.drop("apart", strict=False).join(
                    pools.select("pool", apart=together), on="pool", how="left"
                )
            if data:
                options = with_data_columns(options, pools, data)
            free = pools.filter(pl.col("node_limit").is_null())["pool"]
            options = reduce_options(options, free, [c for c in [*extra, *more] if c != "latency"], money)
        if not replicas.is_empty():
            if "latency" in extra:
                replicas = with_latency(replicas, found.problem)
            if data:
                replicas = with_alike(replicas, data)
            replicas = reduce_replicas(replicas, extra)
        pooled = options if options.is_empty() else options.filter("pooled")
        in_use = _names(replicas, pooled)
        services = [w for w in found.problem.workloads if isinstance(w, Serve)]
        by_place = data or charged_by_provider(found.problem)
        places = pools.with_columns(apart="provider") if by_place else pools
        if not any(n.local for n in data):
            places = places.drop(DRIVES, strict=False)  # no data asks for the nodes' drives
        places = places.filter(pl.col("pool").is_in(in_use.implode()))
        redundant = [w.name for w in services if w.nodes_to_lose or w.availability is not None]
        calm = any(w.availability is not None for w in services)
        if within_watts:
            kept = kept_pools(places, capacity, replicas, pooled, redundant, calm)
            idle = idle_rdma(
                places, capacity, replicas, pooled, [*extra, *more], kept, calm, money, found.problem, axes
            )
            useless = pl.concat([outside(places, found.problem, axes), idle]).implode()
            places = places.with_columns(outside=pl.col("pool").is_in(useless))
            gone = places.filter(pl.col("outside") & pl.col("power_limit_w").is_not_null())["pool"].implode()
            places, replicas, options, pooled = (
                frame if frame.is_empty() else frame.filter(~pl.col("pool").is_in(gone))
                for frame in (places, replicas, options, pooled)
            )
        lost = reduce_pools(
            places,
            capacity,
            replicas,
            pooled,
            [*extra, *more],
            redundant,
            list(
                dict.fromkeys(
                    [
                        *(column for w in services for apart in w.spread for column in APART[apart]),
                        *["accelerator"] * within_accelerator,
                    ]
                )
            ),
            calm,
            money,
        ).implode()
        replicas = replicas if replicas.is_empty() else replicas.filter(~pl.col("pool").is_in(lost))
        options = options if options.is_empty() else options.filter(~(pl.col("pooled") & pl.col("pool").is_in(lost)))
    held = _names(replicas, options if options.is_empty() else options.filter("pooled"))
    every = _names(replicas, options)
    return Candidates(
        problem=found.problem,
        calendar=found.calendar,
        periods=found.periods,
        terms=found.terms,
        pools=pools.filter(pl.col("pool").is_in(every.implode())),
        capacity=capacity.filter(pl.col("pool").is_in(held.implode())),
        prices=found.prices,
        replicas=replicas,
        options=options,
        dropped=found.dropped,
        dominated=before - replicas.height - options.height,
        rules=found.rules,
        assumed=found.assumed,
        unserved=tuple(w.name for w in found.problem.workloads if w.name not in _works(replicas, options)),
        data=found.data,
    )


def charged_by_provider(problem: Problem) -> bool:
    """Whether something is charged once per provider: then rented machines of another provider are no stand-in."""
    terms = problem.tco.providers.values()
    return problem.tco.setup.provider is not None or any(t.fee is not None or t.setup is not None for t in terms)


def with_latency(replicas: pl.DataFrame, problem: Problem) -> pl.DataFrame:
    """Add latency: what a request of the workload's mean output takes on a replica, TTFT + tokens x TPOT [s].

    Null where the replica's rate was measured without latencies.
    """
    works = [w for w in problem.workloads if isinstance(w, Serve)]
    tokens = {w.name: sum(b.osl * b.share for b in w.traffic.buckets) for w in works}
    osl = pl.col("work").replace_strict(tokens, return_dtype=pl.Float64)
    missing = [pl.lit(None, pl.Float64).alias(c) for c in ("ttft_s", "tpot_s") if c not in replicas.columns]
    return replicas.with_columns(missing).with_columns(latency=pl.col("ttft_s") + pl.col("tpot_s") * osl)


def with_risk(options: pl.DataFrame, pools: pl.DataFrame) -> pl.DataFrame:
    """Add risk: interruptions to expect in one run of a hired option; 0 where it is not spot."""
    rate = pools.select("pool", each="interruption_per_month")
    hours = pl.col("duration_h") / HOURS_PER_MONTH
    return (
        options.drop("risk", strict=False)
        .join(rate, on="pool", how="left")
        .with_columns(
            risk=pl.when("pooled").then(0.0).otherwise(pl.col("each").fill_null(0.0) * pl.col("nodes") * hours)
        )
        .drop("each")
    )


def _names(*frames: pl.DataFrame) -> pl.Series:
    parts = [f["pool"] for f in frames if not f.is_empty()]
    return pl.concat(parts).unique().sort() if parts else pl.Series("pool", [], pl.String)


def _works(*frames: pl.DataFrame) -> set[str]:
    return {name for f in frames if not f.is_empty() for name in f["work"].unique()}
