"""Properties of deployment modes on pools: time to a running node, isolation, work for the user; limits on them.

A node of a rented offer starts after the offer's own lead time, where it states one, and its mode's usual start. A bought
server is delivered first. Machines that stand already run at once.
"""

from __future__ import annotations

import polars as pl

from catalogs.catalog import Catalog
from catalogs.schema_modes import ISOLATIONS
from problems.schema import Finetune, Fixed, Problem, Workload
from solver.candidates.terms import assumption

HOSTED = "hosted_platform"


def with_modes(frame: pl.DataFrame, catalog: Catalog, kind: str) -> pl.DataFrame:
    """Add start_h [h], isolation and operations_h [h per node and month] of the rows' deployment modes.

    Parameters
    ----------
    frame : deployment_mode; lead_time_days where `kind` is rental
    kind : rental | server | owned
    """
    modes = catalog.deployment_modes.select(
        "isolation",
        deployment_mode="mode",
        mode_h="start_h",
        operations_h="operations_h_per_node_month",
    )
    if kind == "rental":
        start = pl.col("lead_time_days").fill_null(0.0) * 24 + pl.col("mode_h")
    elif kind == "server":
        start = pl.lit(assumption(catalog, "bought_lead_time_days") * 24) + pl.col("mode_h")
    else:
        start = pl.lit(0.0)
    joined = frame.join(modes, on="deployment_mode", how="left", maintain_order="left")
    return joined.with_columns(start_h=start).drop("mode_h")


def mode_reasons(problem: Problem) -> list[tuple[pl.Expr, str]]:
    """Drop reasons of the limits on deployment; rows as `with_modes` gives them."""
    limits = problem.limits
    reasons: list[tuple[pl.Expr, str]] = []
    if limits.start_within is not None:
        late = pl.col("start_h") * 3600 > limits.start_within * (1 + 1e-9)
        reasons.append((late.fill_null(True), "takes longer to start than allowed (limits.start_within)"))
    if limits.isolation is not None:
        enough = list(ISOLATIONS[ISOLATIONS.index(limits.isolation) :])
        reasons.append(
            (~pl.col("isolation").is_in(enough).fill_null(False), "isolation weaker than asked for (limits.isolation)")
        )
    return reasons


def takes_spot(work: Workload, problem: Problem) -> bool:
    """Whether spot is asked for: by the policy for all, or by a fixed workload for itself alone."""
    return problem.policy.billing is not None or (isinstance(work, Fixed) and work.spot)


def open_to(work: Workload, pools: pl.DataFrame, problem: Problem) -> pl.DataFrame:
    """Pools that the work may run on: hosted platforms take fine-tuning only, and spot is for what asks for it."""
    shut = _shut(work, problem)
    return pools.filter(~pl.any_horizontal(rule for rule, _ in shut)) if shut else pools


def closed_to(work: Workload, pools: pl.DataFrame, problem: Problem) -> pl.DataFrame:
    """Pools that the work may not run on, as drops: item, reason."""
    drops = [
        pools.filter(rule)
        .rechunk()
        .select(item=pl.format("{} on {}", pl.lit(work.name), "pool"), reason=pl.lit(reason))
        for rule, reason in _shut(work, problem)
    ]
    return pl.concat([pl.DataFrame(schema={"item": pl.String, "reason": pl.String}), *drops])


def _shut(work: Workload, problem: Problem) -> list[tuple[pl.Expr, str]]:
    """Pools that a work may not run on, each kind with its reason."""
    out: list[tuple[pl.Expr, str]] = []
    if not isinstance(work, Finetune):
        text = "hosted platform takes fine-tuning only (deployment mode hosted_platform)"
        out.append(((pl.col("deployment_mode") == HOSTED).fill_null(False), text))
    if not takes_spot(work, problem):
        out.append((pl.col("spot").fill_null(False), "spot is not asked for (policy.billing)"))
    return out


def operations_count(problem: Problem) -> bool:
    """Whether the work that machines make counts: it has a price or a limit."""
    return problem.policy.operations_rate is not None or problem.limits.operations is not None


def with_operations(options: pl.DataFrame, pools: pl.DataFrame) -> pl.DataFrame:
    """Add `operations`: work that the nodes hired for one run of an option make [h]; 0 on nodes held anyway."""
    effort = pools.select("pool", each="operations_h")
    hours = pl.col("duration_h") * pl.col("nodes") * pl.col("each") / 730.0
    return (
        options.drop("operations", strict=False)
        .join(effort, on="pool", how="left", maintain_order="left")
        .with_columns(operations=pl.when("pooled").then(0.0).otherwise(hours))
        .drop("each")
    )
