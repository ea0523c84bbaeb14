"""Short answers about a problem or a saved result that need no page: what is asked for, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from problems import units
from problems.schema import (
    AcceleratorNeed,
    BareModel,
    Batch,
    Fixed,
    ModelRef,
    Problem,
    Serve,
    TrainingBase,
    Workload,
)

if TYPE_CHECKING:
    # A problem is told without what results are made of, which takes a while to import.
    from solver.plan import Result


def model_text(model: ModelRef) -> str:
    """A reference to a model as one may write it."""
    if isinstance(model, BareModel):
        return units.format_count(model.params)
    return model if isinstance(model, str) else model.config


def accelerator_text(workload: Fixed) -> str:
    """Which accelerators a fixed workload asks for."""
    asked = workload.accelerator
    if isinstance(asked, AcceleratorNeed):
        vendor = f" by {asked.vendor}" if asked.vendor else ""
        return f"GPU of at least {units.format_bytes(asked.memory)}{vendor}"
    return asked if isinstance(asked, str) else " or ".join(asked)


def workload_text(workload: Workload) -> str:
    """One workload in a line."""
    said: list[str] = [workload.kind]
    if isinstance(workload, Serve | Batch | TrainingBase) and workload.model is not None:
        said.append(model_text(workload.model))
    if isinstance(workload, TrainingBase):
        said.append(f"{units.format_tokens(workload.tokens)} tokens")
    if isinstance(workload, Serve):
        traffic = workload.traffic
        rate = traffic.users.rate_per_s if traffic.users else traffic.rate
        said.append(f"{traffic.concurrency:g} in flight" if rate is None else units.format_rate(rate, 3))
    if isinstance(workload, Batch):
        said.append(f"{units.format_count(workload.requests)} requests")
    if isinstance(workload, Fixed):
        said.append(f"{workload.nodes * workload.count} x {accelerator_text(workload)}")
    return " · ".join(said)


def problem_summary(problem: Problem, source: str) -> str:
    """Say of a sound problem what it asks for."""
    lines = [f"{source}: no faults."]
    lines += [f"  {workload.name}: {workload_text(workload)}" for workload in problem.workloads]
    said = [f"objective {problem.objective}", units.format_months(problem.horizon), problem.currency]
    lines.append(f"  {', '.join(said)}, gap {units.format_ratio(problem.gap)}")
    return "\n".join(lines)


def verdict(result: Result, problem_sha256: str, catalog_sha256: str, faults: Sequence[str]) -> str:
    """Say whether a saved result holds, and whether it was made from the same problem and catalogue."""
    lines = [f"refused: {fault}" for fault in faults]
    if not faults:
        lines.append(
            "no plan to check" if result.cost is None else "accepted: the plan keeps every limit, and its costs add up"
        )
    if result.inputs.problem_sha256 != problem_sha256:
        lines.append("note: the problem is not the one that the result was made from")
    if result.inputs.catalog_sha256 != catalog_sha256:
        lines.append("note: the catalogue is not the one that the result was made from")
    return "\n".join(lines)
