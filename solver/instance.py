"""The integer problem: what the solver, the brute-force oracle and HiGHS all read. Plain data, no solver, no floats.

Money is in cents of the problem's currency, power in watts, durations in seconds. Rates and demands are scaled so
that a demand is `DEMAND_UNIT`; what could not be scaled exactly was rounded against the buyer in `solver.scaling`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

LOAD_UNIT = 100_000  # a replica's load is counted in 1/100000 of the replica
DEMAND_UNIT = 1_000_000_000
MOST_TO_LOSE = 6  # most nodes that a chance constraint may ask to do without; plans that would need more are not taken
SHARE_UNIT = 1000  # a served share is counted in 1/1000
COVERAGE_SLACK = 1e-6  # relative; rounded rates may miss a demand by this much (the same in verify and in the oracles)


@dataclass(frozen=True, slots=True)
class Pool:
    """All nodes of one offer or build at one place. `site` indexes Instance.sites or is None (rented).

    `like` numbers the pools that count as one where nodes are lost; None: the pool counts by itself.
    """

    key: str
    accelerator: str
    gpus: int
    site: int | None
    spot: bool
    it_w: int
    facility_w: int
    node_limit: int | None
    like: int | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """One way to hold nodes of a pool. Commitments have one number for all periods, hourly ways one number per period;
    `monthly` of a commitment has one per stage, 0 where nothing is paid.

    A commitment is held in the stages from `start` on in whose periods it is `active` (one truth per period; empty: all).

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
    start: int = 0
    active: tuple[bool, ...] = ()

    def holds(self, period: int) -> bool:
        """Whether its nodes are there in a period."""
        return not self.active or self.active[period]


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
    node_blend: int  # at most what a full node of the pool, or of one like it, carries of the mix
    nodes: int = 1  # nodes that one replica stands on


@dataclass(frozen=True, slots=True)
class Ladder:
    """How many nodes must be allowed to fail where any of `pools` is used: more than j of them from `steps[j]` nodes on."""

    pools: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """Demand of a serve workload, scaled: per bucket and period, `DEMAND_UNIT` at the busiest.

    Demand holds after the loss of any `redundant` nodes, of as many as `ladders` say for the nodes that carry it (like pools
    count as one: `Instance.like_pools`), and of all pools in any one of `groups`. A plan may not need the last step of a ladder with more than MOST_TO_LOSE steps.
    """

    name: str
    demand: tuple[tuple[int, ...], ...]  # (B, P)
    redundant: int
    interruptible: bool
    groups: tuple[tuple[int, ...], ...] = ()
    ladders: tuple[Ladder, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """A way to run a job. `pooled` options take `gpus` of their pool's held nodes; hired ones pay for `nodes` themselves.

    `slots` : hours of the week that one run takes; 0 for pooled ones that take their GPUs all month, and for hired ones whose
    hour is of no consequence.
    """

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
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of a job in the representative week: when each may start, spans that it must lie in, and jobs that it waits for.

    `starts` : per run, the first and last hour of the week that it may start in.
    `spans` : (first hour, hour after the last) of which every run lies in one; empty: anywhere.
    """

    starts: tuple[tuple[int, int], ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Gear:
    """Something held beside nodes, as an integer number of it: switches, storage, racks, circuits, fees, choices.

    Held over the whole horizon; money and watts are those of one unit. A choice that costs nothing is a gear too. Of
    `monthly`, `instalment` ends before stage `paid_off`. What is `narrow` is left out where rows are loose.
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
    instalment: int = 0
    paid_off: int | None = None
    narrow: bool = False

    def in_month(self, stage: int) -> int:
        """What a month of a stage pays [cents]."""
        return self.monthly - (self.instalment if self.paid_off is not None and stage >= self.paid_off else 0)


Terms = tuple[tuple[int, int], ...]
"""Index and coefficient, of each term of a sum."""


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of nodes C[c] and options x[q] that several rows share: thousands of pools in hundreds of rows are said once.

    Of one `chain` are sums of nodes that ask for less and less: the later a node's sum is, the fewer rows have it.
    """

    commit: Terms = ()
    chosen: Terms = ()
    chain: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """low <= sum of terms <= high, over nodes C[c] and E[e,p], x[q], used[o], gear G[g] and, in one period, R[k,p].

    `sums` are those of the instance, as they are in the row beside its own terms.

    `rule` is the constraint that it belongs to. `field` is the limit of the problem that it states, and is empty where the
    row says how things are (ports of a switch), not what is wanted. `loose` is there instead of `gear` in `solver.loosened`.
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
    served: Terms = ()
    period: int = 0
    hourly: tuple[tuple[int, int, int], ...] = ()  # hourly way, period, coefficient
    loose: Terms = ()
    sums: Terms = ()


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
class Wish:
    """A workload that may be left out (share 0) or served to a share from `least` to SHARE_UNIT; jobs to SHARE_UNIT only.

    `work` indexes the services, or the jobs where `job`. `level` 0 comes first. `value` is that of its whole [cents/month],
    or 1 where all of a level count alike. With `must` it may not be left out.
    """

    job: bool
    work: int
    level: int
    value: int
    least: int
    must: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """Everything the model needs. Services and jobs are numbered apart: Replica.work and Option.work index their own list.

    Without `wishes` every service and job is served in full. With them one stands for each, `floors` is the least value of
    the levels that are settled [1/SHARE_UNIT of Wish.value], and `goal` the level whose value is made as large as can be
    (None: the objective is what is minimised).
    """

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
    sums: tuple[Sum, ...] = ()
    stage_of: tuple[int, ...] = ()  # stage of each period; empty: the horizon is one stage
    runs: tuple[Runs, ...] = ()  # one per job, or none where no option has slots
    weeks: tuple[tuple[int, ...], ...] = ()  # period of every hour of the week, one week per stage of the horizon
    wishes: tuple[Wish, ...] = ()
    floors: tuple[int, ...] = ()
    goal: int | None = None
    moved: tuple[int, ...] = ()  # gear that counts nodes given up or newly started
    _ways: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def stages(self) -> list[list[int]]:
        """Periods of each stage."""
        if not self.stage_of:
            return [list(range(len(self.periods)))]
        return [[p for p, s in enumerate(self.stage_of) if s == stage] for stage in range(max(self.stage_of) + 1)]

    @property
    def like_pools(self) -> list[tuple[int, ...]]:
        """Pools that count as one where nodes are lost, each set once; most are a pool by itself."""
        sets: dict[tuple[bool, int], list[int]] = {}
        for o, pool in enumerate(self.pools):
            sets.setdefault((pool.like is None, o if pool.like is None else pool.like), []).append(o)
        return [tuple(pools) for pools in sets.values()]

    def written_out(self, row: Row) -> Row:
        """A row with the terms of its sums as its own."""
        if not row.sums:
            return row
        parts = [(self.sums[s], factor) for s, factor in row.sums]
        return replace(
            row,
            commit=(*row.commit, *((i, f * factor) for part, factor in parts for i, f in part.commit)),
            chosen=(*row.chosen, *((q, f * factor) for part, factor in parts for q, f in part.chosen)),
            sums=(),
        )

    def pool_capacities(self, pool: int) -> list[int]:
        """Indices of the ways to hold nodes of a pool."""
        if not self._ways:
            for i, c in enumerate(self.capacities):
                self._ways.setdefault(c.pool, []).append(i)
        return self._ways.get(pool, [])
