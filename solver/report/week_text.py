"""The week as a chart: when each job runs, and how much of the machines held is in use."""

from __future__ import annotations

import math
from collections.abc import Iterator

from solver.plan import Placement, Result
from solver.report import forms
from solver.report.messages import Messages

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WEEK_H = 24 * len(DAYS)
LABEL = 14


def timed(result: Result) -> list[tuple[str, Placement]]:
    """Placements that have hours of the week, by workload."""
    return [(w.name, p) for w in result.workloads for p in w.placements if p.starts_h]


def week_lines(result: Result, t: Messages, width: int) -> Iterator[str]:
    """One row of blocks per job, each block so many hours; a block is full where a run takes any of its hours."""
    rows = timed(result)
    if not rows:
        return
    step = next(h for h in (2, 3, 4, 6, 8, 12) if LABEL + WEEK_H // h <= width or h == 12)
    per_day = 24 // step
    yield " " * LABEL + "".join(t(day)[:per_day].ljust(per_day) for day in DAYS)
    for name, placement in rows:
        length = math.ceil((placement.duration_h or 0.0) - 1e-6)
        busy = {(start + h) % WEEK_H // step for start in placement.starts_h for h in range(length)}
        label = name if len(name) < LABEL else name[: LABEL - 2] + "…"
        yield label.ljust(LABEL) + "".join("█" if b in busy else "░" for b in range(WEEK_H // step))
    yield t(
        "Each block is {hours} h; a run that comes less often than weekly keeps its hours free every week.", hours=step
    )


def run_texts(result: Result, t: Messages) -> Iterator[tuple[str, str]]:
    """When the runs of each job start, and on how many accelerators of which pool."""
    for name, p in timed(result):
        starts = ", ".join(f"{t(DAYS[s // 24])} {s % 24:02}:00" for s in p.starts_h)
        hours = forms.number(p.duration_h or 0.0)
        yield (
            name,
            t(
                "{starts}, {hours} h each on {n} of {offer}",
                starts=starts,
                hours=hours,
                n=p.accelerators_per_replica,
                offer=p.offer,
            ),
        )


def utilisation_texts(result: Result, t: Messages) -> Iterator[str]:
    """How much of the accelerator-hours of each pool held is planned on."""
    said: dict[str, str] = {}
    for item in result.items:
        if item.utilisation is not None and item.pool is not None and item.billing != "on_demand":
            said[item.pool] = f"{item.item}: {forms.share(item.utilisation)}"
    yield from said.values()
