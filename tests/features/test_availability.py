"""Unavailability of nodes and the binomial steps, against exact fractions and hand-worked cases."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.features.availability import at_most_down, ladder, node_unavailability, nodes_to_lose


def exact_tail(n: int, k: int, u: Fraction) -> Fraction:
    """P(more than k of n are down), term by term."""
    return sum((Fraction(comb(n, i)) * u**i * (1 - u) ** (n - i) for i in range(k + 1, n + 1)), Fraction(0))


def test_by_hand() -> None:
    """Two nodes, each down 1 % of the time: both up 98.01 %, at least one up 99.99 %."""
    assert at_most_down(2, 0, 0.01) == pytest.approx(0.9801)
    assert at_most_down(2, 1, 0.01) == pytest.approx(0.9999)
    assert nodes_to_lose(2, 0.01, 0.98) == 0
    assert nodes_to_lose(2, 0.01, 0.9802) == 1
    assert nodes_to_lose(2, 0.01, 0.99991) == 2
    assert nodes_to_lose(5, 0.0, 0.999999) == 0


@given(
    st.integers(1, 30),
    st.integers(1, 300).map(lambda x: Fraction(x, 1000)),
    st.integers(1, 99_999).map(lambda x: Fraction(x, 100_000)),
)
@settings(max_examples=80, deadline=None)
def test_smallest_number_by_exact_fractions(n: int, u: Fraction, availability: Fraction) -> None:
    k = next(k for k in range(n + 1) if exact_tail(n, k, u) <= 1 - availability)
    near = abs(exact_tail(n, k, u) - (1 - availability)) < Fraction(1, 10**12)
    below = k and abs(exact_tail(n, k - 1, u) - (1 - availability)) < Fraction(1, 10**12)
    if not near and not below:
        assert nodes_to_lose(n, float(u), float(availability)) == k


@given(st.floats(1e-5, 0.2), st.floats(0.9, 0.99999), st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_ladder_is_the_step_function(u: float, availability: float, most: int) -> None:
    steps = ladder(u, availability, 6, most)
    assert list(steps) == sorted(steps)
    for n in (1, most // 2, most, *steps, *(s - 1 for s in steps)):
        if 1 <= n <= most:
            k = nodes_to_lose(n, u, availability)
            assert sum(s <= n for s in steps) == min(k, 7)


def test_rented_own_and_spot_nodes() -> None:
    pools = pl.DataFrame(
        {
            "pool": ["rented", "own", "spot"],
            "gpus": [8, 8, 8],
            "site": [None, "room", None],
            "spot": [False, False, True],
            "interruption_per_month": [None, None, 0.2],
        }
    )
    found = node_unavailability(
        pools, interruptions_per_gpu_month=0.0125, rented_repair_h=2.0, own_repair_h=24.0, spot_replace_h=5.0
    )["unavailability"]
    # 8 x 0.0125 = 0.1 failures a month; 0.2 h and 2.4 h down per 730 h up; spot: 0.2 x 5 = 1 h more.
    rented, own, taken = 0.2 / 730.2, 2.4 / 732.4, 1.0 / 731.0
    assert found.to_list() == pytest.approx([rented, own, 1 - (1 - rented) * (1 - taken)])
