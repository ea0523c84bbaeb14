"""Recheck what stands at own sites beside servers: switches and cables, racks, circuits and cooling.

The arithmetic is written from the physics of ports and breakers, apart from that of the candidates: the bill says what is
bought, the catalogue what each thing has, and every port, node and box must find its place.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Problem, Site
from solver.plan import Item, Result
from solver.verify_gear import (
    CABLES,
    FabricLine,
    fabric_line,
    gear_w,
    is_bought,
    network_row,
    pool_oversubscription,
)
from solver.verify_money import HOURS, exchange, part_list
from solver.verify_tariff import per_it_kwh, space_price

Key = tuple[str, float]


def check_sites(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Fabrics with their prices and running cost, racks, circuits and cooling of every own site."""
    wrong: list[str] = []
    known = {s.name for s in problem.sites}
    for item in result.items:
        line = fabric_line(item)
        if line is not None and (line.site not in known or line.site != item.site):
            wrong.append(f"{item.item}: stands at no own site")
    for site in problem.sites:
        wrong += _check_fabrics(result, catalog, site)
        wrong += _check_money(result, problem, catalog, site)
    return wrong


# --- ports --------------------------------------------------------------------------------------------------


def node_ports(item: Item, catalog: Catalog) -> tuple[str, int] | None:
    """Network and NIC ports of one server of a line; None where it is not known to have any to join."""
    parts = part_list(item)
    found = catalog.servers.filter(pl.col("server") == (parts[0][1] if parts else ""))
    if found.is_empty() or item.billing == "owned":
        return None
    server = found.row(0, named=True)
    if server["complete"]:
        network, nics = server.get("included_network"), server.get("included_nics")
        return None if network is None or not nics else (str(network), int(nics))
    for count, name in parts[1:]:
        network = name[name.rfind("(") + 1 : -1] if name.endswith(")") else ""
        if network_row(catalog, network) is not None:
            return network, count
    return None


def is_complete(item: Item, catalog: Catalog) -> bool:
    """Whether a line is of a system sold whole."""
    parts = part_list(item)
    found = catalog.servers.filter(pl.col("server") == (parts[0][1] if parts else ""))
    return bool(found.height and found["complete"][0])


