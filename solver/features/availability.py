"""Unavailability of nodes, and how many of n nodes must be allowed to fail for a service to be available as asked.

Nodes fail independently: the number of those down at a time is binomial. That holds for hardware; losing a whole zone, region
or provider at once, or all spot nodes, is not in it (`spread` and `spot_share` are for that).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

HOURS_PER_MONTH = 730.0


def unavailability(failures_per_month: pl.Expr, repair_h: pl.Expr) -> pl.Expr:
    """Share of time that a node is down: f r / (730 + f r), alternating between up and under repair.

    Parameters
    ----------
    failures_per_month : pl.Expr
        f, failures of a node per month in which it is up [1/month].
    repair_h : pl.Expr
        r, mean time until it, or another in its place, is back [h].
    """
    down = failures_per_month * repair_h
    return down / (HOURS_PER_MONTH + down)


def node_unavailability(
    pools: pl.DataFrame,
    *,
    interruptions_per_gpu_month: float,
    rented_repair_h: float,
    own_repair_h: float,
    spot_replace_h: float,
) -> pl.DataFrame:
    """Add `unavailability` of one node of each pool [ratio].

    Parameters
    ----------
    pools : pl.DataFrame
        pool, gpus, site (null: rented), spot, interruption_per_month [1/month, null where not spot].
    """
    repair = pl.when(pl.col("site").is_null()).then(rented_repair_h).otherwise(own_repair_h)
    broken = unavailability(pl.col("gpus") * interruptions_per_gpu_month, repair)
    taken = unavailability(pl.col("interruption_per_month").fill_null(0.0), pl.lit(spot_replace_h))
    both = 1 - (1 - broken) * (1 - pl.when("spot").then(taken).otherwise(0.0))
    return pools.with_columns(unavailability=both)


def at_most_down(n: int, k: int, u: float) -> float:
    """P(at most k of n nodes are down), each with probability u."""
    if k >= n:
        return 1.0
    return math.fsum(math.comb(n, i) * u**i * (1 - u) ** (n - i) for i in range(k + 1))


def nodes_to_lose(n: int, u: float, availability: float) -> int:
    """Smallest k with P(more than k of n nodes are down) <= 1 - availability."""
    k = 0
    while k < n and at_most_down(n, k, u) < availability:
        k += 1
    return k


def ladder(u: float, availability: float, most_k: int, most_n: int) -> Sequence[int]:
    """Steps of `nodes_to_lose` over n: entry j is the least n at which more than j nodes must be allowed to fail.

    At most `most_k` + 1 entries, none above `most_n`. The number never falls as n grows.
    """
    steps: list[int] = []
    for k in range(most_k + 1):
        low, high = steps[-1] if steps else 1, most_n + 1
        while low < high:
            middle = (low + high) // 2
            if at_most_down(middle, k, u) < availability:
                high = middle
            else:
                low = middle + 1
        if low > most_n:
            break
        steps.append(low)
    return steps
