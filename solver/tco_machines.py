"""Rules for the machines of a buying case: fabric, racks, circuits, power caps, storage. See `solver.tco_terms`."""

from __future__ import annotations

import math
import re
from typing import Any

import polars as pl

from catalogs.errors import UnknownName
from catalogs.names import resolve_accelerator
from solver.features import compare, fabric, racks, storage
from solver.features.power import throughput_at_cap
from solver.features.speed_tables import SpeedTables
from solver.tco_terms import MissingQuantityError, RuleBook, Sheet, Value, numbers, over, total

MACHINES = RuleBook()
rule = MACHINES.rule
FABRIC = ("network_bom", "cluster_bom", "fabric")
GPUS_PER_NODE = 8
"""Cards of a node where a case does not say: HGX and DGX boards."""


def _missing(name: str) -> Value:
    raise MissingQuantityError(name)


# --- fabric ------------------------------------------------------------------------------------------------------------


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
    return sheet.number("gpus") / sheet.number("nodes") if sheet.has("gpus") else _missing("nics_per_node")


@rule("gpus_per_node")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("gpus") and sheet.has("nodes"):
        return sheet.number("gpus") / sheet.number("nodes")
    return _missing("gpus_per_node")


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
    return _missing("nodes")


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


# --- racks -------------------------------------------------------------------------------------------------------------


