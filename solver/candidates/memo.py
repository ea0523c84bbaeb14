"""Features of workloads kept from one compilation to the next: what-if runs change prices and limits, not speeds.

Rates and memory follow from the work, the technical side of the pools and the practice rules; a memo hands them out again
where all of these are the same. It serves one catalogue, of which only prices may change between calls.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

import polars as pl

from problems.schema import Problem, Serve, Workload

SITE_MONEY = (
    "pue",
    "energy_price",
    "tariff",
    "carbon_g_per_kwh",
    "space_per_kw_month",
    "facility_w",
    "counted",
    "outdoes",
    "switch_ports",
    "switch_price_usd",
    "switch_power_w",
    "cable_price_usd",
    "storage_room",
)
"""Columns of pools that only money, carbon and limits read."""

Made = tuple[pl.DataFrame, pl.DataFrame]


def technical(pools: pl.DataFrame) -> pl.DataFrame:
    """Pools without what a site's bill and meter depend on."""
    return pools.drop(SITE_MONEY, strict=False)


def _plain(work: Workload) -> Workload:
    """The work with its load at 1: features are rates of replicas, which the load does not change."""
    if not isinstance(work, Serve):
        return work
    traffic = work.traffic
    if traffic.rate is not None:
        return work.model_copy(update={"traffic": traffic.model_copy(update={"rate": 1.0})})
    if traffic.concurrency is not None:
        return work.model_copy(update={"traffic": traffic.model_copy(update={"concurrency": 1.0})})
    return work


class Memo:
    """At most `size` compiled workloads, the least recently used one forgotten first."""

    def __init__(self, size: int = 32) -> None:
        self._size = size
        self._held: OrderedDict[str, Made] = OrderedDict()

    def features(self, work: Workload, problem: Problem, pools: pl.DataFrame, make: Callable[[], Made]) -> Made:
        """What `make` gives for this work on these (technical) pools, made only once."""
        flat = pools.with_columns(pl.col("parts").list.join("|")) if "parts" in pools.columns else pools
        digest = hashlib.sha256(_plain(work).model_dump_json().encode())
        digest.update(f"{problem.horizon!r} {problem.policy.rules!r}".encode())
        digest.update(flat.hash_rows(seed=1).to_numpy().tobytes())
        key = digest.hexdigest()
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        made = make()
        self._held[key] = made
        while len(self._held) > self._size:
            self._held.popitem(last=False)
        return made
