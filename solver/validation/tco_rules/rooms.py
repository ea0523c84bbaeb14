"""Rules for racks, power shelves and circuits. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import re

from solver.features import racks
from solver.validation.tco_rules.base import GPUS_PER_NODE, missing
from solver.validation.tco_rules.sheet import RuleBook, Sheet, Value, over, total

BOOK = RuleBook()
rule = BOOK.rule


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
            else missing("rack_kw")
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
        return missing("nodes_per_rack")
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
    return sheet.need("node_it_kw") if sheet.has("gpu_w", "gpu_kw") else missing("node_kw")


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
        return missing("nodes")
    other = float(sheet.get("rack_other_kw", default=0.0))
    for name, each in sheet.given.items():
        part = name.removesuffix("_kw")
        if part != name and part not in ("gpu", "cpu", "node", "rack") and isinstance(each, int | float):
            # So many switch trays at so much each; a part without a count stands for all of them.
            counts = [sheet.given[c] for c in (f"{part}s", f"{part}es") if sheet.has(c)]
            if counts or part in ("switch", "switches", "other"):
                other += each * float(counts[0] if counts else 1)
    return over(lambda n, k: n * k + other, nodes, sheet.need("node_kw"))


def _phases(sheet: Sheet) -> int:
    said = sheet.get("phases", "phase")
    return int(said) if said is not None else racks.default_phases(sheet.number("volts", "voltage", "v"))


def load_w(sheet: Sheet) -> Value:
    for name in ("load_kw", "kw", "node_kw", "power_kw", "it_kw", "rack_kw"):
        if sheet.has(name, name[:-2] + "w"):
            return over(lambda k: k * 1e3, sheet.need(name))
    return sheet.need("wall_w")


@rule("(line_|load_)?amps|current(_amps|_a)?|(line_)?current", "circuit", "power_whatif", "rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    volts, factor = sheet.get("volts", "voltage", "v"), float(sheet.get("power_factor", "pf", default=1.0))
    return over(lambda w, v: racks.line_amps(w, v, _phases(sheet), factor), load_w(sheet), volts)


@rule(
    "(?P<what>nameplate|continuous|circuit|usable|derated|capacity|max)_kw|kw|(?P<bare>kw_continuous)",
    "circuit",
    "power_whatif",
    "rack",
)
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    volts, amps = sheet.get("volts", "voltage", "v"), sheet.get("amps", "breaker_amps", "a")
    if volts is None or amps is None:
        return missing("volts and amps")
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
        load_w(sheet),
        sheet.get("volts", "voltage", "v"),
    )


@rule("(nodes|servers|systems|gpus|rigs)_per_circuit|(max_)?(nodes|servers|systems|rigs|gpus)(_max|_fit)?", "circuit")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    if "gpus" in match[0] and sheet.has("gpu_w", "gpu_kw"):
        # Behind the supply, beside what the rest of the machine draws.
        given = over(lambda k, e: k * 1e3 * e, sheet.need("continuous_kw"), sheet.get("psu_efficiency", default=1.0))
        base = total(v for k, v in sheet.given.items() if k in ("base_w", "host_w", "cpu_w", "platform_w"))
        return over(lambda g, b, w: racks.units_within(g - b, w), given, base, sheet.need("gpu_w"))
    each = sheet.get("node_kw", "wall_kw")
    return over(racks.units_within, sheet.need("continuous_kw"), each)


@rule("circuits|circuits_needed|feeds|pdus", "circuit", "rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    circuit = sheet.get("circuit_kw", "continuous_kw")
    if circuit is None:
        return missing("circuit_kw")
    return over(lambda w, c: racks.circuits_needed(w, c * 1e3, _redundancy(sheet)), load_w(sheet), circuit)


@rule("fits|feasible|ok", "circuit", "rack")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    return over(lambda w, c: w <= c * 1e3 + 1e-9, load_w(sheet), sheet.need("continuous_kw"))
