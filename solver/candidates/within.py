"""What no limit of watts leaves room for: rows and pools that cannot be in a plan of the problem as it stands.

Power states are there for limits of watts alone: a problem without any is compiled without them. A capped pool is
therefore left out where none of the site's limits leaves room for what it could be of use for:

- a job on several nodes that draws more than the limit, with the switch that more than two nodes need;
- nodes on leaves with fewer ports upward, where all ports that the limit feeds fit one such leaf;
- a node with RDMA on which no work spans nodes, where nodes with such work would not fit beside it: a plan that held it would
  pay for RDMA that nothing uses, and every node of that network has a sister with plain NICs that does the same work.

Questions about other limits (what one is worth, how far it must give way) take the candidates as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from problems.schema import Problem
from solver.candidates.fabric_pools import OVERSUBSCRIPTION
from solver.candidates.leases import is_lease
from solver.candidates.likeness import Kept
from solver.candidates.reduce import MONEY, pairs_of

SLACK_W = 1.0
"""Limits are taken this much wider: watts of nodes are rounded up only when they are scaled [W]."""
WATTS = ("it_w", "facility_w")


@dataclass(frozen=True)
class Limit:
    """A limit of watts at a site: the column that it counts, and the most of it [W]."""

    site: str
    column: str
    watts: float


def limits_of_watts(problem: Problem, axes: Sequence[str] = ()) -> list[Limit]:
    """Limits of watts at the sites where these are all that makes capping cards worth while.

    None where watts count beside limits: as the aim or an axis, under a cap that the policy sets, in racks and on circuits.
    """
    if {"power", "carbon"} & {problem.objective, *axes} or problem.policy.gpu_power_limit is not None:
        return []
    found = []
    for site in problem.sites:
        if site.racks is not None or site.circuits:
            continue
        every = [("it_w", site.it_power), ("facility_w", site.power), ("facility_w", problem.limits.power)]
        found += [Limit(site.name, column, watts + SLACK_W) for column, watts in every if watts is not None]
    return found


def _beyond(limits: list[Limit], draws: Callable[[str], pl.Expr]) -> pl.Expr:
    """True at a site with limits of watts, all of which are exceeded by what `draws` says of a column."""
    by_site: dict[str, list[pl.Expr]] = {}
    for x in limits:
        by_site.setdefault(x.site, []).append((draws(x.column) > x.watts).fill_null(False))
    each = [(pl.col("site") == site).fill_null(False) & pl.all_horizontal(over) for site, over in by_site.items()]
    return pl.any_horizontal(pl.lit(False), *each)


def outside(pools: pl.DataFrame, problem: Problem, axes: Sequence[str] = ()) -> pl.Series:
    """Pools that are of use only where no limit of watts is left at their site: too heavy, or on slim leaves for few ports."""
    limits = limits_of_watts(problem, axes)
    if not limits:
        return pl.Series("pool", [], pl.String)
    return pl.concat([pools.filter(_beyond(limits, pl.col))["pool"], _one_leaf(pools, limits)]).unique()


def without_room(
    pools: pl.DataFrame, replicas: pl.DataFrame, options: pl.DataFrame, problem: Problem, axes: Sequence[str] = ()
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Pools, replicas and options less those of capped pools that no limit of watts leaves room for, but for RDMA alone."""
    limits = limits_of_watts(problem, axes)
    capped = pools.filter(pl.col("power_limit_w").is_not_null() & pl.col("site").is_in([x.site for x in limits]))
    if capped.is_empty():
        return pools, replicas, options
    gone = outside(pools, problem, axes)
    lost = capped.filter(pl.col("pool").is_in(gone.implode()))["pool"]
    pools = pools.filter(~pl.col("pool").is_in(lost.implode()))

    def fewer(rows: pl.DataFrame, unswitched: int) -> pl.DataFrame:
        if rows.is_empty():
            return rows
        mine = rows.join(
            capped.select("pool", "site", *WATTS, "switch_power_w"), on="pool", how="left", maintain_order="left"
        )
        switch = pl.when(pl.col("nodes") > unswitched).then(pl.col("switch_power_w").fill_null(0.0)).otherwise(0.0)
        over = (pl.col("nodes") > 1) & _beyond(limits, lambda column: pl.col("nodes") * pl.col(column) + switch)
        keep = mine.select(~(over | pl.col("pool").is_in(lost.implode())).fill_null(False)).to_series()
        return rows.filter(keep)

    # Two nodes of a job may be linked without a switch, those of a service may not.
    return pools, fewer(replicas, 1), fewer(options, 2)


