"""What a server is made of, and which parts do not go together: every incompatibility by name.

Tables and requirement levels that builds are made from, the physics of slots and supplies, and the rules as expressions
on one row per combination of parts. `solver.features.parts_choice` tries the combinations, `solver.features.builds` keeps
the best of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

KEY: Final = ["server", "accelerator", "gpus", "level"]

#: Net Gb/s of one PCIe lane by generation: transfer rate x coding (8b/10b, 128b/130b; PAM4 with FLIT from 6 on). PCI-SIG.
LANE_GBPS: Final = {1: 2.0, 2: 4.0, 3: 7.877, 4: 15.754, 5: 31.508, 6: 60.5, 7: 121.0}
CARD_LANES: Final = 16
"""Lanes of a card in a PCIe slot."""
BOARD_LANES_PER_CARD: Final = 8
"""Host lanes per card on a board with PCIe switches: one x16 uplink for two cards and their NICs (HGX, OAM boards)."""
DRIVE_LANES: Final = 4
NIC_LANES: Final = 16
SLOW_NIC_LANES: Final = 8
SLOW_NIC_GBPS: Final = 100.0
"""Ports up to this speed [Gb/s] make do with eight lanes where these carry it."""
TWO_SOCKET_LINK_LANES: Final = 48
"""Lanes that each EPYC of a pair gives to the link between them (three x16 links): 160 of 256 are left."""

CONFIDENCE_RANK: Final = {"measured": 5, "listed": 4, "derived": 3, "estimate": 2, "recalled": 1}


@dataclass(frozen=True)
class Parts:
    """Catalogue tables that a build is made from (frames as in `catalogs`)."""

    servers: pl.DataFrame
    accelerators: pl.DataFrame
    cpus: pl.DataFrame
    ram: pl.DataFrame
    storage: pl.DataFrame
    network: pl.DataFrame


HOST_NEEDS: Final = {
    "ram_ratio": pl.Float64,  # host RAM over total accelerator memory
    "ram_min_gib": pl.Float64,
    "cores_min": pl.Float64,  # per node
    "cores_per_gpu": pl.Float64,
    "nvme_tb": pl.Float64,
    "nvme_gb_s": pl.Float64,
}
NETWORK_NEEDS: Final = {
    "node_gbps": pl.Float64,  # of all NICs of a node together
    "spans": pl.Boolean,  # work across nodes: every number of NICs that cards share evenly, else the fewest that reach node_gbps
    "usual": pl.Boolean,  # of these numbers only one, and one for each card, each NIC as fast as is asked of the node
    "rdma": pl.Boolean,
    "network": pl.String,  # this network and no other; null: whichever is cheapest
    "beside_w": pl.Float64,  # as in `solver.features.builds_idle`; null: of use by itself
    "pair_w": pl.Float64,
}
LEVEL_SCHEMA: Final = {"level": pl.String, **HOST_NEEDS, **NETWORK_NEEDS}
"""What one node must have; a frame of these is a problem's requirement levels."""


@dataclass(frozen=True)
class Rule:
    """A named incompatibility: `broken` is true on a combination that cannot be built."""

    name: str
    broken: pl.Expr


def boarded() -> pl.Expr:
    """Cards that come as one board with its own switches, not in slots."""
    return ~pl.col("accelerator_form_factor").str.starts_with("PCIe")


def _same_form() -> pl.Expr:
    """A card fits its own form factor; a low-profile one any PCIe slot, a full-height one no low-profile slot.

    A slot's name may say more than the card's ("910B module" takes "module").
    """
    slot, card = pl.col("accelerator_form_factor"), pl.col("card_form_factor")
    pcie = slot.str.starts_with("PCIe") & card.str.starts_with("PCIe")
    high = slot.str.ends_with("LP") & ~card.str.ends_with("LP")
    return (pcie & ~high) | (slot == card) | slot.str.ends_with(pl.concat_str(pl.lit(" "), card))


SHELL_RULES: Final = (
    Rule("form factor: the card does not go into this kind of slot", ~_same_form().fill_null(False)),
    Rule(
        "NVLink domain: the board holds more cards than one domain joins",
        boarded() & (pl.col("nvlink_domain").fill_null(pl.col("gpus")) < pl.col("gpus")),
    ),
    Rule(
        "unknown price or figures of the server or card",
        pl.any_horizontal(
            pl.col(c).is_null() for c in ("chassis_usd", "cards_usd", "card_w", "memory_gib", "max_power_w")
        ),
    ),
)
BUILD_RULES: Final = (
    Rule("PCIe lanes: cards, NICs and drives need more than the CPUs have", pl.col("lanes_used") > pl.col("lanes")),
    Rule(
        "PCIe generation: the NIC is faster than its slot",
        pl.col("gbps_per_port") > pl.col("lane_gbps") * NIC_LANES,
    ),
    Rule(
        "power supply: parts draw more than it gives with its redundancy", pl.col("supply_w") > pl.col("supply_max_w")
    ),
)
CPU_REASON: Final = "CPU: none of the socket's family has the cores and sockets asked for, and a price"
MODULE_REASON: Final = "memory type: no module of the CPU's DDR generation is on sale"
RAM_REASON: Final = "memory slots: no even fill of the channels reaches the RAM asked for within the board's limits"
DRIVE_REASON: Final = "drive bays: too few for the capacity or speed asked for"
SLOT_REASON: Final = "NIC slots: fewer than the NICs asked for"
PORT_REASON: Final = "network: none of the kind asked for has a price"


