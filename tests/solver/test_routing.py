"""How load is split among replicas: what a solution sets aside too much goes off spot nodes first."""

from __future__ import annotations

import pytest

from solver.instance import DEMAND_UNIT, LOAD_UNIT
from solver.routing import Routing
from solver.search import Values
from tests.solver.test_rules import instance, kind, pool, service


@pytest.mark.parametrize(("share_ppm", "firm", "spot"), [(800_000, 0.2, 0.8), (1_000_000, 1 / 6, 5 / 6)])
def test_a_share_of_the_demand_stays_on_firm_nodes(share_ppm: int, firm: float, spot: float) -> None:
    inst = instance(
        pools=(pool(key="a"), pool(key="a#spot", spot=True)),
        services=(service(demand=((DEMAND_UNIT,), (DEMAND_UNIT,)), interruptible=True),),
        replicas=tuple(kind(pool=o, rate=(DEMAND_UNIT, DEMAND_UNIT)) for o in range(2)),
        spot_share_ppm=share_ppm,
    )
    # A fifth of the demand on firm nodes, and all of it on spot nodes: a fifth too much.
    load = {(k, b, 0): LOAD_UNIT // 5 if k == 0 else LOAD_UNIT for k in range(2) for b in range(2)}
    values = Values(commit={}, hourly={}, replicas={(0, 0): 1, (1, 0): 2}, load=load, chosen={})
    routing = Routing(inst, values, [[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0]])
    assert routing.load(0, 0) == pytest.approx((firm, firm))
    assert routing.load(1, 0) == pytest.approx((spot, spot))
