"""An Instance as columns and linking rows of a linear program, in numpy arrays.

Columns: nodes held h (one per commitment, one per hourly way and period), load f of a replica kind on one request size in one
period [replicas], options x of jobs. A replica is busy for the sum of its loads, so the replica counts of the model are the
sums of f here and drop out. Linking rows are those that several pools share: coverage, firm coverage, node limits
and quotas, power, budgets. What one pool has for itself (its nodes carry its load) is its block, see `blocks`.

Everything here relaxes the model: integrality of replicas, the loss of a node (n+1), and the room that
pooled jobs take on nodes are left out, and so is gear beside nodes with its rows; a bound from it is a bound of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solver.instance import LOAD_UNIT, Instance

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LINEAR = ("cost", "carbon")
"""Objectives that are sums over columns."""


@dataclass(frozen=True)
class Entries:
    """Coefficients of one kind of column in the linking rows."""

    rows: Ints
    columns: Ints
    values: Floats

    def times(self, duals: Floats, size: int) -> Floats:
        """Sum over rows of dual x coefficient, for each column."""
        return np.bincount(self.columns, self.values * duals[self.rows], size).astype(np.float64)


@dataclass(frozen=True)
class Linear:
    """Columns and linking rows. Rows with `at_least` read sum >= rhs, the others sum <= rhs."""

    instance: Instance
    hold_way: Ints
    hold_period: Ints  # -1: a commitment, held in every period
    hold_pool: Ints
    hold_cost: Floats
    hold_upper: Floats
    hold_active: NDArray[np.bool_]  # by column and period: its nodes are there
    load_kind: Ints
    load_bucket: Ints
    load_period: Ints
    load_pool: Ints
    load_gpus: Floats
    load_cost: Floats
    load_upper: Floats  # [replicas]
    pick_job: Ints
    pick_cost: Floats
    hold_entries: Entries
    load_entries: Entries
    pick_entries: Entries
    rhs: Floats
    at_least: NDArray[np.bool_]
    given: float = 0.0  # what gear may take off the objective at most (<= 0)

    @property
    def pools(self) -> int:
        return len(self.instance.pools)


@dataclass(frozen=True)
class Narrow:
    """A linear program with the columns of some pools; `holds[j]`, `loads[j]`: number of its j-th column in the whole one."""

    lin: Linear
    holds: Ints
    loads: Ints


def narrow(lin: Linear, pools: Ints) -> Narrow:
    """Leave out the columns of all other pools; pools, rows and options of jobs keep their numbers."""
    inside = np.zeros(lin.pools, bool)
    inside[pools] = True
    holds, loads = np.flatnonzero(inside[lin.hold_pool]), np.flatnonzero(inside[lin.load_pool])
    hold_parts = {name: getattr(lin, name)[holds] for name in HOLD_COLUMNS}
    load_parts = {name: getattr(lin, name)[loads] for name in LOAD_COLUMNS}
    small = replace(
        lin,
        hold_entries=_picked(lin.hold_entries, holds, len(lin.hold_way)),
        load_entries=_picked(lin.load_entries, loads, len(lin.load_kind)),
        **hold_parts,
        **load_parts,
    )
    return Narrow(small, holds, loads)


HOLD_COLUMNS = ("hold_way", "hold_period", "hold_pool", "hold_cost", "hold_upper", "hold_active")
LOAD_COLUMNS = ("load_kind", "load_bucket", "load_period", "load_pool", "load_gpus", "load_cost", "load_upper")


def _picked(entries: Entries, columns: Ints, size: int) -> Entries:
    number = np.full(size, -1, np.int64)
    number[columns] = np.arange(len(columns))
    keep = number[entries.columns] >= 0
    return Entries(entries.rows[keep], number[entries.columns[keep]], entries.values[keep])


class _Rows:
    """Linking rows under construction."""

    def __init__(self) -> None:
        self.rhs: list[float] = []
        self.at_least: list[bool] = []
        self.parts: dict[str, list[tuple[Ints, Ints, Floats]]] = {"hold": [], "load": [], "pick": []}

    def block(self, rhs: Floats, at_least: bool) -> int:
        """Open as many rows as `rhs` has; gives the number of the first."""
        first = len(self.rhs)
        self.rhs.extend(rhs.tolist())
        self.at_least.extend([at_least] * len(rhs))
        return first

    def put(self, kind: str, rows: Ints, columns: Ints, values: Floats) -> None:
        self.parts[kind].append((rows, columns, values))

    def entries(self, kind: str) -> Entries:
        parts = self.parts[kind] or [(_ints(), _ints(), np.zeros(0))]
        rows, columns, values = (np.concatenate([p[i] for p in parts]) for i in range(3))
        keep = values != 0
        return Entries(rows[keep].astype(np.int64), columns[keep].astype(np.int64), values[keep])


def _ints() -> Ints:
    return np.zeros(0, np.int64)


def required(demand: int) -> int:
    """What must be covered of a scaled demand; the same allowance as the model's."""
    return demand - demand // 1_000_000


