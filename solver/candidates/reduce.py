"""Exact reductions of the candidate frames: rows that another row beats or equals in everything the model counts.

Each reduction only removes a row when some other row could stand in its place in any feasible plan without costing more,
drawing more or serving less; on a full tie the row with the smaller key stays, so the order of catalogue rows is of no
consequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from solver.candidates.leases import is_lease
from solver.candidates.likeness import Kept, kept_pools, like
from solver.features.storage_room import stands_in

Ints = NDArray[np.int64]


def occupied() -> pl.Expr:
    """Hours of the week that a job keeps; all of them where it takes held machines all month."""
    return (
        pl.when(pl.col("pooled") & (pl.col("slots") == 0))
        .then(float("inf"))
        .otherwise(pl.col("slots").cast(pl.Float64))
    )


def _never_null(column: str) -> pl.Expr:
    """A latency that is not known counts as the worst."""
    return pl.col(column).fill_null(float("inf"))


def reduce_replicas(replicas: pl.DataFrame, extra: Sequence[str] = ()) -> pl.DataFrame:
    """Drop a replica kind where k smaller ones of the same pool together take no more GPUs and serve at least as much.

    `replicas` : work, pool, gpus, nodes, rates (list), extra_w, energy and `row` (a stable key).
    """
    slow = [c for c in extra if c == "latency"]
    same = _same_kind(replicas)
    left = replicas.select("work", "pool", "row", "gpus", "rates", "energy", *same, *slow)
    pairs = left.join(left, on=["work", "pool", *same], suffix="_a").filter(
        (pl.col("row") != pl.col("row_a"))
        & (pl.col("gpus_a") <= pl.col("gpus"))
        & (pl.col("gpus") % pl.col("gpus_a") == 0)
    )
    fold = pl.col("gpus") // pl.col("gpus_a")
    gain = (pl.col("rates_a") * fold - pl.col("rates")).list
    as_good = (gain.min() >= 0) & (pl.col("energy_a") * fold <= pl.col("energy") * (1 + 1e-12))
    better = (gain.max() > 0) | (pl.col("energy_a") * fold < pl.col("energy")) | (pl.col("gpus_a") < pl.col("gpus"))
    for column in slow:
        as_good &= _never_null(f"{column}_a") <= _never_null(column)
        better |= _never_null(f"{column}_a") < _never_null(column)
    beaten = pairs.filter(as_good & (better | (pl.col("row_a") < pl.col("row"))))
    return replicas.join(beaten.select("row").unique(), on="row", how="anti")


def _same_kind(replicas: pl.DataFrame) -> list[str]:
    """Column `alike`, where there is one: only replicas of the same value stand in for one another."""
    return ["alike"] if "alike" in replicas.columns else []


MONEY = ("cost", "cash", "monthly", "capex", "carbon")
"""Kinds of money (and grams) that plans are counted in."""


def reduce_options(
    options: pl.DataFrame, free_pools: pl.Series, extra: list[str], money: Sequence[str] = MONEY
) -> pl.DataFrame:
    """Drop ways to run a job that another way of the same job beats or equals.

    Hired options only meet the rest of the plan in money (and what `extra` counts: duration, watts, carbon), so any hired
    option of a pool without a node limit may stand in for any other of the same `apart` (a column that says what is charged
    together; all, where it is missing); pooled ones are compared inside their pool. `money`: of `MONEY`, what is counted.
    """
    counted = [*(c for c in ("cash", "cost", "monthly") if c in money), "occupied", *extra]
    apart = pl.col("apart") if "apart" in options.columns else pl.lit("")
    free = pl.col("pool").is_in(free_pools.implode())
    left = options.with_columns(free=free, apart=apart, occupied=occupied()).select(
        "work", "apart", "pool", "pooled", "row", "nodes", "gpus", "free", *counted
    )
    pooled, hired = left.filter("pooled"), _without_beaten(left.filter(~pl.col("pooled")), counted)
    not_worse = pl.all_horizontal(pl.col(f"{c}_a") <= pl.col(c) for c in counted) & (pl.col("row") != pl.col("row_a"))
    first = pl.col("row_a") < pl.col("row")
    better = pl.any_horizontal(pl.col(f"{c}_a") < pl.col(c) for c in counted)
    beaten_pooled = pooled.join(pooled, on=["work", "pool"], suffix="_a").filter(
        not_worse & (pl.col("gpus_a") <= pl.col("gpus")) & (better | (pl.col("gpus_a") < pl.col("gpus")) | first)
    )
    beaten_hired = hired.join(hired.filter("free"), on=["work", "apart"], suffix="_a").filter(
        not_worse & (better | first)
    )
    beaten_inside = hired.join(hired, on=["work", "pool"], suffix="_a").filter(
        not_worse & (better | first) & (pl.col("nodes_a") <= pl.col("nodes"))
    )
    beaten = pl.concat([part.select("row") for part in (beaten_pooled, beaten_hired, beaten_inside)]).unique()
    left = pl.concat([pooled.select("row"), hired.select("row")]).join(beaten, on="row", how="anti")
    return options.join(left, on="row", how="semi", maintain_order="left")


def _without_beaten(hired: pl.DataFrame, counted: list[str]) -> pl.DataFrame:
    """Drop most of what is beaten before rows are compared in pairs: a large price list has 100,000 of them.

    For each column, every row is held against the free row that is the least in it. Whatever such a row beats is beaten
    in the end too, and whoever a dropped row would beat is beaten by the same one, so the result is the same.
    """
    for column in counted:
        least = list(dict.fromkeys([column, *counted, "row"]))
        same = ["work", "apart"]
        best = hired.filter("free").sort(*same, *least).group_by(same, maintain_order=True).first()
        named = best.select(*same, pl.col("row").alias("row_a"), *(pl.col(c).alias(f"{c}_a") for c in counted))
        better = pl.any_horizontal(pl.col(f"{c}_a") < pl.col(c) for c in counted)
        worse = pl.all_horizontal(pl.col(f"{c}_a") <= pl.col(c) for c in counted) & (pl.col("row") != pl.col("row_a"))
        held = hired.join(named, on=same, how="left", maintain_order="left")
        hired = held.filter(~(worse & (better | (pl.col("row_a") < pl.col("row")))).fill_null(False)).select(
            hired.columns
        )
    return hired


def reduce_pools(
    pools: pl.DataFrame,
    capacity: pl.DataFrame,
    replicas: pl.DataFrame,
    pooled: pl.DataFrame,
    extra: list[str],
    redundant: Sequence[str] = (),
    apart: Sequence[str] = (),
    calm: bool = False,
    money: Sequence[str] = MONEY,
) -> pl.Series:
    """Names of pools that another pool of equal node size and place beats or equals for everything held on them.

    Pool A stands in for B where A has no node limit, draws no more, joins the same fabric, every way to hold B's nodes has
    one of A's that costs no more in every period, and every replica and pooled job of B has a counterpart on A. First whole
    networks go: all pools of one at a site, for which those of another with no dearer switches stand in.

    Parameters
    ----------
    pools : pool, accelerator, power_limit_w, gpus, site, spot, it_w, facility_w, node_limit, apart (optional): rented
        pools of the same value are at one place, and outside (optional): of use without limits of watts only
    capacity : pool, row, commit, first_stage, until_stage, costs, cashes, monthlies, carbons (lists over periods; one number
        for commitments, one per stage of monthlies), capex
    replicas : work, pool, row, gpus, rates, energy
    pooled : work, pool, row, gpus, cash, and the columns of `extra`
    redundant : services that must survive the loss of a node. Replicas of such a service on B and on A survive it by being
        on different pools; moved to A alone, more of them are needed (a node of A is counted as full). That is free only
        where replicas cost nothing beside their node and no other work wants the node. Like pools count as one, so moving
        from one to the other asks for no more: else B only falls to a like A (`solver.candidates.likeness`).
    apart : columns of pools (provider, region, zone) in which A and B must agree, since services are spread over them
    calm : A may not be interrupted more often than B, since a service's availability counts that
    money : of `MONEY`, what the objective or some limit counts
    """
    kept = kept_pools(pools, capacity, replicas, pooled, redundant, calm)
    capacity = capacity.filter(~is_lease())
    lost = _lost_networks(pools, capacity, replicas, pooled, extra, kept, [*apart], calm, money)

    def rest(frame: pl.DataFrame) -> pl.DataFrame:
        return frame if frame.is_empty() else frame.filter(~pl.col("pool").is_in(lost.implode()))

    # Like cards first: most pools are the same card in another chassis or with other parts, and pairs stay few.
    for alike in (["accelerator", "power_limit_w"], []):
        like = list(dict.fromkeys([*alike, *apart]))
        beaten = _beaten(rest(pools), rest(capacity), rest(replicas), rest(pooled), extra, like, kept, calm, money)
        lost = pl.concat([lost, beaten])
    return lost


def _beaten(
    pools: pl.DataFrame,
    capacity: pl.DataFrame,
    replicas: pl.DataFrame,
    pooled: pl.DataFrame,
    extra: list[str],
    alike: list[str],
    kept: Kept,
    calm: bool,
    money: Sequence[str],
) -> pl.Series:
    """Pools beaten by another of the same size, place and `alike` columns, but those `kept` in any case."""
    pairs = pairs_of(pools, capacity, replicas, pooled, extra, alike, kept, _stands_in(), calm, money)
    # A tie both ways keeps the smaller name; a chain always ends in a pool that stays, since "as good as" is transitive.
    both = pairs.join(pairs.select(pool="pool_a", pool_a="pool"), on=["pool", "pool_a"], how="semi")
    lost = pl.concat(
        [pairs.join(both, on=["pool", "pool_a"], how="anti"), both.filter(pl.col("pool_a") < pl.col("pool"))]
    )
    return lost["pool"].unique()


def _lost_networks(
    pools: pl.DataFrame,
    capacity: pl.DataFrame,
    replicas: pl.DataFrame,
    pooled: pl.DataFrame,
    extra: list[str],
    kept: Kept,
    alike: list[str],
    calm: bool,
    money: Sequence[str],
) -> pl.Series:
    """Pools of networks that another network of the site stands in for, pool by pool.

    Only between networks over which no work spans nodes: their switches are counted singly, so nodes that move from one
    to the other need no more of them, and `outdoes` says that each costs no more, draws no more and has the ports.
    """
    if not {"outdoes", "network", "nic_count"} <= set(pools.columns):
        return pl.Series("pool", [], pl.String)
    family = ["site", "network", "oversubscription"]
    frames = [f for f in (replicas, pooled) if not f.is_empty() and "nodes" in f.columns]
    spanning = [f.filter(pl.col("nodes") > 1)["pool"] for f in frames]
    names = (pl.concat(spanning) if spanning else pl.Series("pool", [], pl.String)).implode()
    wired = pools.filter(pl.col("site").is_not_null() & pl.col("network").is_not_null() & (pl.col("nic_count") > 0))
    plain = wired.filter(~pl.col("pool").is_in(names).any().over(family))
    if plain["network"].n_unique() < 2:
        return pl.Series("pool", [], pl.String)
    pairs = pairs_of(plain, capacity, replicas, pooled, extra, alike, kept, _stands_in(across=True), calm, money)
    group = plain.select("pool", family=pl.struct(family))
    named = pairs.join(group, on="pool").join(group.rename({"pool": "pool_a", "family": "family_a"}), on="pool_a")
    have = named.group_by("family", "family_a").agg(have=pl.col("pool").n_unique())
    whole = have.join(group.group_by("family").len(), on="family").filter(pl.col("have") == pl.col("len"))
    whole = whole.filter(pl.col("family") != pl.col("family_a")).select("family", "family_a")
    both = whole.join(whole.select(family="family_a", family_a="family"), on=["family", "family_a"], how="semi")
    first = pl.col("family_a").struct.field("network") < pl.col("family").struct.field("network")
    lost = pl.concat([whole.join(both, on=["family", "family_a"], how="anti"), both.filter(first)])
    return group.join(lost, on="family", how="semi")["pool"]


def pairs_of(
    pools: pl.DataFrame,
    capacity: pl.DataFrame,
    replicas: pl.DataFrame,
    pooled: pl.DataFrame,
    extra: list[str],
    alike: list[str],
    kept: Kept,
    standing: pl.Expr,
    calm: bool,
    money: Sequence[str] = MONEY,
) -> pl.DataFrame:
    """Pairs of a pool and another (pool_a) that is as good for everything held on it; `standing`: as a neighbour, too."""
    place = pl.coalesce("site", "apart" if "apart" in pools.columns else pl.lit(None, pl.String), pl.lit(""))
    # What no limit of watts leaves room for is of use without one only, where watts are money alone.
    free = pl.col("outside") if "outside" in pools.columns else pl.lit(False)
    watts = [pl.when(free).then(float("inf")).otherwise(pl.col(c)).alias(c) for c in ("it_w", "facility_w")]
    loses = (
        pl.col("interruption_per_month").fill_null(0.0).alias("loses")
        if "risk" in extra or calm
        else pl.lit(0.0).alias("loses")
    )
    # Work that nodes make for their user, where it is paid or limited.
    effort = pl.col("operations_h") if "operations" in extra else pl.lit(0.0)
    left = pools.select(
        "pool",
        "gpus",
        place.alias("place"),
        "spot",
        *watts,
        "node_limit",
        loses,
        effort.alias("effort"),
        like().alias("like"),
        *_standing(pools),
        *alike,
    )
    # Necessary in any case, and cheap to test: the least cost of a node, and per workload the most work per GPU.
    least = capacity.group_by("pool").agg(least=pl.col("costs").list.sum().min())
    able = _ability(replicas, pooled)
    left = left.join(least, on="pool", how="left").join(able, on="pool", how="left")
    marks = [c for c in able.columns if c != "pool"]
    numbers = _no_worse(left, ["gpus", "place", "spot", *alike], marks)
    named = numbers.join(left, on="pool", how="left", maintain_order="left").join(
        left.rename({c: f"{c}_a" for c in left.columns}), on="pool_a", how="left", maintain_order="left"
    )
    pairs = named.filter(kept.may_fall() & standing).select("pool", "pool_a")
    pairs = _covered(pairs, _as_cheap(pairs, capacity, money), capacity)
    pairs = _covered(pairs, _as_able(pairs, replicas, extra, kept.whole), replicas)
    return _covered(pairs, _as_short(pairs, pooled, extra, money), pooled)


def _no_worse(left: pl.DataFrame, keys: list[str], marks: list[str]) -> pl.DataFrame:
    """Pairs of pools with equal keys of which pool_a has no node limit and is no worse in any number that may decide.

    All pairs of some thousand pools are some million, which is quick in numbers and slow in joined rows.
    """
    least = pl.col("least").fill_null(float("inf"))
    down = left.select("it_w", "facility_w", "loses", "effort", least.cast(pl.Float64)).to_numpy()
    up = left.select(pl.lit(0.0), *(pl.col(c).fill_null(-1.0).cast(pl.Float64) for c in marks)).to_numpy()
    free = left["node_limit"].is_null().to_numpy()
    found: list[tuple[Ints, Ints]] = []
    groups = left.with_row_index("at").group_by(keys, maintain_order=True).agg("at")["at"]
    for group in groups:
        rows = group.to_numpy()
        ours = rows[free[rows]]
        for part in np.array_split(rows, max(1, len(rows) * len(ours) // MOST_AT_ONCE)):
            good = part[:, None] != ours[None, :]
            for column in down.T:
                good &= column[ours][None, :] <= column[part][:, None]
            for column in up.T[1:]:
                good &= column[ours][None, :] >= column[part][:, None]
            at, of = np.nonzero(good)
            found.append((part[at], ours[of]))
    pool = left["pool"]
    both = [np.concatenate([f[i] for f in found] or [np.zeros(0, np.int64)]) for i in (0, 1)]
    return pl.DataFrame({"pool": pool.gather(both[0]), "pool_a": pool.gather(both[1])})


MOST_AT_ONCE = 4_000_000
"""Pairs that are compared at a time."""
STANDING = {
    "network": pl.String,
    "outdoes": pl.String,
    "oversubscription": pl.Float64,
    "nic_count": pl.Int64,
    "rack_units": pl.Float64,
    "cooling": pl.String,
    "counted": pl.Boolean,
    "storage_room": pl.String,
    "local_gb": pl.Int64,
    "local_read": pl.Int64,
    "local_write": pl.Int64,
    "local_iops": pl.Int64,
}
"""What a node asks of its site beside watts; `counted`: the site's racks or circuits are limited or paid. What its drives
offer to data (local_*, where any lies on drives), and what storage NICs it has room for."""


def _standing(pools: pl.DataFrame) -> list[pl.Expr]:
    return [(pl.col(c) if c in pools.columns else pl.lit(None, kind)).alias(c) for c, kind in STANDING.items()]


def _stands_in(*, across: bool = False) -> pl.Expr:
    """A node of A takes no more ports of the same fabric than one of B, or none, and the same place in a rack.

    `across`: of a fabric that `outdoes` B's will do, too.

    Nodes of one height share racks, where one that draws less takes the place of one that draws more; nodes of other
    heights, though smaller, could need one rack more.
    """
    quiet = pl.col("network_a").is_null() | (pl.col("nic_count_a").fill_null(0) == 0)
    same = (pl.col("network_a") == pl.col("network")) & pl.col("oversubscription_a").eq_missing(
        pl.col("oversubscription")
    )
    if across:
        better = pl.col("outdoes_a").str.split(";").list.contains(pl.col("network"))
        same |= better & pl.col("oversubscription_a").eq_missing(pl.col("oversubscription"))
    ports = quiet | (same & (pl.col("nic_count_a") <= pl.col("nic_count"))).fill_null(False)
    alike = [pl.col(f"{c}_a").eq_missing(pl.col(c)) for c in ("rack_units", "cooling")]
    drives = pl.all_horizontal(
        pl.col(f"{c}_a").fill_null(0) >= pl.col(c).fill_null(0) for c in STANDING if c.startswith("local_")
    )
    return ports & drives & stands_in() & (~pl.col("counted").fill_null(False) | pl.all_horizontal(alike))


def _ability(replicas: pl.DataFrame, pooled: pl.DataFrame) -> pl.DataFrame:
    """Per pool and workload a number that a pool standing in must not be below: best rate per GPU, or 1/GPUs of a job."""
    parts = []
    if not replicas.is_empty():
        rate = (pl.col("rates").list.sum() / pl.col("gpus")).max()
        parts.append(replicas.group_by("pool", "work").agg(mark=rate))
    if not pooled.is_empty():
        parts.append(pooled.group_by("pool", "work").agg(mark=(1.0 / pl.col("gpus")).max()))
    if not parts:
        return pl.DataFrame(schema={"pool": pl.String})
    wide = pl.concat(parts).pivot(on="work", index="pool", values="mark", aggregate_function="first")
    return wide.rename({c: f"able {c}" for c in wide.columns if c != "pool"})


def _covered(pairs: pl.DataFrame, matches: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Keep pairs in which every row of `pool` (key: row) found a match on `pool_a`."""
    if rows.is_empty():
        return pairs
    need = rows.group_by("pool").agg(need=pl.col("row").n_unique())
    have = matches.group_by("pool", "pool_a").agg(have=pl.col("row").n_unique())
    return (
        pairs.join(need, on="pool", how="left")
        .join(have, on=["pool", "pool_a"], how="left")
        .filter(pl.col("have").fill_null(0) >= pl.col("need").fill_null(0))
        .select("pool", "pool_a")
    )


