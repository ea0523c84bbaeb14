"""Recheck of the storage network of own sites: a port on a switch for every port of a storage box, cables, and the money."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem, Site
from solver.plan import Item, Result
from solver.verify_boxes import box_ports, is_box
from solver.verify_money import HOURS, exchange
from solver.verify_tariff import per_it_kwh, space_price

LINE = re.compile(r"storage-network (switch|links) (\S+) (\S+)")


@dataclass(frozen=True)
class StorageLine:
    """A line of switches or cables of a storage network."""

    role: str
    site: str
    network: str


def storage_line(item: Item) -> StorageLine | None:
    """What a line is of a storage network, None for other lines."""
    found = LINE.fullmatch(item.gear or "")
    return StorageLine(*found.groups()) if found else None


def _row(catalog: Catalog, network: str) -> dict[str, Any] | None:
    found = catalog.network.filter(pl.col("network") == network)
    return found.row(0, named=True) if found.height else None


def switch_w(item: Item, catalog: Catalog) -> float:
    """Nameplate of the switches of a line, 0 for cables and for what running them costs [W]."""
    line = storage_line(item)
    row = None if line is None else _row(catalog, line.network)
    if line is None or row is None or line.role != "switch" or item.billing != "purchase":
        return 0.0
    return float(row["switch_power_w"] or 0.0) * item.quantity


def check_storage_network(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Ports, prices, electricity and space of every own site."""
    wrong: list[str] = []
    for site in problem.sites:
        wrong += _check_ports(result, catalog, site)
        wrong += _check_money(result, problem, catalog, site)
    return wrong


def _check_ports(result: Result, catalog: Catalog, site: Site) -> list[str]:
    ports: dict[str, list[int]] = defaultdict(list)
    for item in result.items:
        if is_box(item) and item.site == site.name and item.billing == "purchase":
            network, each = box_ports(item, catalog)
            if network is not None:
                ports[network] += [each] * round(item.quantity)
    have: dict[tuple[str, str], float] = defaultdict(float)
    for item in result.items:
        line = storage_line(item)
        if line is not None and line.site == site.name and item.billing == "purchase":
            have[line.role, line.network] += item.quantity
    wrong = []
    for network, boxes in ports.items():
        row = _row(catalog, network)
        if row is None:
            wrong.append(f"{site.name}: no network {network} in the catalogue")
            continue
        down = int(row["switch_ports"] or 0) // 2
        if len(boxes) > 1 and sum(boxes) > down * have["switch", network]:
            wrong.append(
                f"{site.name}: {sum(boxes)} ports of storage on {have['switch', network]:g} switches with {down} for them"
            )
        if row["cable_price_usd"] is not None and sum(boxes) > have["links", network]:
            wrong.append(f"{site.name}: {have['links', network]:g} cables for {sum(boxes)} ports of storage")
    return wrong


def _check_money(result: Result, problem: Problem, catalog: Catalog, site: Site) -> list[str]:
    rate, share = exchange(catalog, "USD", problem.currency), catalog.assumption("switch_draw_share")
    lines = [(i, line) for i in result.items if (line := storage_line(i)) is not None and line.site == site.name]
    wrong: list[str] = []
    watts = cents = 0.0
    for item, line in lines:
        if item.billing != "purchase":
            continue
        row = _row(catalog, line.network)
        usd = None if row is None else row["cable_price_usd" if line.role == "links" else "switch_price_usd"]
        if usd is None or rate is None:
            wrong.append(f"{item.item}: no price in the catalogue")
        elif not -0.005 <= float(item.unit_cost) - usd * rate <= 0.015 + 1e-9 * usd * rate:
            wrong.append(f"{item.item}: unit cost {item.unit_cost}, the catalogue says {usd * rate:.2f}")
        watts += switch_w(item, catalog)
        cents += item.quantity
    owed = {
        "energy": watts * share * HOURS * problem.horizon / 1000 * per_it_kwh(site, problem, catalog),
        "space": watts / 1000 * space_price(site, problem, catalog) * problem.horizon,
    }
    for kind, due in owed.items():
        paid = sum(float(i.total_cost) for i, _ in lines if i.kind == kind)
        if not due - 0.01 - 1e-6 * due <= paid <= due + 0.01 + 1e-6 * due + 0.011 * cents:
            wrong.append(f"{kind} of the storage network at {site.name}: {paid:.2f} paid, {due:.2f} due")
    return wrong
