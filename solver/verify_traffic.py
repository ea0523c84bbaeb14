"""Replay a plan against the traffic itself, hour by hour and stage by stage: own reading of calendars, files and growth.

Nothing here is shared with the compiler of load periods; only the text of a time in a CSV file is read by the same function.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from problems.calendars import CsvCalendar, HoursCalendar
from problems.measured import REQUEST_NAMES, TIME_NAMES, TOKEN_NAMES, parse_times
from problems.schema import Problem, Serve
from solver.plan import Item, Placement, Result, WorkloadPlan

SLACK = 1e-6
"""Relative shortfall of coverage that integer rounding may leave (the model forgives the same)."""
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOURS = 730.0


def spans(result: Result, problem: Problem) -> list[tuple[float, float, tuple[str, ...]]]:
    """Stages of a plan: from and to [months of the horizon], and their periods."""
    if not result.stages:
        return [(0.0, problem.horizon, tuple(result.periods))]
    return [(s.from_month, s.from_month + s.months, s.periods) for s in result.stages]


def period_hours(result: Result, problem: Problem) -> dict[str, float]:
    """Hours of each period over the whole horizon [h]."""
    return {p: result.periods[p] * (till - start) for start, till, mine in spans(result, problem) for p in mine}


def months_held(item: Item, problem: Problem) -> float:
    """Months from the start of what a line is about to the end of the horizon."""
    return problem.horizon - (item.from_month or 0.0)


def there(item: Item, period: str) -> float:
    """How many of a line's things are there in a period."""
    return item.quantity if item.quantity_by_period is None else item.quantity_by_period.get(period, 0)


def check_traffic(result: Result, problem: Problem, catalog: Catalog, base_dir: Path) -> list[str]:
    """Stages fill the horizon, periods the month, and every hour of the raw traffic is served in every stage."""
    wrong = _check_stages(result, problem)
    services = [w for w in problem.workloads if isinstance(w, Serve)]
    plans = {w.name: w for w in result.workloads}
    if wrong or not services or any(w.name not in plans for w in services):
        return wrong  # a service left out is refused by itself
    if result.calendar is None:
        return ["the plan does not say which hours are at which load level"]
    raw = {w.name: raw_hours(w, catalog, base_dir) for w in services}
    levels = list(result.calendar.levels)
    measured = bool(result.calendar.hours)
    at = [ord(letter) - ord("a") for letter in result.calendar.hours] if measured else list(result.calendar.week)
    if any(not 0 <= level < len(levels) for level in at):
        return ["hours at load levels that there are not"]
    wrong += _check_hours(result, problem, at, levels)
    for work in services:
        slots, load = raw[work.name]
        if measured and len(load) == 168 and len(at) != 168:
            load = [load[slot] for slot in _clock(services, raw, len(at))]
        own = at if len(load) == len(at) else [result.calendar.week[slot] for slot in slots]
        top: dict[int, float] = defaultdict(float)
        for level, value in zip(own, load, strict=True):
            top[level] = max(top[level], value)
        folded = own is not at
        wrong += _replay(result, problem, work, plans[work.name], top, levels, exact=not folded)
        if not folded:
            real, planned = sum(load), sum(top[level] for level in own)
            said = result.calendar.over_provisioned.get(work.name, 0.0)
            if abs(planned / real - 1 - said) > 1e-6:
                wrong.append(
                    f"{work.name}: load levels are {planned / real - 1:.2%} above its hours, the plan says {said:.2%}"
                )
    return wrong


def _clock(services: list[Serve], raw: dict[str, tuple[list[int], list[float]]], hours: int) -> list[int]:
    """Hours of the week of the measured hours that all services are looked at in."""
    found = [raw[w.name][0] for w in services if len(raw[w.name][0]) == hours]
    return found[0] if found else []


def _check_stages(result: Result, problem: Problem) -> list[str]:
    """Stages follow one another through the horizon, and each has the 730 hours of a month."""
    wrong, now = [], 0.0
    for start, till, periods in spans(result, problem):
        if abs(start - now) > 1e-9 or till <= start:
            wrong.append(f"a stage from month {start:g} to {till:g} after month {now:g}")
        now = till
        hours = sum(result.periods.get(p, 0.0) for p in periods)
        if abs(hours - HOURS) > 0.01:
            wrong.append(f"periods cover {hours} hours a month, not 730")
    if abs(now - problem.horizon) > 1e-9:
        wrong.append(f"stages end in month {now:g} of {problem.horizon:g}")
    listed = sorted(p for _, _, periods in spans(result, problem) for p in periods)
    if listed != sorted(result.periods):
        wrong.append("stages and periods name different periods")
    return wrong


