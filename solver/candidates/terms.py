"""What the rest of the candidate compiler needs to know of a problem: effective rules, periods, names matched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from catalogs.catalog import Catalog
from catalogs.names import match_accelerators
from problems.schema import AcceleratorNeed, Fixed, Pick, Problem, RuleName, Serve, Severity

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOURS_PER_MONTH = 730.0


@dataclass(frozen=True)
class Rule:
    """A practice rule in force: its value and how it binds bought and rented machines."""

    name: str
    value: float
    bought: Severity
    rented: Severity

    def hard_value(self, *, bought: bool) -> float:
        """Value where the rule is hard, else 0 (asks for nothing)."""
        return self.value if (self.bought if bought else self.rented) == "hard" else 0.0


def effective_rules(problem: Problem, catalog: Catalog) -> dict[RuleName, Rule]:
    """Practice rules of the catalogue with the problem's own values and severities on top."""
    rules: dict[RuleName, Rule] = {}
    for row in catalog.rules.iter_rows(named=True):
        name: RuleName = row["rule"]
        own = problem.policy.rules.get(name)
        value = row["value"] if own is None or own.value is None else own.value
        bought = row["bought"] if own is None or own.bought is None else own.bought
        rented = row["rented"] if own is None or own.rented is None else own.rented
        rules[name] = Rule(name, float(value), bought, rented)
    return rules


def assumption(catalog: Catalog, key: str) -> float:
    """One number of the assumptions table.

    Raises
    ------
    KeyError
        When the catalogue has no such assumption: a fault of the catalogue, not of the problem.
    """
    rows = catalog.assumptions.filter(pl.col("key") == key)
    if rows.is_empty():
        raise KeyError(f"catalogue table 'assumptions' has no key {key!r}")
    return float(rows["value"][0])


@dataclass(frozen=True)
class Period:
    """A set of hours of the representative week with the same load levels of all services."""

    name: str
    hours_per_month: float
    levels: tuple[float, ...]  # one per serve workload, in problem order


def load_periods(problem: Problem, catalog: Catalog) -> tuple[Period, ...]:
    """Compress the representative week into periods of equal load, busiest first.

    The 168 hours of the week stand for the 730 hours of the month in proportion.
    """
    services = [w for w in problem.workloads if isinstance(w, Serve)]
    if not services:
        return (Period("always", HOURS_PER_MONTH, ()),)
    weeks = {name: _week(catalog, name) for name in {w.traffic.calendar for w in services}}
    slots = list(zip(*(weeks[w.traffic.calendar] for w in services), strict=True))
    levels = sorted(set(slots), reverse=True)
    if len(levels) == 1:
        return (Period("always", HOURS_PER_MONTH, levels[0]),)
    return tuple(
        Period(_period_name(i, level), HOURS_PER_MONTH * slots.count(level) / len(slots), level)
        for i, level in enumerate(levels)
    )


def week_periods(problem: Problem, catalog: Catalog, periods: Sequence[Period]) -> tuple[int, ...]:
    """Index of the period that each of the 168 hours of the week belongs to, from Monday 00:00."""
    services = [w for w in problem.workloads if isinstance(w, Serve)]
    if not services:
        return (0,) * (24 * len(DAYS))
    weeks = [_week(catalog, w.traffic.calendar) for w in services]
    index = {period.levels: p for p, period in enumerate(periods)}
    return tuple(index[levels] for levels in zip(*weeks, strict=True))


def _week(catalog: Catalog, calendar: str) -> list[float]:
    """Level of each of the 168 hours of the week; hours that no row names are at level 0."""
    week = [0.0] * (24 * len(DAYS))
    for row in catalog.calendars.filter(pl.col("calendar") == calendar).iter_rows(named=True):
        start = DAYS.index(row["day"]) * 24
        for hour in range(int(row["hour_from"]), int(row["hour_to"])):
            week[start + hour] = float(row["level"])
    return week


def _period_name(index: int, levels: tuple[float, ...]) -> str:
    """Readable name of a period: busy, quiet, off, or its levels where there are more than that."""
    if all(level == 0 for level in levels):
        return "off"
    if index == 0:
        return "busy"
    return "quiet " + "/".join(f"{level:.0%}" for level in dict.fromkeys(levels))


def matched(catalog: Catalog, labels: Iterable[str]) -> list[str]:
    """All catalogue accelerators that any of the labels names."""
    return sorted({name for label in labels for name in match_accelerators(catalog, label)})


def allowed(column: pl.Expr, allow: Sequence[str] | None, deny: Sequence[str]) -> pl.Expr:
    """True where `column` is in `allow` (or all are allowed) and not in `deny`; nulls only pass an open list."""
    ok = column.is_in(list(allow)).fill_null(False) if allow is not None else pl.lit(True)
    return ok & ~column.is_in(list(deny)).fill_null(False)


def accelerators_picked(catalog: Catalog, pick: Pick | None) -> pl.Expr | None:
    """Keep-expression over column `accelerator` for an allow/deny list of labels."""
    if pick is None:
        return None
    allow = None if pick.allow is None else matched(catalog, pick.allow)
    return allowed(pl.col("accelerator"), allow, matched(catalog, pick.deny))


def fixed_accelerators(catalog: Catalog, workload: Fixed) -> list[str]:
    """Accelerators that satisfy a `fixed` workload: by name(s), or by memory as sold and vendor."""
    need = workload.accelerator
    if isinstance(need, AcceleratorNeed):
        # "16 GB" in a request is the size on the box: the card's nominal decimal gigabytes.
        frame = catalog.accelerators.filter(pl.col("memory_gb_nominal") * 1e9 >= need.memory * (1 - 1e-9))
        if need.vendor is not None:
            frame = frame.filter(pl.col("vendor").str.to_lowercase() == need.vendor.lower())
        return sorted(frame["accelerator"].to_list())
    labels = [need] if isinstance(need, str) else list(need)
    return matched(catalog, labels)


CONFIDENCES = ("recalled", "estimate", "derived", "listed", "measured")


def trusted(column: str, least: str) -> pl.Expr:
    """True where a confidence is at least `least`."""
    return pl.col(column).is_in(list(CONFIDENCES[CONFIDENCES.index(least) :])).fill_null(False)


def compliance_key(tag: str) -> str:
    """Tags compare without case and punctuation."""
    return "".join(c for c in tag.lower() if c.isalnum())


def has_tags(column: pl.Expr, tags: Iterable[str]) -> pl.Expr:
    """True where the ';'-separated tags of `column` hold every one of `tags`."""
    have = column.fill_null("").str.to_lowercase().str.replace_all(r"[^\p{L}\p{N};]", "").str.split(";")
    ok = pl.lit(True)
    for tag in tags:
        ok = ok & have.list.contains(compliance_key(tag))
    return ok
