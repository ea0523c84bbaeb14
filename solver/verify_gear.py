"""What lines of the bill beside servers say: which fabric a switch belongs to, and how many watts stand behind a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from solver.plan import Item
from solver.verify_boxes import boxes_w, drives_w, is_box
from solver.verify_storage_network import SWITCHES, storage_line, switch_w

CABLES = ("links", "trunk")
"""Parts of a fabric that draw nothing."""


@dataclass(frozen=True)
class FabricLine:
    """A line of switches or cables: its part of the fabric, and which fabric."""

    role: str
    oversubscription: float
    site: str
    network: str

    @property
    def tier(self) -> str:
        """switch, leaf, spine (of two tiers), middle (spine of three), core, links or trunk."""
        return self.role.rstrip("0123456789")


def fabric_line(item: Item) -> FabricLine | None:
    """Fabric that a line belongs to, None for other lines."""
    parts = (item.gear or "").split(" ", 4)
    if parts[0] != "fabric" or len(parts) != 5:
        return None
    return FabricLine(parts[1], float(parts[2]), parts[3], parts[4])


def pool_oversubscription(pool: str | None) -> float:
    """Oversubscription that the name of a pool states; 1 where it states none."""
    found = re.search(r"/(\d+(?:\.\d+)?):1(?:@|$)", pool or "")
    return float(found[1]) if found else 1.0


def network_row(catalog: Catalog, network: str) -> dict[str, Any] | None:
    """Row of a network in the catalogue."""
    found = catalog.network.filter(pl.col("network") == network)
    return found.row(0, named=True) if found.height else None


def is_bought(item: Item) -> bool:
    """Whether a line of gear is the thing itself, not what running it costs."""
    return item.gear is not None and item.billing == "purchase"


def storage_w(item: Item, catalog: Catalog) -> float:
    """Nameplate of bought storage, its drives or its boxes; 0 for other lines [W]."""
    if item.kind != "storage" or not is_bought(item):
        return 0.0
    return boxes_w(item, catalog) if is_box(item) else drives_w(item, catalog)


def gear_w(item: Item, catalog: Catalog) -> float:
    """Nameplate behind a line of gear by the catalogue's figures, 0 for other lines [W]."""
    line = fabric_line(item)
    if line is None:
        return storage_w(item, catalog) if storage_line(item) is None else switch_w(item, catalog)
    if not is_bought(item) or line.tier in CABLES:
        return 0.0
    row = network_row(catalog, line.network)
    return 0.0 if row is None or row["switch_power_w"] is None else float(row["switch_power_w"]) * item.quantity


def box_count(item: Item) -> int:
    """Switches of a line of gear that stand in racks."""
    line, stored = fabric_line(item), storage_line(item)
    if stored is not None:
        return round(item.quantity) if stored.role in SWITCHES else 0
    return 0 if line is None or line.tier in CABLES else round(item.quantity)


def box_w(item: Item, catalog: Catalog) -> float:
    """Nameplate of one such box [W]."""
    return gear_w(item, catalog) / item.quantity if item.quantity else 0.0
