"""Rules for power budgets and power limits. See `solver.validation.tco_rules.sheet`."""

from __future__ import annotations

import math
import re

import polars as pl

from catalogs.errors import UnknownName
from catalogs.names import resolve_accelerator
from solver.features import compare, racks
from solver.features.power import throughput_at_cap
from solver.features.speed_tables import SpeedTables
from solver.validation.tco_rules.base import GPUS_PER_NODE, missing
from solver.validation.tco_rules.sheet import MissingQuantityError, RuleBook, Sheet, Value, numbers, over

BOOK = RuleBook()
rule = BOOK.rule


@rule("gpu_kw|gpu_mw|gpus_kw|gpus_mw|gpu_total_kw", "power_budget", "rack", "energy")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """All cards together."""
    watts = sheet.get("provisioned_w", "cap_w") if sheet.has("provisioned_w", "cap_w") else sheet.given.get("gpu_w")
    if watts is None:
        return missing("gpu_w")
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
        return missing("nodes")
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
    return over(lambda a, s: a * s, sheet.need("power_from_w"), share) if share is not None else missing("power_to_w")


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
        return missing("watts of the parts")
    if match["what"] in ("transient", "peak"):
        cards = parts.get("gpu_w", 0.0)
        cards_w = sum(cards) if isinstance(cards, list) else float(cards) * float(sheet.get("gpus", default=1))
        return racks.transient_w(sum(watts), cards_w, sheet.number("peak_ratio", "transient_ratio", "gpu_peak_ratio"))
    return racks.wall_w(watts, float(sheet.get("psu_efficiency", default=1.0)))


@rule("(mean|expected|drawn|average|typical)_kw")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Drawn power as a share of nameplate."""
    share = sheet.get("draw_share", "share_of_nameplate", "nameplate_share", "utilisation")
    return over(lambda k, s: k * s, sheet.get("nameplate_kw", "node_kw", "rack_kw"), share)


@rule("(fleet|total|cluster|aggregate)_(throughput|speed|work)_(?P<what>ratio|gain_percent|gain_share)", "power_whatif")
def _(sheet: Sheet, match: re.Match[str]) -> Value:
    """Work of all units in the same power after the cap, over before it."""
    kept = sheet.get("relative_throughput", "kept_share")
    ratio = over(lambda k, e: k * (1 + e), kept, sheet.need("extra_share"))
    factor = {"ratio": 0.0, "gain_percent": 100.0, "gain_share": 1.0}[match["what"]]
    return ratio if not factor else over(lambda r: (r - 1) * factor, ratio)
