"""The integer problem: what the solver, the brute-force oracle and HiGHS all read. Plain data, no solver, no floats.

Money is in cents of the problem's currency, power in watts, durations in seconds. Rates and demands are scaled so
that a demand is `DEMAND_UNIT`; what could not be scaled exactly was rounded against the buyer in `solver.scaling`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LOAD_UNIT = 100_000  # a replica's load is counted in 1/100000 of the replica
DEMAND_UNIT = 1_000_000_000
COVERAGE_SLACK = 1e-6  # relative; rounded rates may miss a demand by this much (the same in verify and in the oracles)


@dataclass(frozen=True, slots=True)
class Pool:
    """All nodes of one offer or build at one place. `site` indexes Instance.sites or is None (rented)."""

    key: str
    accelerator: str
    gpus: int
    site: int | None
    spot: bool
    it_w: int
    facility_w: int
    node_limit: int | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """One way to hold nodes of a pool. Commitments have one number for all periods, hourly ways one number per period.

    `cost` is the objective's money (discounted), `cash` what is paid over the horizon, `capex` the part paid up front,
    `monthly` the payment of a month; `carbon` grams over the horizon.
    """

    pool: int
    billing: str
    commit: bool
    max_nodes: int
    cost: tuple[int, ...]  # (1,) for commitments, (P,) for hourly ways
    cash: tuple[int, ...]
    capex: int
    monthly: tuple[int, ...]
    carbon: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Replica:
    """A way to serve workload `work` on a pool: GPUs it takes, scaled rate per bucket, running cost per period."""

    work: int
    pool: int
    gpus: int
    rate: tuple[int, ...]  # (B,) in 1/DEMAND_UNIT of the workload's demand in that bucket at its busiest
    max_count: int
    cost: tuple[int, ...]  # (P,)
    cash: tuple[int, ...]
    monthly: tuple[int, ...]
    carbon: tuple[int, ...]
    blend: int  # rate for the workload's own mix of buckets, 1 / sum_b (share_b / rate_b); with one bucket rate[0]
    node_blend: int  # at most what one node of the pool carries of the mix: floor(gpus of node / gpus) * blend


@dataclass(frozen=True, slots=True)
class Service:
    """Demand of a serve workload, scaled: per bucket and period, `DEMAND_UNIT` at the busiest."""

    name: str
    demand: tuple[tuple[int, ...], ...]  # (B, P)
    redundant: bool
    interruptible: bool


@dataclass(frozen=True, slots=True)
class Option:
    """A way to run a job. `pooled` options take `gpus` of their pool's held nodes; hired ones pay for `nodes` themselves."""

    work: int
    pool: int
    billing: str
    pooled: bool
    gpus: int
    nodes: int
    duration_s: int
    cost: int
    cash: int
    monthly: int
    carbon: int


@dataclass(frozen=True, slots=True)
class Gear:
    """Something held beside nodes, as an integer number of it: switches, storage, racks, circuits, fees, choices.

    Held over the whole horizon; money and watts are those of one unit. A choice that costs nothing is a gear too.
    """

    key: str
    kind: str
    site: int | None
    max_count: int
    cost: int
    cash: int
    capex: int
    monthly: int
    carbon: int
    it_w: int
    facility_w: int


Terms = tuple[tuple[int, int], ...]
"""Index and coefficient, of each term of a sum."""


@dataclass(frozen=True, slots=True)
class Row:
    """low <= sum of terms <= high, over nodes C[c] and E[e,p], x[q], used[o], gear G[g] and, in one period, R[k,p].

    `rule` is the constraint that it belongs to. `field` is the limit of the problem that it states, and is empty where the
    row says how things are (ports of a switch), not what is wanted.
    """

    rule: str
    field: str
    low: int | None
    high: int | None
    commit: Terms = ()
    chosen: Terms = ()
    used: Terms = ()
    gear: Terms = ()
    replicas: Terms = ()
    period: int = 0
    hourly: tuple[tuple[int, int, int], ...] = ()  # hourly way, period, coefficient


@dataclass(frozen=True, slots=True)
class Site:
    name: str
    limit_it_w: int | None
    limit_facility_w: int | None


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `max_nodes` nodes over several pools (an offer in all its regions, on demand and spot)."""

    field: str
    pools: tuple[int, ...]
    max_nodes: int


@dataclass(frozen=True, slots=True)
class Instance:
    """Everything the model needs. Services and jobs are numbered apart: Replica.work and Option.work index their own list."""

    periods: tuple[str, ...]
    pools: tuple[Pool, ...]
    capacities: tuple[Capacity, ...]
    services: tuple[Service, ...]
    replicas: tuple[Replica, ...]
    jobs: tuple[str, ...]
    options: tuple[Option, ...]
    sites: tuple[Site, ...]
    quotas: tuple[Quota, ...]
    limit_power_w: int | None
    limit_capex: int | None
    limit_monthly: int | None
    limit_total: int | None
    spot_share_ppm: int
    objective: str  # cost | power | carbon | time
    gear: tuple[Gear, ...] = ()
    rows: tuple[Row, ...] = ()
    _ways: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def pool_capacities(self, pool: int) -> list[int]:
        """Indices of the ways to hold nodes of a pool."""
        if not self._ways:
            for i, c in enumerate(self.capacities):
                self._ways.setdefault(c.pool, []).append(i)
        return self._ways.get(pool, [])
