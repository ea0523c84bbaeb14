"""Where the work of a plan runs and how fast it trains, read from its placements."""

from __future__ import annotations

from problems.schema import Finetune, Pretrain, Workload
from solver.plan import Item, Placement, Result


def pool_place(pool: str, result: Result) -> str:
    """Own site or provider of a pool, from its line on the bill."""
    line = pool_line(pool, result)
    if line is None:
        return f"nowhere {pool}"
    return f"site {line.site}" if line.kind == "server" else f"cloud {line.provider}"


def pool_line(pool: str, result: Result) -> Item | None:
    """A line of the bill that holds or hires nodes of a pool."""
    return next((i for i in result.items if i.pool == pool and i.kind in ("server", "rental")), None)


def placements_of(work: str, result: Result) -> list[Placement]:
    """Placements that run in some period."""
    return [p for w in result.workloads if w.name == work for p in w.placements if any(p.replicas_by_period.values())]


def runs_at(work: str, result: Result) -> set[str]:
    """Every place where a workload runs."""
    return {pool_place(p.pool, result) for p in placements_of(work, result)}


def tokens_per_s(work: Workload | None, result: Result) -> float:
    """Training rate of a job; 0 for other work."""
    if not isinstance(work, Pretrain | Finetune):
        return 0.0
    return max((p.rate for p in placements_of(work.name, result)), default=0.0)
