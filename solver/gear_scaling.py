"""Gear and its rules -> integers: names become indices, money becomes cents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from solver.candidates.gear import GearRule, GearSum
from solver.candidates.periods import Stage
from solver.instance import Gear, Row, Sum, Terms
from solver.rounding import cents, cents_down, component_cents, grams, watts


@dataclass(frozen=True)
class Names:
    """Indices of what gear rules name: commitments and hourly ways of a pool, pools, job options and replicas by candidate row, gear.

    `way` gives the index of a way to hold nodes, and whether it is a commitment.
    """

    commit: dict[str, list[int]]
    hourly: dict[str, list[int]]
    pool: dict[str, int]
    option: dict[int, int]
    replica: dict[int, int]
    gear: dict[str, int]
    way: dict[int, tuple[int, bool]]
    stages: dict[int, range]  # commitment -> stages that it is held in
    stage_of: tuple[int, ...]  # of each period
    wish: dict[str, int] = field(default_factory=dict)
    sums: dict[GearSum, int] = field(default_factory=dict)


def scaled_gear(r: dict[str, Any], sites: list[str], stages: Sequence[Stage]) -> Gear:
    """One kind of gear; its cash is the sum of its rounded bill components, so that bills add up."""
    cash = sum(component_cents(r).values())
    discounted = abs(r["held_cost"] - r["held_cash"]) >= 1e-9 * max(1.0, abs(r["held_cash"]))
    return Gear(
        key=r["key"],
        kind=r["kind"],
        site=None if r["site"] is None else sites.index(r["site"]),
        max_count=int(r["max_count"]),
        cost=cents(r["held_cost"]) if discounted else cash,
        cash=cash,
        capex=cents(r["held_capex"]),
        monthly=cents(r["held_monthly"]),
        carbon=grams(r["held_carbon"]),
        it_w=watts(r["it_w"]),
        facility_w=watts(r["facility_w"]),
        narrow=bool(r["narrow"]),
        instalment=cents_down(r["held_instalment"]),
        paid_off=next((n for n, s in enumerate(stages) if s.start >= r["instalment_months"] - 1e-9), None),
    )


def numbered_sums(rules: Iterable[GearRule]) -> dict[GearSum, int]:
    """Numbers of the sums of some rules, in the order in which the rules have them."""
    return {part: s for s, part in enumerate(dict.fromkeys(part for rule in rules for part in rule.sums))}


def scaled_sums(sums: Iterable[GearSum], names: Names) -> tuple[Sum, ...]:
    """Sums in indices; what is no candidate any more drops out."""
    chains: dict[int, int] = {}
    out = []
    for part in sums:
        chain = None if part.chain is None else chains.setdefault(id(part.chain), len(chains))
        commit = tuple((i, f) for pool, f in part.nodes.items() for i in names.commit.get(pool, ()))
        chosen = tuple((names.option[q], f) for q, f in part.options.items() if q in names.option)
        out.append(Sum(commit, chosen, chain))
    return tuple(out)


def scaled_rows(rule: GearRule, names: Names) -> list[Row]:
    """A rule in indices; what is no candidate any more is at zero and drops out of the sum."""

    def known(terms: Mapping[Any, int], index: Mapping[Any, int]) -> Terms:
        return tuple((index[name], factor) for name, factor in terms.items() if name in index and factor)

    ways = [(*names.way[w], p, factor) for (w, p), factor in rule.ways.items() if w in names.way and factor]
    row = Row(
        rule=rule.rule,
        field=rule.field,
        low=rule.low,
        high=rule.high,
        commit=(
            *(
                (i, f)
                for pool, f in rule.nodes.items()
                if f
                for i in names.commit.get(pool, ())
                if rule.stage is None or rule.stage in names.stages[i]
            ),
            *((i, f) for i, committed, _, f in ways if committed),
        ),
        hourly=(
            *((i, p, f) for (pool, p), f in rule.hourly.items() if f for i in names.hourly.get(pool, ())),
            *((i, p, f) for i, committed, p, f in ways if not committed),
        ),
        chosen=known(rule.options, names.option),
        used=known(rule.used, names.pool),
        gear=known(rule.gear, names.gear),
        loose=known(rule.loose, names.gear),
        served=known(rule.served, names.wish),
        replicas=known(rule.replicas, names.replica),
        sums=tuple((names.sums[part], factor) for part, factor in rule.sums.items()),
    )
    if not row.replicas:
        return [row]
    return [replace(row, period=p) for p, s in enumerate(names.stage_of) if rule.stage in (None, s)]