@rule("nodes_per_rack|systems_per_rack|servers_per_rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("gpus_per_rack"):
        each = sheet.get("gpus_per_node", default=GPUS_PER_NODE)
        return over(lambda g: g / each, sheet.need("gpus_per_rack"))
    units, height = (
        sheet.get("rack_units") if sheet.has("rack_units") else None,
        sheet.get("node_ru") if sheet.has("node_ru") else None,
    )
    kept_kw, kept_u = (
        float(sheet.get("reserved_kw", "switch_kw", default=0.0)),
        float(sheet.get("reserved_units", "reserved_ru", default=0.0)),
    )
    if not sheet.has("rack_kw", "rack_w"):
        return (
            over(lambda u, h: racks.nodes_per_rack(None, 1.0, u, h, 0.0, kept_u), units, height)
            if units and height
            else _missing("rack_kw")
        )
    return over(
        lambda r, n: racks.nodes_per_rack(r, n, units, height, kept_kw, kept_u),
        sheet.need("rack_kw"),
        sheet.need("node_kw"),
    )


@rule("gpus_per_rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = sheet.get("gpus_per_node", default=GPUS_PER_NODE)
    return over(lambda n: n * each, sheet.need("nodes_per_rack"))


@rule(r"(?:compute_)?racks(?:_at_(?P<each>\d+))?|racks_needed|compute_racks")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if match["each"]:
        return over(lambda n: racks.racks_needed(n, int(match["each"])), sheet.get("systems", "nodes"))
    if sheet.has("gpus_per_rack"):
        return over(racks.racks_needed, sheet.need("gpus"), sheet.need("gpus_per_rack"))
    if not sheet.has("nodes_per_rack", "rack_kw", "rack_units"):
        return _missing("nodes_per_rack")
    return over(racks.racks_needed, sheet.get("systems", "nodes"), sheet.need("nodes_per_rack"))


@rule("(?P<what>racks|nodes|gpus)_per_(?P<group>pod|su|unit|block)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    groups = {"pod": "pods", "su": "scalable_units", "unit": "units", "block": "blocks"}[match["group"]]
    return over(lambda a, b: a / b, sheet.need(match["what"]), sheet.need(groups))


@rule("shelf_kw")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return sheet.number("psu_per_shelf", "psus_per_shelf") * sheet.number("psu_kw")


def _redundancy(sheet: Sheet) -> racks.Redundancy:
    said = str(sheet.given.get("redundancy", "n")).lower().replace(" ", "")
    said = "2n" if said in ("2n", "n+n") else said
    return said if said in ("n", "n+1", "2n") else "n"  # type: ignore[return-value]


@rule("(?P<how>installed|usable|redundant|available|net)_kw")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("shelves"):
        count, each = sheet.number("shelves"), sheet.number("shelf_kw")
    else:
        count, each = (
            sheet.number("psus", "psu_count", "supplies", "feeds", "circuits"),
            sheet.number("psu_kw", "feed_kw", "circuit_kw"),
        )
    if match["how"] == "installed":
        return count * each
    return racks.usable_w(int(count), each, _redundancy(sheet))


@rule("node_kw")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("rack_kw") and sheet.has("nodes_per_rack") and not sheet.has("gpu_kw", "gpu_w"):
        return over(lambda r, n: r / n, sheet.need("rack_kw"), sheet.need("nodes_per_rack"))
    if sheet.has("managed_node_kw") or sheet.has("static_kw") or sheet.has("cpu_kw"):
        return sheet.number("managed_node_kw") + float(sheet.get("static_kw", default=0.0))
    return sheet.need("node_it_kw") if sheet.has("gpu_w", "gpu_kw") else _missing("node_kw")


@rule("managed_node_kw|managed_kw")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = sheet.get("gpus_per_node", "gpus", default=GPUS_PER_NODE)
    cpus = sheet.get("cpus_per_node", "cpus", default=1)
    rest = float(sheet.get("cpu_kw", default=0.0) if sheet.has("cpu_kw", "cpu_w") else 0.0) * float(cpus)
    return racks.node_w(float(each), sheet.number("gpu_kw"), rest)


@rule("rack_kw|rack_it_kw")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    nodes = sheet.get("nodes_per_rack", "nodes") if sheet.has("nodes_per_rack", "nodes") else None
    if nodes is None:
        return _missing("nodes")
    other = float(sheet.get("switch_kw", "rack_other_kw", default=0.0))
    return over(lambda n, k: n * k + other, nodes, sheet.need("node_kw"))


# --- power -------------------------------------------------------------------------------------------------------------


@rule("gpu_kw|gpu_mw|gpus_kw|gpus_mw|gpu_total_kw", "power_budget", "rack", "energy")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """All cards together."""
    watts = sheet.get("provisioned_w", "cap_w") if sheet.has("provisioned_w", "cap_w") else sheet.given.get("gpu_w")
    if watts is None:
        return _missing("gpu_w")
    scale = 1e6 if match[0].endswith("mw") else 1e3
    return over(lambda g, w: g * w / scale, sheet.need("gpus"), watts)


@rule("node_(?P<what>it|facility)_kw")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("node_kw", "node_w"):
        it = sheet.need("node_kw")
    else:
        each = sheet.get("gpus_per_node", default=GPUS_PER_NODE)
        it = over(lambda w, h: racks.node_w(each, w, h) / 1e3, sheet.need("gpu_w"), sheet.get("host_w", default=0.0))
    return it if match["what"] == "it" else over(lambda k, p: k * p, it, sheet.need("pue"))


@rule("(?P<what>it|facility|total|site)_(?P<unit>kw|mw)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    scale = 1e3 if match["unit"] == "mw" else 1.0
    nodes = sheet.get("nodes", "systems") if sheet.has("nodes", "systems") else None
    if nodes is None and sheet.has("gpus"):
        each = sheet.get("gpus_per_node", default=GPUS_PER_NODE)
        nodes = over(lambda g: g / each, sheet.need("gpus"))
    if nodes is None:
        return _missing("nodes")
    factor = sheet.get("pue", default=1.0) if match["what"] != "it" else 1.0
    return over(lambda n, k, f: n * k * f / scale, nodes, sheet.need("node_it_kw"), factor)


@rule("(facility|it)_w_per_gpu")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda w, g: w / g, sheet.need("facility_w" if "facility" in match[0] else "it_w"), sheet.need("gpus"))


@rule("share_of_tdp|cap_share|provisioned_share")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda a, b: a / b, sheet.get("provisioned_w", "power_to_w"), sheet.get("gpu_w", "power_from_w"))


@rule("extra_(?P<unit>share|percent|gpus)|more_gpus_(share|percent)")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    share = over(compare.extra_share, sheet.need("power_from_w"), sheet.need("power_to_w"))
    if match["unit"] == "gpus":
        return over(lambda s, g: math.floor(s * g + 1e-9), share, sheet.need("gpus"))
    return over(lambda s: s * 100, share) if "percent" in match[0] else share


@rule("break_even_speed|break_even_relative_throughput")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(compare.break_even_speed, sheet.need("power_from_w"), sheet.need("power_to_w"))


@rule(
    "power_saved_(?P<unit>percent|share|w)|power_cut_(?P<other>percent|share)|power_(reduction|saving)_(?P<third>percent|share)"
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if match["unit"] == "w":
        return over(lambda a, b: a - b, sheet.need("power_from_w"), sheet.need("power_to_w"))
    factor = 100.0 if "percent" in match[0] else 1.0
    return over(lambda a, b: (1 - b / a) * factor, sheet.need("power_from_w"), sheet.need("power_to_w"))


@rule("power_to_w")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    share = sheet.get("cap_share") if sheet.has("cap_share") else None
    return over(lambda a, s: a * s, sheet.need("power_from_w"), share) if share is not None else _missing("power_to_w")


def card_of(sheet: Sheet) -> str:
    """Accelerator of a case: named in its inputs, or else the one that its words name.

    Raises
    ------
    MissingQuantityError
        None is named, or more than one by the words alone.
    """
    if sheet.catalog is None:
        raise MissingQuantityError("a catalogue of accelerators")
    named = sheet.given.get("gpu")
    labels = (
        [named]
        if isinstance(named, str)
        else re.findall(r"\b(?:RTX )?[A-Z]{0,2}\d{2,4}[A-Z]{0,2}(?: Ti| Super)?\b", sheet.text)
    )
    found = {}
    for label in labels:
        try:
            found[resolve_accelerator(sheet.catalog, label)] = label
        except UnknownName:
            continue
    if len(found) != 1:
        raise MissingQuantityError("gpu")
    return next(iter(found))


def _relative_speed(sheet: Sheet, watts: list[float]) -> list[float]:
    """Throughput at each power limit relative to no limit, from the measured cap curves.

    The phase is the one that the words name; else one whose curve was measured on the card's own class.
    """
    card = card_of(sheet)
    assert sheet.catalog is not None
    row = sheet.catalog.accelerators.filter(pl.col("accelerator") == card)
    row = row.select("accelerator", "tdp_w", "min_power_limit_w")
    named = next((p for p, words in PHASE_WORDS if re.search(words, sheet.text, re.IGNORECASE)), None)
    phases = [named] if named else ["mixed", "training", "decode", "prefill"]
    tables = SpeedTables.of(sheet.catalog)
    fallback: list[float] | None = None
    for phase in phases:
        limits = pl.DataFrame({"power_limit_w": watts}).with_columns(phase=pl.lit(phase))
        out = throughput_at_cap(row.join(limits, how="cross"), tables)
        speeds = out["relative_throughput"].to_list()
        if None in speeds:
            continue
        if (out["curve_source"] == "measured").all():
            return [float(s) for s in speeds]
        fallback = fallback or [float(s) for s in speeds]
    if fallback is None:
        raise MissingQuantityError(f"a cap curve of {card} at these limits")
    return fallback


PHASE_WORDS = (("training", r"train|fine-?tun|epoch"), ("decode", r"\bdecod"), ("prefill", r"prefill|prompt"))


@rule(
    "(throughput_|speed_|performance_)?(?P<what>loss|kept)_(?P<unit>percent|share)|relative_(throughput|speed|performance)",
    "power_whatif",
    "iso_budget",
    "power_budget",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    before, after = sheet.need("power_from_w"), sheet.need("power_to_w")

    def kept(a: float, b: float) -> float:
        old, new = _relative_speed(sheet, [a, b])
        return new / old

    share = over(kept, before, after)
    if match["what"] == "loss":
        share = over(lambda s: 1 - s, share)
    return over(lambda s: s * 100, share) if match["unit"] == "percent" else share


@rule(
    "(efficiency|perf_per_w(att)?|performance_per_w|tokens_per_j(oule)?)_(gain|ratio)(_(?P<unit>percent|share))?",
    "power_whatif",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Work per watt after the cap over before it."""
    kept = sheet.get("kept_share", "relative_throughput")
    ratio = over(lambda k, a, b: k * a / b, kept, sheet.need("power_from_w"), sheet.need("power_to_w"))
    if "gain" in match[0] and match["unit"]:
        return over(lambda r: (r - 1) * (100 if match["unit"] == "percent" else 1), ratio)
    return ratio


@rule("(?P<what>wall|plug|transient|peak|system)_w")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    parts = {k: v for k, v in sheet.given.items() if re.fullmatch(r"(?!cap|from|to|power|wall).+_w", k) and numbers(v)}
    watts: list[float] = []
    for name, value in parts.items():
        if isinstance(value, list):
            watts += [float(v) for v in value]
        else:
            watts.append(float(value) * (sheet.number("gpus") if name == "gpu_w" and sheet.has("gpus") else 1.0))
    if not watts:
        return _missing("watts of the parts")
    if match["what"] in ("transient", "peak"):
        cards = parts.get("gpu_w", 0.0)
        cards_w = sum(cards) if isinstance(cards, list) else float(cards) * float(sheet.get("gpus", default=1))
        return racks.transient_w(sum(watts), cards_w, sheet.number("peak_ratio", "transient_ratio", "gpu_peak_ratio"))
    return racks.wall_w(watts, float(sheet.get("psu_efficiency", default=1.0)))


# --- circuits ----------------------------------------------------------------------------------------------------------


def _phases(sheet: Sheet) -> int:
    said = sheet.get("phases", "phase")
    return int(said) if said is not None else racks.default_phases(sheet.number("volts", "voltage", "v"))


def _load_w(sheet: Sheet) -> Value:
    for name in ("load_kw", "kw", "node_kw", "power_kw", "it_kw", "rack_kw"):
        if sheet.has(name, name[:-2] + "w"):
            return over(lambda k: k * 1e3, sheet.need(name))
    return sheet.need("wall_w")


@rule("(line_)?amps|current(_amps|_a)?|(line_)?current", "circuit", "power_whatif", "rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    volts, factor = sheet.get("volts", "voltage", "v"), float(sheet.get("power_factor", "pf", default=1.0))
    return over(lambda w, v: racks.line_amps(w, v, _phases(sheet), factor), _load_w(sheet), volts)


@rule(
    "(?P<what>nameplate|continuous|circuit|usable|derated|capacity|max)_kw|kw|(?P<bare>kw_continuous)",
    "circuit",
    "power_whatif",
    "rack",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    volts, amps = sheet.get("volts", "voltage", "v"), sheet.get("amps", "breaker_amps", "a")
    if volts is None or amps is None:
        return _missing("volts and amps")
    whole = match["what"] in ("nameplate", "max", "capacity") or match[0] == "kw"
    derate = (
        1.0
        if whole and not (match[0] == "kw" and sheet.has("derate"))
        else float(sheet.get("derate", default=racks.CONTINUOUS_SHARE))
    )
    factor = float(sheet.get("power_factor", "pf", default=1.0))
    return over(lambda v, a: racks.circuit_w(v, a, _phases(sheet), derate, factor) / 1e3, volts, amps)


@rule("(breaker|required|min_breaker|circuit)_amps", "circuit", "rack", "power_whatif")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    derate = float(sheet.get("derate", default=racks.CONTINUOUS_SHARE))
    return over(
        lambda w, v: racks.breaker_amps(w, v, _phases(sheet), derate),
        _load_w(sheet),
        sheet.get("volts", "voltage", "v"),
    )


@rule("(nodes|servers|systems|gpus|rigs)_per_circuit|(max_)?(nodes|servers|systems|rigs)(_max|_fit)?", "circuit")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = sheet.need("gpu_kw") if match[0].startswith("gpus") else sheet.get("node_kw", "wall_kw")
    return over(racks.units_within, sheet.need("continuous_kw"), each)


@rule("circuits|circuits_needed|feeds|pdus", "circuit", "rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    circuit = sheet.get("circuit_kw", "continuous_kw")
    if circuit is None:
        return _missing("circuit_kw")
    return over(lambda w, c: racks.circuits_needed(w, c * 1e3, _redundancy(sheet)), _load_w(sheet), circuit)


@rule("fits|feasible|ok", "circuit", "rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda w, c: w <= c * 1e3 + 1e-9, _load_w(sheet), sheet.need("continuous_kw"))


# --- one budget --------------------------------------------------------------------------------------------------------


def _split(sheet: Sheet) -> tuple[str, float, float, dict[str, float], str]:
    """First kind of unit, its own cost, how many the budget pays for, the other kinds' costs, and what is scarce."""
    most = next((k for k in sheet.given if k.endswith("_max")), None)
    if most is None:
        raise MissingQuantityError("how many of one kind the budget pays for")
    first = most.removesuffix("_max")
    for scarce in ("cost", "power", "price", "kw", "w", "per_h"):
        if sheet.has(f"{first}_{scarce}"):
            rest = {
                k.removesuffix(f"_{scarce}"): float(v)
                for k, v in sheet.given.items()
                if k.endswith(f"_{scarce}") and k != f"{first}_{scarce}"
            }
            return first, sheet.number(f"{first}_{scarce}"), sheet.number(most), rest, scarce
    raise MissingQuantityError(f"what one {first} takes")


@rule(r"\w+", "iso_budget")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Most units of a second kind beside those kept of the first, within the budget of so many of the first."""
    first, own, most, rest, _ = _split(sheet)
    if match[0].endswith(("_max", "_cost", "_power")):
        return _missing(match[0])
    other = [k for k in rest if k in match[0] or all(word in match[0] for word in k.split("_"))]
    if len(other) != 1:
        return _missing(match[0])
    kept = sheet.given.get(first)
    if kept is None:
        kept = next((v for k, v in sheet.given.items() if k.endswith(f"_{first}") and isinstance(v, list)), None)
    if kept is None:
        return _missing(f"how many {first} are kept")
    budget = float(compare.exact(most) * compare.exact(own))
    return over(lambda n: compare.count_within(budget, rest[other[0]], n, own), kept)


@rule(
    "(power|cost|money)_(units|used|total)|total_(power|cost)|feasible|used",
    "iso_budget",
    "power_budget",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    mixes, units = sheet.given.get("mixes"), sheet.given.get("units") or sheet.given.get("unit")
    if not isinstance(mixes, list) or not isinstance(units, dict):
        return _missing("mixes and units")
    used = [compare.mix_use(mix, units) for mix in mixes]
    if match[0] != "feasible":
        return used
    limit = sheet.get("budget", "limit", "power_limit", "budget_units", "max_units")
    if limit is None:
        return _missing("budget")
    return [int(u <= limit * (1 + 1e-12)) for u in used]


@rule(
    "(max_)?(?P<what>gpus|nodes|cards|servers|systems)(_fit|_max|_within)?|count",
    "iso_budget",
    "power_whatif",
    "power_budget",
    "rack",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    cap = sheet.get("limit_kw", "power_limit_kw", "budget_kw", "facility_kw", "available_kw", "cap_kw")
    if cap is None:
        return _missing("power limit")
    it = over(lambda c, p: c / p, cap, sheet.get("pue", default=1.0))
    each = (
        sheet.need("gpu_kw")
        if match["what"] in ("gpus", "cards") and sheet.has("gpu_w", "gpu_kw")
        else sheet.need("node_kw")
    )
    return over(racks.units_within, it, each)


# --- storage -----------------------------------------------------------------------------------------------------------


@rule("(?P<how>cloud|own|capex|raw|provision|provisioned|buy|needed_raw|order)_tb", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if match["how"] == "raw" and sheet.has("drives") and sheet.has("drive_tb"):
        return over(lambda n, t: n * t, sheet.need("drives"), sheet.need("drive_tb"))
    needed = sheet.get("needed_tb", "usable_tb", "tb")
    if needed is None:
        return _missing("needed_tb")
    fill = (
        sheet.get("max_fill", default=1.0)
        if not sheet.has("max_fill_percent")
        else sheet.number("max_fill_percent") / 100
    )
    return over(storage.raw_tb, needed, _raid_kept(sheet), fill)


def _raid_kept(sheet: Sheet) -> float:
    if sheet.has("raid_share", "raid_efficiency", "ec_efficiency"):
        return sheet.number("raid_share", "raid_efficiency", "ec_efficiency")
    if sheet.has("raid_overhead", "parity_overhead", "overhead_share"):
        return 1 - sheet.number("raid_overhead", "parity_overhead", "overhead_share")
    if sheet.has("data_drives", "ec_data", "data_blocks"):
        data = sheet.number("data_drives", "ec_data", "data_blocks")
        parity = sheet.number("parity_drives", "ec_parity", "parity_blocks", "parity")
        return storage.raid_share("ec", int(data + parity), int(parity))
    if sheet.has("replicas", "replication"):
        return 1 / sheet.number("replicas", "replication")
    level = sheet.given.get("raid")
    if level is not None:
        name = str(level).lower().replace(" ", "").replace("-", "")
        name = f"raid{name}" if name.isdigit() else name
        group = int(sheet.get("raid_group", "group", "drives", default=0))
        return storage.raid_share(name, group)  # type: ignore[arg-type]
    return 1.0


@rule("usable_tb|effective_tb|net_tb|capacity_tb", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    fill = float(sheet.get("max_fill", default=1.0)) if sheet.has("max_fill") else 1.0
    return over(lambda r: storage.usable_tb(r, _raid_kept(sheet), fill), sheet.need("raw_tb"))


@rule("(?P<what>drives|ssds|disks)(_needed)?", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda r, t: math.ceil(r / t - 1e-9), sheet.need("raw_tb"), sheet.need("drive_tb"))


@rule(r"(?P<array>\w+?)_for_(?P<count>\d+)", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    each = next(
        (
            v
            for k, v in sheet.given.items()
            if (f := re.fullmatch(r"(\w+)_per_(\w+)", k)) and f[2].rstrip("s") == match["array"].rstrip("s")
        ),
        None,
    )
    if each is None:
        return _missing(f"what one of {match['array']} serves")
    return storage.arrays_needed(float(match["count"]), float(each))


@rule(r"max_(?P<what>\w+)", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    for name, each in sheet.given.items():
        found = re.fullmatch(rf"{match['what']}_per_(\w+)", name)
        if found:
            return over(lambda a, b: a * b, each, sheet.get(f"max_{found[1]}s", f"max_{found[1]}", f"{found[1]}s"))
    return _missing(match[0])


@rule(r"(?P<rate>(?:read_|write_)?gb_s|tb)_per_(?P<what>dgx|node|gpu|nodes|system|client)(?:_at_max)?", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    at_max = match[0].endswith("_at_max")
    rates = [f"max_{match['rate']}", match["rate"], f"total_{match['rate']}"]
    # `dgx` is read as nodes where a case counts with it.
    counts = {"dgx": ["max_dgx", "nodes"], "gpu": ["gpus"], "system": ["systems", "nodes"]}.get(
        match["what"], ["nodes", "clients"]
    )
    rate, count = (
        sheet.get(*(rates if at_max else rates[1:] + rates[:1])),
        sheet.get(*(counts if at_max else counts[::-1])),
    )
    return over(lambda r, n: r / n, rate, count) if rate is not None and count is not None else _missing("rate")


@rule("(total_|aggregate_|needed_|required_)?(?P<what>read_|write_)?gb_s(_needed|_required|_total)?", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    what = match["what"] or ""
    for count, each in (
        ("nodes", f"{what}gb_s_per_node"),
        ("gpus", f"{what}gb_s_per_gpu"),
        ("drives", f"drive_{what}gb_s"),
        ("nodes", f"{what}gb_s_per_dgx"),
    ):
        if sheet.has(each) and sheet.has(count):
            return over(lambda n, e: n * e, sheet.need(count), sheet.need(each))
    if sheet.has("samples_per_s", "tok_s", "images_per_s"):
        rate = sheet.get("samples_per_s", "tok_s", "images_per_s")
        return over(storage.stream_gb_s, rate, sheet.get("bytes_per_sample", "bytes_per_token", "bytes_per_image"))
    size, seconds = sheet.get("checkpoint_tb"), sheet.get("write_s", "checkpoint_s", "seconds", "target_s", "s")
    if size is None or seconds is None:
        return _missing("checkpoint size and time")
    return over(storage.checkpoint_gb_s, size, seconds)


@rule("checkpoint_tb|state_tb|ckpt_tb", "storage", "train_cost")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if sheet.has("bytes_per_param"):
        return over(storage.checkpoint_tb, sheet.need("params"), sheet.need("bytes_per_param"))
    optimizer = str(sheet.given.get("optimizer", "adamw"))
    if sheet.catalog is None:
        return _missing("bytes_per_param")
    saved = storage.saved_bytes_per_param(sheet.catalog.optimisers, optimizer)
    return over(lambda p: storage.checkpoint_tb(p, saved), sheet.need("params"))


@rule(
    "(?P<what>checkpoint|write|load|read|staging|stage|copy|transfer|startup|restore|start_up)(_time)?_s|seconds",
    "storage",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    size = sheet.get("dataset_tb", "size_tb", "weights_tb", "model_tb", "checkpoint_tb", "needed_tb", "tb")
    rate = sheet.get(
        "write_gb_s" if (match["what"] or "") in ("checkpoint", "write") else "read_gb_s", "gb_s", "link_gb_s"
    )
    if size is None or rate is None:
        return _missing("size and speed")
    return over(storage.transfer_s, size, rate)


@rule("(storage_)?monthly|storage_month|price", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    rate, amount = sheet.get("price_per_tb_month", "per_tb_month"), sheet.get("cloud_tb", "raw_tb", "tb")
    if rate is None and sheet.has("price_per_gb_month", "per_gb_month"):
        rate = over(lambda v: v * 1000, sheet.get("price_per_gb_month", "per_gb_month"))
    return over(lambda r, t: r * t, rate, amount) if rate is not None and amount is not None else _missing("rate")


@rule("total_tb|capacity_total_tb", "storage")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    parts: list[Any] = (
        [over(lambda n, t: n * t, sheet.need("nodes"), sheet.need("tb_per_node"))] if sheet.has("tb_per_node") else []
    )
    return total(parts) if parts else _missing("total_tb")
