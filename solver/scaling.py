"""Candidates -> Instance: the one place where floats become integers.

Rounding goes against the buyer: money up to the next cent, watts up, demand up, supply down; what is lost to rounding of
rates stays within COVERAGE_SLACK, which coverage forgives. A float within 1e-4 of a cent counts as that cent, so that
prices which are exact decimals stay exact. Bounds of counts follow from demand, so that every expression stays far
from 2^63.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Fixed, Problem, Serve
from solver.candidates import Candidates
from solver.candidates.fleet_gear import GIVEN_UP, STARTED
from solver.candidates.frames import fx_rates, money_in
from solver.candidates.gear import GearContext, build_gear
from solver.candidates.leases import lease_number
from solver.candidates.likeness import like_numbers
from solver.candidates.money import site_frame
from solver.candidates.periods import Stage, week_periods
from solver.candidates.survival import survival
from solver.candidates.weekly import repeat_of
from solver.gear_scaling import Names, numbered_sums, scaled_gear, scaled_rows, scaled_sums
from solver.instance import (
    DEMAND_UNIT,
    MOST_TO_LOSE,
    SHARE_UNIT,
    Capacity,
    Instance,
    Option,
    Pool,
    Quota,
    Replica,
    Runs,
    Service,
    Site,
    Wish,
)
from solver.rounding import cents, cents_down, component_cents, grams, watts

MAX_NODES = 100_000
MAX_RATE = 1_000 * DEMAND_UNIT
"""A replica that could serve more than a thousand times the demand counts as one that serves just that: sums stay small."""
MAX_BUCKET_RATE = 100_000 * DEMAND_UNIT
"""The same for one request size of several: what serves a rare size a thousandfold still has all its time for the others."""


POOL_COLUMNS = ("pool", "accelerator", "gpus", "site", "spot", "it_w", "facility_w", "node_limit")
REPLICA_COLUMNS = ("work", "pool", "gpus", "node_gpus", "rates", "blend", "energy", "carbon", "tariff")
OPTION_COLUMNS = (
    "work",
    "pool",
    "billing",
    "pooled",
    "gpus",
    "nodes",
    "slots",
    "duration_h",
    "cost",
    "cash",
    "monthly",
    "carbon",
)
"""What integers are made of."""


@dataclass(frozen=True)
class Scaled:
    """An instance with the frames that its indices count (same order)."""

    instance: Instance
    pools: pl.DataFrame
    capacity: pl.DataFrame
    replicas: pl.DataFrame
    options: pl.DataFrame
    prices: tuple[dict[str, Any], ...]  # every price row of the pools, those that only jobs hire at included
    period_hours: tuple[float, ...]  # of each period in the mean month of the horizon [h]
    stages: tuple[Stage, ...]
    asked: tuple[tuple[float, ...], ...]  # per service and period: requests that come, as a share of those planned for
    gear: pl.DataFrame


def demands(work: Serve) -> list[float]:
    """Demand of each request-size bucket at load 1: requests/s, or requests in flight for a concurrency."""
    total = work.traffic.load
    return [total * b.share for b in work.traffic.buckets]


def _numbered(pools: list[Pool], ways: list[dict[str, Any]], *, commit: bool) -> dict[str, list[int]]:
    """Numbers of the ways to hold each pool's nodes, by the pool's name: commitments, or what is hired by the hour."""
    found: dict[str, list[int]] = {p.key: [] for p in pools}
    for i, way in enumerate(ways):
        if bool(way["commit"]) is commit:
            found[way["pool"]].append(i)
    return found


def scale(found: Candidates, catalog: Catalog) -> Scaled:
    """Turn candidates into the integer instance.

    Raises
    ------
    ValueError
        When a budget is in a currency that the catalogue has no rate for.
    """
    problem = found.problem
    pools = found.pools.sort("pool")
    index = {name: i for i, name in enumerate(pools["pool"])}
    capacity = found.capacity.sort("pool", "billing", "term_months", "upfront_share", "row")
    ways = capacity.to_dicts()
    services = [w for w in problem.workloads if isinstance(w, Serve)]
    jobs = [w.name for w in problem.workloads if not isinstance(w, Serve)]
    replicas, replica_rows = _replicas(found, services, index)
    options, option_rows = _options(found, jobs, index)
    site_names = [s.name for s in problem.sites]
    share = problem.policy.spot_share
    pool_rows = [
        Pool(
            key=r["pool"],
            accelerator=r["accelerator"],
            gpus=int(r["gpus"]),
            site=None if r["site"] is None else site_names.index(r["site"]),
            spot=bool(r["spot"]),
            it_w=watts(r["it_w"]),
            facility_w=watts(r["facility_w"]),
            node_limit=r["node_limit"],
            like=like,
        )
        for r, like in zip(pools.select(POOL_COLUMNS).iter_rows(named=True), like_numbers(pools), strict=True)
    ]
    replicas = _with_like_nodes(replicas, pool_rows)
    lost = [survival(w, pools, catalog, _most_nodes_of(replicas, s, w, share)) for s, w in enumerate(services)]
    replicas = _with_spares(replicas, pool_rows, services, lost)
    most = [n + spare_nodes(problem, n) for n in _most_nodes(pool_rows, replicas, options)]
    rates = fx_rates(catalog, problem.currency)
    sites, _ = site_frame(problem, catalog)
    gears = build_gear(GearContext(found, catalog, sites, dict(zip(index, most, strict=True))))
    gear = gears.options
    names = Names(
        commit=_numbered(pool_rows, ways, commit=True),
        hourly=_numbered(pool_rows, ways, commit=False),
        pool=index,
        option={} if option_rows.is_empty() else {row: q for q, row in enumerate(option_rows["row"])},
        replica={} if replica_rows.is_empty() else {row: k for k, row in enumerate(replica_rows["row"])},
        gear={key: g for g, key in enumerate(gear["key"])},
        wish={w.name: i for i, w in enumerate(problem.workloads)} if problem.weighed else {},
        way={int(r["row"]): (i, bool(r["commit"])) for i, r in enumerate(ways)},
        stages={i: range(w["first_stage"], w["until_stage"]) for i, w in enumerate(ways) if w["commit"]},
        stage_of=tuple(p.stage for p in found.periods),
        sums=numbered_sums(gears.rules),
    )
    instance = Instance(
        periods=tuple(p.name for p in found.periods),
        pools=tuple(pool_rows),
        capacities=tuple(_capacity(r, index, most, found) for r in ways),
        services=tuple(replace(_service(w, s, found), **lost[s]) for s, w in enumerate(services)),
        replicas=tuple(replicas),
        jobs=tuple(jobs),
        options=tuple(options),
        quotas=_quotas(problem, pool_rows),
        **_limits(problem, rates),
        spot_share_ppm=math.floor(problem.policy.spot_share * 1_000_000 + 1e-6),
        objective=problem.objective,
        gear=tuple(scaled_gear(r, site_names, found.terms.stages) for r in gear.iter_rows(named=True)),
        runs=_runs(problem, jobs) if any(o.slots for o in options) else (),
        weeks=week_periods(found.calendar, found.periods),
        rows=tuple(row for rule in gears.rules for row in scaled_rows(rule, names)),
        sums=scaled_sums(names.sums, names),
        stage_of=tuple(p.stage for p in found.periods),
        wishes=_wishes(problem, rates),
        moved=tuple(g for g, key in enumerate(gear["key"]) if key.startswith((GIVEN_UP, STARTED))),
    )
    prices = (
        found.prices.filter(pl.col("pool").is_in(pools["pool"].implode())).sort("pool", "billing", "price").to_dicts()
    )
    hours = tuple(p.hours_per_month * (found.terms.stage(p).months / problem.horizon) for p in found.periods)
    return Scaled(
        instance,
        pools,
        capacity,
        replica_rows,
        option_rows,
        tuple(prices),
        hours,
        found.terms.stages,
        _asked(services, found),
        gear,
    )


def _limits(problem: Problem, rates: pl.DataFrame) -> dict[str, Any]:
    """Fields of an instance that limit watts and money: whole watts and cents, rounded down."""

    def least_w(limit: float | None) -> int | None:
        return None if limit is None else math.floor(limit + 1e-6)

    budget = problem.limits.budget
    money = {"capex": budget.capex, "monthly": budget.monthly, "total": budget.total}
    return {
        "sites": tuple(Site(s.name, least_w(s.it_power), least_w(s.power)) for s in problem.sites),
        "limit_power_w": least_w(problem.limits.power),
        **{f"limit_{k}": None if x is None else cents_down(money_in(x, rates)) for k, x in money.items()},
    }


def with_limits(scaled: Scaled, problem: Problem, catalog: Catalog) -> Scaled:
    """Integers of a problem as those of another one that differs in the amounts of its limits of watts and money alone."""
    limits = _limits(problem, fx_rates(catalog, problem.currency))
    return replace(scaled, instance=replace(scaled.instance, **limits))


def _runs(problem: Problem, jobs: list[str]) -> tuple[Runs, ...]:
    """Runs of every job in the week; `fixed` ones have none."""
    works = [w for w in problem.workloads if not isinstance(w, Serve)]
    out = []
    for work in works:
        if isinstance(work, Fixed):
            out.append(Runs())
            continue
        repeat = repeat_of(work, problem.horizon)
        out.append(Runs(repeat.starts, repeat.spans, tuple(jobs.index(name) for name in repeat.after)))
    return tuple(out)


def _quotas(problem: Problem, pools: list[Pool]) -> tuple[Quota, ...]:
    """Quotas over the pools they name, as `offer`, `provider/offer` or `provider/offer/region`."""
    out = []
    owned: dict[str, list[int]] = {}
    for i, pool in enumerate(pools):
        if pool.site is not None and pool.node_limit is not None:
            owned.setdefault(pool.key.split("@")[0], []).append(i)
    for key, same in sorted(owned.items()):
        # Power states of one machine are pools of their own, but the machines are the same.
        most = max(pools[i].node_limit or 0 for i in same)
        out.append(Quota(f"owned[{key}]", tuple(same), most))
    for n, quota in enumerate(problem.limits.quota):
        hit = []
        for i, pool in enumerate(pools):
            if pool.site is None:
                whole = pool.key.removesuffix("#spot").removesuffix("#units")
                provider_offer = whole.rsplit("/", 1)[0]
                if quota.offer in (whole, provider_offer, provider_offer.split("/", 1)[-1]):
                    hit.append(i)
        if hit:
            out.append(Quota(f"limits.quota[{n}]", tuple(hit), quota.max))
    return tuple(out)


def priorities(problem: Problem) -> list[int]:
    """Priorities of a problem that weighs its workloads, the first one first; a workload that gives none is of the first."""
    return sorted({w.priority or 1 for w in problem.workloads}) if problem.weighed else []


def _wishes(problem: Problem, rates: pl.DataFrame) -> tuple[Wish, ...]:
    """One wish per workload, in the problem's order; none where all must be served."""
    levels = priorities(problem)
    numbers = {True: 0, False: 0}
    out = []
    for work in problem.workloads if levels else ():
        job = not isinstance(work, Serve)
        out.append(
            Wish(
                job=job,
                work=numbers[job],
                level=levels.index(work.priority or 1),
                value=1 if work.value is None else cents_down(money_in(work.value, rates)),
                least=SHARE_UNIT if work.min_share is None else math.ceil(work.min_share * SHARE_UNIT - 1e-9),
            )
        )
        numbers[job] += 1
    return tuple(out)