LISTS = {"cost": "costs", "cash": "cashes", "monthly": "monthlies", "carbon": "carbons"}


def _as_cheap(pairs: pl.DataFrame, capacity: pl.DataFrame, money: Sequence[str]) -> pl.DataFrame:
    # What is held at some levels only stands in for nothing, and nothing for it.
    held = capacity.filter(pl.col("levels").is_null()).select(
        "pool", "row", "commit", "first_stage", "until_stage", "costs", "cashes", "monthlies", "capex", "carbons"
    )
    lists = [name for kind, name in LISTS.items() if kind in money]
    # A commitment stands in for one of the same start that is held no longer, an hourly way for an hourly way.
    alike = pairs.join(held, on="pool").join(
        held.rename({"pool": "pool_a"}), on=["pool_a", "commit", "first_stage"], suffix="_a"
    )
    same = alike.filter(
        pl.col("until_stage_a") >= pl.col("until_stage"),
        *((pl.col(f"{c}_a") - pl.col(c)).list.max() <= 0 for c in lists),
    )
    # An hourly way held in every period stands in for a commitment.
    by_hour = held.filter(~pl.col("commit")).drop("first_stage", "until_stage")
    hourly = (
        pairs.join(held.filter("commit"), on="pool")
        .join(by_hour.rename({"pool": "pool_a"}), on="pool_a", suffix="_a")
        .filter(
            pl.all_horizontal(pl.col(f"{c}_a").list.sum() <= pl.col(c).list.sum() for c in lists if c != "monthlies"),
            pl.lit("monthly" not in money)
            | (
                pl.col("monthlies_a").list.sum()
                <= pl.col("monthlies")
                .list.slice("first_stage", pl.col("until_stage") - pl.col("first_stage"))
                .list.min()
            ),
        )
    )
    both = pl.concat([x.select("pool", "pool_a", "row", "capex", "capex_a") for x in (same, hourly)])
    return both.filter(pl.lit("capex" not in money) | (pl.col("capex_a") <= pl.col("capex"))).select(
        "pool", "pool_a", "row"
    )