def linear(inst: Instance) -> Linear | None:
    """Columns and rows of an instance; None for an objective that is no sum over columns (power, time), and for wishes."""
    if inst.objective not in LINEAR or inst.wishes or inst.goal is not None:
        return None
    periods = len(inst.periods)
    money = inst.objective
    way, period = [], []
    for i, c in enumerate(inst.capacities):
        span = [-1] if c.commit else list(range(periods))
        way += [i] * len(span)
        period += span
    hold_way, hold_period = np.array(way, np.int64), np.array(period, np.int64)
    amounts = [getattr(c, money) for c in inst.capacities]
    hold_cost = np.array([amounts[i][max(p, 0)] for i, p in zip(way, period, strict=True)], float)
    hold_pool = np.array([inst.capacities[i].pool for i in way], np.int64)
    hold_upper = np.array([inst.capacities[i].max_nodes for i in way], float)

    hold_active = np.array(
        [
            [inst.capacities[i].holds(q) if p < 0 else p == q for q in range(periods)]
            for i, p in zip(way, period, strict=True)
        ],
        bool,
    ).reshape(len(way), periods)

    kind, bucket, at, rate, need, upper = [], [], [], [], [], []
    for k, r in enumerate(inst.replicas):
        demand = inst.services[r.work].demand
        several = len(demand) > 1
        for b, by_period in enumerate(demand):
            for p, wanted in enumerate(by_period):
                if not wanted or (several and r.rate[b] < 10) or r.rate[b] <= 0:
                    continue
                kind.append(k)
                bucket.append(b)
                at.append(p)
                if several:
                    per_unit = r.rate[b] // 10
                    top = min(LOAD_UNIT * r.max_count, -(-wanted * LOAD_UNIT // (per_unit * 10)) + 1)
                    rate.append(float(per_unit))
                    need.append(float(required(wanted) // 10))
                    upper.append(top / LOAD_UNIT)
                else:
                    rate.append(float(r.rate[b]))
                    need.append(float(required(wanted)))
                    upper.append(float(r.max_count))
    load_kind, load_bucket, load_period = (np.array(x, np.int64) for x in (kind, bucket, at))
    replica_pool = np.array([r.pool for r in inst.replicas], np.int64)
    replica_gpus = np.array([r.gpus for r in inst.replicas], float)
    replica_work = np.array([r.work for r in inst.replicas], np.int64)
    replica_cost = np.array([getattr(r, money) for r in inst.replicas], float).reshape(len(inst.replicas), periods)

    rows = _Rows()
    work = replica_work[load_kind] if len(kind) else _ints()
    share = np.array(rate) / np.array(need) if kind else np.zeros(0)
    _coverage(inst, rows, work, load_bucket, load_period, share, load_kind, replica_pool)
    _node_limits(inst, rows, hold_active, hold_pool)
    _power(inst, rows, hold_active, hold_period, hold_pool)
    _budgets(inst, rows, hold_way, hold_period, load_kind, load_period)
    return Linear(
        instance=inst,
        hold_way=hold_way,
        hold_period=hold_period,
        hold_pool=hold_pool,
        hold_cost=hold_cost,
        hold_upper=hold_upper,
        hold_active=hold_active,
        load_kind=load_kind,
        load_bucket=load_bucket,
        load_period=load_period,
        load_pool=replica_pool[load_kind] if kind else _ints(),
        load_gpus=replica_gpus[load_kind] if kind else np.zeros(0),
        load_cost=replica_cost[load_kind, load_period] if kind else np.zeros(0),
        load_upper=np.array(upper, float),
        pick_job=np.array([o.work for o in inst.options], np.int64),
        pick_cost=np.array([getattr(o, money) for o in inst.options], float),
        hold_entries=rows.entries("hold"),
        load_entries=rows.entries("load"),
        pick_entries=rows.entries("pick"),
        rhs=np.array(rows.rhs, float),
        at_least=np.array(rows.at_least, bool),
        given=float(sum(min(0, getattr(g, money)) * g.max_count for g in inst.gear)),
    )


def _coverage(
    inst: Instance,
    rows: _Rows,
    work: Ints,
    bucket: Ints,
    period: Ints,
    share: Floats,
    kind: Ints,
    replica_pool: Ints,
) -> None:
    """Shares of each demand add up to 1; to the firm share on pools that are not spot."""
    number: dict[tuple[int, int, int], int] = {}
    for w, service in enumerate(inst.services):
        for b, by_period in enumerate(service.demand):
            for p, wanted in enumerate(by_period):
                if wanted:
                    number[w, b, p] = len(number)
    first = rows.block(np.ones(len(number)), at_least=True)
    place = np.array(
        [number[key] for key in zip(work.tolist(), bucket.tolist(), period.tolist(), strict=True)], np.int64
    )
    columns = np.arange(len(share), dtype=np.int64)
    rows.put("load", place + first, columns, share)
    firm_ppm = 1_000_000 - inst.spot_share_ppm
    spot = np.array([p.spot for p in inst.pools], bool)
    if firm_ppm <= 0 or not len(kind):
        return
    on_spot = spot[replica_pool[kind]]
    some = set(work[on_spot].tolist())
    if not some:
        return
    rhs = np.array([_firm(inst, w, b, p, firm_ppm) if w in some else 0.0 for w, b, p in number])
    first = rows.block(rhs, at_least=True)
    firm = ~on_spot & np.isin(work, sorted(some))
    rows.put("load", place[firm] + first, columns[firm], share[firm])


def _firm(inst: Instance, w: int, b: int, p: int, firm_ppm: int) -> float:
    """Share of a demand that firm nodes must carry, rounded as the model rounds it."""
    demand = inst.services[w].demand
    whole = required(demand[b][p]) if len(demand) == 1 else required(demand[b][p]) // 10 * LOAD_UNIT
    return (whole * firm_ppm // 1_000_000) / whole if whole else 0.0


def _node_limits(inst: Instance, rows: _Rows, active: NDArray[np.bool_], pool: Ints) -> None:
    groups: list[tuple[tuple[int, ...], int]] = [
        ((o,), p.node_limit) for o, p in enumerate(inst.pools) if p.node_limit is not None
    ]
    groups += [(q.pools, q.max_nodes) for q in inst.quotas]
    for pools, most in groups:
        scale = float(max(most, 1))
        held = np.isin(pool, pools)
        hired = [(q, o.nodes) for q, o in enumerate(inst.options) if o.pool in pools and not o.pooled]
        for p in range(len(inst.periods)):
            row = rows.block(np.array([most / scale]), at_least=False)
            here = np.flatnonzero(held & active[:, p])
            rows.put("hold", np.full(len(here), row), here, np.full(len(here), 1 / scale))
            if hired:
                picks, nodes = (np.array(x) for x in zip(*hired, strict=True))
                rows.put("pick", np.full(len(picks), row), picks, nodes / scale)


def _power(inst: Instance, rows: _Rows, active: NDArray[np.bool_], period: Ints, pool: Ints) -> None:
    """Nameplate of committed nodes at each site, and at all of them, in every stage."""
    site = np.array([-1 if p.site is None else p.site for p in inst.pools], np.int64)
    it_w = np.array([p.it_w for p in inst.pools], float)
    facility_w = np.array([p.facility_w for p in inst.pools], float)
    limits = [(it_w, site[pool] == s, x.limit_it_w) for s, x in enumerate(inst.sites)]
    limits += [(facility_w, site[pool] == s, x.limit_facility_w) for s, x in enumerate(inst.sites)]
    limits.append((facility_w, site[pool] >= 0, inst.limit_power_w))
    for stage in inst.stages:
        there = (period < 0) & active[:, stage[0]]
        for watts, where, limit in limits:
            if limit is not None:
                scale = float(max(limit, 1))
                row = rows.block(np.array([limit / scale]), at_least=False)
                here = np.flatnonzero(where & there)
                rows.put("hold", np.full(len(here), row), here, watts[pool[here]] / scale)


def _budgets(inst: Instance, rows: _Rows, way: Ints, period: Ints, kind: Ints, at: Ints) -> None:
    """Capex and all payments over the horizon; the month of each stage."""
    everything = list(range(len(inst.periods)))
    limits = [("capex", inst.limit_capex, everything), ("cash", inst.limit_total, everything)]
    limits += [("monthly", inst.limit_monthly, stage) for stage in inst.stages]
    for part, limit, stage in limits:
        if limit is None:
            continue
        scale = float(max(limit, 1))
        paid_back = sum(min(0, getattr(g, part)) * g.max_count for g in inst.gear)
        row = rows.block(np.array([(limit - paid_back) / scale]), at_least=False)
        paid = np.array([_paid(inst, part, i, p, stage) for i, p in zip(way.tolist(), period.tolist(), strict=True)])
        rows.put("hold", np.full(len(paid), row), np.arange(len(paid)), paid / scale)
        if part == "capex":
            continue
        if len(kind):
            table = np.array([getattr(r, part) for r in inst.replicas], float)
            mine = np.flatnonzero(np.isin(at, stage))
            rows.put("load", np.full(len(mine), row), mine, table[kind[mine], at[mine]] / scale)
        if inst.options:
            once = np.array([float(getattr(o, part)) for o in inst.options])
            rows.put("pick", np.full(len(once), row), np.arange(len(once)), once / scale)


def _paid(inst: Instance, part: str, way: int, period: int, stage: list[int]) -> float:
    """What one node of a way costs of one kind of money, in the periods of a stage."""
    c = inst.capacities[way]
    if period >= 0:
        return float(getattr(c, part)[period]) if part != "capex" and period in stage else 0.0
    if not any(c.holds(p) for p in stage):
        return 0.0
    return float(c.capex if part == "capex" else getattr(c, part)[0])
