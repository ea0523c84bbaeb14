"""Rooms as electricians and facility managers see them: circuits, racks, power shelves, cooling and redundant feeds.

Limits are checked against nameplate or set caps; energy is a matter of drawn watts (`solver.features.tco`). Watts are
real power; a power factor of 1 is assumed unless given, as it nearly is for active power supplies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Redundancy = Literal["n", "n+1", "2n"]
Cooling = Literal["air", "rear_door", "liquid"]

#: Share of a breaker's rating allowed for continuous load (NEC 210.20, 215.3: rating at least 125 % of it).
CONTINUOUS_SHARE = 0.8
#: Line voltages from here up are line-to-line figures of three-phase supplies; 208 V may be either [V].
THREE_PHASE_VOLTS = 380.0


def default_phases(volts: float) -> int:
    """Phases that a supply voltage stands for when none are given."""
    return 3 if volts >= THREE_PHASE_VOLTS else 1


def circuit_w(volts: float, amps: float, phases: int = 1, derate: float = 1.0, power_factor: float = 1.0) -> float:
    """Watts that a circuit carries [W]: V x A, times sqrt(3) on three phases with V line to line.

    Parameters
    ----------
    volts, amps : float
        Rating of the circuit [V, A].
    phases : int
        1 (also split phase) or 3.
    derate : float
        Share allowed: 0.8 for continuous load, 1 for the nameplate [fraction].

    Raises
    ------
    ValueError
        Phases other than 1 and 3, or figures that are not positive.
    """
    if phases not in (1, 3):
        raise ValueError(f"{phases} phases: circuits have 1 or 3")
    if volts <= 0 or amps <= 0 or not 0 < derate <= 1 or not 0 < power_factor <= 1:
        raise ValueError(
            f"circuit of {volts:g} V, {amps:g} A, derated to {derate:g}: figures must be above 0, shares at most 1"
        )
    return volts * amps * (math.sqrt(3) if phases == 3 else 1.0) * derate * power_factor


def line_amps(watts: float, volts: float, phases: int = 1, power_factor: float = 1.0) -> float:
    """Current in each line at a load [A]."""
    return watts / circuit_w(volts, 1.0, phases, power_factor=power_factor)


def breaker_amps(watts: float, volts: float, phases: int = 1, derate: float = CONTINUOUS_SHARE) -> float:
    """Least breaker rating for a continuous load [A]."""
    return line_amps(watts, volts, phases) / derate


def circuits_needed(load_w: float, circuit: float, redundancy: Redundancy = "n") -> int:
    """Circuits (or supplies) of `circuit` watts for a load; one more at n+1, twice as many at 2n.

    Raises
    ------
    ValueError
        A circuit carries nothing.
    """
    if circuit <= 0:
        raise ValueError("a circuit must carry something")
    n = max(1, math.ceil(load_w / circuit - 1e-9)) if load_w > 0 else 0
    return {"n": n, "n+1": n + 1 if n else 0, "2n": 2 * n}[redundancy]


def usable_w(installed: int, each_w: float, redundancy: Redundancy = "n") -> float:
    """Watts that equal supplies or feeds give while their redundancy holds [W].

    n: all of them; n+1: all but one; 2n: half of them, the other half being able to take over.
    """
    working = {"n": installed, "n+1": installed - 1, "2n": installed // 2}[redundancy]
    return max(0, working) * each_w


def wall_w(parts_w: Sequence[float], psu_efficiency: float = 1.0) -> float:
    """Watts at the plug for what the parts draw behind the power supply [W].

    Raises
    ------
    ValueError
        Efficiency is not above 0 and at most 1.
    """
    if not 0 < psu_efficiency <= 1:
        raise ValueError(f"supply efficiency of {psu_efficiency:g}: must be above 0 and at most 1")
    return sum(parts_w) / psu_efficiency


def node_w(gpus: float, gpu_w: float, host_w: float = 0.0) -> float:
    """IT watts of a node: cards and everything beside them [W]."""
    return gpus * gpu_w + host_w


def transient_w(parts_w: float, gpu_w: float, gpu_peak_ratio: float) -> float:
    """Short peak behind the supply when all cards spike together [W].

    Cards pass their limit for milliseconds (1.3 to 2 times is common on consumer cards); the rest of the node does not.
    Supplies and battery units must bear it, breakers and energy do not notice.
    """
    if gpu_peak_ratio < 1:
        raise ValueError(f"peak ratio of {gpu_peak_ratio:g}: a peak is at least the limit")
    return parts_w + gpu_w * (gpu_peak_ratio - 1)


def units_within(limit: float, unit: float) -> int:
    """Whole units within a limit; a limit met exactly (40.8 kW, four of 10.2) counts."""
    if unit <= 0:
        raise ValueError("a unit must take something")
    return max(0, math.floor(limit / unit + 1e-9))


def nodes_per_rack(
    rack_kw: float | None,
    node_kw: float,
    rack_units: float | None = None,
    node_units: float | None = None,
    reserved_kw: float = 0.0,
    reserved_units: float = 0.0,
) -> int:
    """Nodes that fit one rack by power and by space, whichever ends first.

    Parameters
    ----------
    rack_kw, node_kw : float
        Power of the rack and nameplate of a node [kW].
    rack_units, node_units : float, optional
        Height [U]; space does not count where one is not given.
    reserved_kw, reserved_units : float
        Kept for switches and power strips [kW, U].

    Raises
    ------
    ValueError
        Neither power nor height is known.
    """
    limits = []
    if rack_kw is not None:
        limits.append(units_within(rack_kw - reserved_kw, node_kw))
    if rack_units is not None and node_units is not None:
        limits.append(units_within(rack_units - reserved_units, node_units))
    if not limits:
        raise ValueError("a rack needs a power limit or a height")
    return min(limits)


def racks_needed(nodes: float, per_rack: float) -> int:
    """Racks for so many nodes.

    Raises
    ------
    ValueError
        Not even one node fits a rack.
    """
    if per_rack < 1:
        raise ValueError("not one node fits such a rack")
    return math.ceil(nodes / per_rack - 1e-9)


def cooling_class(rack_kw: float, limits_kw: Mapping[Cooling, float]) -> Cooling:
    """Cooling class with the lowest limit that carries a rack load.

    Parameters
    ----------
    rack_kw : float
        Load of one rack [kW].
    limits_kw : mapping
        Highest rack load by class, as the room or a catalogue states it [kW].

    Raises
    ------
    ValueError
        More than any class carries.
    """
    for name, limit in sorted(limits_kw.items(), key=lambda item: item[1]):
        if rack_kw <= limit:
            return name
    raise ValueError(f"{rack_kw:g} kW in one rack: no cooling class carries it")


@dataclass(frozen=True)
class Room:
    """What a room gives: any limit may be missing.

    Parameters
    ----------
    it_kw : float, optional
        IT power of the room [kW].
    circuits : int, optional
        Circuits of `circuit_kw` each, feeds counted singly.
    circuit_kw : float, optional
        Continuous power of one circuit [kW].
    redundancy : str
        Of the circuits.
    racks, rack_kw, rack_units : optional
        Number, power [kW] and height [U] of racks.
    """

    it_kw: float | None = None
    circuits: int | None = None
    circuit_kw: float | None = None
    redundancy: Redundancy = "n"
    racks: int | None = None
    rack_kw: float | None = None
    rack_units: float | None = None


def nodes_in_room(room: Room, node_kw: float, node_units: float | None = None) -> tuple[int | None, str]:
    """Nodes that fit a room and the limit that ends first (power, circuits, racks); None and "no limit" without any.

    Nodes are not split over circuits unless one is too small for a node: then a node takes as many whole circuits as
    it needs.
    """
    limits: list[tuple[int, str]] = []
    if room.it_kw is not None:
        limits.append((units_within(room.it_kw, node_kw), "power"))
    if room.circuits is not None and room.circuit_kw is not None:
        working = int(usable_w(room.circuits, 1.0, room.redundancy))
        each = units_within(room.circuit_kw, node_kw)
        fit = working * each if each else working // circuits_needed(node_kw, room.circuit_kw)
        limits.append((fit, "circuits"))
    has_rack = room.rack_kw is not None or (room.rack_units is not None and node_units is not None)
    if room.racks is not None and has_rack:
        limits.append((room.racks * nodes_per_rack(room.rack_kw, node_kw, room.rack_units, node_units), "racks"))
    return min(limits) if limits else (None, "no limit")
