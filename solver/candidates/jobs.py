"""Ways to run a job: training, batch inference and fixed reservations, as (pool, nodes, hours) options.

`hired` options rent whole nodes for just the hours of the job; `pooled` ones take GPUs of nodes that the plan holds all
month (reserved, bought, owned).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from catalogs.labels import has_accelerator, read_asked
from problems.schema import AcceleratorNeed, Batch, Finetune, Fixed, Pretrain, Problem, RuleName
from problems.windows import WEEK_H
from solver.candidates.fabric_pools import narrowed
from solver.candidates.rules import broken_rules
from solver.candidates.serving import STATE, card_frame, model_frame, serving_candidates, work_pools
from solver.candidates.terms import HOURS_PER_MONTH, Rule, assumption, fixed_accelerators
from solver.features.cost import rework_share
from solver.features.memory_tables import MemoryTables
from solver.features.memory_training import with_training_memory
from solver.features.speed_tables import SpeedTables
from solver.features.throughput import with_training_rate

NODES_COARSE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
NODES_MORE = (1.0, 1.25, 1.5, 2.0, 4.0)
"""Beside the fewest nodes that meet the deadline, multiples of them are offered (they finish sooner)."""
REFINE = 24
CLUSTER_KEY = [
    "accelerator",
    "interconnect_class",
    "node_gpus",
    "network_gbps",
    "rdma",
    "oversubscription",
    "leaf_nodes",
]
SIZE_KEY = ["accelerator", "interconnect_class", "node_gpus", "nodes", "gpus"]
RATED = [
    *CLUSTER_KEY,
    "nodes",
    "gpus",
    "tp",
    "pp",
    "precision",
    "tokens_per_s",
    "goodput",
    "mfu",
    "rate_source",
    "rate_error",
    "training_gib_per_gpu",
    "memory_slack_gib",
]
COMMON = [
    "work",
    "pool",
    "gpus",
    "nodes",
    "duration_h",
    "spot",
    "tp",
    "pp",
    "precision",
    "rate",
    "rate_unit",
    "rate_source",
    "rate_error",
    "memory_slack_gib",
    "memory_gib_per_gpu",
]


def deadline_h(work: Pretrain | Finetune | Batch, horizon_months: float) -> float:
    """Hours that one run may take: its deadline, else until the next run is due, else the horizon; and no more than its window [h]."""
    if work.deadline is not None:
        limit = work.deadline / 3600.0
    elif work.runs.per_month:
        limit = HOURS_PER_MONTH / work.runs.value
    else:
        limit = horizon_months * HOURS_PER_MONTH / work.runs.value
    spans = [] if work.window is None else [b - a for a, b in work.window.spans]
    return min(limit, max(spans)) if spans and max(spans) < WEEK_H else limit


def training_options(
    work: Pretrain | Finetune,
    problem: Problem,
    pools: pl.DataFrame,
    catalog: Catalog,
    tables: SpeedTables,
    base_dir: Path,
    rules: dict[RuleName, Rule],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Options of a training job: the fewest nodes that meet the deadline on each pool, and some more of them.

    Returns
    -------
    options, dropped : pl.DataFrame
        Columns `COMMON`; dropped has item and reason.
    """
    own, gone = work_pools(work, pools, catalog)
    own = own.rename({"gpus": "node_gpus"}).join(
        catalog.accelerators.select("accelerator", "memory_gib"), on="accelerator", how="left"
    )
    own = own.with_columns(rdma=pl.col("rdma").fill_null(False))
    limit = deadline_h(work, problem.horizon)
    search = _Search(work, catalog, tables, base_dir, rules, _cards(own, catalog))
    clusters = own.select(CLUSTER_KEY).unique(maintain_order=True).sort(CLUSTER_KEY)
    coarse = search.rates(clusters, [(1, n) for n in NODES_COARSE])
    if coarse.is_empty():
        return pl.DataFrame(), pl.concat([gone, search.dropped])
    hours = _hours(work, coarse)
    fine = search.rates_at(_between(hours, limit))
    hours = _hours(
        work,
        pl.concat([coarse, fine]).unique([*CLUSTER_KEY, "gpus", "nodes"], keep="first", maintain_order=True),
    )
    joined = own.join(hours, on=CLUSTER_KEY, how="inner", nulls_equal=True)
    joined = joined.with_columns(
        run_h=pl.col("run_h") / pl.col("relative_training"),
        tokens_per_s=pl.col("tokens_per_s") * pl.col("relative_training"),
        rate_error=pl.col("rate_error") + pl.col("curve_error"),
        rework=pl.when(pl.col("spot"))
        .then(
            rework_share(
                pl.col("interruption_per_month"),
                pl.col("nodes"),
                work.checkpoint_interval,
                3600.0 * assumption(catalog, "spot_restart_h"),
            )
        )
        .otherwise(0.0),
    ).with_columns(duration_h=pl.when(pl.col("rework") < 1).then(pl.col("run_h") / (1 - pl.col("rework"))))
    met = joined.filter(pl.col("duration_h") <= limit)
    late = joined.join(met, on="pool", how="anti").sort("duration_h").group_by("pool", maintain_order=True).first()
    slow = late.select(
        item=pl.lit(work.name + " on ") + pl.col("pool"),
        reason=pl.when(pl.col("nodes") == max(NODES_COARSE))
        .then(pl.lit("deadline: too slow at any number of nodes"))
        .otherwise(pl.lit("deadline: too slow, and its network joins no more nodes")),
    )
    met = met.with_columns(broken=_training_broken(work, narrowed(met), rules))
    ruled = met.filter(pl.col("broken").is_not_null()).select(
        item=pl.lit(work.name + " on ") + pl.col("pool"), reason="broken"
    )
    kept = _few(met.filter(pl.col("broken").is_null()))
    options = kept.with_columns(
        work=pl.lit(work.name),
        rate=pl.col("tokens_per_s"),
        rate_unit=pl.lit("tokens/s"),
        memory_gib_per_gpu=pl.col("training_gib_per_gpu"),
    ).select(COMMON)
    return options, pl.concat([gone, search.dropped, slow, ruled.unique(maintain_order=True)])


