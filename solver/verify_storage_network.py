"""What lines of a bill say about storage networks of own sites: switches, cables, NICs of servers, and their watts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from solver.plan import Item, Result
from solver.verify_boxes import box_ports, is_box

LINE = re.compile(r"storage-network ([a-z]+)(\d*) (\S+) (\S+)")
SWITCHES = ("switch", "flat", "leaf", "spine", "middle", "core")


@dataclass(frozen=True)
class StorageLine:
    """A line of a storage network: its part (one of `SWITCHES`, links, trunk or nic), the site, and which network."""

    role: str
    site: str
    network: str


def storage_line(item: Item) -> StorageLine | None:
    """What a line is of a storage network, None for other lines."""
    found = LINE.fullmatch(item.gear or "")
    return StorageLine(found[1], found[3], found[4]) if found else None


def storage_port(catalog: Catalog, network: str) -> dict[str, Any] | None:
    """Row of a network in the catalogue."""
    found = catalog.network.filter(pl.col("network") == network)
    return found.row(0, named=True) if found.height else None


def switch_w(item: Item, catalog: Catalog) -> float:
    """Nameplate of the switches or NICs of a line, 0 for cables and for what running them costs [W]."""
    line = storage_line(item)
    row = None if line is None else storage_port(catalog, line.network)
    if line is None or row is None or item.billing != "purchase":
        return 0.0
    if line.role == "nic":
        return float(row["nic_power_w"] or 0.0) * item.quantity
    return float(row["switch_power_w"] or 0.0) * item.quantity if line.role in SWITCHES else 0.0


def boxes_on(result: Result, site: str, catalog: Catalog) -> dict[str, list[int]]:
    """Ports of each storage box that stands at a site, by network."""
    ports: dict[str, list[int]] = {}
    for item in result.items:
        if is_box(item) and item.site == site and item.billing == "purchase":
            network, each = box_ports(item, catalog)
            if network is not None and each:
                ports.setdefault(network, []).extend([each] * round(item.quantity))
    return ports


def storage_nics(result: Result, site: str, catalog: Catalog) -> list[str]:
    """Storage networks that every server of a site has a port on: those with two boxes or more."""
    return sorted(n for n, boxes in boxes_on(result, site, catalog).items() if len(boxes) > 1)


def brings_nics(item: Item, catalog: Catalog) -> bool:
    """Whether servers of a line come with NICs for storage: systems sold whole, and machines that are owned."""
    if item.billing == "owned":
        return True
    name = item.parts[0].partition(" x ")[2] if item.parts else ""
    found = catalog.servers.filter(pl.col("server") == name)
    return bool(found.height and found["complete"][0])


def added_w(item: Item, result: Result, catalog: Catalog) -> float:
    """Nameplate of the storage NICs in each server of a line [W]."""
    if item.site is None or brings_nics(item, catalog):
        return 0.0
    rows = (storage_port(catalog, n) for n in storage_nics(result, item.site, catalog))
    return sum(float(r["nic_power_w"] or 0.0) for r in rows if r is not None)
