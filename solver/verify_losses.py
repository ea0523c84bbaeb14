"""Recheck what a service survives: the worst nodes lost, as many as asked or as chance takes, and whole places lost."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Serve
from solver.plan import Placement, Result, WorkloadPlan
from solver.verify_week import nodes_held

SLACK = 1e-6
HOURS = 730.0
TAKEN_TOGETHER = 3
"""Up to so many lost nodes every way to share them out among sets of like pools is tried; more are taken one by one from the dearest."""


@dataclass(frozen=True)
class Carrying:
    """Replicas of one kind in one period: how many, what each carries [requests/s or in flight], and the nodes below.

    `like` names the pools that count as one with theirs where nodes are lost, and `held` is the nodes of all of these.
    """

    placement: Placement
    count: int
    rate: float
    node_gpus: int
    held: int
    site: str | None
    like: tuple[object, ...]


def like_pools(result: Result) -> dict[str, tuple[object, ...]]:
    """What every pool counts as where nodes are lost, by the lines of the bill that hold it.

    Servers at one site with equally many of the same accelerators in one power state are alike, whatever their hosts are;
    rented pools are each by itself.
    """
    lines = [i for i in result.items if i.pool is not None and i.quantity and i.accelerators]
    alike: dict[str, tuple[object, ...]] = {str(i.pool): (i.pool,) for i in lines}
    for i in lines:
        if i.kind == "server":
            size = round((i.accelerators or 0) / i.quantity)
            alike[str(i.pool)] = (i.site, i.accelerator, size, i.power_limit_w)
    return alike


def like_nodes(result: Result, alike: dict[str, tuple[object, ...]], period: str) -> dict[tuple[object, ...], int]:
    """Nodes held in a period of all pools that count as one."""
    held: dict[tuple[object, ...], int] = defaultdict(int)
    for pool, like in alike.items():
        held[like] += nodes_held(result, pool, period)
    return held


def check_losses(
    work: Serve, plan: WorkloadPlan, period: str, here: list[Carrying], demand: float, catalog: Catalog
) -> list[str]:
    """Demand [as rates] in a period against every loss that the service must survive."""
    if demand <= 0:
        return []
    wrong = []
    supply = sum(x.rate * x.count for x in here)
    needed = demand * (1 - SLACK) - 1e-12
    lose = work.nodes_to_lose
    if work.availability is not None:
        lose = max(lose, least_to_lose(here, work.availability, catalog))
        if plan.spare_nodes is None or plan.spare_nodes < lose:
            wrong.append(f"{work.name}: {lose} nodes may fail in {period}, the plan says {plan.spare_nodes}")
        sure = at_most(_nodes(here), lose, _worst(here, catalog))
        if plan.availability is None or plan.availability > sure + 1e-9:
            wrong.append(f"{work.name}: availability in {period} is {sure:.6f}, the plan says {plan.availability}")
    if lose and supply - worst_loss(here, lose) < needed:
        what = "a node" if lose == 1 else f"{lose} nodes"
        wrong.append(f"{work.name}: demand in {period} does not survive the loss of {what}")
    for apart in work.spread:
        places: dict[tuple[str, ...], float] = defaultdict(float)
        for x in here:
            places[_place(x, apart, catalog)] += x.rate * x.count
        for place, gone in places.items():
            if supply - gone < needed:
                wrong.append(f"{work.name}: demand in {period} does not survive the loss of {apart} {'/'.join(place)}")
    return wrong


def _by_like(here: list[Carrying]) -> list[list[Carrying]]:
    """What is in use, by pools that count as one."""
    sets: dict[tuple[object, ...], list[Carrying]] = defaultdict(list)
    for x in here:
        if x.count:
            sets[x.like].append(x)
    return list(sets.values())


def _nodes(here: list[Carrying]) -> int:
    """Most nodes that may carry the service: no more than are held, no more than its replicas stand on."""
    out = 0
    for mine in _by_like(here):
        spanned = sum(x.count * math.ceil(x.placement.accelerators_per_replica / x.node_gpus) for x in mine)
        out += min(spanned, mine[0].held)
    return out


def _lost_in(mine: list[Carrying], nodes: int) -> float:
    """What some full nodes of like pools carry: as many of the best replicas as fit, and no more than all of them."""
    full = max(x.rate * max(1, x.node_gpus // x.placement.accelerators_per_replica) for x in mine)
    return min(nodes * full, sum(x.rate * x.count for x in mine))


def worst_loss(here: list[Carrying], nodes: int) -> float:
    """Most that any so many nodes carry, wherever the replicas stand."""
    sets = _by_like(here)
    if nodes > TAKEN_TOGETHER:
        # Each further node of a set takes no more than the one before it, so the largest next loss is always right.
        steps = [_lost_in(m, j) - _lost_in(m, j - 1) for m in sets for j in range(1, nodes + 1)]
        return sum(sorted(steps, reverse=True)[:nodes])
    ways: Iterator[tuple[int, ...]] = itertools.combinations_with_replacement(range(len(sets)), nodes)
    return max((sum(_lost_in(sets[n], way.count(n)) for n in set(way)) for way in ways), default=0.0)


def at_most(n: int, k: int, u: float) -> float:
    """Chance that no more than k of n nodes are down: sum of binomial terms, each from the one before."""
    term = (1 - u) ** n
    out = term
    for i in range(1, min(k, n) + 1):
        term *= (n - i + 1) / i * u / (1 - u)
        out += term
    return min(1.0, out)


def least_to_lose(here: list[Carrying], availability: float, catalog: Catalog) -> int:
    """Fewest nodes k such that more than k are down in at most 1 - availability of the time."""
    n, u, k = _nodes(here), _worst(here, catalog), 0
    while k < n and at_most(n, k, u) < availability - 1e-15:
        k += 1
    return k


def _worst(here: list[Carrying], catalog: Catalog) -> float:
    """Unavailability of the least sure node in use."""
    return max((_down(x, catalog) for x in here if x.count), default=0.0)


def _down(x: Carrying, catalog: Catalog) -> float:
    offer_id = x.placement.pool.removesuffix("#spot").removesuffix("#units")
    rented = catalog.offers.filter(pl.col("offer_id") == offer_id).height > 0
    repair = catalog.assumption("rented_node_repair_h" if rented else "own_node_repair_h")
    down = x.node_gpus * catalog.assumption("accelerator_interruptions_per_month") * repair
    up = HOURS / (HOURS + down)
    if x.placement.pool.endswith("#spot"):
        row = catalog.prices.filter((pl.col("offer_id") == offer_id) & (pl.col("billing") == "spot"))
        known = row["interruption_per_month"].drop_nulls()
        rate = float(known[0]) if known.len() else catalog.assumption("spot_interruption_per_month")
        up *= HOURS / (HOURS + rate * catalog.assumption("spot_replace_h"))
    return 1 - up


def _place(x: Carrying, apart: str, catalog: Catalog) -> tuple[str, ...]:
    """Name of the zone, region, provider or site that the nodes stand in; all own rooms are one provider."""
    offer = catalog.offers.filter(pl.col("offer_id") == x.placement.pool.removesuffix("#spot").removesuffix("#units"))
    if offer.is_empty():
        return ("own",) if apart == "provider" else ("own", x.site or "")
    row = offer.row(0, named=True)
    keys = {"provider": ["provider"], "zone": ["provider", "region", "zone"]}.get(apart, ["provider", "region"])
    return tuple(str(row[k] or "") for k in keys)