def _check_hours(result: Result, problem: Problem, at: list[int], levels: list[str]) -> list[str]:
    """Each period is as long as the hours at its level are many."""
    wrong = []
    for _, _, periods in spans(result, problem):
        if len(periods) != len(levels):
            wrong.append(f"{len(periods)} periods for {len(levels)} load levels")
            continue
        for level, period in enumerate(periods):
            due = HOURS * at.count(level) / len(at)
            if abs(result.periods[period] - due) > 0.01:
                wrong.append(f"{period} has {result.periods[period]} hours a month, its hours are {due:.4f}")
    return wrong


def _replay(
    result: Result,
    problem: Problem,
    work: Serve,
    plan: WorkloadPlan,
    top: dict[int, float],
    levels: list[str],
    *,
    exact: bool,
) -> list[str]:
    """Busiest hour of each level, in every stage: it is what the plan states, and what is held serves it."""
    wrong = []
    stages = spans(result, problem)
    # Demands are whole numbers of 1e-9 of the highest, rounded up.
    step = 2e-9 * max(top.values()) * max(grown(work, start, till) for start, till, _ in stages)
    for start, till, periods in stages:
        factor = grown(work, start, till)
        for level, need in top.items():
            period = periods[level]
            demand, stated = need * factor, plan.demand_by_period.get(period, -1.0)
            if stated < demand * (1 - 1e-9) - 1e-12 or (exact and stated > demand * (1 + 1e-9) + step):
                wrong.append(
                    f"{work.name}: {demand:.6g} asked in the busiest hour of {period}, the plan says {stated:.6g}"
                )
            for b, bucket in enumerate(work.traffic.buckets):
                supply = served(work, plan.placements, period)[b]
                asked = demand * plan.served_share * bucket.share
                if supply < asked * (1 - SLACK) - 1e-12:
                    wrong.append(f"{work.name}: {supply:.6g} of {asked:.6g} served in the busiest hour of {period}")
    return wrong


def served(work: Serve, placements: tuple[Placement, ...], period: str) -> list[float]:
    """Served load per bucket in a period."""
    buckets = work.traffic.buckets
    if len(buckets) == 1:
        return [sum(p.rates_by_bucket[0] * p.replicas_by_period[period] for p in placements)]
    return [
        sum(
            p.rates_by_bucket[b] * p.load_by_bucket_and_period[period][b]
            for p in placements
            if p.replicas_by_period[period]
        )
        for b in range(len(buckets))
    ]


def grown(work: Serve, start: float, till: float) -> float:
    """Largest factor on the load in any month that a stretch of the horizon touches."""
    steps = work.traffic.stages
    if steps is not None:
        scale = [s.scale for s in steps if start < s.start < till]
        begun = [s.scale for s in steps if s.start <= start]
        return max(scale + begun[-1:])
    load, most, month = 1.0, 0.0, 0
    while month < till - 1e-9:
        if month + 1 > start + 1e-9 or month >= start:
            most = max(most, load)
        load *= 1 + work.traffic.growth
        month += 1
    return most


def raw_hours(work: Serve, catalog: Catalog, base_dir: Path) -> tuple[list[int], list[float]]:
    """Hour of the week and load [requests/s, or in flight] of each hour of a service's calendar, without growth."""
    traffic = work.traffic
    calendar = traffic.calendar
    if isinstance(calendar, CsvCalendar):
        slots, requests = _of_file(work, calendar, base_dir)
        stated = _stated(work)
        unit = 1 / 3600 if stated is None else stated / max(requests)
        return slots, [x * unit for x in requests]
    week = list(calendar.hours) if isinstance(calendar, HoursCalendar) else _of_table(catalog, calendar)
    return list(range(168)), [x * (_stated(work) or 0.0) for x in week]


def _stated(work: Serve) -> float | None:
    """Load that the problem itself gives [requests/s, or requests in flight for a concurrency]."""
    t = work.traffic
    if t.concurrency is not None:
        return float(t.concurrency)
    if t.rate is not None:
        return float(t.rate)
    return None if t.users is None else t.users.total * t.users.active * t.users.requests