def _as_able(pairs: pl.DataFrame, replicas: pl.DataFrame, extra: list[str], whole: pl.Series) -> pl.DataFrame:
    if replicas.is_empty():
        return pl.DataFrame(schema={"pool": pl.String, "pool_a": pl.String, "row": pl.UInt32})
    counted = [e for e in extra if e in ("carbon", "latency")]
    same = _same_kind(replicas)
    kinds = replicas.select("work", "pool", "row", "gpus", "rates", "energy", *same, *counted)
    other = kinds.rename({"pool": "pool_a"})
    both = pairs.join(kinds, on="pool").join(other, on=["pool_a", "work", *same], suffix="_a")
    both = both.filter((pl.col("gpus_a") <= pl.col("gpus")) & (pl.col("gpus") % pl.col("gpus_a") == 0))
    fold = pl.col("gpus") // pl.col("gpus_a")
    able = ((pl.col("rates_a") * fold - pl.col("rates")).list.min() >= 0) & (
        pl.col("energy_a") * fold <= pl.col("energy") * (1 + 1e-12)
    )
    if whole.len():
        able &= (fold == 1) | ~pl.col("pool").is_in(whole.implode())
    if "latency" in extra:
        able &= _never_null("latency_a") <= _never_null("latency")
    if "carbon" in extra:
        able &= pl.col("carbon_a") * fold <= pl.col("carbon") * (1 + 1e-12)
    return both.filter(able).select("pool", "pool_a", "row")


def _as_short(pairs: pl.DataFrame, pooled: pl.DataFrame, extra: list[str], money: Sequence[str]) -> pl.DataFrame:
    if pooled.is_empty():
        return pl.DataFrame(schema={"pool": pl.String, "pool_a": pl.String, "row": pl.UInt32})
    paid = [c for c in ("cash", "cost", "monthly") if c in money]
    columns = [*paid, "occupied", *(e for e in extra if e != "latency")]
    jobs = pooled.with_columns(occupied=occupied()).select("work", "pool", "row", "gpus", *columns)
    both = pairs.join(jobs, on="pool").join(jobs.rename({"pool": "pool_a"}), on=["pool_a", "work"], suffix="_a")
    able = (pl.col("gpus_a") <= pl.col("gpus")) & pl.all_horizontal(pl.col(f"{c}_a") <= pl.col(c) for c in columns)
    return both.filter(able).select("pool", "pool_a", "row")
