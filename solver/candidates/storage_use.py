"""Where the work that uses data may run, as sums of the model's variables, and what its nodes' own drives offer it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from problems.schema import Problem, Serve
from solver.candidates.gear import GearContext, GearOption, GearRule
from solver.candidates.storage_boxes import SPEED
from solver.candidates.storage_needs import DataNeed
from solver.candidates.storage_tiers import place

STREAM_STEP = 100
"""Reading that follows the training rate is counted in steps of 10 MB/s [0.1 MB/s]."""

Sum = dict[tuple[str, Any], int]
"""A linear sum: coefficient by (kind of variable, its name); kinds are gear, options, replicas, nodes."""


def gear(key: str, factor: int = 1) -> Sum:
    """One gear variable as a sum."""
    return {("gear", key): factor}


def plus(*sums: Sum) -> Sum:
    """Sum of sums."""
    out: Sum = {}
    for each in sums:
        for name, factor in each.items():
            out[name] = out.get(name, 0) + factor
    return out


def times(factor: int, each: Sum) -> Sum:
    """A sum with every coefficient multiplied."""
    return {name: factor * f for name, f in each.items()}


@dataclass
class Book:
    """Options and rules as they are collected."""

    context: GearContext
    options: dict[str, GearOption] = field(default_factory=dict)
    rules: list[GearRule] = field(default_factory=list)

    def choice(self, key: str, most: int = 1) -> str:
        """A variable that costs nothing: a decision, or a speed in use."""
        self.options.setdefault(key, GearOption(key, "choice", key, None, "", most))
        return key

    def hold(self, option: GearOption) -> str:
        """Something that costs money."""
        self.options.setdefault(option.key, option)
        return option.key

    def row(self, *sums: Sum, low: int | None = None, high: int | None = None) -> None:
        """low <= sum <= high."""
        parts: dict[str, dict[Any, int]] = {"gear": {}, "options": {}, "replicas": {}, "served": {}, "nodes": {}}
        for (kind, name), factor in plus(*sums).items():
            if factor:
                parts[kind][name] = factor
        if any(parts.values()) or (low or 0) > 0 or (high is not None and high < 0):
            self.rules.append(
                GearRule(
                    "storage",
                    "",
                    low,
                    high,
                    nodes=parts["nodes"],
                    options=parts["options"],
                    replicas=parts["replicas"],
                    gear=parts["gear"],
                )
            )


@dataclass(frozen=True)
class Way:
    """One way to run a job, as data sees it. Drives are those of the job's share of the nodes, `part` [nodes]."""

    row: int
    place: str
    pooled: bool
    duration_h: float
    tokens_per_s: float
    rent: float  # of a month [money]; 0 on held nodes
    drives: tuple[int, int, int, int]  # GB, reading, writing [0.1 MB/s], operations [1/s]
    part: float

    def stream(self, need: DataNeed) -> int:
        """Reading of training data at the rate of this way [0.1 MB/s]."""
        return stream_speed(self.tokens_per_s, need.token_bytes)


def stream_speed(tokens_per_s: float, token_bytes: float) -> int:
    """Reading that so many tokens a second ask for, in whole steps [0.1 MB/s]."""
    return math.ceil(tokens_per_s * token_bytes / 1e9 * SPEED / STREAM_STEP - 1e-9) * STREAM_STEP


@dataclass(frozen=True)
class Kind:
    """One kind of replica of a service: its share of the traffic, of its nodes' drives, and its `part` of a node."""

    row: int
    place: str
    most: int
    share: float
    drives: tuple[int, int, int, int]
    part: float


@dataclass(frozen=True)
class Use:
    """A workload: ways of a job, or kinds of replica of a service. `at`: what is 1 where it runs at a place."""

    work: str
    job: bool
    ways: tuple[Way, ...]
    kinds: tuple[Kind, ...]
    at: dict[str, Sum]

    def elsewhere(self, place: str) -> list[str]:
        """Other places where it may run."""
        return [p for p in self.at if p != place]


