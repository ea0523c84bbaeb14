"""Portfolios of services on many offers as instances: W workloads x P load periods x O offers, with 4 request sizes each.

Offers are nodes of 1 to 8 cards of a few kinds, at prices that scatter about what their cards are worth, by the hour and, for
half of them, reserved at a discount; each workload has its own rates per card and size. One seed, one instance.
"""

from __future__ import annotations

import random

from solver.instance import DEMAND_UNIT, Capacity, Instance, Pool, Replica, Service
from tests.oracle.bare import bare

SIZES = 4
KINDS = 12


def portfolio(works: int, periods: int, offers: int, seed: int = 1) -> Instance:
    rng = random.Random(seed)
    hours = [rng.uniform(0.5, 1.5) for _ in range(periods)]
    hours = [h * 730 / sum(hours) for h in hours]
    speed = [rng.uniform(0.5, 5.0) for _ in range(KINDS)]
    nodes_wanted = [rng.uniform(3.0, 30.0) for _ in range(works)]
    share = [[rng.uniform(0.1, 1.0) for _ in range(SIZES)] for _ in range(works)]
    levels = [[1.0] + [rng.uniform(0.15, 1.0) for _ in range(periods - 1)] for _ in range(works)]
    for row in levels:
        rng.shuffle(row)
    # Rate of a card on a size in cards' worth of the middling card: some cards suit short requests, others long ones.
    suits = [[[rng.uniform(0.5, 1.6) for _ in range(SIZES)] for _ in range(works)] for _ in range(KINDS)]
    pools, capacities, replicas = [], [], []
    for o in range(offers):
        card = rng.randrange(KINDS)
        gpus = rng.choice([1, 1, 2, 4, 8])
        per_hour = speed[card] * gpus * rng.uniform(0.8, 2.5)
        pools.append(Pool(f"offer{o}", f"card{card}", gpus, None, False, 300 * gpus, 300 * gpus, None))
        money = tuple(round(per_hour * h * 1200) for h in hours)
        capacities.append(Capacity(o, "on_demand", False, 400, money, money, 0, money, (1,) * periods))
        if rng.random() < 0.5:
            whole = round(sum(money) * rng.uniform(0.45, 0.75))
            capacities.append(Capacity(o, "reserved", True, 400, (whole,), (whole,), 0, (whole,), (1,)))
        for w in range(works):
            tp = rng.choice([t for t in (1, 1, 2) if t <= gpus])
            rates = []
            for b in range(SIZES):
                part = share[w][b] / sum(share[w])
                per_card = speed[card] * suits[card][w][b] / (nodes_wanted[w] * 2.0 * part)
                rates.append(int(DEMAND_UNIT * per_card * tp**0.9))
            blend = int(1 / sum(1 / r for r in rates))
            zero = (0,) * periods
            replicas.append(Replica(w, o, tp, tuple(rates), 800, zero, zero, zero, zero, blend, gpus // tp * blend))
    services = tuple(
        Service(f"w{w}", tuple(tuple(int(DEMAND_UNIT * x) for x in levels[w]) for _ in range(SIZES)), False, False)
        for w in range(works)
    )
    return bare(
        periods=tuple(f"p{p}" for p in range(periods)),
        pools=tuple(pools),
        capacities=tuple(capacities),
        services=services,
        replicas=tuple(replicas),
    )
