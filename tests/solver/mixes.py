"""Random GPU mixes as instances: counts of node types for loads of several sizes, in one period or several."""

from __future__ import annotations

import random

from solver.instance import DEMAND_UNIT, Capacity, Instance, Pool, Replica, Service
from tests.oracle.bare import bare


def random_mix(
    seed: int,
    *,
    types: int = 4,
    sizes: int = 3,
    periods: int = 1,
    services: int = 1,
    commit: bool = False,
    absent: float = 0.15,
    spread: float = 4.0,
) -> Instance:
    """Node types whose rate per size is noisy about a common speed, priced near that speed, so that mixes pay.

    Parameters
    ----------
    spread
        Largest over smallest demand in nodes of the middling type.
    """
    rng = random.Random(seed)
    demand_nodes = [[rng.uniform(0.3, spread) for _ in range(sizes)] for _ in range(services)]
    levels = [
        [DEMAND_UNIT if p == 0 else rng.randint(DEMAND_UNIT // 10, DEMAND_UNIT) for p in range(periods)]
        for _ in range(services)
    ]
    pools, capacities, replicas = [], [], []
    for t in range(types):
        speed = rng.uniform(0.5, 4.0)
        price = speed * rng.uniform(80.0, 120.0)
        gpus = rng.choice([1, 1, 2]) if services > 1 else 1
        pools.append(Pool(f"t{t}", f"card{t}", gpus, None, False, 100, 100, None))
        month = [int(price * 73) for _ in range(periods)]
        top = 60 * services
        capacities.append(
            Capacity(t, "on_demand", False, top, tuple(month), tuple(month), 0, tuple(month), (1,) * periods)
        )
        if commit:
            all_of_it = int(sum(month) * rng.uniform(0.5, 0.8))
            capacities.append(Capacity(t, "reserved", True, top, (all_of_it,), (all_of_it,), 0, (all_of_it,), (1,)))
        for w in range(services):
            rates = []
            for b in range(sizes):
                served = speed * rng.uniform(0.6, 1.4) / gpus / demand_nodes[w][b]
                rates.append(0 if rng.random() < absent and t else int(served * DEMAND_UNIT))
            if max(rates) <= 0:
                continue
            inverse = sum(1 / r for r in rates) if min(rates) > 0 else 0.0
            blend = int(1 / inverse) if inverse else 0
            replicas.append(
                Replica(
                    w,
                    t,
                    1,
                    tuple(rates),
                    200,
                    (0,) * periods,
                    (0,) * periods,
                    (0,) * periods,
                    (0,) * periods,
                    blend,
                    gpus * blend,
                )
            )
    return bare(
        periods=tuple(f"p{p}" for p in range(periods)),
        pools=tuple(pools),
        capacities=tuple(capacities),
        services=tuple(
            Service(f"s{w}", tuple(tuple(levels[w]) for _ in range(sizes)), False, False) for w in range(services)
        ),
        replicas=tuple(replicas),
    )