def first_broken(rules: Sequence[Rule]) -> pl.Expr:
    """Name of the first rule that a row breaks; null where it breaks none."""
    return pl.coalesce(*(pl.when(rule.broken.fill_null(False)).then(pl.lit(rule.name)) for rule in rules))


def supply_w(max_power_w: pl.Expr, supplies: pl.Expr, spare: pl.Expr) -> pl.Expr:
    """Watts that the supplies give while `spare` of them have failed [W]; the rated power where they are not counted."""
    kept = pl.when(supplies > 0).then((supplies - spare).clip(0) / supplies).otherwise(1.0)
    return max_power_w * kept.fill_null(1.0)


def host_lanes() -> pl.Expr:
    """PCIe lanes of all sockets that slots, drives and boards may use; reads linked, pcie_lanes, cpu_sockets."""
    linked = pl.col("linked") & (pl.col("cpu_sockets") > 1)
    return (pl.col("pcie_lanes") - pl.when(linked).then(TWO_SOCKET_LINK_LANES).otherwise(0)) * pl.col("cpu_sockets")


def card_lanes() -> pl.Expr:
    """Host lanes of all cards."""
    return pl.when(boarded()).then(BOARD_LANES_PER_CARD).otherwise(CARD_LANES) * pl.col("gpus")


def lanes_of_nic(gbps: pl.Expr, lane_gbps: pl.Expr) -> pl.Expr:
    """Host lanes of one NIC in a slot whose lanes carry `lane_gbps` each [Gb/s]."""
    narrow = (gbps <= SLOW_NIC_GBPS) & (gbps <= lane_gbps * SLOW_NIC_LANES)
    return pl.when(narrow.fill_null(False)).then(SLOW_NIC_LANES).otherwise(NIC_LANES)


def nic_lanes() -> pl.Expr:
    """Host lanes of all NICs; on boards they hang behind the same switches as the cards."""
    each = lanes_of_nic(pl.col("gbps_per_port"), pl.col("lane_gbps"))
    return pl.when(boarded()).then(0).otherwise(each) * pl.col("nic_count")


def fewest_nics(node_gbps: pl.Expr, gbps: pl.Expr) -> pl.Expr:
    """NICs that reach `node_gbps` together, at least one."""
    return (node_gbps / gbps).ceil().clip(1).cast(pl.Int64)


def shared_evenly(nics: pl.Expr, gpus: pl.Expr, slots: pl.Expr) -> pl.Expr:
    """True where every card has the same share of the NICs, or where these are one a card as far as there are slots.

    Cards send through the NIC that is nearest, so with three NICs for eight cards the slowest three share one: the rate between
    nodes follows what all NICs have together only where these are shared evenly.
    """
    return (gpus % nics == 0) | (nics % gpus == 0) | (nics == pl.min_horizontal(gpus, slots))


def worst_confidence(*columns: str) -> pl.Expr:
    """Least sure of the confidences in `columns` (nulls aside): the worst part decides what a price is worth."""
    ranks = [pl.col(c).replace_strict(CONFIDENCE_RANK, default=None, return_dtype=pl.Int64) for c in columns]
    names = {rank: name for name, rank in CONFIDENCE_RANK.items()}
    return pl.min_horizontal(ranks).replace_strict(names, default=None, return_dtype=pl.String)


def undominated(
    frame: pl.DataFrame, group: Sequence[str], lower: Sequence[str], waived: tuple[str, str] | None = None
) -> pl.DataFrame:
    """Rows that no other row of their group equals or beats in every column of `lower`; of equals the first stays.

    `waived`: a column of `lower`, and a Boolean one that says which rows need not be equalled in it.
    """
    numbered = frame.with_row_index("_row")
    left = numbered.select("_row", *group, *lower, *([] if waived is None else [waived[1]]))
    pairs = left.join(left, on=list(group), suffix="_other")
    column, free = (None, pl.lit(False)) if waived is None else (waived[0], pl.col(waived[1]))
    no_worse = [(pl.col(f"{c}_other") <= pl.col(c)) | (free if c == column else pl.lit(False)) for c in lower]
    better = [(pl.col(f"{c}_other") < pl.col(c)) & (~free if c == column else pl.lit(True)) for c in lower]
    beaten = pl.all_horizontal(no_worse) & (pl.any_horizontal(better) | (pl.col("_row_other") < pl.col("_row")))
    losers = pairs.filter(beaten).select("_row").unique()
    return numbered.join(losers, on="_row", how="anti").sort("_row").drop("_row")