DRIVES = ("local_gb", "local_read", "local_write", "local_iops")
WAY_COLUMNS = ("row", "pooled", "cash", "rate", "rate_unit", "duration_h", "gpus", "nodes")
KIND_COLUMNS = ("row", "rates", "blend", "gpus")


def uses(book: Book) -> dict[str, Use]:
    """Every workload that has data."""
    found = book.context.found
    works = {n.work for n in found.data if n.work is not None}
    pools = found.pools.select("pool", *DRIVES, per_node="gpus", place=place())
    out = {}
    for work in found.problem.workloads:
        if work.name not in works:
            continue
        if isinstance(work, Serve):
            out[work.name] = _service(book, work, pools)
        else:
            out[work.name] = _job(book, work.name, pools)
    return out


def _part(r: dict[str, Any], whole: bool) -> float:
    """Whole nodes, or the GPUs' share of them [nodes]."""
    return float(r["nodes"]) if whole else float(r["gpus"] / r["per_node"])


def _share(r: dict[str, Any], whole: bool) -> tuple[int, int, int, int]:
    """Drives of whole nodes, or of the GPUs' share of them."""
    part = _part(r, whole)
    gb, read, write, iops = (math.floor(r[c] * part + 1e-9) for c in DRIVES)
    return gb, read, write, iops


def _job(book: Book, work: str, pools: pl.DataFrame) -> Use:
    found = book.context.found
    ways = []
    if not found.options.is_empty():
        columns = [*WAY_COLUMNS, *pools.columns]
        mine = found.options.filter(pl.col("work") == work).join(pools, on="pool", how="inner").sort("row")
        for r in mine.select([c for c in mine.columns if c in columns]).iter_rows(named=True):
            rent = 0.0 if r["pooled"] else r["cash"] / found.terms.horizon
            whole = not r["pooled"] or not r["per_node"]
            trains = r["rate_unit"] == "tokens/s"
            rate = r["rate"] if trains else 0.0
            ways.append(
                Way(r["row"], r["place"], r["pooled"], r["duration_h"], rate, rent, _share(r, whole), _part(r, whole))
            )
    at: dict[str, Sum] = {}
    for way in ways:
        at.setdefault(way.place, {})["options", way.row] = 1
    return Use(work, True, tuple(ways), (), at)


def traffic(problem: Problem, work: Serve, top: float) -> float:
    """All requests at the busiest, in the unit of the replicas' rates."""
    t = work.traffic
    if t.concurrency is not None:
        return t.concurrency * top
    if t.rate is not None:
        return t.rate * top
    assert t.users is not None
    return t.users.rate_per_s * top


def _service(book: Book, work: Serve, pools: pl.DataFrame) -> Use:
    found = book.context.found
    services = [w.name for w in found.problem.workloads if isinstance(w, Serve)]
    number = services.index(work.name)
    top = max((p.levels[number] for p in found.periods), default=1.0) or 1.0
    total = traffic(found.problem, work, top)
    kinds = []
    if not found.replicas.is_empty():
        columns = [*KIND_COLUMNS, *pools.columns]
        mine = found.replicas.filter(pl.col("work") == work.name).join(pools, on="pool", how="inner").sort("row")
        for r in mine.select([c for c in mine.columns if c in columns]).iter_rows(named=True):
            rate = r["rates"][0] if len(r["rates"]) == 1 else r["blend"]
            nodes = book.context.most_nodes.get(r["pool"], 0)
            most = max(1, nodes * r["per_node"] // r["gpus"])
            # A kind that cannot serve the whole mix may have to keep all of it.
            share = min(1.0, rate / total) if rate > 0 else 1.0
            kinds.append(Kind(r["row"], r["place"], most, share, _share(r, whole=False), _part(r, whole=False)))
    at: dict[str, Sum] = {}
    for name in dict.fromkeys(k.place for k in kinds):
        here = [k for k in kinds if k.place == name]
        key = book.choice(f"{work.name} runs at {name}")
        at[name] = gear(key)
        counts: Sum = {("replicas", k.row): 1 for k in here}
        book.row(counts, gear(key, -sum(k.most for k in here)), high=0)
    return Use(work.name, False, (), tuple(kinds), at)
