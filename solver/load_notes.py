"""What a plan over time rests on: measured traffic put right, load levels, stages, terms and lead times."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from problems.schema import Problem, Serve
from problems.units import format_growth, format_months
from solver.candidates import Candidates


def load_notes(problem: Problem, found: Candidates) -> Iterator[str]:
    """Assumptions about load over time; nothing where the load is steady and nothing was measured."""
    yield from found.calendar.notes
    stages = found.terms.stages
    for w in problem.workloads:
        if isinstance(w, Serve) and w.traffic.growth and w.traffic.stages is None:
            yield f"{w.name}: load grows by {format_growth(w.traffic.growth)}, compounded from the first month on"
    for mode, months in sorted(problem.policy.lead_time.items()):
        if mode in problem.billing_modes:
            late = " (not within the horizon)" if months >= problem.horizon else ""
            yield f"{mode}: in use {format_months(months)} after the order at the earliest (policy.lead_time){late}"
    if len(stages) == 1:
        return
    yield f"{len(stages)} stages ({', '.join(s.name for s in stages)}), each planned for its highest month"
    yield (
        "commitments start with a stage; a term shorter than its stage is bought as often as the stage needs, a longer one is"
        " used in the stages that it covers whole"
    )
    if "purchase" in problem.billing_modes and problem.sites:
        yield "what is bought later costs today's price, and keeps the same share of it as residual value"
    slow = found.capacity.filter(pl.col("commit") & (pl.col("lead_time_days").fill_null(0.0) > 0))
    if slow.height:
        yield f"{slow['pool'].n_unique()} offers are held from the first stage on that begins after their lead time"
