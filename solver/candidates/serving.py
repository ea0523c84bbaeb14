"""Ways to serve: every (pool, GPUs per replica) with the best configuration that fits memory and latency limits.

One row per workload x pool x configuration, with the rate for every request-size bucket as a list, or a drop reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.models import models_frame, resolve_model
from catalogs.names import match_accelerators
from problems.schema import Batch, RuleName, Serve
from solver.candidates.profiled import profiled_candidates
from solver.candidates.rules import broken_rules, is_large
from solver.candidates.terms import Rule, accelerators_picked, allowed, compliance_key, has_tags
from solver.features.measured import with_measured_offer
from solver.features.memory import with_serving_memory
from solver.features.memory_tables import MemoryTables
from solver.features.speed_tables import SpeedTables
from solver.features.throughput import with_batch_rate, with_serving_rate
from solver.features.validity import with_validity

TENSOR = (1, 2, 4, 8, 16)
PIPELINE = (1, 2, 4, 8)
MULTI_NODE = (2, 3, 4)
CARD_KEY = ["accelerator", "interconnect_class", "power_limit_w"]
SERVE_KEY = [*CARD_KEY, "measured_offer"]
"""A card stands apart on an offer that the user measured on its own."""
STATE = ["relative_mixed", "relative_prefill", "relative_training", "curve_error"]


def serving_candidates(
    work: Serve | Batch,
    pools: pl.DataFrame,
    catalog: Catalog,
    tables: SpeedTables,
    base_dir: Path,
    rules: dict[RuleName, Rule],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Candidates of a service (or the replicas of a batch job) on the pools.

    Returns
    -------
    candidates : pl.DataFrame
        work, pool, gpus (per replica), nodes (whole nodes a replica spans, 1 inside a node), tp, pp, precision, rates (list of
        requests/s per bucket; requests in flight where the demand is a concurrency), blend, and what the report shows.
    dropped : pl.DataFrame
        item, reason.
    """
    own, gone = work_pools(work, pools, catalog)
    if isinstance(work, Serve) and work.profile is not None:
        profiled, unrated = profiled_candidates(work, own, catalog)
        named = profiled if profiled.is_empty() else profiled.with_columns(work=pl.lit(work.name))
        return named, pl.concat([gone, unrated])
    own = with_measured_offer(own, tables)
    configs = _measured(work, catalog, own) if work.measured else pl.DataFrame()
    if work.model is not None:
        modelled, refused = _modelled(work, own, catalog, tables, base_dir)
        gone = pl.concat([gone, refused])
        if configs.is_empty():
            configs = modelled
        else:
            # What the user measured stands in place of the model for that card and size.
            configs = pl.concat(
                [configs, modelled.join(configs, on=[*SERVE_KEY, "gpus"], how="anti", nulls_equal=True)], how="diagonal"
            )
    if configs.is_empty():
        return pl.DataFrame(), gone
    params_b = 0.0 if work.model is None else float(model_frame(work.model, catalog, base_dir)["params_total_b"][0])
    cards = catalog.accelerators.select("accelerator", "memory_gib")
    own = own.join(cards, on="accelerator", how="left").with_columns(large=pl.lit(is_large(params_b, rules)))
    placed, unplaced = _on_pools(configs, own, work.name, rules)
    return placed.with_columns(work=pl.lit(work.name)), pl.concat([gone, unplaced])


def work_pools(work: Any, pools: pl.DataFrame, catalog: Catalog) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Pools that a workload's own limits leave: countries, compliance, accelerators, spot."""
    reasons: list[tuple[pl.Expr, str]] = []
    if work.countries is not None:
        reasons.append((~allowed(pl.col("country"), work.countries, ()), "country not allowed or unknown (countries)"))
    if work.compliance:
        wanted = ", ".join(compliance_key(t) for t in work.compliance)
        reasons.append((~has_tags(pl.col("compliance"), work.compliance), f"compliance tags missing: {wanted}"))
    picked = accelerators_picked(catalog, work.accelerators)
    if picked is not None:
        reasons.append((~picked, "accelerator not allowed (accelerators)"))
    takes_spot = work.spot if work.kind == "fixed" else work.interruptible
    if not takes_spot:
        reasons.append((pl.col("spot"), "spot: work cannot be interrupted"))
    if not reasons:
        return pools, _no_drops()
    why = pl.coalesce([pl.when(bad).then(pl.lit(text)) for bad, text in reasons])
    marked = pools.with_columns(reason=why)
    gone = marked.filter(pl.col("reason").is_not_null()).select(
        item=pl.lit(work.name + " on ") + pl.col("pool"), reason="reason"
    )
    return marked.filter(pl.col("reason").is_null()).drop("reason"), gone