def _check_fabrics(result: Result, catalog: Catalog, site: Site) -> list[str]:
    """Every NIC port of every server has a place in a fabric of its network."""
    nodes: dict[Key, list[int]] = defaultdict(list)
    built: set[Key] = set()
    for item in result.items:
        if item.kind != "server" or item.site != site.name:
            continue
        ports = node_ports(item, catalog)
        if ports is not None:
            key = (ports[0], pool_oversubscription(item.pool))
            nodes[key] += [ports[1]] * round(item.quantity)
            if not is_complete(item, catalog):
                built.add(key)
    spanning, serving = _uses(result, site, catalog)
    alone = sum(len(n) for n in nodes.values()) == 1
    held: dict[Key, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for item in result.items:
        line = fabric_line(item)
        if line is not None and line.site == site.name and is_bought(item):
            held[line.network, line.oversubscription][line.tier] += item.quantity
    wrong = []
    for key in sorted(nodes.keys() | held.keys()):
        if len(nodes[key]) == 1 and (alone or key not in built):
            continue  # a system sold whole has ports for the site's network beside those of the fabric
        row = network_row(catalog, key[0])
        if row is None:
            wrong.append(f"{site.name}: no network {key[0]} in the catalogue")
            continue
        if key in spanning and not row["rdma"]:
            wrong.append(f"{site.name}, {key[0]}: work on several nodes needs RDMA")
        text = fabric_fault(nodes[key], dict(held[key]), key, row, key in spanning, key in serving)
        if text is not None:
            wrong.append(f"{site.name}, {key[0]}: {text}")
    return wrong


def _uses(result: Result, site: Site, catalog: Catalog) -> tuple[set[Key], set[Key]]:
    """Fabrics with work that takes several nodes, and those with replicas of a service."""
    key: dict[str | None, Key] = {}
    for item in result.items:
        ports = node_ports(item, catalog) if item.kind == "server" and item.site == site.name else None
        if ports is not None:
            key[item.pool] = (ports[0], pool_oversubscription(item.pool))
    placed = [(w.kind, p) for w in result.workloads for p in w.placements if p.pool in key]
    return (
        {key[p.pool] for _, p in placed if p.nodes > 1},
        {key[p.pool] for kind, p in placed if kind == "serve"},
    )


def fabric_fault(
    nodes: list[int], held: dict[str, float], key: Key, row: dict[str, Any], spanning: bool, serving: bool
) -> str | None:
    """What a fabric lacks for nodes with so many ports each; None where it lacks nothing."""
    ratio = key[1]
    has = {tier: round(count) for tier, count in held.items()}
    ports = sum(nodes)
    switches = sum(n for tier, n in has.items() if tier not in CABLES)
    if not ports:
        return None
    if not switches:
        if len(nodes) != 2:
            return f"{len(nodes)} nodes and no switch"
        if not row["rdma"] or serving:
            return "two nodes without a switch have nobody else to talk to"
        need = max(nodes)
        return None if has.get("links", 0) >= need else f"{has.get('links', 0)} of {need} links between two nodes"
    if has.get("links", 0) < ports:
        return f"{has.get('links', 0)} cables for {ports} ports of nodes"
    radix = int(row["switch_ports"])
    islands = has.get("island", 0)
    if islands:
        if spanning and islands > 1:
            return f"{islands} switches that are not joined, under work on several nodes"
        return None if ports <= islands * radix else f"{ports} ports of nodes on {islands} switches of {radix}"
    leaf, spine, middle, core = (has.get(t, 0) for t in ("leaf", "spine", "middle", "core"))
    if not leaf:
        got = has.get("switch", 0) * radix if has.get("switch", 0) == 1 else 0
        return None if ports <= got else f"{ports} ports of nodes on a switch of {radix}"
    down = int(radix * ratio / (ratio + 1) + 1e-9)
    if ports > leaf * down:
        return f"{ports} ports of nodes on {leaf} leaves of {down}"
    each = radix - down
    between, upper = leaf * each, 0
    if middle:
        upper = middle * (radix - radix // 2)
        if between > middle * (radix // 2):
            return f"{between} uplinks on {middle} spines of {radix // 2}"
        if upper > core * radix:
            return f"{upper} uplinks of spines on {core} cores of {radix}"
        if ratio == 1 and core <= radix - radix // 2 and (radix - radix // 2) % max(core, 1):
            return f"uplinks do not spread evenly over {core} cores"
    else:
        if between > spine * radix or leaf > radix:
            return f"{between} uplinks of {leaf} leaves on {spine} spines of {radix}"
        if ratio == 1 and spine <= each and each % max(spine, 1):
            return f"{each} uplinks of a leaf do not spread evenly over {spine} spines"
    if has.get("trunk", 0) < between + upper:
        return f"{has.get('trunk', 0)} cables for {between + upper} links between switches"
    return None


# --- money --------------------------------------------------------------------------------------------------


def _check_money(result: Result, problem: Problem, catalog: Catalog, site: Site) -> list[str]:
    """Prices of switches and cables, their draw through every hour, and the space they take."""
    wrong: list[str] = []
    rate = exchange(catalog, "USD", problem.currency)
    share = catalog.assumption("switch_draw_share")
    due_energy = due_space = cents = 0.0
    for item in result.items:
        line = fabric_line(item)
        if line is None or line.site != site.name or not is_bought(item):
            continue
        wrong += _check_price(item, line, catalog, rate)
        watts = gear_w(item, catalog)
        due_energy += watts * share * HOURS * problem.horizon / 1000 * per_it_kwh(site, problem, catalog)
        due_space += watts / 1000 * space_price(site, problem, catalog) * problem.horizon
        cents += item.quantity
    for kind, due in (("energy", due_energy), ("space", due_space)):
        lines = [i for i in result.items if i.kind == kind and fabric_line(i) is not None and i.site == site.name]
        paid = sum(float(i.total_cost) for i in lines)
        if not due - 0.01 - 1e-6 * due <= paid <= due + 0.01 + 1e-6 * due + 0.011 * cents:
            wrong.append(f"{kind} of the network at {site.name}: {paid:.2f} paid, {due:.2f} due")
    return wrong


def _check_price(item: Item, line: FabricLine, catalog: Catalog, rate: float | None) -> list[str]:
    row = network_row(catalog, line.network)
    usd = None if row is None else row["cable_price_usd" if line.tier in CABLES else "switch_price_usd"]
    if usd is None or rate is None:
        return [f"{item.item}: no price in the catalogue"]
    exact = float(usd) * rate
    if not -0.005 <= float(item.unit_cost) - exact <= 0.015 + 1e-9 * exact:
        return [f"{item.item}: unit cost {item.unit_cost}, the catalogue says {exact:.2f}"]
    return []
