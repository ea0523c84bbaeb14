"""What one pool saves at given prices: commitments that begin and end in any period, against every number of nodes."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from solver.bounding.blocks import _pools, _Worth
from solver.bounding.linear import Linear, linear
from solver.instance import Capacity, Instance
from tests.bench.portfolios import portfolio

PERIODS = 3
MOST = 3
"""Nodes of each way that are tried: more than all demand can use."""


def _staggered(seed: int, ending: bool) -> Instance:
    """Two pools with an hourly offer each or none, and commitments that begin later, and end earlier where asked for."""
    rng = random.Random(seed)
    inst = portfolio(1, PERIODS, 2, seed)
    ways: list[Capacity] = []
    for c in inst.capacities:
        if not c.commit and (rng.random() < 0.5 or not ending):
            ways.append(c)
    for o in range(2):
        for start in range(PERIODS):
            end = rng.randint(start + 1, PERIODS) if ending else PERIODS
            if rng.random() < 0.8:
                active = tuple(start <= p < end for p in range(PERIODS))
                cost = (rng.randint(1, 40) * (end - start),)
                ways.append(Capacity(o, "reserved", True, 400, cost, cost, 0, (cost[0],), (1,), start, active))
    return replace(inst, capacities=tuple(ways))


def _best(lin: Linear, hold: np.ndarray, worth: np.ndarray, o: int) -> tuple[float, float]:
    """Most that a pool saves, with no matter how many nodes and with one or more, by trying all."""
    values = _Worth(lin, worth)
    ways = np.flatnonzero(lin.hold_pool == o)
    best, with_node = 0.0, -np.inf
    for counts in itertools.product(range(MOST + 1), repeat=len(ways)):
        nodes = np.array(counts) @ lin.hold_active[ways] if len(ways) else np.zeros(PERIODS)
        gain = -float(np.array(counts) @ hold[ways])
        for p in range(PERIODS):
            gain += float(np.interp(nodes[p], *values.corners(o * PERIODS + p)))
        best = max(best, gain)
        if any(counts):
            with_node = max(with_node, gain)
    return best, with_node


@pytest.mark.parametrize("ending", [False, True], ids=["to the end", "any span"])
def test_what_a_pool_saves_is_never_told_too_small_and_exact_where_commitments_last(ending: bool) -> None:
    saving = 0
    for seed in range(6):
        inst = _staggered(seed, ending)
        lin = linear(inst)
        assert lin is not None
        rng = np.random.default_rng(seed)
        # Demands of three nodes at most, and prices at which some of them pay.
        lin = replace(lin, load_upper=rng.uniform(0.1, 0.7, len(lin.load_kind)))
        worth = rng.uniform(-5, 30, len(lin.load_kind))
        hold = lin.hold_cost / lin.hold_cost.max() * rng.uniform(10, 60)
        for exact in (True, False):
            saved, penalty = _pools(lin, hold, worth, exact)
            for o in range(2):
                best, with_node = _best(lin, hold, worth, o)
                assert saved[o] >= best - 1e-9
                if not np.isfinite(with_node):
                    continue
                assert saved[o] - penalty[o] >= with_node - 1e-9
                saving += best > 1e-6
                if exact and not ending:
                    assert saved[o] == pytest.approx(best)
                    assert saved[o] - penalty[o] == pytest.approx(min(best, with_node))
    assert saving >= 3