def _training_broken(work: Pretrain | Finetune, frame: pl.DataFrame, rules: dict[RuleName, Rule]) -> pl.Series:
    """First hard rule broken: practice rules, and a dataset cached in RAM that the nodes' RAM cannot hold."""
    broken = broken_rules(rules, frame, "training", hard=True)
    if not work.dataset_in_ram or work.dataset is None:
        return broken
    need_gib = work.dataset / 2**30
    # The cache is sharded over the nodes; half of each node's RAM stays for the job itself.
    short = pl.col("ram_gib").is_not_null() & (pl.col("ram_gib") * 0.5 * pl.col("nodes") < need_gib)
    text = pl.when(short).then(pl.lit("dataset does not fit in half of the nodes' RAM (dataset_in_ram)"))
    cache = frame.select(text.alias("broken")).to_series()
    return broken.zip_with(broken.is_not_null(), cache)


def _cards(pools: pl.DataFrame, catalog: Catalog) -> pl.DataFrame:
    """Cards of the pools, uncapped: a power state scales the rate of a whole job afterwards."""
    keys = ["accelerator", "interconnect_class"]
    return card_frame(pools, catalog).unique(keys, keep="first", maintain_order=True).drop("power_limit_w", *STATE)


class _Search:
    """Best parallel layout of a job for numbers of nodes; keeps why clusters were dropped."""

    def __init__(
        self,
        work: Pretrain | Finetune,
        catalog: Catalog,
        tables: SpeedTables,
        base_dir: Path,
        rules: dict[RuleName, Rule],
        cards: pl.DataFrame,
    ) -> None:
        self.work, self.catalog, self.tables = work, catalog, tables
        self.memory = MemoryTables.of(catalog)
        self.model = model_frame(work.model, catalog, base_dir)
        self.pcie_tp = rules["pcie_tensor_parallel_max"]
        self.cards = cards
        self.dropped = pl.DataFrame(schema={"item": pl.String, "reason": pl.String})

    def rates(self, clusters: pl.DataFrame, counts: list[tuple[int, int]]) -> pl.DataFrame:
        """Rates of every cluster at whole-node counts, and at parts of a node (1, 2, 4 ... GPUs)."""
        whole = clusters.join(pl.DataFrame({"nodes": [n for _, n in counts]}), how="cross").with_columns(
            gpus=pl.col("nodes") * pl.col("node_gpus")
        )
        parts = clusters.join(pl.DataFrame({"gpus": [1, 2, 4, 8]}), how="cross").filter(
            (pl.col("gpus") < pl.col("node_gpus")) & (pl.col("node_gpus") % pl.col("gpus") == 0)
        )
        grid = pl.concat([whole, parts.with_columns(nodes=pl.lit(1, pl.Int64)).select(whole.columns)])
        return self.rates_at(grid)

    def rates_at(self, grid: pl.DataFrame) -> pl.DataFrame:
        """Best layout for each row of (cluster key, nodes, gpus): tokens_per_s, goodput and what the report shows."""
        grid = grid.filter((pl.col("nodes") == 1) | (pl.col("rdma") & (pl.col("node_gpus") > 1)))
        frame = self._laid_out(grid.select(SIZE_KEY).unique(maintain_order=True))
        best_short = frame.filter(~pl.col("fits_memory"))
        fits = frame.filter(pl.col("fits_memory"))
        # Inside a node no network matters, and memory does not depend on it anywhere.
        inside = grid.filter(pl.col("nodes") == 1).unique(SIZE_KEY, maintain_order=True)
        joined = pl.concat([inside, grid.filter(pl.col("nodes") > 1)]).with_row_index("at")
        placed = joined.join(fits, on=SIZE_KEY, how="inner", nulls_equal=True, maintain_order="left_right")
        rated = with_training_rate(narrowed(placed), self.tables)
        rated = rated.with_columns(network_gbps="port_gbps")
        bad = rated.filter(pl.col("rate_reason").is_not_null())
        good = rated.filter(pl.col("rate_reason").is_null() & (pl.col("tokens_per_s") > 0))
        # Of equally fast layouts the one with the least tensor and pipeline parallelism, and with the most memory to spare.
        fastest = good.filter(pl.col("tokens_per_s") == pl.col("tokens_per_s").max().over("at"))
        best = fastest.sort("at", "tp", "pp", "training_gib_per_gpu", maintain_order=True).unique(
            "at", keep="first", maintain_order=True
        )
        self._note(best_short, good, "memory", "memory_reason")
        self._note(bad, good, "speed", "rate_reason")
        alike = best.filter(pl.col("nodes") == 1).drop([c for c in CLUSTER_KEY if c not in SIZE_KEY])
        alone = grid.filter(pl.col("nodes") == 1).join(alike, on=SIZE_KEY, how="inner", nulls_equal=True)
        return pl.concat([f.select(RATED) for f in (alone, best.filter(pl.col("nodes") > 1))]).sort(
            *CLUSTER_KEY, "nodes", "gpus"
        )

    def _laid_out(self, sizes: pl.DataFrame) -> pl.DataFrame:
        """Every parallel layout of every size of cluster, with the memory it takes."""
        work = self.work
        layouts = (
            pl.DataFrame({"tp": [1, 2, 4, 8]})
            .join(pl.DataFrame({"pp": [1, 2, 4, 8, 16]}), how="cross")
            .join(pl.DataFrame({"micro_batch": [1, 2, 4]}), how="cross")
            .join(pl.DataFrame({"checkpointing": ["none", "selective", "full"]}), how="cross")
            .join(pl.DataFrame({"zero_stage": [1, 3]}), how="cross")
            .join(pl.DataFrame({"precision": list(work.precision)}), how="cross")
            # ZeRO-3 gathers weights for every micro-batch of every stage: nobody runs it inside a pipeline.
            .filter((pl.col("pp") == 1) | (pl.col("zero_stage") == 1))
        )
        slow_link = ~pl.col("interconnect_class").is_in(["nvlink"]).fill_null(False)
        limit = self.pcie_tp.value if self.pcie_tp.bought == "hard" else 64.0
        frame = (
            sizes.join(layouts, how="cross")
            .filter(
                (pl.col("tp") <= pl.col("node_gpus"))
                & (pl.col("gpus") % (pl.col("tp") * pl.col("pp")) == 0)
                & ~(slow_link & (pl.col("tp") > limit))
            )
            .join(
                self.model.with_columns(method=pl.lit("pretrain" if isinstance(work, Pretrain) else work.method)),
                how="cross",
            )
            .filter((pl.col("heads") % pl.col("tp") == 0) & (pl.col("layers") >= pl.col("pp")))
            .join(
                self.cards,
                on=["accelerator", "interconnect_class"],
                how="inner",
                nulls_equal=True,
            )
            .with_columns(
                dp=pl.col("gpus") // (pl.col("tp") * pl.col("pp")),
                accelerators_per_node=pl.min_horizontal("gpus", "node_gpus"),
                sequence=pl.lit(float(work.sequence)),
                optimizer=pl.lit(work.optimizer),
                lora_rank=pl.lit(work.lora_rank if isinstance(work, Finetune) else 0, pl.Int64),
                checkpoint_interval_s=pl.lit(work.checkpoint_interval),
            )
        )
        return with_training_memory(frame, self.memory)

    def _note(self, frame: pl.DataFrame, good: pl.DataFrame, what: str, column: str) -> None:
        lost = (
            frame.join(good, on="accelerator", how="anti")
            .sort("gpus", descending=True)
            .group_by("accelerator", maintain_order=True)
            .first()
        )
        rows = lost.select(
            item=pl.lit(self.work.name + " on ") + pl.col("accelerator"),
            reason=pl.lit(what + ": ") + pl.col(column).fill_null("no rate"),
        )
        self.dropped = pl.concat([self.dropped, rows]).unique("item", keep="first", maintain_order=True)