def without_idle_nics(
    pools: pl.DataFrame, replicas: pl.DataFrame, options: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Pools, replicas and options less those of NICs and leaves that only work across nodes could use, where there is none.

    Servers built for work across nodes only, on which none spans nodes: work inside a node has a level of its own with the same needs
    of the host and no more NICs of the same network, so another pool does the same for no more money, watts and ports.

    Pools on leaves with fewer ports upward, of a network on which nothing spans nodes at their site whatever its leaves: its switches
    stand side by side in either case. Moved to those of the same servers on the usual leaves, n ports there and m here fill
    ceil((n + m) / r) <= ceil(n / r) + ceil(m / r) of them. Not where systems sold whole share the network, as one alone has no switch.
    """
    frames = [f.filter(pl.col("nodes") > 1)["pool"] for f in (replicas, options) if not f.is_empty()]
    spanning = pl.concat(frames) if frames else pl.Series("pool", [], pl.String)
    spanned = pl.col("pool").is_in(spanning.implode())
    slim = pl.col("oversubscription").is_not_null() & pl.col("site").is_not_null() & (pl.col("kind") == "server")
    needed = (spanned | pl.col("complete").fill_null(False)).any().over("site", "network")
    useless = (pl.col("spans").fill_null(False) & ~spanned) | (slim & ~needed)
    idle = pools.filter(useless)["pool"].implode()
    pools, replicas, options = (
        frame if frame.is_empty() else frame.filter(~pl.col("pool").is_in(idle)) for frame in (pools, replicas, options)
    )
    return pools, replicas, options


def _most_ports(pools: pl.DataFrame, limits: list[Limit], by: list[str]) -> pl.DataFrame:
    """The most NIC ports that every limit of a site at once leaves room for, by site and more: `by`, most_ports."""
    wired = pools.filter(pl.col("nic_count") > 0)
    parts = [
        wired.filter(pl.col("site") == x.site)
        .group_by(by)
        .agg(most_ports=(pl.lit(x.watts) * (pl.col("nic_count") / pl.col(x.column)).max()).floor())
        for x in limits
    ]
    # As rows are dropped that exceed every limit, the widest of them counts.
    return pl.concat(parts).group_by(by).agg(pl.col("most_ports").max())


def _one_leaf(pools: pl.DataFrame, limits: list[Limit]) -> pl.Series:
    """Pools on slim leaves whose site feeds no more ports of the network than one leaf has."""
    down = (pl.col("switch_ports") * OVERSUBSCRIPTION / (OVERSUBSCRIPTION + 1) + 1e-9).floor()
    most = _most_ports(pools, limits, ["site", "network"])
    slim = pools.filter(pl.col("oversubscription").is_not_null())
    joined = slim.join(most, on=["site", "network"], how="inner")
    return joined.filter(pl.col("most_ports") <= down)["pool"]


def counted_money(problem: Problem, axes: Sequence[str] = ()) -> list[str]:
    """What of `solver.candidates.reduce.MONEY` the objective, an axis or a budget counts: of two plans the rest decides nothing."""
    budget = problem.limits.budget
    limits = {"cash": budget.total, "monthly": budget.monthly, "capex": budget.capex}
    counted = {"cost", problem.objective, *axes, *(k for k, limit in limits.items() if limit is not None)}
    return [kind for kind in MONEY if kind in counted]


def idle_rdma(
    pools: pl.DataFrame,
    capacity: pl.DataFrame,
    replicas: pl.DataFrame,
    pooled: pl.DataFrame,
    extra: list[str],
    kept: Kept,
    calm: bool,
    money: Sequence[str],
    problem: Problem,
    axes: Sequence[str] = (),
) -> pl.Series:
    """Pools with RDMA on which no work spans nodes, beside which no limit of watts leaves room for nodes with such work.

    A plan that holds such a node has no work that spans nodes on its fabric. All nodes there may then be swapped for sisters
    with plain NICs, which cost and draw no more; those go on one switch that costs and draws no more than the one that is given
    up and has a port for every NIC that the limit feeds. Nodes without such a sister do not fit beside it either.
    """
    limits = limits_of_watts(problem, axes)
    here = pl.col("site").is_in([x.site for x in limits]) & (pl.col("nic_count") > 0) & pl.col("network").is_not_null()
    wired = pools.filter(here)
    joining, plain = wired.filter("rdma"), wired.filter(~pl.col("rdma"))
    if joining.is_empty() or plain.is_empty():
        return pl.Series("pool", [], pl.String)
    spans = pl.concat([_by_span(replicas, joining), _by_span(pooled, joining)])
    sisters = pairs_of(
        pl.concat([joining, plain]),
        capacity.filter(~is_lease()),
        _inside(replicas),
        _inside(pooled),
        extra,
        ["accelerator", "power_limit_w"],
        kept,
        _plain_sister(joining, plain),
        calm,
        money,
    ).join(plain.select(pool_a="pool", network_a="network"), on="pool_a")
    fabrics = _swapped(joining, plain, _most_ports(wired, limits, ["site"]))
    works = [f.filter(pl.col("nodes") <= 1)["pool"] for f in (replicas, pooled) if not f.is_empty()]
    works_inside = pl.col("pool").is_in(pl.concat(works).implode())
    members = joining.join(fabrics, on=["site", "network"], how="inner").join(
        sisters.select("pool", "network_a").unique().with_columns(sister=pl.lit(True)),
        on=["pool", "network_a"],
        how="left",
    )
    members = members.join(spans.group_by("pool").agg(nodes=pl.col("nodes").min()), on="pool", how="left")
    family = ["site", "network", "oversubscription", "network_a"]
    beside = []
    for column in WATTS:
        host = (pl.col("nodes") * pl.col(column) + pl.col("switch_power_w")).min()
        alone = pl.col(column).filter(pl.col("sister").is_null() & works_inside).min()
        beside.append(pl.min_horizontal(host, alone).fill_null(float("inf")).over(family).alias(f"beside_{column}"))
    members = members.with_columns(beside)
    idle = pl.col("nodes").is_null() & pl.col("sister").fill_null(False)
    return members.filter(idle & _beyond(limits, lambda c: pl.col(c) + pl.col(f"beside_{c}")))["pool"].unique()


def _inside(rows: pl.DataFrame) -> pl.DataFrame:
    return rows if rows.is_empty() else rows.filter(pl.col("nodes") <= 1)


def _by_span(rows: pl.DataFrame, pools: pl.DataFrame) -> pl.DataFrame:
    """Nodes of work that spans several, by pool."""
    if rows.is_empty():
        return pl.DataFrame(schema={"pool": pl.String, "nodes": pl.Int64})
    mine = rows.filter((pl.col("nodes") > 1) & pl.col("pool").is_in(pools["pool"].implode()))
    return mine.select("pool", pl.col("nodes").cast(pl.Int64))


def _plain_sister(joining: pl.DataFrame, plain: pl.DataFrame) -> pl.Expr:
    """A pair of a pool with RDMA and one without that takes no more ports and whose drives offer no less."""
    drives = [c for c in joining.columns if c.startswith("local_")]
    as_good = [pl.col(f"{c}_a").fill_null(0) >= pl.col(c).fill_null(0) for c in drives]
    return pl.all_horizontal(
        pl.col("network").is_in(joining["network"].unique().implode()),
        pl.col("network_a").is_in(plain["network"].unique().implode()),
        pl.col("nic_count_a") <= pl.col("nic_count"),
        *as_good,
    )


def _swapped(joining: pl.DataFrame, plain: pl.DataFrame, most: pl.DataFrame) -> pl.DataFrame:
    """Plain networks that may take the place of one with RDMA at a site: site, network, network_a.

    One switch has all the ports that are fed there, and neither switch nor cable costs or draws more.
    """
    figures = ["switch_price_usd", "switch_power_w", "cable_price_usd"]
    columns = ["site", "network", "switch_ports", *figures]
    other = plain.select(columns).unique().join(most, on="site")
    pairs = joining.select(columns).unique().join(other, on="site", suffix="_a")
    cheap = pl.all_horizontal(pl.col(f"{c}_a") <= pl.col(c) for c in figures)
    return pairs.filter(cheap & (pl.col("switch_ports_a") >= pl.col("most_ports"))).select(
        "site", "network", "network_a"
    )
