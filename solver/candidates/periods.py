"""Load over time: the hours of a representative week as load levels, the horizon as stages, and both as load periods."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from catalogs.catalog import Catalog
from problems.calendars import CsvCalendar, HoursCalendar
from problems.schema import Problem, Serve
from solver.candidates.load_levels import MOST_LEVELS, Loads, compress
from solver.candidates.terms import DAYS, HOURS_PER_MONTH
from solver.features.cost import discount_months

WEEK = 24 * len(DAYS)
QUARTER = 3.0  # [months]
MOST_STAGES = 12
"""Quarters up to three years; half-years and years beyond, so that the model stays small."""


@dataclass(frozen=True)
class Level:
    """Hours with the same load: `loads` is one share of its traffic's load per service, in problem order."""

    name: str
    hours_per_month: float
    loads: Loads


@dataclass(frozen=True)
class LoadCalendar:
    """Hours -> levels.

    Attributes
    ----------
    levels
        Busiest first.
    week : tuple of int
        Level of each of the 168 hours of the representative week, Monday 0:00 first, in the order of the clock; of a slot
        that measured weeks show at several levels, the highest.
    hours : tuple of int
        Level of each measured hour, in order of time; the week itself where nothing was measured.
    slots : tuple of int
        Hour of the week of each of `hours`.
    loss : tuple of float
        Per service, what levels have above their hours, as a share of all request-hours [1].
    notes : tuple of str
        What was put right in measured files, and what compression costs.
    """

    levels: tuple[Level, ...]
    week: tuple[int, ...]
    hours: tuple[int, ...]
    slots: tuple[int, ...]
    loss: tuple[float, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """A stretch of the horizon with one load: its first month, its length, and what a monthly payment in it is worth now."""

    name: str
    start: float  # [months]
    months: float
    discounted: float  # [months]

    @property
    def end(self) -> float:
        return self.start + self.months


@dataclass(frozen=True)
class Period:
    """A level in a stage. `hours_per_month` while the stage lasts; `levels` as in `Level.loads`, grown to the stage."""

    name: str
    hours_per_month: float
    levels: Loads
    stage: int = 0
    level: int = 0


def load_calendar(problem: Problem, catalog: Catalog) -> LoadCalendar:
    """Compress the hours of all services into at most 12 common levels, busiest first.

    The 168 hours of the week, or all hours of measured traffic, stand for the 730 hours of the month in proportion.
    """
    services = [w for w in problem.workloads if isinstance(w, Serve)]
    if not services:
        return LoadCalendar(
            (Level("always", HOURS_PER_MONTH, ()),), (0,) * WEEK, (0,) * WEEK, tuple(range(WEEK)), (), ()
        )
    notes = [f"{w.traffic.calendar.csv}: {n}" for w in services for n in _file_notes(w)]  # type: ignore[union-attr]
    slots, hours = _timeline(services, catalog)
    points = Counter(hours)
    level_of = compress(points)
    tops = sorted(set(level_of.values()), reverse=True)
    index = {top: i for i, top in enumerate(tops)}
    counts = Counter(level_of[p] for p in hours)
    names = _unique(["always"] if len(tops) == 1 else [_level_name(i, top) for i, top in enumerate(tops)])
    levels = tuple(
        Level(name, HOURS_PER_MONTH * counts[top] / len(hours), top) for name, top in zip(names, tops, strict=True)
    )
    loss = []
    for s in range(len(services)):
        real = sum(p[s] * n for p, n in points.items())
        planned = sum(level_of[p][s] * n for p, n in points.items())
        loss.append(planned / real - 1 if real else 0.0)
    if len(points) > MOST_LEVELS:
        said = ", ".join(f"{w.name} {share:.1%}" for w, share in zip(services, loss, strict=True))
        notes.append(
            f"{len(points)} different hours planned at {len(tops)} load levels, none below any of its hours:"
            f" request-hours planned above what is needed: {said}"
        )
    of_hour = tuple(index[level_of[p]] for p in hours)
    return LoadCalendar(
        levels, _week_of(slots, of_hour), of_hour, tuple(slots), tuple(loss), tuple(dict.fromkeys(notes))
    )


def _file_notes(work: Serve) -> tuple[str, ...]:
    return work.traffic.calendar.measured.notes if isinstance(work.traffic.calendar, CsvCalendar) else ()


def _timeline(services: Sequence[Serve], catalog: Catalog) -> tuple[list[int], list[Loads]]:
    """Hours of the week of all hours looked at, and the loads of all services in each.

    Measured hours are taken as they are where one file, or files of the very same hours, tell all there is to tell. Else
    every file is folded into a week, each hour of the week at its busiest.
    """
    shares: list[list[float]] = []
    clocks: list[tuple[object, tuple[int, ...]]] = []
    for w in services:
        calendar = w.traffic.calendar
        if isinstance(calendar, CsvCalendar):
            load = w.traffic.measured_load
            top = max(load)
            shares.append([x / top for x in load])
            clocks.append((calendar.measured.first, calendar.measured.slots))
        else:
            shares.append(list(calendar.hours) if isinstance(calendar, HoursCalendar) else _week(catalog, calendar))
            clocks.append((None, tuple(range(WEEK))))
    measured = {clock for clock in clocks if clock[0] is not None}
    whole = all(len(set(slots)) == WEEK for _, slots in measured) or len({*clocks}) == 1
    if len(measured) == 1 and whole:
        slots = list(next(iter(measured))[1])
        columns = [
            share if clock[0] is not None else [share[slot] for slot in slots]
            for share, clock in zip(shares, clocks, strict=True)
        ]
        return slots, list(zip(*columns, strict=True))
    folded = [_folded(share, slots) for share, (_, slots) in zip(shares, clocks, strict=True)]
    return list(range(WEEK)), list(zip(*folded, strict=True))


def _folded(share: Sequence[float], slots: Sequence[int]) -> list[float]:
    """Busiest of each hour of the week; one never seen takes that hour of any day, else the busiest of all."""
    week: dict[int, float] = {}
    day: dict[int, float] = {}
    for x, slot in zip(share, slots, strict=True):
        week[slot] = max(week.get(slot, 0.0), x)
        day[slot % 24] = max(day.get(slot % 24, 0.0), x)
    return [week.get(slot, day.get(slot % 24, max(share))) for slot in range(WEEK)]


def _week_of(slots: Sequence[int], of_hour: Sequence[int]) -> tuple[int, ...]:
    """Representative week: the highest level that an hour of the week was at; levels count from the busiest."""
    seen: dict[int, int] = {}
    for slot, level in zip(slots, of_hour, strict=True):
        seen[slot] = min(seen.get(slot, level), level)
    days: dict[int, int] = {}
    for slot, level in seen.items():
        days[slot % 24] = min(days.get(slot % 24, level), level)
    return tuple(seen.get(slot, days.get(slot % 24, 0)) for slot in range(WEEK))


def _week(catalog: Catalog, calendar: str) -> list[float]:
    """Level of each of the 168 hours of the week; hours that no row names are at level 0."""
    week = [0.0] * WEEK
    for row in catalog.calendars.filter(pl.col("calendar") == calendar).iter_rows(named=True):
        start = DAYS.index(row["day"]) * 24
        for hour in range(int(row["hour_from"]), int(row["hour_to"])):
            week[start + hour] = float(row["level"])
    return week


def _level_name(index: int, loads: Loads) -> str:
    """Readable name of a level: busy, quiet, off, or its loads where there are more than that."""
    if all(load == 0 for load in loads):
        return "off"
    if index == 0:
        return "busy"
    return "quiet " + "/".join(f"{load:.0%}" for load in dict.fromkeys(loads))


def _unique(names: Sequence[str]) -> list[str]:
    """Names with a number behind those that are there already."""
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out


def stages_of(problem: Problem) -> tuple[Stage, ...]:
    """Cut the horizon where the load changes, in quarters where it grows, and where ordered machines arrive.

    Without any of these the horizon is one stage.
    """
    horizon = problem.horizon
    cuts = {0.0}
    traffics = [w.traffic for w in problem.workloads if isinstance(w, Serve)]
    if any(t.growth for t in traffics if t.stages is None):
        length = QUARTER * (1 if horizon <= QUARTER * MOST_STAGES else 2 if horizon <= 2 * QUARTER * MOST_STAGES else 4)
        cuts |= {n * length for n in range(math.ceil(horizon / length))}
    for t in traffics:
        steps = t.stages or ()
        cuts |= {b.start for a, b in pairwise(steps) if a.scale != b.scale}
    cuts |= {months for mode, months in problem.policy.lead_time.items() if mode in problem.billing_modes}
    starts = sorted(cut for cut in cuts if cut < horizon - 1e-9)
    ends = [*starts[1:], horizon]
    names = _stage_names(starts, ends)
    rate = problem.policy.discount_rate
    worth = [discount_months(x, rate) for x in [*starts, horizon]]
    return tuple(
        Stage(name, a, b - a, late - early)
        for name, a, b, early, late in zip(names, starts, ends, worth, worth[1:], strict=False)
    )


def _stage_names(starts: Sequence[float], ends: Sequence[float]) -> list[str]:
    """Q1, Q2 .. for quarters (the last may be short), else the months from and to: mo 1-6."""
    if len(starts) == 1:
        return [""]
    if all(a == QUARTER * n for n, a in enumerate(starts)):
        return [f"Q{n + 1}" for n in range(len(starts))]
    return [f"mo {a + 1:g}-{b:g}" if b - a > 1 else f"mo {b:g}" for a, b in zip(starts, ends, strict=True)]


def load_periods(problem: Problem, calendar: LoadCalendar, stages: Sequence[Stage]) -> tuple[Period, ...]:
    """Every level in every stage, stage by stage; the load of a stage is that of its highest month."""
    traffics = [w.traffic for w in problem.workloads if isinstance(w, Serve)]
    out = []
    for s, stage in enumerate(stages):
        factors = [t.highest(stage.start, stage.end) for t in traffics]
        for i, level in enumerate(calendar.levels):
            parts = [stage.name, level.name if len(calendar.levels) > 1 or not stage.name else ""]
            loads = tuple(x * f for x, f in zip(level.loads, factors, strict=True))
            out.append(Period(" ".join(part for part in parts if part), level.hours_per_month, loads, s, i))
    return tuple(out)


def week_periods(calendar: LoadCalendar, periods: Sequence[Period]) -> tuple[tuple[int, ...], ...]:
    """Index of the period that each of the 168 hours of the week belongs to, from Monday 00:00; one week per stage."""
    index = {(period.stage, period.level): p for p, period in enumerate(periods)}
    stages = sorted({period.stage for period in periods})
    return tuple(tuple(index[stage, level] for level in calendar.week) for stage in stages)
