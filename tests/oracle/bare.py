"""A bare instance: one period, least cost, no limits; tests put into it what they speak of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from solver.instance import Instance

NOTHING = Instance(
    periods=("always",),
    pools=(),
    capacities=(),
    services=(),
    replicas=(),
    jobs=(),
    options=(),
    sites=(),
    quotas=(),
    limit_power_w=None,
    limit_capex=None,
    limit_monthly=None,
    limit_total=None,
    spot_share_ppm=1_000_000,
    objective="cost",
)


def bare(**parts: Any) -> Instance:
    """The instance that holds these parts and nothing else."""
    return replace(NOTHING, **parts)