def _no_drops() -> pl.DataFrame:
    return pl.DataFrame(schema={"item": pl.String, "reason": pl.String})


def card_frame(pools: pl.DataFrame, catalog: Catalog, key: Sequence[str] = CARD_KEY) -> pl.DataFrame:
    """Distinct (accelerator, link class, power limit) of the pools with the accelerator's catalogue columns."""
    cards = pools.select(*key, *STATE).unique(key, maintain_order=True).sort(key)
    return cards.join(
        catalog.accelerators.drop("source", "as_of", "notes", "confidence", strict=False),
        on="accelerator",
        how="inner",
    )


def model_frame(ref: Any, catalog: Catalog, base_dir: Path) -> pl.DataFrame:
    """The model as a one-row frame of architecture columns."""
    frame = models_frame(catalog, [resolve_model(catalog, ref, base_dir)])
    return frame.drop("source", "as_of", "notes", "confidence", strict=False)


def _modelled(
    work: Serve | Batch, pools: pl.DataFrame, catalog: Catalog, tables: SpeedTables, base_dir: Path
) -> tuple[pl.DataFrame, pl.DataFrame]:
    buckets = work.traffic.buckets if isinstance(work, Serve) else ()
    sizes = [(b.isl, b.osl, b.share) for b in buckets] if isinstance(work, Serve) else [(work.isl, work.osl, 1.0)]
    context = max(isl + osl for isl, osl, _ in sizes)
    if isinstance(work, Serve) and work.context is not None:
        context = max(context, work.context)
    slo = work.slo if isinstance(work, Serve) else None
    grid = (
        pl.DataFrame({"tp": TENSOR}, schema={"tp": pl.Int64})
        .join(pl.DataFrame({"pp": PIPELINE}, schema={"pp": pl.Int64}), how="cross")
        .join(pl.DataFrame({"precision": list(work.precision)}), how="cross")
    )
    frame = (
        card_frame(pools, catalog, SERVE_KEY)
        .join(model_frame(work.model, catalog, base_dir), how="cross")
        .join(grid, how="cross")
        .filter((pl.col("heads") % pl.col("tp") == 0) & (pl.col("pp") <= pl.col("layers")))
        .with_columns(
            gpus=pl.col("tp") * pl.col("pp"),
            kv_precision=pl.lit(work.kv_precision),
            engine=pl.lit(work.engine),
            offer=pl.col("measured_offer"),
            context_tokens=pl.lit(float(context)),
            min_concurrency=pl.lit(1.0),
        )
    )
    frame = with_serving_memory(frame, MemoryTables.of(catalog))
    short = frame.filter(~pl.col("fits_memory"))
    frame = frame.filter(pl.col("fits_memory"))
    bucket_frame = pl.DataFrame(
        {
            "bucket": range(len(sizes)),
            "isl": [s[0] for s in sizes],
            "osl": [s[1] for s in sizes],
            "share": [s[2] for s in sizes],
        },
        schema={"bucket": pl.Int64, "isl": pl.Float64, "osl": pl.Float64, "share": pl.Float64},
    )
    frame = frame.join(bucket_frame, how="cross").with_columns(
        # A capped card is slower by what its cap curve says, so the uncapped model must be that much quicker.
        ttft_limit_s=pl.lit(slo.ttft if slo else None, pl.Float64) * pl.col("relative_prefill"),
        tpot_limit_s=pl.lit(slo.tpot if slo else None, pl.Float64) * pl.col("relative_mixed"),
        percentile=pl.lit(slo.percentile if slo else "mean"),
    )
    rated = with_serving_rate(frame, tables) if isinstance(work, Serve) else with_batch_rate(frame, tables)
    rated = with_validity(rated, tables)
    in_flight = isinstance(work, Serve) and work.traffic.concurrency is not None
    # Little's law: a demand in requests in flight is met by the mean number in flight of the replicas.
    rated = rated.with_columns(
        unit_rate=pl.col("in_flight") if in_flight else pl.col("rate_req_s") * pl.col("relative_mixed")
    )
    key = [*SERVE_KEY, "tp", "pp", "gpus", "precision"]
    grouped = rated.group_by(key, maintain_order=True).agg(
        rates=pl.col("unit_rate").fill_null(0.0),
        share=pl.col("share"),
        req_rates=(pl.col("rate_req_s") * pl.col("relative_mixed")).fill_null(0.0),
        reason=pl.col("rate_reason").drop_nulls().first(),
        batch=pl.col("batch").min().cast(pl.Float64),
        ttft_s=(pl.col("ttft_s") / pl.col("relative_prefill")).max(),
        tpot_s=(pl.col("tpot_s") / pl.col("relative_mixed")).max(),
        rate_source=_weakest_source(),
        rate_warning=pl.col("rate_warning").drop_nulls().unique(maintain_order=True).str.join("; "),
        rate_error=(pl.col("rate_error") + pl.col("curve_error")).max(),
        memory_slack_gib=pl.col("memory_slack_gib").first(),
        weights_gib_per_gpu=pl.col("weights_gib_per_gpu").first(),
        utilisation=pl.col("utilisation").mean(),
        prefill_share=_prefill_share(),
        params_total_b=pl.col("params_total_b").first(),
    )
    grouped = grouped.with_columns(blend=_blend(), rate_warning=pl.col("rate_warning").replace("", None))
    good = grouped.filter(pl.col("rates").list.max() > 0)
    bad = grouped.filter(~(pl.col("rates").list.max() > 0))
    gone = pl.concat(
        [
            _per_card(short, work.name, good, "memory", "memory_reason"),
            _per_card(bad, work.name, good, "speed", "reason"),
        ]
    )
    return _best(good), gone


