"""Recheck of the storage networks of own sites: every box and server has its port, NIC, cable and place on a switch, all paid.

Where a site has two boxes or more on one network, each of its servers has a port there. The rule is told by the bill alone.
"""

from __future__ import annotations

from collections import defaultdict

from catalogs.catalog import Catalog
from problems.schema import Problem, Site
from solver.plan import Result
from solver.verify_money import HOURS, exchange
from solver.verify_parts import check_more_nics
from solver.verify_sites import fabric_fault
from solver.verify_storage_network import (
    SWITCHES,
    boxes_on,
    brings_nics,
    storage_line,
    storage_nics,
    storage_port,
    switch_w,
)
from solver.verify_tariff import per_it_kwh, space_price

PRICES = {"links": "cable_price_usd", "trunk": "cable_price_usd", "nic": "nic_price_usd"}


def check_storage_network(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Ports, room for NICs, prices, electricity and space of every own site."""
    sites = {s.name for s in problem.sites}
    wrong: list[str] = []
    for item in result.items:
        line = storage_line(item)
        if line is not None and (line.site not in sites or line.site != item.site):
            wrong.append(f"{item.item}: stands at no own site")
    for site in problem.sites:
        wrong += _check_ports(result, catalog, site)
        wrong += _check_money(result, problem, catalog, site)
    return wrong


def _check_ports(result: Result, catalog: Catalog, site: Site) -> list[str]:
    have: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for item in result.items:
        line = storage_line(item)
        if line is not None and line.site == site.name and item.billing == "purchase":
            have[line.network][line.role] += item.quantity
    servers = [i for i in result.items if i.kind == "server" and i.site == site.name and i.quantity]
    count = round(sum(i.quantity for i in servers))
    built = [i for i in servers if not brings_nics(i, catalog)]
    joined = storage_nics(result, site.name, catalog)
    wrong = []
    for network, boxes in boxes_on(result, site.name, catalog).items():
        held = have[network]
        ports = sum(boxes)
        if network in joined:
            ports += count
            nics = round(sum(i.quantity for i in built))
            if held["nic"] < nics:
                wrong.append(f"{site.name}, {network}: {held['nic']:g} storage NICs for {nics} servers")
            wrong += [
                f"{site.name}, {network}: {text}" for text in _switch_faults(held, boxes, count, network, catalog)
            ]
        if held["links"] < ports:
            wrong.append(f"{site.name}: {held['links']:g} cables for {ports} ports of storage")
    rows = [r for n in joined if (r := storage_port(catalog, n)) is not None]
    for item in built:
        wrong += [f"{site.name}, storage NICs: {text}" for text in check_more_nics(item, rows, catalog)]
    return wrong


def _switch_faults(held: dict[str, float], boxes: list[int], servers: int, network: str, catalog: Catalog) -> list[str]:
    """What the switches of one storage network lack."""
    row = storage_port(catalog, network)
    if row is None or row["switch_ports"] is None:
        return ["no such switch in the catalogue"]
    ports = sum(boxes) + servers
    has = {role: held[role] for role in (*SWITCHES, "trunk") if held[role]}
    if not any(has.get(role) for role in SWITCHES):
        return [f"{ports} ports of storage on 0 switches"]
    side_by_side = round(has.pop("flat", 0.0))
    if side_by_side:
        if any(has.values()) or side_by_side > min(boxes):
            return [f"{side_by_side} switches without links between them, boxes of {min(boxes)} ports"]
        room = side_by_side * int(row["switch_ports"])
        return [] if ports <= room else [f"{ports} ports of storage on {side_by_side} switches with {room}"]
    # Every cable of a port is counted apart: see the caller.
    fault = fabric_fault([ports], {**has, "links": float(ports)}, (network, 1.0), row, spanning=True, serving=True)
    return [] if fault is None else [fault.replace("ports of nodes", "ports of storage")]


def _check_money(result: Result, problem: Problem, catalog: Catalog, site: Site) -> list[str]:
    rate = exchange(catalog, "USD", problem.currency)
    lines = [(i, line) for i in result.items if (line := storage_line(i)) is not None and line.site == site.name]
    wrong: list[str] = []
    watts = drawn = cents = 0.0
    for item, line in lines:
        if item.billing != "purchase":
            continue
        row = storage_port(catalog, line.network)
        usd = None if row is None else row[PRICES.get(line.role, "switch_price_usd")]
        if usd is None or rate is None:
            wrong.append(f"{item.item}: no price in the catalogue")
        elif not -0.005 <= float(item.unit_cost) - usd * rate <= 0.015 + 1e-9 * usd * rate:
            wrong.append(f"{item.item}: unit cost {item.unit_cost}, the catalogue says {usd * rate:.2f}")
        watts += switch_w(item, catalog)
        # A NIC draws as what it stands in does.
        share = "host_draw_share" if line.role == "nic" else "switch_draw_share"
        drawn += switch_w(item, catalog) * catalog.assumption(share)
        cents += item.quantity
    owed = {
        "energy": drawn * HOURS * problem.horizon / 1000 * per_it_kwh(site, problem, catalog),
        "space": watts / 1000 * space_price(site, problem, catalog) * problem.horizon,
    }
    for kind, due in owed.items():
        paid = sum(float(i.total_cost) for i, _ in lines if i.kind == kind)
        if not due - 0.01 - 1e-6 * due <= paid <= due + 0.01 + 1e-6 * due + 0.011 * cents:
            wrong.append(f"{kind} of the storage network at {site.name}: {paid:.2f} paid, {due:.2f} due")
    return wrong
