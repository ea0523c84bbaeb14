"""The storage network of a site: switches of its own for the ports of storage boxes, apart from the fabric of the nodes.

Published designs of GPU clusters keep storage on a fabric of its own, so that counts of the compute fabric do not change. Per
site and network with S switches of k ports: sum ports B <= floor(k / 2) S, the other half leads to the nodes and to the
site's network. One box alone hangs on the site's network and needs no switch. Every port of a box has a cable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from solver.candidates.frames import fx_rates
from solver.candidates.gear import GearOption
from solver.candidates.storage_boxes import Box
from solver.candidates.storage_use import Book, Sum, gear, plus, times
from solver.candidates.terms import assumption, trusted


@dataclass(frozen=True)
class Held:
    """Boxes that a site may hold: their gear, the most of them."""

    key: str
    site: str
    box: Box
    most: int


def network_key(role: str, site: str, network: str) -> str:
    """Key of the switches or cables of a site's storage network."""
    return f"storage-network {role} {site} {network}"


def network_rows(book: Book, boxes: Sequence[Held]) -> None:
    """Switches and cables for the ports of all boxes of every site, by network."""
    groups: dict[tuple[str, str], list[Held]] = {}
    for held in boxes:
        if held.box.network is not None and held.box.ports:
            groups.setdefault((held.site, held.box.network), []).append(held)
    for (site, network), some in groups.items():
        _one(book, site, network, some)


def _one(book: Book, site: str, network: str, boxes: list[Held]) -> None:
    found, catalog = book.context.found, book.context.catalog
    sure = catalog.network.filter(trusted("confidence", found.problem.policy.min_confidence))
    row = sure.filter(pl.col("network") == network).to_dicts()
    rates = fx_rates(catalog, found.problem.currency).filter(pl.col("price_currency") == "USD")
    usd = float(rates["rate_to_problem"][0])
    ports = plus(*(gear(h.key, h.box.ports) for h in boxes))
    most_ports = sum(h.box.ports * h.most for h in boxes)
    most_boxes = sum(h.most for h in boxes)
    alone = book.choice(network_key("alone", site, network))
    # alone = 1: at most one box.
    book.row(plus(*(gear(h.key) for h in boxes)), gear(alone, most_boxes - 1), high=most_boxes)
    room: Sum = gear(alone, -max(h.box.ports for h in boxes))
    source = {c: row[0][c] for c in ("as_of", "confidence", "source")} if row else {}
    if row and None not in (row[0]["switch_ports"], row[0]["switch_price_usd"], row[0]["switch_power_w"]):
        room = plus(
            room, times(-(int(row[0]["switch_ports"]) // 2), _switch(book, site, row[0], most_ports, usd, source))
        )
    book.row(ports, room, high=0)
    if row and row[0]["cable_price_usd"] is not None:
        cable = book.hold(
            GearOption(
                key=network_key("links", site, network),
                kind="network",
                item=f"storage cable, {network} {row[0]['cable_kind'] or 'cable'}",
                site=site,
                place=site,
                max_count=most_ports,
                price=float(row[0]["cable_price_usd"]) * usd,
                pieces=0,
                **source,
            )
        )
        book.row(ports, gear(cable, -1), high=0)


def _switch(book: Book, site: str, row: dict[str, Any], most_ports: int, usd: float, source: dict[str, Any]) -> Sum:
    catalog, watts = book.context.catalog, float(row["switch_power_w"])
    key = book.hold(
        GearOption(
            key=network_key("switch", site, row["network"]),
            kind="network",
            item=f"storage switch, {row['switch_model']}",
            site=site,
            place=site,
            max_count=math.ceil(most_ports / (int(row["switch_ports"]) // 2)),
            price=float(row["switch_price_usd"]) * usd,
            it_w=watts,
            draw_w=watts * assumption(catalog, "switch_draw_share"),
            parts=(f"{int(row['switch_ports'])} ports {row['network']}",),
            rack_units=assumption(catalog, "switch_rack_units"),
            **source,
        )
    )
    return gear(key)
