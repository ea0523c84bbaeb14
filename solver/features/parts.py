"""Which parts go together in one server: every incompatibility by name, and the cheapest machine that has none.

`compatible_builds` looks at every combination of CPU, memory fill, drives and network port for every server, card count
and requirement level. Options that are no better than another in price, watts and lanes are left out first, which is
exact: whatever they could do, the other does as well. Choosing each part by itself is not exact, since power supply,
lanes and slot speed bind parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from solver.features.builds import KEY, LEVEL_SCHEMA, Parts

#: Net Gb/s of one PCIe lane by generation: transfer rate x coding (128b/130b; PAM4 with FLIT from 6 on). PCI-SIG.
LANE_GBPS: Final = {3: 7.877, 4: 15.754, 5: 31.508, 6: 60.5}
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


@dataclass(frozen=True)
class Rule:
    """A named incompatibility: `broken` is true on a combination that cannot be built."""

    name: str
    broken: pl.Expr


def _boarded() -> pl.Expr:
    """Cards that come as one board with its own switches, not in slots."""
    return ~pl.col("accelerator_form_factor").str.starts_with("PCIe")


def _same_form() -> pl.Expr:
    """A card fits its own form factor; low-profile and other PCIe slots take PCIe cards, of the right height."""
    slot, card = pl.col("accelerator_form_factor"), pl.col("card_form_factor")
    pcie = slot.str.starts_with("PCIe") & card.str.starts_with("PCIe")
    return pcie | (slot == card) | slot.str.starts_with(card) | card.str.starts_with(slot)


SHELL_RULES: Final = (
    Rule("form factor: the card does not go into this kind of slot", ~_same_form().fill_null(True)),
    Rule("slots: more cards than the server takes", pl.col("gpus") > pl.col("slots")),
    Rule("board: a board of cards is sold whole", _boarded() & (pl.col("gpus") != pl.col("slots"))),
    Rule(
        "NVLink domain: the board holds more cards than one domain joins",
        _boarded() & (pl.col("nvlink_domain").fill_null(pl.col("gpus")) < pl.col("gpus")),
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


def supply_w(max_power_w: pl.Expr, supplies: pl.Expr, spare: pl.Expr) -> pl.Expr:
    """Watts that the supplies give while `spare` of them have failed [W]; the rated power where they are not counted."""
    kept = pl.when(supplies > 0).then((supplies - spare).clip(0) / supplies).otherwise(1.0)
    return max_power_w * kept.fill_null(1.0)


def undominated(frame: pl.DataFrame, group: Sequence[str], lower: Sequence[str]) -> pl.DataFrame:
    """Rows that no other row of their group equals or beats in every column of `lower`; of equals the first stays."""
    numbered = frame.with_row_index("_row")
    left = numbered.select("_row", *group, *lower)
    pairs = left.join(left, on=list(group), suffix="_other")
    beaten = pl.all_horizontal(pl.col(f"{c}_other") <= pl.col(c) for c in lower) & (
        pl.any_horizontal(pl.col(f"{c}_other") < pl.col(c) for c in lower) | (pl.col("_row_other") < pl.col("_row"))
    )
    losers = pairs.filter(beaten).select("_row").unique()
    return numbered.join(losers, on="_row", how="anti").sort("_row").drop("_row")


def compatible_builds(parts: Parts, levels: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Find the cheapest machine without any incompatibility for each server, card, card count and level.

    Parameters
    ----------
    parts : Parts
        Catalogue tables. Servers may have `psu_count` and `psu_spare` (supplies that may fail); without them
        `max_power_w` is what they give.
    levels : pl.DataFrame
        Requirement levels as in `solver.features.builds.LEVEL_SCHEMA`.

    Returns
    -------
    builds : pl.DataFrame
        `KEY`, cpu, module, ram_count, storage, drive_count, network, nic_count, price_usd, supply_w and supply_max_w [W],
        lanes_used, lanes. Servers that are sold whole are not among them: their parts are not chosen.
    refused : pl.DataFrame
        `KEY`, reason: the incompatibility that stands in the way (of several, the one most combinations break).
    """
    shells, refused = _shells(parts, levels)
    stages = (
        (_with_cpu, "CPU: none of the socket's family has the cores asked for and a price"),
        (_with_ram, "memory: no even fill of the channels reaches the RAM asked for"),
        (_with_drives, "drive bays: too few for the capacity or speed asked for"),
        (_with_nics, "network: no port has the speed asked for, or a price"),
    )
    built = shells
    gone = [refused]
    for stage, reason in stages:
        before = built.select(KEY).unique()
        built = stage(built, parts)
        gone.append(before.join(built, on=KEY, how="anti").with_columns(reason=pl.lit(reason)))
    built = _totals(built)
    judged = built.with_columns(reason=_first_broken(BUILD_RULES))
    fine = judged.filter(pl.col("reason").is_null())
    best = fine.sort("price_usd", "supply_w", "cpu", "module", "storage", "network").group_by(KEY, maintain_order=True)
    cheapest = best.first().select(*KEY, *_RESULT)
    stuck = judged.join(cheapest, on=KEY, how="anti")
    counted = stuck.group_by(*KEY, "reason").len().sort("len", "reason", descending=[True, False])
    gone.append(counted.group_by(KEY, maintain_order=True).first().select(*KEY, "reason"))
    return cheapest.sort(KEY), pl.concat(gone).unique(KEY, keep="first", maintain_order=True).sort(KEY)


