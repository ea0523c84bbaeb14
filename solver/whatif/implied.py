"""Answers that follow from other answers: looser and tighter limits along a sweep, and what a plan uses of a limit.

A plan that is best at a limit of 40 kW and draws 31 kW is best at every limit from 31 to 40 kW; and where nothing is
feasible at 20 kW, nothing is at 15 kW.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from catalogs.catalog import Catalog
from solver.plan import LimitUse, Result, Status

CEILING = "policy.gpu_power_limit"
_LOOSER = re.compile(
    r"^(limits\.power|limits\.budget\.(capex|monthly|total)|sites\.[^.]+\.(power|it_power)|policy\.gpu_power_limit)$"
)


def is_limit(path: str) -> bool:
    """Whether a higher value of the field only ever allows more plans, and what plans use of it is known."""
    return _LOOSER.match(path) is not None and "*" not in path


def used(result: Result, path: str, catalog: Catalog) -> float | None:
    """What a plan uses of a limit, in the limit's plain unit; None where that is not known."""
    if path == CEILING:
        return _highest_cap(result, catalog)
    return next((x.used for x in result.limits if x.field == path), None)


def _highest_cap(result: Result, catalog: Catalog) -> float:
    """Highest power limit of the cards on own sites, as a share of their rated power; 1 where one has none."""
    rated = dict(catalog.accelerators.select("accelerator", "tdp_w").filter(pl.col("tdp_w").is_not_null()).iter_rows())
    shares = [0.0]
    for item in result.items:
        if item.kind == "server" and item.accelerator is not None and item.accelerators:
            tdp = rated.get(item.accelerator)
            shares.append(1.0 if item.power_limit_w is None or not tdp else (item.power_limit_w - 0.5) / tdp)
    return max(shares)


@dataclass(frozen=True)
class Known:
    """A solved point: values of its limits, what the plan uses of each, and the answer."""

    limits: Mapping[str, float]
    uses: Mapping[str, float]
    result: Result


def follows(limits: Mapping[str, float], known: Sequence[Known]) -> Result | None:
    """Answer at `limits` that follows from a known one with all else equal; None where it must be searched."""
    for point in known:
        if point.result.status is Status.INFEASIBLE and all(limits[f] <= point.limits[f] for f in limits):
            return point.result
        if point.result.status is Status.OPTIMAL and all(
            f in point.uses and point.uses[f] <= limits[f] <= point.limits[f] for f in limits
        ):
            return point.result
    return None


def at_limits(result: Result, limits: Mapping[str, float], sha256: str) -> Result:
    """A known answer as the answer of the point with these limits."""
    inputs = result.inputs.model_copy(update={"problem_sha256": sha256})
    moved = tuple(_moved(x, limits[x.field]) if x.field in limits else x for x in result.limits)
    return result.model_copy(update={"inputs": inputs, "limits": moved})


def _moved(use: LimitUse, limit: float) -> LimitUse:
    slack = limit - use.used
    return use.model_copy(update={"limit": round(limit, 2), "slack": round(slack, 2), "binding": slack <= 0.01 * limit})
