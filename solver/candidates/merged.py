"""Many builds as one that is as good as the best of them in everything: what bounds a problem of too many builds from below.

Servers for a site come in thousands of builds and power states that differ little. Those of a family have the same cards, as many
of them, at the same site and power state; merged into one they have the least cost, watts and energy of any, the highest rates, and
whatever work any of them can do. A plan of real builds is one of merged builds that costs no more, so no plan costs less than
the best of these. Coarse families differ in cards and power state only, as if switches and cables cost nothing; fine ones in the
network and the height in a rack, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce as fold

import polars as pl

from problems.schema import Problem
from solver.candidates import Candidates
from solver.candidates.leases import is_lease

FABRIC = (
    "network",
    "network_gbps",
    "rdma",
    "nic_count",
    "oversubscription",
    "leaf_nodes",
    "switch_ports",
    "switch_price_usd",
    "switch_power_w",
    "cable_price_usd",
    "outdoes",
    "rack_units",
    "cooling",
)
"""What only fine families have in common: the network, and the place in a rack."""
LEAST = ("nameplate_w", "host_nameplate_w", "it_w", "facility_w", "idle_w", "operations_h", "start_h")
MOST = ("cores", "ram_gib", "nvme_tb", "nvme_gb_s")
"""Figures of a node of which a merged one has the least, and the most; drives that data may lie on (local_*) are of the latter."""
KINDS = {
    "capacity": (
        ("billing", "commit", "first_stage", "until_stage", "term_months", "upfront_share", "part_class"),
        (),
    ),
    "replicas": (("work", "gpus", "nodes", "tp", "pp", "precision"), ("rates", "req_rates", "blend", "rate", "batch")),
    "options": (
        ("work", "gpus", "nodes", "tp", "pp", "precision", "spot", "pooled", "billing", "rate_unit", "always"),
        ("rate", "memory_slack_gib"),
    ),
    "prices": (("billing", "term_months", "upfront_share"), ()),
}
"""Per frame: what rows of one merged row have in common beside their pool, and of what else it has the most; of all other
numbers it has the least."""

FRAMES = ("pools", "capacity", "replicas", "options", "prices")


def families(found: Candidates, *, coarse: bool) -> pl.DataFrame:
    """Builds that may be merged, with the number of their family: pool, family."""
    pools = found.pools
    held = found.capacity.filter((pl.col("billing") == "owned") | is_lease())["pool"]
    mine = pools.filter(
        (pl.col("kind") == "server")
        & pl.col("site").is_not_null()
        & pl.col("node_limit").is_null()
        & ~pl.col("pool").is_in(held.implode())
        & ~_limited(found.problem)
    )
    apart = {"pool", "offer", "label", "parts", "tariff", "compliance", *LEAST, *MOST, *(FABRIC if coarse else ())}
    keys = [c for c in mine.columns if c not in apart and not c.startswith("local_")]
    keys = [c for c in keys if not mine.schema[c].is_nested()]
    if not coarse:
        keys = [*keys, "compliance"]
    named = mine.group_by(keys, maintain_order=True).agg("pool").with_row_index("family")
    return named.select("family", "pool").explode("pool")


def _limited(problem: Problem) -> pl.Expr:
    """True where a quota names the server."""
    named = [part for quota in problem.limits.quota for part in quota.offer.split("/")]
    return pl.col("offer").is_in(named) | pl.col("offer").str.split("/").list.eval(pl.element().is_in(named)).list.any()


def merged(found: Candidates, member: pl.DataFrame, name: str) -> Candidates:
    """Only the builds of `member` (pool, family), each family merged into one that is called by `name` and its number."""
    called = member.select("pool", merged=pl.format("{} {}", pl.lit(name), "family"))
    pools = _of(found.pools, called)
    drives = [c for c in pools.columns if c.startswith("local_")]
    few = {c: pl.col(c).min() for c in LEAST if c in pools.columns}
    many = {c: pl.col(c).max() for c in (*MOST, *drives) if c in pools.columns}
    together = pools.group_by("merged", maintain_order=True).agg(
        *(
            {**few, **many}.get(c, pl.col(c).first() if c not in FABRIC else _alike(c))
            for c in found.pools.columns
            if c != "pool"
        )
    )
    frames = {n: _merged(getattr(found, n), called, *KINDS[n]) for n in KINDS}
    frames["pools"] = together.rename({"merged": "pool"}).select(found.pools.columns)
    return _with(frames, found)


def _alike(column: str) -> pl.Expr:
    """What all of a family have in common; null where they differ."""
    return pl.when(pl.col(column).n_unique() == 1).then(pl.col(column).first())


def _of(frame: pl.DataFrame, called: pl.DataFrame) -> pl.DataFrame:
    return frame.join(called, on="pool", how="inner", maintain_order="left")


def _merged(frame: pl.DataFrame, called: pl.DataFrame, same: Sequence[str], most: Sequence[str]) -> pl.DataFrame:
    """Rows of merged builds: the best of every number among rows that agree in `same`."""
    if frame.is_empty():
        return frame
    mine = _of(frame, called)
    if "slots" in mine.columns:
        # A job without a place in the week is there all month: that is no lower number of slots.
        mine = mine.with_columns(always=pl.col("slots") == 0)
    keys = ["merged", *(c for c in same if c in mine.columns)]
    numbered = mine.with_columns(group=pl.struct(keys).rank("dense"))
    out = numbered.group_by("group", maintain_order=True).agg(
        pl.col("merged").first(),
        *(
            _best(c, frame.schema[c], most)
            for c in frame.columns
            if c not in ("pool",) and not _is_list(frame.schema[c])
        ),
    )
    lists = [c for c in frame.columns if _is_list(frame.schema[c])]
    out = fold(lambda held, c: held.join(_best_list(numbered, c, c in most), on="group", how="left"), lists, out)
    return out.rename({"merged": "pool"}).select(frame.columns)


def _is_list(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.List) and pl.DataFrame(schema={"x": kind}).explode("x").schema["x"].is_numeric()


def _best(column: str, kind: pl.DataType, most: Sequence[str]) -> pl.Expr:
    if column == "row" or not kind.is_numeric():
        return pl.col(column).first()
    return pl.col(column).max() if column in most else pl.col(column).min()


def _best_list(numbered: pl.DataFrame, column: str, most: bool) -> pl.DataFrame:
    """Element by element the best of the lists of each group."""
    known = numbered.select("group", column).filter(pl.col(column).is_not_null())
    long = known.with_columns(at=pl.int_ranges(0, pl.col(column).list.len())).explode(column, "at")
    best = pl.col(column).max() if most else pl.col(column).min()
    each = long.group_by("group", "at").agg(best).sort("group", "at")
    return each.group_by("group", maintain_order=True).agg(column)


def only(found: Candidates, pools: pl.Series) -> Candidates:
    """Candidates on these pools only."""

    def rest(frame: pl.DataFrame) -> pl.DataFrame:
        return frame if frame.is_empty() else frame.filter(pl.col("pool").is_in(pools.implode()))

    return _with({n: rest(getattr(found, n)) for n in FRAMES}, found)


def together(parts: Sequence[Candidates]) -> Candidates:
    """Candidates of several parts of one problem that have no pool in common."""
    frames = {}
    for n in FRAMES:
        some = [getattr(p, n) for p in parts]
        frames[n] = pl.concat([f for f in some if not f.is_empty()] or some[:1], how="vertical")
    return _with(frames, parts[0])


def _with(frames: Mapping[str, pl.DataFrame], found: Candidates) -> Candidates:
    pools, capacity, replicas, options, prices = (frames[n] for n in FRAMES)
    return replace(found, pools=pools, capacity=capacity, replicas=replicas, options=options, prices=prices)