def _hours(work: Pretrain | Finetune, rated: pl.DataFrame) -> pl.DataFrame:
    """Wall hours of one run: tokens over the rate, less the share of time lost to failures and checkpoints."""
    return rated.with_columns(run_h=work.tokens / (pl.col("tokens_per_s") * pl.col("goodput")) / 3600.0)


def _between(hours: pl.DataFrame, limit_h: float) -> pl.DataFrame:
    """Node counts between the most that are too slow and the fewest that meet the limit, at most REFINE of them."""
    whole = hours.filter(pl.col("gpus") == pl.col("nodes") * pl.col("node_gpus"))
    slow = (
        whole.filter(pl.col("run_h") > limit_h)
        .group_by(CLUSTER_KEY, maintain_order=True)
        .agg(low=pl.col("nodes").max())
    )
    fast = (
        whole.filter(pl.col("run_h") <= limit_h)
        .group_by(CLUSTER_KEY, maintain_order=True)
        .agg(high=pl.col("nodes").min())
    )
    gap = fast.join(slow, on=CLUSTER_KEY, how="inner", nulls_equal=True).filter(pl.col("high") - pl.col("low") > 1)
    step = ((pl.col("high") - pl.col("low")) / REFINE).ceil().cast(pl.Int64)
    return (
        gap.with_columns(nodes=pl.int_ranges(pl.col("low") + 1, pl.col("high"), step))
        .explode("nodes")
        .filter(pl.col("nodes").is_not_null())
        .with_columns(gpus=pl.col("nodes") * pl.col("node_gpus"))
        .select(*CLUSTER_KEY, "nodes", "gpus")
    )