def _service(work: Serve, number: int, found: Candidates) -> Service:
    """Demand scaled to DEMAND_UNIT at the busiest, rounded up elsewhere."""
    levels = [p.levels[number] for p in found.periods]
    top = max(levels, default=0.0) or 1.0
    scaled = tuple(math.ceil(round(DEMAND_UNIT * level / top, 3)) for level in levels)
    return Service(work.name, tuple(scaled for _ in work.traffic.buckets), work.nodes_to_lose, work.interruptible)


def _asked(services: list[Serve], found: Candidates) -> tuple[tuple[float, ...], ...]:
    """Share of the requests planned for that come: levels are planned for their busiest hour, stages for their highest month."""
    out = []
    for work, loss in zip(services, found.calendar.loss, strict=True):
        spans = [(s, work.traffic.highest(s.start, s.end)) for s in found.terms.stages]
        shares = [work.traffic.mean(s.start, s.end) / top / (1 + loss) if top else 1.0 for s, top in spans]
        out.append(tuple(shares[p.stage] for p in found.periods))
    return tuple(out)


def top_level(found: Candidates, number: int) -> float:
    """Highest load level of a service over all periods (1 unless its calendar never reaches it)."""
    return max((p.levels[number] for p in found.periods), default=1.0) or 1.0


