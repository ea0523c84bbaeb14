"""Circuits, racks and supplies by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.features import racks
from solver.features.racks import Room


def test_three_phase_circuits_carry_the_root_of_three() -> None:
    # 415 x 30 x 1.7320508 = 21,564 W, of which 80 % = 17,251 W continuously
    assert racks.circuit_w(415, 30, 3) == pytest.approx(21_564, abs=1)
    assert racks.circuit_w(415, 30, 3, derate=0.8) == pytest.approx(17_251, abs=1)
    # A house circuit: 120 x 15 = 1,800 W, 1,440 W continuously
    assert racks.circuit_w(120, 15, derate=racks.CONTINUOUS_SHARE) == 1440
    # 10,200 / (208 x 1.7320508) = 28.31 A
    assert racks.line_amps(10_200, 208, 3) == pytest.approx(28.31, abs=0.01)
    # ... which takes a breaker of 28.31 / 0.8 = 35.39 A
    assert racks.breaker_amps(10_200, 208, 3) == pytest.approx(35.39, abs=0.01)


def test_phases_that_a_voltage_stands_for() -> None:
    assert [racks.default_phases(v) for v in (120, 208, 230, 240, 380, 400, 415, 480)] == [1, 1, 1, 1, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("volts", "amps", "phases", "derate"), [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 2, 1), (1, 1, 1, 0)]
)
def test_circuits_that_do_not_exist(volts: float, amps: float, phases: int, derate: float) -> None:
    with pytest.raises(ValueError, match=r"phases|circuit"):
        racks.circuit_w(volts, amps, phases, derate)


@given(st.floats(1, 1e6), st.sampled_from([120.0, 230.0, 400.0]), st.sampled_from([1, 3]))
def test_amps_and_watts_are_inverse(watts: float, volts: float, phases: int) -> None:
    assert racks.circuit_w(volts, racks.line_amps(watts, volts, phases), phases) == pytest.approx(watts, rel=1e-12)


def test_circuits_with_redundancy() -> None:
    # 40.8 kW on 17.25 kW circuits: 2.37, so 3; one more, or twice as many.
    assert racks.circuits_needed(40_800, 17_251) == 3
    assert racks.circuits_needed(40_800, 17_251, "n+1") == 4
    assert racks.circuits_needed(40_800, 17_251, "2n") == 6
    assert racks.circuits_needed(0, 17_251, "n+1") == 0
    # Met exactly: two of 10 for 20.
    assert racks.circuits_needed(20, 10) == 2
    with pytest.raises(ValueError, match="circuit"):
        racks.circuits_needed(1, 0)


def test_supplies_with_redundancy() -> None:
    # Six of 3.3 kW: 19.8 all together, 16.5 with one to spare, 9.9 on one of two feeds
    assert racks.usable_w(6, 3300) == pytest.approx(19_800)
    assert racks.usable_w(6, 3300, "n+1") == pytest.approx(16_500)
    assert racks.usable_w(6, 3300, "2n") == pytest.approx(9900)
    assert racks.usable_w(0, 3300, "n+1") == 0


@given(st.floats(0.1, 1e5), st.floats(0.1, 1e4), st.sampled_from(["n", "n+1", "2n"]))
def test_the_circuits_found_carry_the_load_and_no_fewer_do(load: float, circuit: float, redundancy: str) -> None:
    n = racks.circuits_needed(load, circuit, redundancy)  # type: ignore[arg-type]
    assert racks.usable_w(n, circuit, redundancy) >= load * (1 - 1e-6)  # type: ignore[arg-type]
    step = 2 if redundancy == "2n" else 1
    assert racks.usable_w(n - step, circuit, redundancy) < load  # type: ignore[arg-type]


def test_power_at_the_plug() -> None:
    # 245 + 245 + 190 + 100 = 780 W behind a supply of 88 %: 886.4 W
    assert racks.wall_w([245, 245, 190, 100], 0.88) == pytest.approx(886.36, abs=0.01)
    with pytest.raises(ValueError, match="efficiency"):
        racks.wall_w([1], 0)
    # All cards at 1.6 times their limit for an instant: 780 + 490 x 0.6
    assert racks.transient_w(780, 490, 1.6) == pytest.approx(1074)
    with pytest.raises(ValueError, match="peak"):
        racks.transient_w(780, 490, 0.9)
    assert racks.node_w(8, 700, 2000) == 7600


def test_nodes_of_a_rack() -> None:
    # 40.8 / 10.2 = 4 exactly, though floats say 3.9999999999999996 for some such ratios
    assert [racks.nodes_per_rack(kw, 10.2, 48, 8) for kw in (40.8, 20.4, 10.2, 10.1)] == [4, 2, 1, 0]
    # By height: 48 / 8 = 6 though the power is there for 9; 4 U for switches leave 44 / 8 = 5
    assert racks.nodes_per_rack(100, 10.2, 48, 8) == 6
    assert racks.nodes_per_rack(100, 10.2, 48, 8, reserved_units=4) == 5
    # 0.5 kW for switches: the second node no longer fits
    assert racks.nodes_per_rack(20.4, 10.2, reserved_kw=0.5) == 1
    assert racks.nodes_per_rack(None, 10.2, 42, 8) == 5
    with pytest.raises(ValueError, match="power limit or a height"):
        racks.nodes_per_rack(None, 10.2)


def test_racks_of_a_cluster() -> None:
    assert [racks.racks_needed(n, 4) for n in (32, 127)] == [8, 32]
    with pytest.raises(ValueError, match="not one node"):
        racks.racks_needed(3, 0)


def test_cooling_follows_the_load() -> None:
    limits: dict[racks.Cooling, float] = {"liquid": 250, "air": 50, "rear_door": 80}
    assert [racks.cooling_class(kw, limits) for kw in (40.8, 50, 56, 132)] == ["air", "air", "rear_door", "liquid"]
    with pytest.raises(ValueError, match="no cooling class"):
        racks.cooling_class(300, limits)


def test_the_limit_of_a_room_that_ends_first() -> None:
    room = Room(it_kw=45, circuits=6, circuit_kw=17.25, redundancy="2n", racks=10, rack_kw=20.4, rack_units=48)
    # Power 4; three working circuits of one node each: 3; racks 20.
    assert racks.nodes_in_room(room, 10.2, 8) == (3, "circuits")
    assert racks.nodes_in_room(Room(it_kw=45), 10.2) == (4, "power")
    assert racks.nodes_in_room(Room(racks=2, rack_units=42), 10.2, 8) == (10, "racks")
    assert racks.nodes_in_room(Room(), 10.2) == (None, "no limit")
    # A circuit too small for a node: two together feed one.
    assert racks.nodes_in_room(Room(circuits=5, circuit_kw=5.76), 10.2) == (2, "circuits")


@given(st.floats(0.5, 200), st.floats(0.5, 20))
def test_what_is_said_to_fit_fits(limit: float, node: float) -> None:
    n, _ = racks.nodes_in_room(Room(it_kw=limit), node)
    assert n is not None
    assert n * node <= limit * (1 + 1e-6) + 1e-6
    assert (n + 1) * node > limit
    assert n == math.floor(limit / node + 1e-9)