def _few(met: pl.DataFrame) -> pl.DataFrame:
    """Per pool, the fewest nodes that meet the deadline and the given multiples of them; parts of a node all stay."""
    if met.is_empty():
        return met
    whole = met.filter(pl.col("gpus") == pl.col("nodes") * pl.col("node_gpus"))
    least = pl.col("nodes").min().over("pool")
    wanted = pl.any_horizontal(pl.col("nodes") == (least * m).ceil() for m in NODES_MORE)
    # Capacity blocks come in powers of two.
    wanted |= pl.col("nodes") == 2 ** (least.log(2.0) - 1e-9).ceil().cast(pl.Int64)
    return pl.concat(
        [
            whole.filter(wanted | (pl.col("nodes") <= least + 2)),
            met.filter(pl.col("gpus") < pl.col("nodes") * pl.col("node_gpus")),
        ]
    )


def batch_options(
    work: Batch,
    problem: Problem,
    pools: pl.DataFrame,
    catalog: Catalog,
    tables: SpeedTables,
    base_dir: Path,
    rules: dict[RuleName, Rule],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Options of an offline inference job: as many full nodes (or parts of one) of replicas as the deadline needs."""
    replicas, gone = serving_candidates(work, pools, catalog, tables, base_dir, rules)
    if replicas.is_empty():
        return pl.DataFrame(), gone
    limit = deadline_h(work, problem.horizon)
    frame = replicas.with_columns(rate_one=pl.col("rates").list.first()).with_columns(
        per_node=pl.when(pl.col("nodes") == 1).then(pl.col("node_gpus") // pl.col("gpus")).otherwise(1),
        rework=pl.when(pl.col("spot"))
        .then(
            rework_share(
                pl.col("interruption_per_month"),
                pl.lit(1.0),
                work.checkpoint_interval,
                3600.0 * assumption(catalog, "spot_restart_h"),
            )
        )
        .otherwise(0.0),
    )
    work_h = work.requests / pl.col("rate_one") / 3600.0 / (1 - pl.col("rework"))
    frame = frame.filter(pl.col("rework") < 1).with_columns(work_h=work_h, least=(work_h / limit - 1e-9).ceil().clip(1))
    counts = (
        frame.with_columns(full=(pl.col("least") / pl.col("per_node")).ceil())
        .with_columns(
            # Of whole nodes also a power of two, which capacity blocks come in.
            count=pl.concat_list(
                pl.col("least"),
                pl.col("full") * pl.col("per_node"),
                2.0 ** (pl.col("full") * pl.col("nodes")).log(2.0).sub(1e-9).ceil()
                / pl.col("nodes")
                * pl.col("per_node"),
            )
        )
        .explode("count")
        .filter(pl.col("count") == pl.col("count").round())
        .unique(["pool", "gpus", "tp", "pp", "precision", "count"], maintain_order=True)
    )
    options = counts.with_columns(
        nodes=((pl.col("count") / pl.col("per_node")).ceil() * pl.col("nodes")).cast(pl.Int64),
        gpus_one=pl.col("gpus"),
        duration_h=pl.col("work_h") / pl.col("count"),
    ).with_columns(gpus=(pl.col("count") * pl.col("gpus_one")).cast(pl.Int64))
    options = options.filter(pl.col("duration_h") <= limit * (1 + 1e-9)).with_columns(
        rate=pl.col("rate_one") * pl.col("count"),
        rate_unit=pl.lit("requests/s"),
        memory_gib_per_gpu=pl.col("weights_gib_per_gpu"),
    )
    more = {"prefill_share": pl.Float64, "rate_warning": pl.String}  # not known of rates that the user states
    missing = [pl.lit(None, t).alias(c) for c, t in more.items() if c not in options.columns]
    return options.with_columns(missing).select(*COMMON, *more), gone


def fixed_options(work: Fixed, pools: pl.DataFrame, catalog: Catalog) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Options of a fixed reservation: pools whose node has the cards, CPUs and RAM asked for."""
    own, gone = work_pools(work, pools, catalog)
    need = work.accelerator
    if isinstance(need, AcceleratorNeed):
        asked = pl.col("accelerator").is_in(fixed_accelerators(catalog, work))
        counted = True
    else:
        labels = [need] if isinstance(need, str) else list(need)
        asked = pl.any_horizontal(has_accelerator(catalog, label, work.count) for label in labels)
        # A name with its count, and no accelerator at all, leave `count` nothing to say.
        counted = all(read_asked(label).count is None and not read_asked(label).nothing for label in labels)
    reasons: list[tuple[pl.Expr, str]] = [(~asked, "not the accelerator asked for")]
    if work.providers is not None:
        reasons.append(
            (
                ~pl.col("provider").str.to_lowercase().is_in([p.lower() for p in work.providers]),
                "provider not asked for (providers)",
            )
        )
    if work.regions is not None:
        reasons.append((~pl.col("region").is_in(list(work.regions)).fill_null(False), "region not asked for (regions)"))
    if counted:
        reasons.append((pl.col("gpus") < work.count, "fewer accelerators per node than asked for"))
    reasons.append(((pl.col("min_nodes") > work.nodes).fill_null(False), "sold from more nodes on than asked for"))
    if work.nodes > 1:
        slow = (pl.col("kind") == "server") & pl.col("network").is_not_null() & ~pl.col("rdma").fill_null(False)
        reasons.append((slow, "no RDMA network for work on several nodes"))
    if work.cpus is not None:
        reasons.append((~(pl.col("cores") * 2 >= work.cpus).fill_null(False), "CPUs too few or unknown (cpus)"))
    if work.ram is not None:
        reasons.append(
            (
                ~(pl.col("ram_gib") * 2**30 >= work.ram * (1 - 1e-9)).fill_null(False),
                "RAM too little or unknown (ram)",
            )
        )
    why = pl.coalesce([pl.when(bad).then(pl.lit(text)) for bad, text in reasons])
    marked = own.with_columns(reason=why)
    lost = marked.filter(pl.col("reason").is_not_null()).select(
        item=pl.lit(work.name + " on ") + pl.col("pool"), reason="reason"
    )
    kept = marked.filter(pl.col("reason").is_null())
    # A part of a held node can be given away only if the rest stays usable for sizes that divide the node.
    # Several nodes are taken whole: parts of them could be packed onto fewer.
    part = counted and work.nodes == 1 and work.count & (work.count - 1) == 0
    divides = (pl.col("gpus") % work.count == 0) if part else pl.lit(False)
    options = kept.with_columns(
        work=pl.lit(work.name),
        gpus=pl.when(divides).then(pl.lit(work.count)).otherwise(pl.col("gpus")) * work.nodes,
        nodes=pl.lit(work.nodes, pl.Int64),
        duration_h=pl.lit(HOURS_PER_MONTH if work.hours is None else work.hours),
        tp=pl.lit(1, pl.Int64),
        pp=pl.lit(1, pl.Int64),
        precision=pl.lit("any"),
        rate=pl.lit(float(work.count * work.nodes)) if counted else pl.col("units") * work.nodes,
        rate_unit=pl.lit("accelerators"),
        rate_source=pl.lit("asked for"),
        rate_error=pl.lit(0.0),
        memory_slack_gib=pl.lit(None, pl.Float64),
        memory_gib_per_gpu=pl.lit(None, pl.Float64),
    ).select(COMMON)
    return options, pl.concat([gone, lost])
