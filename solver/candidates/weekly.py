"""Jobs in the representative week: how many runs it holds, how many of its hours each takes, and when they may start.

The week's 168 hours stand for the month in proportion, as the load periods do; a run takes whole hours. Runs that come less
often than weekly have their hours kept free in every week. A run longer than a week takes its machines all month, as do
`fixed` workloads, whose users come when they like.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from problems.schema import Batch, Finetune, Pretrain, Problem, Workload
from problems.windows import WEEK_H
from solver.candidates.terms import HOURS_PER_MONTH

Job = Pretrain | Finetune | Batch
Span = tuple[int, int]


@dataclass(frozen=True)
class Repeat:
    """Runs of a job in the week.

    `spans` : per run, the spans of hours that it must lie in, from its first to its last; empty: anywhere.
    `starts` : per run, the first and the last hour that it may start in.
    `after` : names of jobs whose run of the week must have ended.
    """

    spans: tuple[Span, ...]
    starts: tuple[Span, ...]
    after: tuple[str, ...]

    @property
    def count(self) -> int:
        """Runs in the week."""
        return len(self.starts)


def runs_per_week(work: Job, horizon_months: float) -> int:
    """Runs that the week must have room for: the mean number, rounded up."""
    weeks = HOURS_PER_MONTH / WEEK_H
    mean = work.runs.value / weeks if work.runs.per_month else work.runs.value / (weeks * horizon_months)
    return max(1, math.ceil(mean - 1e-9))


def repeat_of(work: Job, horizon_months: float) -> Repeat:
    """When the runs of a job may start.

    Without a window they are spread evenly, each in its own part of the week; with one they may share a night.
    """
    n = runs_per_week(work, horizon_months)
    if work.window is not None:
        return Repeat(work.window.spans, ((0, WEEK_H - 1),) * n, work.after)
    cuts = [math.ceil(j * WEEK_H / n) for j in range(n + 1)]
    return Repeat((), tuple((cuts[j], max(cuts[j], cuts[j + 1] - 1)) for j in range(n)), work.after)


def ordered(problem: Problem) -> set[str]:
    """Jobs whose place in the week matters although they hire their machines: they wait, are waited for, or have a window."""
    jobs = [w for w in problem.workloads if isinstance(w, Job)]
    waited = {name for w in jobs for name in w.after}
    return {w.name for w in jobs if w.after or w.window is not None or w.name in waited}


def hours_matter(problem: Problem, levels: int) -> bool:
    """Whether it can be of consequence in which hours jobs run: the load changes, or two jobs could take turns."""
    return levels > 1 or sum(isinstance(w, Job) for w in problem.workloads) > 1


def with_slots(
    options: pl.DataFrame, work: Workload, problem: Problem, levels: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Add `slots`: hours of the week that one run takes [h]; 0 where a job takes its machines all month or hires them freely.

    Parameters
    ----------
    levels : int
        Load levels of the week.

    Returns
    -------
    options, dropped : pl.DataFrame
        Options that cannot have a place in the week although the problem asks for one are dropped with a reason.
    """
    none = pl.DataFrame(schema={"item": pl.String, "reason": pl.String})
    if options.is_empty() or not isinstance(work, Job):
        return options.with_columns(slots=pl.lit(0, pl.Int64)), none
    repeat = repeat_of(work, problem.horizon)
    hours = (pl.col("duration_h") - 1e-9).ceil().cast(pl.Int64).clip(1)
    placed = pl.lit(work.name in ordered(problem)) | (pl.col("pooled") & hours_matter(problem, levels))
    longest = max((b - a for a, b in repeat.spans), default=WEEK_H)
    # Two runs at a time would ask for twice the machines at once: then the whole month is simpler, and no dearer.
    fits = (hours <= longest) & (hours * repeat.count <= WEEK_H)
    must = work.name in ordered(problem)
    reason = (
        pl.when(hours > longest)
        .then(pl.format("takes {} h, more than its window of {} h (window)", hours, pl.lit(longest)))
        .otherwise(pl.lit("its runs do not fit one after another into a week (window, after)"))
    )
    frame = options.rechunk().with_columns(
        slots=pl.when(placed & fits).then(hours).otherwise(0), why=pl.when(~fits & pl.lit(must)).then(reason)
    )
    lost = frame.filter(pl.col("why").is_not_null()).select(
        item=pl.lit(work.name + " on ") + pl.col("pool"), reason="why"
    )
    return frame.filter(pl.col("why").is_null()).drop("why"), lost
