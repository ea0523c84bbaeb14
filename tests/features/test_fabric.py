"""Switches and cables: published pods, limits of fat trees, and what any fabric must hold."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from solver.features.fabric import (
    Fabric,
    FabricPrices,
    build_fabric,
    cluster_cost,
    even_spines,
    fabric_cost,
    fabric_w,
    max_nodes,
    max_ports,
    pod_nodes,
    tiers_needed,
)


@pytest.mark.parametrize(
    ("nodes", "leaf", "spine", "core", "node_leaf", "leaf_spine", "spine_core"),
    [
        # 64-port switches, 8 NICs a node, as printed in vendors' reference designs.
        (32, 8, 4, 0, 256, 256, 0),
        (64, 16, 8, 0, 512, 512, 0),
        (127, 32, 16, 0, 1016, 1024, 0),
        (128, 32, 16, 0, 1024, 1024, 0),
        (256, 64, 32, 0, 2048, 2048, 0),
        (512, 128, 128, 64, 4096, 4096, 4096),
        (1024, 256, 256, 128, 8192, 8192, 8192),
    ],
)
def test_published_pods(
    nodes: int, leaf: int, spine: int, core: int, node_leaf: int, leaf_spine: int, spine_core: int
) -> None:
    found = build_fabric(nodes, 8, 64)
    assert (found.leaf, found.spine, found.core) == (leaf, spine, core)
    assert (found.cables_node_leaf, found.cables_leaf_spine, found.cables_spine_core) == (
        node_leaf,
        leaf_spine,
        spine_core,
    )


def test_managers_take_ports_too() -> None:
    # 31 nodes x 8 + 4 ports of the managers = 252 links on 8 leaves, whose 8 x 32 uplinks are all wired.
    found = build_fabric(31, 8, 64, reserved_ports=4)
    assert (found.leaf, found.spine, found.cables_node_leaf, found.cables_leaf_spine) == (8, 4, 252, 256)
    assert pod_nodes(4, 32) == 127


def test_even_spread_rounds_spines_up() -> None:
    # 2,304 ports on 144-port switches: 16 spines have the ports; 72 uplinks spread evenly over 18.
    assert build_fabric(288, 8, 144).spine == 16
    assert build_fabric(288, 8, 144, even=True).spine == 18
    assert even_spines(12, 32) == 16
    assert even_spines(5, 4) == 5


def test_two_planes_reach_further_with_as_many_switches() -> None:
    # 512 nodes: as two planes of 128-port halves it is still two tiers: 128 leaves, 64 spines, one cable a NIC.
    found = build_fabric(512, 8, 64, planes=2)
    assert (found.tiers, found.leaf, found.spine, found.cables_node_leaf) == (2, 128, 64, 4096)


def test_rail_only_gives_each_rail_its_own_fabric() -> None:
    # 2,048 nodes on 64 ports: per rail 64 leaves + 32 spines, times 8.
    found = build_fabric(2048, 8, 64, tiers=2, layout="rail_only")
    assert found.switches == 768
    with pytest.raises(ValueError, match="do not reach"):
        build_fabric(2048, 8, 64, tiers=2)


def test_rail_optimised_leaves_come_in_groups() -> None:
    # 33 nodes: one more than 32 a leaf, so every rail needs a second leaf.
    assert build_fabric(33, 8, 64, layout="rail").leaf == 16
    assert build_fabric(33, 8, 64).leaf == 9
    assert build_fabric(32, 8, 64, layout="rail").leaf == 8


def test_small_fabrics() -> None:
    assert build_fabric(1, 8, 64) == Fabric("none", 0)
    assert build_fabric(4, 0, 64) == Fabric("none", 0)
    assert build_fabric(2, 8, 64, tiers=0) == Fabric("direct", 0, cables_node_leaf=8)
    single = build_fabric(8, 8, 64)
    assert (single.topology, single.switches, single.cables, single.optics) == ("single", 1, 64, 128)
    assert build_fabric(9, 8, 64).topology == "leaf_spine"
    with pytest.raises(ValueError, match="without a switch"):
        build_fabric(3, 8, 64, tiers=0)


def test_oversubscription_saves_uplinks() -> None:
    # 3:1 on 64 ports: 48 down, 16 up. 24 nodes x 8 = 192 ports: 4 leaves, 64 uplinks, 1 spine.
    found = build_fabric(24, 8, 64, oversubscription=3)
    assert (found.leaf, found.spine, found.cables_leaf_spine) == (4, 1, 64)
    assert found.oversubscription == 3
    with pytest.raises(ValueError, match="oversubscription"):
        build_fabric(24, 8, 64, oversubscription=0.5)


def test_limits_of_fat_trees() -> None:
    assert [max_ports(64, t) for t in (1, 2, 3)] == [64, 2048, 65_536]
    assert [max_nodes(64, t, 8) for t in (1, 2, 3)] == [8, 256, 8192]
    assert max_nodes(64, 2, 8, "rail_only") == 2048
    with pytest.raises(ValueError, match="three tiers"):
        tiers_needed(65_537, 64)
    with pytest.raises(ValueError, match="1 to 3"):
        max_ports(64, 4)


def test_price_of_a_cluster() -> None:
    # 8 nodes: 64 NICs at 1,800, one switch at 36,000, 64 cables at 1,320 = 115,200 + 36,000 + 84,480
    found = build_fabric(8, 8, 64)
    prices = FabricPrices(nic=1800, switch=36_000, cable=1320, switch_w=1500)
    assert fabric_cost(found, 8, 8, prices) == 235_680
    assert fabric_w(found, prices) == 1500
    # 128 nodes at 310,000 + 50,000 and a fabric of 48 x 36,000 + 2,621,440
    assert cluster_cost(128, 310_000, 48 * 36_000 + 2_621_440, 50_000) == 50_429_440


@given(
    st.integers(2, 3000),
    st.integers(1, 8),
    st.sampled_from([32, 36, 40, 64, 128, 144]),
    st.sampled_from([1.0, 2.0, 3.0]),
)
def test_every_port_finds_a_place(nodes: int, nics: int, radix: int, ratio: float) -> None:
    try:
        found = build_fabric(nodes, nics, radix, oversubscription=ratio)
    except ValueError:
        assume(False)
    ports = nodes * nics
    assert found.cables_node_leaf == ports
    used = found.cables_node_leaf + 2 * found.cables_leaf_spine + 2 * found.cables_spine_core
    assert used <= radix * found.switches
    if found.tiers > 1:
        assert found.cables_leaf_spine * found.oversubscription >= ports * (1 - 1e-9)
    if ratio == 1.0 and found.tiers == 3:
        assert found.cables_spine_core >= found.cables_leaf_spine * (1 - 1e-9)


@given(st.integers(2, 255), st.integers(1, 8))
def test_more_nodes_never_need_fewer_switches(nodes: int, nics: int) -> None:
    assert build_fabric(nodes, nics, 64).switches <= build_fabric(nodes + 1, nics, 64).switches