def _replicas(found: Candidates, services: list[Serve], index: dict[str, int]) -> tuple[list[Replica], pl.DataFrame]:
    if found.replicas.is_empty():
        return [], found.replicas
    frame = found.replicas.sort("work", "pool", "gpus", "tp", "row")
    names = [w.name for w in services]
    terms = found.terms
    wants = [[d * top_level(found, s) for d in demands(work)] for s, work in enumerate(services)]
    shares = [(p.hours_per_month / 730.0, terms.stage(p)) for p in found.periods]
    out = []
    # Rows of few columns are read in a fraction of the time.
    for r in frame.select([c for c in frame.columns if c in REPLICA_COLUMNS]).iter_rows(named=True):
        s = names.index(r["work"])
        want = wants[s]
        top = MAX_RATE if len(want) == 1 else MAX_BUCKET_RATE
        rate = tuple(min(top, math.floor(DEMAND_UNIT * x / d)) for x, d in zip(r["rates"], want, strict=True))
        total = sum(want)
        blend = rate[0] if len(rate) == 1 else min(MAX_RATE, math.floor(DEMAND_UNIT * r["blend"] / total))
        # Never more than would serve the whole demand alone, plus one node's worth for redundancy.
        serving = [v for v in rate if v > 0]
        fill = max(1, int(r["node_gpus"]) // int(r["gpus"]))
        need = math.ceil(DEMAND_UNIT / min(serving)) * (1 if len(rate) == 1 else len(rate)) if serving else 0
        # Rounded per GPU, so that two replicas of one GPU and one of two cost the same to the cent.
        gpus = int(r["gpus"])
        energy, carbon = r["energy"] / gpus, r["carbon"] / gpus
        # Hours of a period at the week's mean price of electricity.
        paid = [(h * t, at) for (h, at), t in zip(shares, r["tariff"] or [1.0] * len(shares), strict=True)]
        out.append(
            Replica(
                work=s,
                pool=index[r["pool"]],
                gpus=gpus,
                rate=rate,
                max_count=min(MAX_NODES, need + fill + 1),
                cost=tuple(gpus * cents(energy * h * at.discounted) for h, at in paid),
                cash=tuple(gpus * cents(energy * h * at.months) for h, at in paid),
                monthly=tuple(gpus * cents(energy * h) for h, _ in paid),
                carbon=tuple(gpus * grams(carbon * h * at.months) for h, at in shares),
                blend=blend,
                node_blend=fill * blend,
                nodes=max(1, -(-gpus // int(r["node_gpus"]))),
            )
        )
    return out, frame


def _most_nodes_of(replicas: list[Replica], service: int, work: Serve, spot_share: float) -> Callable[[int], int]:
    """Most nodes worth using for a service that must survive the loss of k of them.

    Of what the loss leaves, no more replicas are worth having than serve the demand as the slowest kind; lost are at most k
    full nodes. Being spread over places, and a cap on spot, ask for as much once more each.
    """
    mine = [r for r in replicas if r.work == service]
    slowest = min((x for r in mine for x in (*r.rate, r.blend) if x > 0), default=DEMAND_UNIT)
    needed = (-(-DEMAND_UNIT // slowest) + 1) * len(work.traffic.buckets)
    needed *= 1 + bool(work.spread) + (spot_share < 1)
    fill = max((-(-r.node_blend // r.blend) for r in mine if r.blend), default=1)
    wide = max((r.nodes for r in mine), default=1)
    return lambda k: min(MAX_NODES, wide * (needed + max(k, work.nodes_to_lose) * max(1, fill)))


def _with_like_nodes(replicas: list[Replica], pools: list[Pool]) -> list[Replica]:
    """A full node of a pool counts as the fullest of those like it, whichever of them a plan or a part of the problem has."""
    most: dict[tuple[int, int], int] = {}
    likes = [pools[r.pool].like for r in replicas]
    for r, like in zip(replicas, likes, strict=True):
        if like is not None:
            most[r.work, like] = max(most.get((r.work, like), 0), r.node_blend)
    return [
        r if like is None or most[r.work, like] == r.node_blend else replace(r, node_blend=most[r.work, like])
        for r, like in zip(replicas, likes, strict=True)
    ]


def _with_spares(
    replicas: list[Replica], pools: list[Pool], services: list[Serve], lost: list[dict[str, Any]]
) -> list[Replica]:
    """Bounds of counts with room for the nodes that a service may lose, beyond the one of its own that each kind has room for.

    A lost node counts as the fullest of its pool and of those like it, which may be worth more replicas of a kind than fit.
    """
    fullest: dict[tuple[int, int], int] = {}
    for r in replicas:
        fullest[r.work, r.pool] = max(fullest.get((r.work, r.pool), 0), r.node_blend)
    out = []
    for r in replicas:
        steps = max((len(x.steps) for x in lost[r.work].get("ladders", ())), default=0)
        spare = max(services[r.work].nodes_to_lose, min(steps, MOST_TO_LOSE))
        worth = max(1, -(-fullest[r.work, r.pool] // r.blend)) if r.blend else 1
        more = spare * worth - max(1, pools[r.pool].gpus // r.gpus)
        out.append(replace(r, max_count=min(MAX_NODES, r.max_count + more)) if more > 0 else r)
    return out


def _options(found: Candidates, jobs: list[str], index: dict[str, int]) -> tuple[list[Option], pl.DataFrame]:
    if found.options.is_empty():
        return [], found.options
    frame = found.options.sort("work", "pool", "billing", "nodes", "gpus", "row")
    return [
        Option(
            work=jobs.index(r["work"]),
            pool=index[r["pool"]],
            billing=r["billing"],
            pooled=r["pooled"],
            gpus=int(r["gpus"]),
            nodes=int(r["nodes"]),
            duration_s=math.ceil(r["duration_h"] * 3600 - 1e-6),
            cost=cents(r["cost"]),
            cash=cents(r["cash"]),
            monthly=cents(r["monthly"]),
            carbon=math.ceil(r["carbon"]),
            slots=int(r["slots"]),
        )
        for r in frame.select([c for c in frame.columns if c in OPTION_COLUMNS]).iter_rows(named=True)
    ], frame


def _most_nodes(pools: list[Pool], replicas: list[Replica], options: list[Option]) -> list[int]:
    """Upper bound of the nodes of each pool worth holding: all services and pooled jobs at once on it."""
    most = [0] * len(pools)
    per_service: dict[tuple[int, int], int] = {}
    for r in replicas:
        need = -(-r.max_count * r.gpus // pools[r.pool].gpus)
        key = (r.pool, r.work)
        per_service[key] = max(per_service.get(key, 0), need)
    for (pool, _), need in per_service.items():
        most[pool] += need
    per_job: dict[tuple[int, int], int] = {}
    for o in options:
        if o.pooled:
            key = (o.pool, o.work)
            per_job[key] = max(per_job.get(key, 0), -(-o.gpus // pools[o.pool].gpus))
    for (pool, _), need in per_job.items():
        most[pool] += need
    # Limits on nodes and watts are rows of the model, not bounds: what a limit is worth is asked by leaving its row out.
    return [min(n, MAX_NODES) for n in most]


def spare_nodes(problem: Problem, working: int) -> int:
    """Nodes that stand by beside so many working ones of a kind."""
    return max(problem.tco.spares.nodes, math.ceil(working * problem.tco.spares.node_share - 1e-9)) if working else 0


def _capacity(r: dict[str, Any], index: dict[str, int], most: list[int], found: Candidates) -> Capacity:
    """One way to hold a pool. A commitment's cash is the sum of its rounded bill components, so that bills add up."""
    pool = index[str(r["pool"])]
    commit = bool(r["commit"])
    number = lease_number(str(r["billing"]))
    costs: list[float] = r["costs"]
    cashes: list[float] = r["cashes"]
    if commit:
        cash: tuple[int, ...] = (sum(component_cents(r).values()),)
        # Without a discount rate the objective is the bill itself, to the cent.
        cost: tuple[int, ...] = (
            cash if abs(costs[0] - cashes[0]) < 1e-9 * max(1.0, abs(cashes[0])) else (cents(costs[0]),)
        )
    else:
        cash = tuple(cents(x) for x in cashes)
        cost = tuple(cents(x) for x in costs)
    monthlies: list[float] = r["monthlies"]
    carbons: list[float] = r["carbons"]
    return Capacity(
        pool=pool,
        billing=str(r["billing"]),
        commit=commit,
        max_nodes=most[pool] if number is None else found.problem.leases[number].count,
        cost=cost,
        cash=cash,
        capex=cents(float(r["capex"])),
        monthly=tuple(cents(x) for x in monthlies),
        carbon=tuple(math.ceil(x) for x in carbons),
        start=int(r["first_stage"]),
        active=tuple(
            int(r["first_stage"]) <= p.stage < int(r["until_stage"]) and (r["levels"] is None or p.level in r["levels"])
            for p in found.periods
        )
        if commit
        else (),
    )
