"""Switches, ports, cables and optics of a cluster network, counted from the number of nodes and NICs.

A fat tree (Clos) of equal switches: one switch, leaf-spine in two tiers, or leaf-spine-core in three. Leaves give
`radix x o / (o + 1)` ports to the nodes at an oversubscription of o : 1 and the rest upward; upper tiers do not block.
Source: Al-Fares et al. 2008 (k-ary fat tree: k^2/2 hosts in two tiers, k^3/4 in three); counts agree with the published
DGX SuperPOD designs for H100 (31 to 127 nodes), B200 and B300.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Topology = Literal["none", "direct", "single", "leaf_spine", "three_tier"]
Layout = Literal["packed", "rail", "rail_only"]


@dataclass(frozen=True)
class Fabric:
    """Counts of one fabric.

    Parameters
    ----------
    topology : str
        none (one node), direct (two nodes, NIC to NIC), single (one tier), leaf_spine or three_tier.
    tiers : int
        Tiers of switches.
    leaf, spine, core : int
        Switches by tier.
    cables_node_leaf, cables_leaf_spine, cables_spine_core : int
        Links by tier, one per NIC port at full NIC speed (split planes share a cable).
    oversubscription : float
        Node ports over uplinks of a leaf; 1 does not block [ratio].
    """

    topology: Topology
    tiers: int
    leaf: int = 0
    spine: int = 0
    core: int = 0
    cables_node_leaf: int = 0
    cables_leaf_spine: int = 0
    cables_spine_core: int = 0
    oversubscription: float = 1.0

    @property
    def switches(self) -> int:
        """All switches."""
        return self.leaf + self.spine + self.core

    @property
    def cables(self) -> int:
        """All links."""
        return self.cables_node_leaf + self.cables_leaf_spine + self.cables_spine_core

    @property
    def optics(self) -> int:
        """Transceivers when every link is optical: one at each end."""
        return 2 * self.cables


def max_ports(radix: int, tiers: int) -> int:
    """NIC ports of the largest fat tree that does not block: k, k^2/2, k^3/4 for one, two and three tiers.

    Raises
    ------
    ValueError
        Fewer than one or more than three tiers, or a radix under 2.
    """
    if tiers not in (1, 2, 3) or radix < 2:
        raise ValueError(f"{tiers} tiers of {radix}-port switches: 1 to 3 tiers and at least 2 ports")
    return int(radix * (radix // 2) ** (tiers - 1))


def max_nodes(radix: int, tiers: int, nics_per_node: int, layout: Layout = "packed") -> int:
    """Nodes of the largest fabric that does not block.

    `rail_only`: each of a node's NICs has a fabric of its own, so every NIC counts as one node of its rail.
    """
    ports = max_ports(radix, tiers)
    return ports if layout == "rail_only" else ports // nics_per_node


def pod_nodes(scalable_units: int, nodes_per_unit: int, reserved: int = 1) -> int:
    """Nodes of a pod whose fabric manager takes the ports of `reserved` nodes (DGX SuperPOD H100: 127 of 128)."""
    return scalable_units * nodes_per_unit - reserved


def tiers_needed(ports: int, radix: int, planes: int = 1, oversubscription: float = 1.0) -> int:
    """Fewest tiers that reach `ports` NIC ports.

    Raises
    ------
    ValueError
        Three tiers do not reach.
    """
    split = radix * planes
    down, up = _leaf_split(split, oversubscription)
    limits = (split, down * split, down * (split // 2) * split)
    if up == 0 and ports > split:
        raise ValueError(f"a leaf of {split} ports has no uplink at {oversubscription:g}:1")
    for tiers, limit in enumerate(limits, start=1):
        if ports <= limit:
            return tiers
    raise ValueError(f"{ports} ports are more than three tiers of {radix}-port switches reach ({limits[-1]})")


def _leaf_split(radix: int, oversubscription: float) -> tuple[int, int]:
    """Ports of a leaf toward nodes and upward."""
    if oversubscription < 1:
        raise ValueError(f"oversubscription {oversubscription:g}:1: 1 does not block, larger ones do")
    down = math.floor(radix * oversubscription / (oversubscription + 1) + 1e-9)
    return down, radix - down


def even_spines(spines: int, uplinks: int) -> int:
    """Fewest spines, no less than `spines`, over which the uplinks of a leaf spread evenly."""
    return next((s for s in range(max(spines, 1), uplinks + 1) if uplinks % s == 0), spines)


def build_fabric(
    nodes: int,
    nics_per_node: int,
    radix: int,
    *,
    tiers: int | None = None,
    oversubscription: float = 1.0,
    layout: Layout = "packed",
    planes: int = 1,
    even: bool = False,
    reserved_ports: int = 0,
) -> Fabric:
    """Count the parts of a fabric for `nodes` nodes of `nics_per_node` NIC ports.

    Parameters
    ----------
    nodes, nics_per_node : int
    radix : int
        Ports of a switch at NIC speed.
    tiers : int, optional
        0 (cables only), 1, 2 or 3; the fewest that reach by default.
    oversubscription : float
        Of the leaves [ratio].
    layout : str
        packed: NICs fill leaves in order; rail: NIC i of all nodes meets on leaf i of its group, so that leaves come in
        whole groups; rail_only: one fabric per rail.
    planes : int
        Planes that each port is split into (dual-plane: 2): every switch has `planes` times the ports at a fraction of
        the speed, so two tiers reach planes^2 times as far with the same number of switches.
    even : bool
        Round spines up until uplinks spread evenly (published designs do; ports alone need fewer).
    reserved_ports : int
        Ports for fabric managers, beside those of the nodes.

    Raises
    ------
    ValueError
        The tiers asked for do not reach, or counts are not positive.

    Notes
    -----
    All uplinks of a leaf are wired, also where it is not full, as published designs do. In three tiers spines mirror
    leaves' uplinks (radix/2 down, radix/2 up) and cores take their uplinks.
    """
    if nodes < 1 or nics_per_node < 0 or radix < 2 or planes < 1:
        raise ValueError(f"{nodes} nodes with {nics_per_node} NICs on {radix}-port switches: no such fabric")
    if nics_per_node == 0 or (nodes == 1 and tiers is None):
        return Fabric("none", 0)
    if tiers == 0:
        if nodes > 2:
            raise ValueError(f"{nodes} nodes cannot be cabled without a switch")
        return Fabric("direct", 0, cables_node_leaf=nics_per_node if nodes == 2 else 0)
    if layout == "rail_only" and nics_per_node > 1:
        one = build_fabric(nodes, 1, radix, tiers=tiers, oversubscription=oversubscription, planes=planes, even=even)
        return _times(one, nics_per_node)
    ports = nodes * nics_per_node + reserved_ports
    fewest = tiers_needed(ports, radix, planes, oversubscription)
    if tiers is None:
        tiers = fewest
    elif tiers < fewest:
        raise ValueError(f"{tiers} tier(s) of {radix}-port switches do not reach {ports} ports: {fewest} needed")
    split = radix * planes
    if tiers == 1:
        return Fabric("single", 1, leaf=planes * math.ceil(ports / split), cables_node_leaf=ports)
    down, up = _leaf_split(split, oversubscription)
    leaves = _leaves(nodes, nics_per_node, reserved_ports, down, layout)
    uplinks = leaves * up
    spread = (lambda n, links: even_spines(n, links)) if even else (lambda n, links: n)
    if tiers == 2:
        spines = spread(math.ceil(uplinks / split), up)
        return Fabric(
            "leaf_spine", 2, leaves * planes, spines * planes, 0, ports, uplinks, 0, oversubscription=down / up
        )
    spines = math.ceil(uplinks / (split // 2))
    core_links = spines * (split - split // 2)
    cores = spread(math.ceil(core_links / split), split - split // 2)
    return Fabric(
        "three_tier",
        3,
        leaves * planes,
        spines * planes,
        cores * planes,
        ports,
        uplinks,
        core_links,
        oversubscription=down / up,
    )


def _leaves(nodes: int, nics: int, reserved: int, down: int, layout: Layout) -> int:
    if layout == "rail":
        # One leaf per rail and group of `down` nodes; managers sit on ports that the last group leaves free.
        groups = math.ceil(nodes / down)
        while groups * nics * down < nodes * nics + reserved:
            groups += 1
        return groups * nics
    return math.ceil((nodes * nics + reserved) / down)


def _times(one: Fabric, n: int) -> Fabric:
    return Fabric(
        one.topology,
        one.tiers,
        one.leaf * n,
        one.spine * n,
        one.core * n,
        one.cables_node_leaf * n,
        one.cables_leaf_spine * n,
        one.cables_spine_core * n,
        one.oversubscription,
    )


@dataclass(frozen=True)
class FabricPrices:
    """What the parts of a fabric cost and draw: NIC and switch [money, W], cable with its ends [money]."""

    nic: float
    switch: float
    cable: float
    nic_w: float = 0.0
    switch_w: float = 0.0


def fabric_cost(fabric: Fabric, nodes: int, nics_per_node: int, prices: FabricPrices) -> float:
    """Price of NICs, switches and cables [money]; `cable` is the price of one link with whatever its ends need."""
    return nodes * nics_per_node * prices.nic + fabric.switches * prices.switch + fabric.cables * prices.cable


def fabric_w(fabric: Fabric, prices: FabricPrices) -> float:
    """Nameplate of the switches [W]; NICs draw inside their nodes and count there."""
    return fabric.switches * prices.switch_w


def cluster_cost(
    nodes: int, node: float, fabric_money: float, facility_per_node: float = 0.0, storage: float = 0.0
) -> float:
    """Price of nodes with fabric, building and storage [money]."""
    return nodes * (node + facility_per_node) + fabric_money + storage
