"""Rows that say no more than another one: left out of the model.

Every node has a place in a rack for nodes of its watts or more: one row for each number of watts. Where few pools are left, most
rows are about the same nodes, and differ in the places alone that there are for them:

    x - sum_A p_g G_g <= a    implies    x - sum_B q_g G_g <= b    where b >= a and q_g >= p_g for all gear g,

since counts of gear are no less than zero.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from solver.instance import Row, Sum


def telling(rows: Iterable[Row], sums: Sequence[Sum]) -> list[Row]:
    """Rows without those that the last one of the same nodes, jobs and replicas implies; sums of nothing are left out of them."""
    out: list[Row] = []
    last: dict[Hashable, tuple[int, dict[int, int]]] = {}
    for row in rows:
        parts = tuple((s, f) for s, f in row.sums if sums[s].commit or sums[s].chosen)
        if row.low is None and row.high is not None:
            about = (parts, row.commit, row.hourly, row.chosen, row.used, row.served, row.replicas, row.period)
            # Of nothing but gear it is held against 0 <= 0.
            known, gear = last.get(about, None if any(about[:-1]) else (0, {})), _added(row)
            if known is not None and known[0] <= row.high and _no_more(gear, known[1]):
                continue
            last[about] = row.high, gear
        out.append(row)
    return out


def _added(row: Row) -> dict[int, int]:
    """Gear of a row, each once."""
    gear = dict(row.gear)
    if len(gear) < len(row.gear):
        gear = dict.fromkeys(gear, 0)
        for g, factor in row.gear:
            gear[g] += factor
    return gear


def _no_more(gear: dict[int, int], other: dict[int, int]) -> bool:
    """Whether no coefficient is above that of the other row."""
    return all(f <= other.get(g, 0) for g, f in gear.items()) and all(gear.get(g, 0) <= f for g, f in other.items())