def _per_card(frame: pl.DataFrame, name: str, good: pl.DataFrame, what: str, column: str) -> pl.DataFrame:
    """Cards with no configuration left at all, with the reason of their most generous one."""
    lost = frame.join(good, on="accelerator", how="anti").sort("gpus", descending=True)
    one = lost.group_by("accelerator", maintain_order=True).first()
    return one.select(
        item=pl.lit(name + " on ") + pl.col("accelerator"),
        reason=pl.lit(what + ": ") + pl.col(column).fill_null("no rate"),
    )


def _prefill_share() -> pl.Expr:
    """Share of the busy time that goes into prompts; sizes weigh by the time that their share of the requests takes.

    A power limit slows prompts more than answers.
    """
    share = (pl.col("prefill_share") * pl.col("relative_mixed") / pl.col("relative_prefill")).clip(0.0, 1.0)
    weight = pl.when(share.is_not_null()).then(pl.col("share") / pl.col("rate_req_s"))
    return pl.when(weight.sum() > 0).then((share * weight).sum() / weight.sum())


def _weakest_source() -> pl.Expr:
    """Source of a rate over several request sizes: it is no better than that of its weakest part."""
    known = pl.col("rate_source").drop_nulls()
    return (
        pl.when((known == "user").all())
        .then(pl.lit("user"))
        .when(known.is_in(["user", "published"]).all())
        .then(pl.lit("published"))
        .otherwise(pl.lit("model"))
    )


def _blend() -> pl.Expr:
    """Rate for the whole mix: 1 / sum_b (share_b / rate_b); 0 where a bucket cannot be served."""
    inverse = (pl.col("share") / pl.col("rates")).list.sum()
    return pl.when(pl.col("rates").list.min() > 0).then(1.0 / inverse).otherwise(0.0)


