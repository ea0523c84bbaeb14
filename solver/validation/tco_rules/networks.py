"""Rules for switches, cables and the price of a cluster with its fabric. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import math
import re

from solver.features import fabric
from solver.validation.tco_rules.base import FABRIC, GPUS_PER_NODE, missing
from solver.validation.tco_rules.sheet import MissingQuantityError, RuleBook, Sheet, Value, over

BOOK = RuleBook()
rule = BOOK.rule


def _fabric(sheet: Sheet) -> fabric.Fabric:
    nodes, nics = int(sheet.number("nodes")), int(sheet.number("nics_per_node"))
    split = sheet.has("switch_ports_effective")
    radix = int(sheet.number("switch_ports_effective" if split else "switch_ports"))
    # "Effective" ports are those of a switch whose every port is split over two planes at half the speed.
    planes = int(sheet.number("planes")) if sheet.has("planes") else (2 if split else 1)
    tiers = int(sheet.number("tiers")) if sheet.has("tiers") else None
    ratio = sheet.get("oversubscription", default=1.0)
    if isinstance(ratio, str):
        over_, under = ratio.split(":")
        ratio = float(over_) / float(under)
    reserved = int(sheet.get("reserved_ports", "ufm_ports", default=0))
    layout: fabric.Layout = "rail" if re.search(r"rail[- ]optimi", sheet.text, re.IGNORECASE) else "packed"
    try:
        if tiers and fabric.tiers_needed(nodes * nics + reserved, radix, planes, float(ratio)) > tiers:
            # Fewer tiers than a full tree takes: one fabric per rail, whose traffic meets inside the nodes.
            layout = "rail_only"
        return fabric.build_fabric(
            nodes,
            nics,
            radix,
            tiers=tiers,
            oversubscription=float(ratio),
            planes=planes,
            layout=layout,
            reserved_ports=reserved,
        )
    except ValueError as error:
        raise MissingQuantityError(str(error)) from None


@rule("nics_per_node")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return sheet.number("gpus") / sheet.number("nodes") if sheet.has("gpus") else missing("nics_per_node")


@rule("gpus_per_node")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("gpus") and sheet.has("nodes"):
        return sheet.number("gpus") / sheet.number("nodes")
    return missing("gpus_per_node")


@rule("gpus", *FABRIC, "rack", "power_budget")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = sheet.get("gpus_per_node", default=GPUS_PER_NODE)
    return over(lambda n: n * each, sheet.need("nodes"))


@rule("nodes", *FABRIC, "rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("scalable_units", "sus"):
        units, each = sheet.get("scalable_units", "sus"), sheet.get("nodes_per_su", "nodes_per_unit", default=32)
        reserved = int(sheet.get("reserved_nodes", default=1))
        return over(lambda u, n: fabric.pod_nodes(int(u), int(n), reserved), units, each)
    if sheet.has("gpus"):
        each = sheet.get("gpus_per_node", default=GPUS_PER_NODE)
        return over(lambda g, n: math.ceil(g / n), sheet.need("gpus"), each)
    return missing("nodes")


@rule("leaf|spine|core|switches|cables_node_leaf|cables_leaf_spine|cables_spine_core|cables|optics|tiers", *FABRIC)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return getattr(_fabric(sheet), match[0])


@rule("cables_(total|count)|total_cables|fabric_ports|ports|nic_ports|nics|total_nics", *FABRIC)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if "cables" in match[0]:
        return _fabric(sheet).cables
    return sheet.number("nodes") * sheet.number("nics_per_node")


@rule("switch_(cost|total)|switches_(cost|total|price)", *FABRIC)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return sheet.number("switches") * sheet.number("switch", "price_per_switch", "switch_price")


@rule("cable_total|cables_(price|cost)|cable_cost", *FABRIC)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    ports = sheet.number("nodes") * sheet.number("nics_per_node")
    if sheet.has("cable_per_port", "cables_per_port", "cable_per_nic", "cable_and_optics_per_port"):
        each = sheet.number("cable_per_port", "cables_per_port", "cable_per_nic", "cable_and_optics_per_port")
        return ports * each
    return _fabric(sheet).cables * sheet.number("cable", "cable_price", "price_per_cable", "cable_each")


@rule("fabric_(cost|total)|network_(cost|total)|fabric", *FABRIC)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    nics = 0.0
    if sheet.has("nic", "nic_price", "price_per_nic"):
        nics = sheet.number("nodes") * sheet.number("nics_per_node") * sheet.number("nic", "nic_price", "price_per_nic")
    return sheet.number("switch_cost") + float(sheet.get("cable_total", default=0.0)) + nics


@rule("total", *FABRIC)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    facility = sheet.get("facility_per_node", "building_per_node", default=0.0)
    stored = float(sheet.get("storage", "storage_total", default=0.0))
    money = sheet.number("fabric_cost")
    return fabric.cluster_cost(int(sheet.number("nodes")), sheet.number("node_price"), money, float(facility), stored)


@rule(
    "(?:fabric_|network_)?price_per_(?P<what>gpu|node|port)|(?P<part>fabric|network)_per_(?P<each>gpu|node|port)",
    *FABRIC,
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    what = match["what"] or match["each"]
    whole = sheet.number("fabric_cost") if match[0].startswith(("fabric", "network")) or what == "port" else None
    count = {"gpu": "gpus", "node": "nodes", "port": "nic_ports"}[what]
    return (sheet.number("total") if whole is None else whole) / sheet.number(count)


TIER = {"one": 1, "two": 2, "three": 3, "1": 1, "2": 2, "3": 3, "single": 1}


@rule(
    r"(?P<published>published_)?(?:max_(?P<what>nodes|gpus|ports)_)?(?P<tiers>one|two|three|single|\d)_tiers?(?P<rail>_rail(?:_only)?)?(?:_(?:limit|max))?",
    *FABRIC,
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Largest fabric of some tiers; limits that a source counts per rail are those of one fabric for each rail."""
    radix, nics = int(sheet.number("switch_ports")), int(sheet.get("nics_per_node", default=1))
    rail = bool(match["rail"] or match["published"])
    nodes = fabric.max_nodes(radix, TIER[match["tiers"]], nics, "rail_only" if rail else "packed")
    if match["what"] == "ports":
        return fabric.max_ports(radix, TIER[match["tiers"]])
    return nodes * nics if match["what"] == "gpus" else nodes
