"""Storage boxes looked up again in the catalogue: how many a plan needs, their height, watts and price.

Keys of a bill say which tier a line belongs to: `site ROOM/NAME` for its TB or drives, `boxes of site ROOM/NAME` for what
they stand in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from solver.plan import Item

BOXES = "boxes of "
TRUST = ("recalled", "estimate", "derived", "listed", "measured")
SLACK = 1e-6


@dataclass(frozen=True)
class Made:
    """What a system or pool is made of: rows of its box and drive, and the share of a drive that protection leaves."""

    box: dict[str, Any]
    drive: dict[str, Any]
    kept: float
    paid_apart: bool
    confidence: str

    def surely(self, price: str) -> str:
        """How sure a price is, with that of the boxes where they are paid apart."""
        both = (price, self.confidence, self.box["confidence"]) if self.paid_apart else (price,)
        return min(both, key=TRUST.index)

    @property
    def usable_tb(self) -> float:
        """Of one drive [TB]."""
        return float(self.drive["capacity_tb"] * self.kept)

    def missing(self, boxes: float, held: float, unit_tb: float, reading: float, writing: float) -> list[str]:
        """Why so many boxes are too few for units held (of `unit_tb` usable) and speeds asked [GB/s]."""
        wrong = []
        drives = held * unit_tb / self.usable_tb
        bays = boxes * self.box["drive_bays"]
        if drives > bays * (1 + SLACK):
            wrong.append(f"{drives:.1f} drives in {boxes:g} boxes of {self.box['drive_bays']} bays")
        for what, asked, each in (
            ("read", reading, self.box["read_gb_s"]),
            ("write", writing, self.box["write_gb_s"]),
        ):
            if asked > (each or 0.0) * boxes * (1 + SLACK):
                wrong.append(f"{asked:g} GB/s to {what} asked of {boxes:g} boxes")
        return wrong


def is_box(item: Item) -> bool:
    """Whether a line is of the boxes of a tier."""
    return item.kind == "storage" and (item.gear or "").startswith(BOXES)


def storage_key(key: str, catalog: Catalog) -> tuple[str, str, dict[str, Any]] | None:
    """Kind of place (site or cloud), place and row that the key of a tier names; None for other keys.

    A pool of drives has a row in the form of table storage, of class drives: what one of its drives is and costs.
    """
    kind, _, rest = key.partition(" ")
    if kind not in ("site", "cloud"):
        return None
    for row in catalog.storage.iter_rows(named=True):
        if rest.endswith(f"/{row['storage']}"):
            return kind, rest.removesuffix(f"/{row['storage']}"), row
    for system in catalog.storage_systems.filter(pl.col("kind") == "drives").iter_rows(named=True):
        if rest.endswith(f"/{system['system']}"):
            drive = _row(catalog.storage, "storage", system["drive"])
            box = _row(catalog.storage_boxes, "box", system["box"])
            if drive is None or box is None:
                return None
            sure = min((drive["confidence"], box["confidence"], system["confidence"]), key=TRUST.index)
            more = {c: system[c] for c in ("least_drives", "iops_share")}
            pool = {**drive, **more, "storage": system["system"], "class": "drives", "confidence": sure}
            return kind, rest.removesuffix(f"/{system['system']}"), pool
    return None


def made_of(row: dict[str, Any], catalog: Catalog) -> Made | None:
    """What stands behind a tier of an own site; None where the catalogue does not say."""
    systems = catalog.storage_systems
    kind = "drives" if row["class"] == "drives" else "tier"
    found = systems.filter((pl.col("kind") == kind) & (pl.col("system") == row["storage"]))
    if found.is_empty():
        found = systems.filter((pl.col("kind") == "class") & (pl.col("system") == row["class"]))
    if found.is_empty():
        return None
    system = found.row(0, named=True)
    box = _row(catalog.storage_boxes, "box", system["box"])
    drive = _row(catalog.storage, "storage", system["drive"])
    if box is None or drive is None or None in (box["power_w"], drive["power_w"], drive["capacity_tb"]):
        return None
    port = _row(catalog.network, "network", box["network"] or "")
    if port is not None and box["ports"]:
        through = port["gbps_per_port"] / 8 * box["ports"]
        box = {**box, **{c: min(box[c], through) for c in ("read_gb_s", "write_gb_s") if box[c] is not None}}
    return Made(box, drive, system["data_share"], not system["boxes_in_price"], system["confidence"])


def _row(table: pl.DataFrame, column: str, name: str) -> dict[str, Any] | None:
    found = table.filter(pl.col(column) == name)
    return found.row(0, named=True) if found.height else None


def _behind(item: Item, catalog: Catalog) -> tuple[dict[str, Any], Made | None] | None:
    """Row of the tier that a line belongs to, and what it is made of."""
    named = storage_key((item.gear or "").removeprefix(BOXES), catalog)
    return None if named is None else (named[2], made_of(named[2], catalog))


def _known(item: Item, catalog: Catalog) -> tuple[dict[str, Any], Made] | None:
    """The same where both are known."""
    behind = _behind(item, catalog)
    return None if behind is None or behind[1] is None else (behind[0], behind[1])


def drives_w(item: Item, catalog: Catalog) -> float:
    """Nameplate of the TB or drives of a line [W]."""
    behind = _behind(item, catalog)
    if behind is None:
        return 0.0
    row, made = behind
    if row["class"] == "drives" or row["power_w"] is not None:
        return float(row["power_w"]) * item.quantity
    if made is not None:
        return float(made.drive["power_w"]) / made.usable_tb * item.quantity
    usual = "flash_storage_w_per_tb" if row["class"] == "parallel_fs" else "hdd_storage_w_per_tb"
    return catalog.assumption(usual) * item.quantity


def _own_w(row: dict[str, Any], made: Made) -> float:
    """Nameplate of a box without drives [W]; 0 where the row of a system states the watts of all of it."""
    whole = row["class"] != "drives" and row["power_w"] is not None
    return 0.0 if whole else float(made.box["power_w"])


def boxes_w(item: Item, catalog: Catalog) -> float:
    """Nameplate of the boxes of a line, without drives [W]."""
    known = _known(item, catalog)
    return 0.0 if known is None else float(_own_w(*known) * item.quantity)


def full_box_w(item: Item, catalog: Catalog) -> float:
    """Nameplate of one box of a line with a drive in every bay [W]."""
    known = _known(item, catalog)
    if known is None:
        return 0.0
    row, made = known
    bays = made.box["drive_bays"]
    if row["class"] == "drives" or row["power_w"] is None:
        return float(_own_w(row, made) + bays * made.drive["power_w"])
    # Sold by whole TB: what a box holds of them.
    return float(row["power_w"] * math.floor(bays * made.usable_tb + SLACK))


def box_height(item: Item, catalog: Catalog) -> float:
    """Height of one box of a line [U]."""
    known = _known(item, catalog)
    return 0.0 if known is None else float(known[1].box["rack_units"])


def box_usd(item: Item, catalog: Catalog) -> float | None:
    """Price of one box of a line [USD]: 0 where the price per TB has it in it, None where there is no such box."""
    known = _known(item, catalog)
    if known is None or item.item != known[1].box["box"]:
        return None
    usd = known[1].box["price_usd"] if known[1].paid_apart else 0.0
    return None if usd is None else float(usd)


def box_ports(item: Item, catalog: Catalog) -> tuple[str | None, int]:
    """Network of one box of a line and how many of its ports it takes."""
    known = _known(item, catalog)
    return (None, 0) if known is None else (known[1].box["network"], int(known[1].box["ports"] or 0))