def _best(configs: pl.DataFrame) -> pl.DataFrame:
    """Per card and replica size, drop configurations that another beats or equals in every bucket (first one on a tie)."""
    frame = configs.sort(
        [*SERVE_KEY, "gpus", "blend", "tp"], descending=[*[False] * len(SERVE_KEY), False, True, True]
    ).with_row_index("row")
    pairs = frame.join(
        frame.select(*SERVE_KEY, "gpus", "row", "rates"), on=[*SERVE_KEY, "gpus"], suffix="_other", nulls_equal=True
    )
    worse = (pl.col("rates_other") - pl.col("rates")).list.min() >= 0
    strictly = (pl.col("rates_other") - pl.col("rates")).list.max() > 0
    beaten = pairs.filter(
        worse & (strictly | (pl.col("row_other") < pl.col("row"))) & (pl.col("row") != pl.col("row_other"))
    )
    return frame.join(beaten.select("row").unique(), on="row", how="anti").drop("row")


def _measured(work: Serve | Batch, catalog: Catalog, pools: pl.DataFrame) -> pl.DataFrame:
    """The user's own rates as configurations; the card's link class does not matter, it was measured as it stood."""
    sizes = len(work.traffic.buckets) if isinstance(work, Serve) else 1
    rows = [
        {
            "accelerator": name,
            "gpus": m.accelerators,
            "tp": m.accelerators,
            "pp": 1,
            "rates": [m.rate] * sizes,  # measured on the workload's own mix: the same for each size in it
            "blend": m.rate,
        }
        for m in work.measured
        for name in match_accelerators(catalog, m.accelerator)
    ]
    schema: dict[str, Any] = {
        "accelerator": pl.String,
        "gpus": pl.Int64,
        "tp": pl.Int64,
        "pp": pl.Int64,
        "rates": pl.List(pl.Float64),
        "blend": pl.Float64,
    }
    frame = pl.DataFrame(rows, schema=schema).join(
        pools.select(SERVE_KEY).filter(pl.col("power_limit_w").is_null()).unique(maintain_order=True),
        on="accelerator",
        how="inner",
    )
    return frame.with_columns(
        precision=pl.lit("as measured"),
        share=pl.lit([1.0]),
        rate_source=pl.lit("user"),
        rate_error=pl.lit(0.05),
        weights_gib_per_gpu=pl.lit(None, pl.Float64),
        memory_slack_gib=pl.lit(None, pl.Float64),
    )


def _on_pools(
    configs: pl.DataFrame, pools: pl.DataFrame, name: str, rules: dict[RuleName, Rule]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Configurations x pools: replicas inside a node (sizes that divide it) and, only where none fits, across whole nodes."""
    joined = configs.join(pools.rename({"gpus": "node_gpus"}), on=SERVE_KEY, how="inner", nulls_equal=True)
    inside = joined.filter(
        (pl.col("gpus") <= pl.col("node_gpus")) & (pl.col("node_gpus") % pl.col("gpus") == 0)
    ).with_columns(nodes=pl.lit(1))
    span = pl.col("gpus") / pl.col("node_gpus")
    across = joined.filter(
        span.is_in([float(n) for n in MULTI_NODE])
        & (pl.col("tp") <= pl.col("node_gpus"))
        & (pl.col("node_gpus") > 1)
        & pl.col("rdma").fill_null(False)
    ).join(inside.select("pool").unique(), on="pool", how="anti")
    placed = pl.concat([inside, across.with_columns(nodes=span.cast(pl.Int32))], how="vertical_relaxed")
    placed = placed.with_columns(broken=broken_rules(rules, placed, "serving", hard=True))
    kept = placed.filter(pl.col("broken").is_null()).drop("broken")
    lost = placed.filter(pl.col("broken").is_not_null()).select(
        item=pl.lit(name + " on ") + pl.col("pool"), reason="broken"
    )
    none = pools.join(placed, on="pool", how="anti").join(configs, on=SERVE_KEY, how="semi", nulls_equal=True)
    smallest = configs.group_by(SERVE_KEY).agg(smallest=pl.col("gpus").min())
    none = none.join(smallest, on=SERVE_KEY, how="left", nulls_equal=True)
    gone = none.select(
        item=pl.lit(name + " on ") + pl.col("pool"),
        reason=pl.when(pl.col("smallest") > pl.col("gpus"))
        .then(pl.lit("model needs more accelerators than one node has, and the network joins no nodes for it"))
        .otherwise(pl.lit("no replica size that fits divides the node's accelerators")),
    )
    return kept, pl.concat([lost.unique(maintain_order=True), gone])
