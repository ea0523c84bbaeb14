"""The boxes that storage stands in: bays for its drives, GB/s, watts, height, and what they cost where a price leaves them out.

A system sold by the usable TB is told of which drives and boxes it is made (table `storage_systems`); a pool is bought by the
drive and pays for its boxes. With `s` the share that protection leaves of a drive, a box of `b` bays holds `b` drives, or
b x TB x s usable TB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from solver.candidates.terms import CONFIDENCES

SPEED = 10_000
"""Speeds are counted in 0.1 MB/s [per GB/s]."""


@dataclass(frozen=True)
class Box:
    """A box as a tier sees it.

    Parameters
    ----------
    units : int
        Units of the tier that one box holds.
    read, write : int
        Most that one box gives [0.1 MB/s]; 0: not known.
    price : float
        Of one box; 0 where the price of a unit has it in it [money].
    watts, full_w : float
        Nameplate of a box without what its units draw, and with all of them [W].
    network, ports : str, int, optional
        Ports of the site's storage network that it takes.
    """

    name: str
    units: int
    read: int
    write: int
    price: float
    watts: float
    full_w: float
    rack_units: float
    parts: tuple[str, ...]
    as_of: str | None
    confidence: str
    source: str
    network: str | None
    ports: int


@dataclass(frozen=True)
class System:
    """A system sold by the TB: its box, watts of the drives in one and of a usable TB of them [W]."""

    box: dict[str, Any]
    box_tb: int
    drives_w: float
    tb_w: float
    boxes_in_price: bool
    confidence: str

    def can_be_paid(self, least: str) -> bool:
        """Whether its boxes have a price that is sure enough, or need none."""
        known = self.box["price_usd"] is not None
        return self.boxes_in_price or (known and CONFIDENCES.index(self.confidence) >= CONFIDENCES.index(least))


@dataclass(frozen=True)
class DrivePool:
    """Drives of one kind in boxes of one kind; figures of one drive."""

    name: str
    drive: str
    drive_tb: float
    drive_usd: float
    drive_w: float
    read_gb_s: float
    write_gb_s: float
    iops: float
    data_share: float
    least_drives: int
    box: dict[str, Any]
    as_of: str | None
    confidence: str
    source: str


def _rows(catalog: Catalog) -> list[dict[str, Any]]:
    """Systems with their box and drive whose bays and watts are known, by name."""
    drives = catalog.storage.select(
        drive="storage",
        drive_tb="capacity_tb",
        drive_usd=pl.col("price_usd_per_tb") * pl.col("capacity_tb"),
        drive_w="power_w",
        drive_read="read_gb_s",
        drive_write="write_gb_s",
        drive_iops=pl.min_horizontal("read_iops", "write_iops"),
        drive_confidence="confidence",
        drive_as_of="as_of",
        drive_source="source",
    )
    ports = catalog.network.select("network", carried=pl.col("gbps_per_port") / 8)
    # A box gives no more than its ports carry.
    speeds = ["read_gb_s", "write_gb_s"]
    held = catalog.storage_boxes.join(ports, on="network", how="left", maintain_order="left").with_columns(
        pl.when(pl.col(c).is_not_null()).then(pl.min_horizontal(c, pl.col("ports") * pl.col("carried"))).alias(c)
        for c in speeds
    )
    boxes = held.select(pl.col("box"), pl.struct(catalog.storage_boxes.columns).alias("made"))
    joined = catalog.storage_systems.join(drives, on="drive").join(boxes, on="box").sort("system")
    known = (
        pl.col("drive_tb").is_not_null()
        & pl.col("drive_w").is_not_null()
        & pl.col("made").struct.field("power_w").is_not_null()
    )
    return joined.filter(known).to_dicts()


def storage_networks(catalog: Catalog) -> list[str]:
    """Networks that boxes of storage hang on, by name."""
    return sorted({r["made"]["network"] for r in _rows(catalog)} - {None})


def system_of(tier: dict[str, Any], catalog: Catalog) -> System | None:
    """What a system sold by the TB is made of: its own row, else that of its class; None where neither is known."""
    rows = {(r["kind"], r["system"]): r for r in _rows(catalog)}
    row = rows.get(("tier", tier["storage"])) or rows.get(("class", tier["class"]))
    if row is None:
        return None
    usable = row["drive_tb"] * row["data_share"]
    return System(
        box=row["made"],
        box_tb=max(1, math.floor(row["made"]["drive_bays"] * usable + 1e-6)),
        drives_w=row["made"]["drive_bays"] * row["drive_w"],
        tb_w=row["drive_w"] / usable,
        boxes_in_price=row["boxes_in_price"],
        confidence=min(row["confidence"], row["made"]["confidence"], key=CONFIDENCES.index),
    )


def drive_pools(catalog: Catalog, least: str) -> list[DrivePool]:
    """Pools that can be bought: drive and box with price, speed and watts, and each at least as sure as `least`."""
    pools = []
    for r in _rows(catalog):
        sure = min((r["confidence"], r["drive_confidence"], r["made"]["confidence"]), key=CONFIDENCES.index)
        needed = [r[c] for c in ("drive_usd", "drive_read", "drive_write", "drive_iops")]
        needed += [r["made"][c] for c in ("price_usd", "read_gb_s", "write_gb_s")]
        if r["kind"] != "drives" or None in needed or CONFIDENCES.index(sure) < CONFIDENCES.index(least):
            continue
        pools.append(
            DrivePool(
                name=r["system"],
                drive=r["drive"],
                drive_tb=r["drive_tb"],
                drive_usd=r["drive_usd"],
                drive_w=r["drive_w"],
                read_gb_s=r["drive_read"],
                write_gb_s=r["drive_write"],
                iops=r["drive_iops"] * r["iops_share"],
                data_share=r["data_share"],
                least_drives=r["least_drives"],
                box=r["made"],
                as_of=r["drive_as_of"],
                confidence=sure,
                source=r["drive_source"],
            )
        )
    return pools


def box_of_drives(pool: DrivePool, usd: float) -> Box:
    """Box of a pool: so many bays."""
    bays = pool.box["drive_bays"]
    return _box(pool.box, bays, pool.box["power_w"], bays * pool.drive_w, pool.box["price_usd"] * usd)


def box_of_tb(system: System, usd: float, system_w: float | None) -> Box:
    """Box of a system sold by the TB; `system_w` where its row states what all of it draws by the TB [W/TB]."""
    own = system.box["power_w"] if system_w is None else 0.0
    units = system.box_tb
    drives_w = system.drives_w if system_w is None else units * system_w
    price = 0.0 if system.boxes_in_price else system.box["price_usd"] * usd
    return _box(system.box, units, own, drives_w, price, free=system.boxes_in_price)


def _box(box: dict[str, Any], units: int, watts: float, drives_w: float, price: float, *, free: bool = False) -> Box:
    parts = [f"{box['rack_units']:g}U high", f"{box['drive_bays']} x drive bay"]
    if box["network"] is not None:
        parts.append(f"{box['ports']} x port {box['network']}")
    if free:
        parts.append("paid with the TB")
    return Box(
        name=box["box"],
        units=units,
        read=math.floor((box["read_gb_s"] or 0.0) * SPEED + 1e-6),
        write=math.floor((box["write_gb_s"] or 0.0) * SPEED + 1e-6),
        price=price,
        watts=watts,
        full_w=watts + drives_w,
        rack_units=box["rack_units"],
        parts=tuple(parts),
        as_of=box["as_of"],
        confidence=box["confidence"],
        source=box["source"],
        network=box["network"],
        ports=box["ports"] or 0,
    )