def _of_table(catalog: Catalog, calendar: str) -> list[float]:
    """Level of each hour of the representative week, read from the calendar table."""
    level = {(d, h): 0.0 for d in DAYS for h in range(24)}
    for row in catalog.calendars.filter(pl.col("calendar") == calendar).iter_rows(named=True):
        for hour in range(int(row["hour_from"]), int(row["hour_to"])):
            level[row["day"], hour] = float(row["level"])
    return [level[d, h] for d in DAYS for h in range(24)]


def _of_file(work: Serve, calendar: CsvCalendar, base_dir: Path) -> tuple[list[int], list[float]]:
    """Hour of the week and requests of every hour from the first to the last of a CSV file."""
    path = base_dir / calendar.csv
    head = next(line for line in path.read_text("utf-8-sig").splitlines() if line.strip())
    sign = max(",;\t|", key=head.count)
    table = pl.read_csv(path, separator=sign, infer_schema=False, truncate_ragged_lines=True)
    table = table.filter(~pl.all_horizontal(pl.all().fill_null("").str.strip_chars() == ""))

    def column(own: str | None, usual: tuple[str, ...]) -> str | None:
        wanted = usual if own is None else (own,)
        names = {c.strip().lower().replace(" ", "_"): c for c in table.columns}
        keys = [w.strip().lower().replace(" ", "_") for w in wanted]
        return next((names[k] for k in keys if k in names), None)

    clock = column(calendar.time, TIME_NAMES)
    assert clock is not None
    times, _ = parse_times([(n + 2, text.strip()) for n, text in enumerate(table[clock].fill_null(""))])
    figures = {
        name: pl.col(at).str.strip_chars().str.replace_all(",", "").cast(pl.Float64, strict=False)
        for name, at in (
            ("requests", column(calendar.requests, REQUEST_NAMES)),
            ("tokens", column(calendar.tokens, TOKEN_NAMES)),
        )
        if at is not None
    }
    rows = (
        table.select(**figures)
        .with_columns(
            wall=pl.Series([t.replace(tzinfo=None) for t in times], dtype=pl.Datetime("us")),
            ahead=pl.Series([t.utcoffset() for t in times], dtype=pl.Duration("us")).fill_null(pl.duration()),
        )
        .filter(~pl.all_horizontal(pl.col(*figures).is_null()))
        .with_columns(pl.col(*figures).fill_nan(0.0).fill_null(0.0), moment=pl.col("wall") - pl.col("ahead"))
        .group_by("moment")
        .agg(pl.col(*figures).max(), pl.col("wall", "ahead").last())
        .with_columns(hour=pl.col("wall").dt.truncate("1h") - pl.col("ahead"))
        .sort("moment")
    )
    steps = rows["moment"].diff().drop_nulls()
    step_s = float(steps.dt.total_seconds().mode().min() or 3600) if steps.len() else 3600.0  # type: ignore[arg-type]
    sums = rows.group_by("hour").agg(
        pl.col(*figures).sum() * (3600 / step_s) / pl.len().clip(1, round(3600 / step_s)), pl.col("ahead").last()
    )
    every = pl.DataFrame({"hour": pl.datetime_range(sums["hour"].min(), sums["hour"].max(), "1h", eager=True)})  # type: ignore[arg-type]
    hours = (
        every.join(sums, on="hour", how="left", maintain_order="left")
        .with_columns(pl.col("ahead").forward_fill())
        .with_columns(wall=pl.col("hour") + pl.col("ahead"))
        .with_columns(slot=(pl.col("wall").dt.weekday().cast(pl.Int64) - 1) * 24 + pl.col("wall").dt.hour())
        .with_columns(
            pl.coalesce(
                pl.col(c),
                pl.col(c).max().over("slot"),
                pl.max_horizontal(pl.col(c).forward_fill(), pl.col(c).backward_fill()),
            )
            for c in figures
        )
    )
    size = sum((b.isl + b.osl) * b.share for b in work.traffic.buckets)
    ways = [pl.col(c) if c == "requests" else pl.col(c) / size for c in figures]
    load = hours.select(slot="slot", load=pl.max_horizontal(ways))
    return load["slot"].to_list(), load["load"].to_list()