_RESULT = (
    "cpu",
    "module",
    "ram_count",
    "storage",
    "drive_count",
    "network",
    "nic_count",
    "price_usd",
    "supply_w",
    "supply_max_w",
    "lanes_used",
    "lanes",
)


def _first_broken(rules: Sequence[Rule]) -> pl.Expr:
    return pl.coalesce(*(pl.when(rule.broken.fill_null(False)).then(pl.lit(rule.name)) for rule in rules))


def _shells(parts: Parts, levels: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Server x card x card count x level; those broken by themselves go out with their name."""
    cards = parts.accelerators.select(
        "accelerator",
        "memory_gib",
        "nvlink_domain",
        card_form_factor="form_factor",
        card_w="tdp_w",
        card_usd="price_usd",
    )
    servers = parts.servers.filter(~pl.col("complete"))
    for column in ("psu_count", "psu_spare"):
        if column not in servers.columns:
            servers = servers.with_columns(pl.lit(None, pl.Int64).alias(column))
    slots = pl.col("slots").cast(pl.Int64)
    splits = ~pl.col("price_includes_gpu")
    counts = pl.concat_list([pl.when(splits & (slots > c)).then(pl.lit(c, pl.Int64)) for c in (1, 2, 4, 8)] + [slots])
    shells = (
        servers.select(
            "server",
            "accelerator_form_factor",
            "slots",
            "cpu_sockets",
            "cpu_default",
            "max_ram_gib",
            "ram_slots",
            "drive_bays",
            "nic_slots",
            "chassis_overhead_w",
            "price_includes_gpu",
            chassis_usd="price_usd",
            supply_max_w=supply_w(pl.col("max_power_w"), pl.col("psu_count"), pl.col("psu_spare")),
            accelerator=pl.col("fits").str.split(";"),
            gpus=counts.list.drop_nulls().list.unique(),
        )
        .explode("accelerator")
        .explode("gpus")
        .with_columns(pl.col("accelerator").str.strip_chars())
        .join(cards, on="accelerator", how="inner")
        .join(levels.cast(LEVEL_SCHEMA), how="cross")  # type: ignore[arg-type]
        .with_columns(
            cores_need=pl.max_horizontal("cores_min", pl.col("cores_per_gpu") * pl.col("gpus")),
            ram_need_gib=pl.max_horizontal(
                pl.col("ram_ratio") * pl.col("memory_gib") * pl.col("gpus"), pl.col("ram_min_gib")
            ),
            cards_usd=pl.when("price_includes_gpu").then(0.0).otherwise(pl.col("card_usd") * pl.col("gpus")),
        )
    )
    unknown = Rule(
        "unknown price or figures of the server or card",
        pl.any_horizontal(pl.col(c).is_null() for c in ("chassis_usd", "cards_usd", "card_w", "memory_gib")),
    )
    judged = shells.with_columns(reason=_first_broken((*SHELL_RULES, unknown)))
    return judged.filter(pl.col("reason").is_null()).drop("reason"), judged.filter(
        pl.col("reason").is_not_null()
    ).select(*KEY, "reason")


def _with_cpu(shells: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    cpus = parts.cpus.select(
        "cpu",
        "family",
        "cores",
        "memory_channels",
        "memory_type",
        "max_memory_gib",
        "pcie_gen",
        "pcie_lanes",
        "max_sockets",
        linked=pl.col("vendor") == "AMD",
        cpu_w="tdp_w",
        cpu_usd="price_usd",
    )
    sockets = pl.col("cpu_sockets")
    options = (
        shells.join(cpus.select(cpu_default="cpu", family="family"), on="cpu_default", how="inner")
        .join(cpus, on="family", how="inner")
        .filter(
            pl.col("cpu_usd").is_not_null()
            & (pl.col("max_sockets") >= sockets)
            & (pl.col("cores") * sockets >= pl.col("cores_need"))
        )
        .with_columns(
            lanes=(
                pl.col("pcie_lanes")
                - pl.when(pl.col("linked") & (sockets > 1)).then(TWO_SOCKET_LINK_LANES).otherwise(0)
            )
            * sockets,
            lane_gbps=pl.col("pcie_gen")
            .cast(pl.Int64)
            .replace_strict(LANE_GBPS, default=None, return_dtype=pl.Float64),
            cpu_usd=pl.col("cpu_usd") * sockets,
            cpu_w=pl.col("cpu_w") * sockets,
        )
        .with_columns(lacking_lanes=-pl.col("lanes"), lacking_memory=-pl.col("max_memory_gib"))
    )
    # What another CPU must equal to stand in for this one: memory, slots and lanes, at no more money and watts.
    group = [*KEY, "memory_type", "memory_channels", "pcie_gen"]
    return undominated(options, group, ["cpu_usd", "cpu_w", "lacking_lanes", "lacking_memory"])


def _with_ram(builds: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    """One or two modules in every channel of every socket: an uneven fill halves the bandwidth."""
    channels = (pl.col("memory_channels") * pl.col("cpu_sockets")).cast(pl.Int64)
    slots = pl.col("ram_slots").cast(pl.Int64)
    fills = pl.concat_list(
        pl.when(channels <= slots).then(channels),
        # A board with fewer slots than channels has them all filled.
        pl.when(slots < channels).then(slots),
        pl.when(channels * 2 <= slots).then(channels * 2),
    ).list.drop_nulls()
    modules = parts.ram.filter(pl.col("price_usd").is_not_null())
    options = (
        builds.with_columns(ram_count=fills)
        .explode("ram_count")
        .join(
            modules.select("module", "size_gib", memory_type="type", module_usd="price_usd", module_w="power_w"),
            on="memory_type",
            how="inner",
        )
        .with_columns(
            ram_gib=pl.col("size_gib") * pl.col("ram_count"),
            ram_usd=pl.col("module_usd") * pl.col("ram_count"),
            ram_w=pl.col("module_w") * pl.col("ram_count"),
        )
        .filter(
            (pl.col("ram_gib") >= pl.col("ram_need_gib"))
            & (pl.col("ram_gib") <= pl.col("max_ram_gib"))
            & (pl.col("ram_gib") <= pl.col("max_memory_gib") * pl.col("cpu_sockets"))
        )
    )
    return undominated(options, [*KEY, "cpu"], ["ram_usd", "ram_w"])


def _with_drives(builds: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    """Equal drives in the bays; a drive reads no faster than its four lanes carry."""
    drives = parts.storage.filter(
        (pl.col("class") == "nvme_tlc") & (pl.col("location") == "on-prem") & pl.col("price_usd_per_tb").is_not_null()
    ).select("storage", "capacity_tb", "price_usd_per_tb", drive_read="read_gb_s", drive_w="power_w")
    reads = pl.min_horizontal("drive_read", pl.col("lane_gbps") * DRIVE_LANES / 8)
    options = (
        builds.join(drives, how="cross")
        .with_columns(
            drive_count=pl.max_horizontal(
                (pl.col("nvme_tb") / pl.col("capacity_tb")).ceil(), (pl.col("nvme_gb_s") / reads).ceil(), pl.lit(1.0)
            ).cast(pl.Int64)
        )
        .filter(pl.col("drive_count") <= pl.col("drive_bays"))
        .with_columns(
            drives_usd=pl.col("price_usd_per_tb") * pl.col("capacity_tb") * pl.col("drive_count"),
            drives_w=pl.col("drive_w") * pl.col("drive_count"),
        )
    )
    return undominated(options, [*KEY, "cpu", "module", "ram_count"], ["drives_usd", "drives_w", "drive_count"])


def _with_nics(builds: pl.DataFrame, parts: Parts) -> pl.DataFrame:
    ports = parts.network.filter(
        pl.col("nic_price_usd").is_not_null() & pl.col("per_port_switch_price_usd").is_not_null()
    ).select(
        "network",
        "gbps_per_port",
        has_rdma="rdma",
        port_usd=pl.col("nic_price_usd") + pl.col("per_port_switch_price_usd") + pl.col("cable_price_usd").fill_null(0),
        nic_w="nic_power_w",
    )
    options = (
        builds.with_columns(
            nic_count=pl.when("nic_per_gpu").then(pl.min_horizontal("gpus", "nic_slots")).otherwise(1).cast(pl.Int64)
        )
        .join(ports, how="cross")
        .filter(
            (pl.col("gbps_per_port") >= pl.col("nic_gbps"))
            & (pl.col("has_rdma") | ~pl.col("rdma"))
            & (pl.col("nic_count") >= 1)
        )
        .with_columns(nics_usd=pl.col("port_usd") * pl.col("nic_count"), nics_w=pl.col("nic_w") * pl.col("nic_count"))
    )
    # Speed is among what is compared: a slower port may go where a faster one passes its slot.
    group = [*KEY, "cpu", "module", "ram_count", "storage"]
    return undominated(options, group, ["nics_usd", "nics_w", "gbps_per_port"])


def _totals(builds: pl.DataFrame) -> pl.DataFrame:
    cards = pl.when(_boarded()).then(BOARD_LANES_PER_CARD).otherwise(CARD_LANES) * pl.col("gpus")
    # On boards NICs hang behind the same switches as the cards.
    speed = pl.col("gbps_per_port")
    narrow = (speed <= SLOW_NIC_GBPS) & (speed <= pl.col("lane_gbps") * SLOW_NIC_LANES)
    each = pl.when(narrow.fill_null(False)).then(SLOW_NIC_LANES).otherwise(NIC_LANES)
    nics = pl.when(_boarded()).then(0).otherwise(each) * pl.col("nic_count")
    return builds.with_columns(
        price_usd=pl.sum_horizontal("chassis_usd", "cards_usd", "cpu_usd", "ram_usd", "drives_usd", "nics_usd"),
        supply_w=pl.col("card_w") * pl.col("gpus")
        + pl.sum_horizontal("chassis_overhead_w", "cpu_w", "ram_w", "drives_w", "nics_w"),
        lanes_used=cards + nics + pl.col("drive_count") * DRIVE_LANES,
    )
