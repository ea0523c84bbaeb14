"""GPU mixes: counts of GPU types for a mix of request sizes, as a problem and the tables that it is posed against.

The file is JSON: `gpu_types` [{name, price_per_hour}], `buckets` [{fraction, input_tokens(_max), output_tokens(_max)}],
`max_rps` {name: [most requests/s that one GPU sustains of each size, null: it cannot]}, `total_rate_rps`, `currency`. It may
come from a study or from the user's own profiling: a type without a price is looked for among all offers of the catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard, get_args

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import CatalogError, Issue, UnknownName
from catalogs.names import resolve_accelerator
from problems.schema import Currency

PROVIDER: Final = "gpu-mix"
STAND_IN: Final = "USD"
"""Currency of prices that are only relative."""


@dataclass(frozen=True)
class GpuMix:
    """Tables for an overlay, the text of the problem, and what was assumed in reading."""

    tables: dict[str, pl.DataFrame]
    problem: str
    notes: tuple[str, ...]
    types: int
    sizes: int
    rates: int


def read_gpu_mix(path: Path, catalog: Catalog, *, as_of: str) -> GpuMix:
    """Read a GPU mix.

    Parameters
    ----------
    as_of
        Date of the rates and prices, as the tables write it.

    Raises
    ------
    CatalogError
        With every fault of the file.
    """
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CatalogError([Issue(str(path), None, None, f"cannot be read as JSON ({error})")]) from None
    faults = [Issue(str(path), None, where, what) for where, what in _faults(given)]
    if faults:
        raise CatalogError(faults)
    notes: list[str] = []
    name = str(given.get("case_id") or path.stem)
    provenance = {"source": f"gpu-mix: {path.name}", "as_of": as_of, "confidence": "measured", "notes": None}
    cards, unknown = _cards(given, catalog, notes)
    sizes = _sizes(given["buckets"], notes)
    currency = str(given.get("currency") or STAND_IN)
    if currency not in get_args(Currency):
        notes.append(f"prices are in {currency!r}: shown as {STAND_IN}, only their ratios mean something")
        currency = STAND_IN
    priced = {g["name"]: float(g["price_per_hour"]) for g in given["gpu_types"] if g.get("price_per_hour") is not None}
    tables = {
        "accelerators": _accelerators(unknown, provenance),
        "offers": _offers(priced, cards, provenance),
        "prices": _prices(priced, currency, provenance),
        "user_rates": _rates(given, name, cards, set(priced), sizes, provenance),
    }
    tables = {table: rows for table, rows in tables.items() if rows.height}
    for table in ("accelerators", "offers", "prices"):
        if table in tables:
            whole = getattr(catalog, table)
            missing = [c for c in whole.columns if c not in tables[table].columns]
            tables[table] = tables[table].with_columns(pl.lit(None).alias(c) for c in missing)
    only_here = len(priced) == len(given["gpu_types"])
    return GpuMix(
        tables=tables,
        problem=_problem(given, name, currency, sizes, only_here, notes),
        notes=tuple(notes),
        types=len(given["gpu_types"]),
        sizes=len(sizes),
        rates=tables["user_rates"].height,
    )


def _number(value: Any, least: float = 0.0) -> TypeGuard[float]:
    """Whether a value is a number above `least`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least < value < float("inf")


def _faults(given: Any) -> Iterator[tuple[str, str]]:
    """Everything that is wrong with the file: where, what."""
    if not isinstance(given, dict):
        yield "", "is no JSON object"
        return
    kinds: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
        ("gpu_types", lambda x: isinstance(x, list) and bool(x), "must be a list of {name, price_per_hour}"),
        ("buckets", lambda x: isinstance(x, list) and bool(x), "must be a list of {fraction, ..}"),
        ("max_rps", lambda x: isinstance(x, dict), "must give a list of requests/s for each GPU type"),
        ("total_rate_rps", _number, "must be a number above zero [requests/s]"),
    )
    wrong = [(key, text) for key, good, text in kinds if not good(given.get(key))]
    yield from wrong
    if wrong:
        return
    names = [g.get("name") if isinstance(g, dict) else None for g in given["gpu_types"]]
    for n, gpu in enumerate(given["gpu_types"]):
        if not isinstance(names[n], str) or not names[n]:
            yield f"gpu_types[{n}]", "has no name"
            continue
        if names.count(names[n]) > 1:
            yield f"gpu_types[{n}]", f"{names[n]!r} stands twice"
        if gpu.get("price_per_hour") is not None and not _number(gpu["price_per_hour"]):
            yield f"gpu_types[{n}].price_per_hour", "must be a number above zero, or be left out"
        rates = given["max_rps"].get(names[n])
        if not isinstance(rates, list) or len(rates) != len(given["buckets"]):
            yield f"max_rps.{names[n]}", f"must be a list of {len(given['buckets'])} rates, one for each bucket"
        elif not all(r is None or _number(r, -1e-300) for r in rates):
            yield f"max_rps.{names[n]}", "must hold numbers of zero or more [requests/s], null where it cannot serve"
    for name in given["max_rps"]:
        if name not in names:
            yield f"max_rps.{name}", "is not among gpu_types"
    shares: list[float] = []
    for n, bucket in enumerate(given["buckets"]):
        share = bucket.get("fraction") if isinstance(bucket, dict) else None
        if not _number(share, -1e-300):
            yield f"buckets[{n}].fraction", "must be a share of the requests, from 0 to 1"
            return
        shares.append(share)
    if abs(sum(shares) - 1) > 1e-4:
        yield "buckets", f"the fractions add up to {sum(shares):g}, not 1"


def _cards(given: dict[str, Any], catalog: Catalog, notes: list[str]) -> tuple[dict[str, str], list[str]]:
    """Accelerator of each GPU type, and the types that the catalogue does not know, which become accelerators."""
    cards: dict[str, str] = {}
    unknown: list[str] = []
    for gpu in given["gpu_types"]:
        name = gpu["name"]
        try:
            cards[name] = resolve_accelerator(catalog, name)
        except UnknownName:
            cards[name] = name
            unknown.append(name)
        if cards[name] != name:
            notes.append(f"{name} is taken for {cards[name]}")
    if unknown:
        shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
        notes.append(f"accelerators unknown to the catalogue, known by name only: {shown}")
    return cards, unknown


def _sizes(buckets: list[dict[str, Any]], notes: list[str]) -> list[tuple[int, int, float]]:
    """Input and output tokens and share of each size."""
    out = []
    unnamed = False
    total = sum(b["fraction"] for b in buckets)
    for n, b in enumerate(buckets, 1):
        isl = b.get("input_tokens_max", b.get("input_tokens"))
        osl = b.get("output_tokens_max", b.get("output_tokens"))
        unnamed |= isl is None or osl is None
        out.append((n if isl is None else int(isl), n if osl is None else int(osl), float(b["fraction"]) / total))
    if unnamed or len({s[:2] for s in out}) < len(out):
        notes.append("sizes without lengths of their own are numbered in place of tokens: costs per token mean nothing")
        out = [(n, n, share) for n, (_, _, share) in enumerate(out, 1)]
    return out


def _accelerators(names: list[str], provenance: dict[str, Any]) -> pl.DataFrame:
    unknown = dict.fromkeys(("vendor", "architecture", "form_factor"), "unknown")
    year = int(str(provenance["as_of"])[:4])
    rows = [{"accelerator": n, **unknown, "year": year, "software_stack": "cuda", **provenance} for n in names]
    return pl.DataFrame(rows, infer_schema_length=None)


def _offers(priced: dict[str, float], cards: dict[str, str], provenance: dict[str, Any]) -> pl.DataFrame:
    rows = [
        {
            "offer_id": f"{PROVIDER}/{name}/any",
            "provider": PROVIDER,
            "offer": name,
            "deployment_mode": "vm",
            "accelerator": cards[name],
            "accelerator_count": 1,
            "rdma": False,
            "interconnect_class": "pcie",
            "region": "any",
            "doubtful": False,
            **provenance,
        }
        for name in priced
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _prices(priced: dict[str, float], currency: str, provenance: dict[str, Any]) -> pl.DataFrame:
    rows = [
        {
            "offer_id": f"{PROVIDER}/{name}/any",
            "billing": "on_demand",
            "term_months": 0.0,
            "upfront_share": 0.0,
            "price_per_hour": price,
            "currency": currency,
            "min_hours": 0.0,
            "granularity_s": 1.0,
            **provenance,
            "confidence": "listed",
        }
        for name, price in priced.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _rates(
    given: dict[str, Any],
    profile: str,
    cards: dict[str, str],
    priced: set[str],
    sizes: list[tuple[int, int, float]],
    provenance: dict[str, Any],
) -> pl.DataFrame:
    rows = [
        {
            "profile": profile,
            "accelerator": cards[gpu["name"]],
            "offer": f"{PROVIDER}/{gpu['name']}" if gpu["name"] in priced else "*",
            "accelerators": 1,
            "isl": isl,
            "osl": osl,
            "rate_req_s": float(rate),
            **provenance,
        }
        for gpu in given["gpu_types"]
        for (isl, osl, _), rate in zip(sizes, given["max_rps"][gpu["name"]], strict=True)
        if rate
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _problem(
    given: dict[str, Any],
    name: str,
    currency: str,
    sizes: list[tuple[int, int, float]],
    only_here: bool,
    notes: list[str],
) -> str:
    """A problem file: one service with these sizes, its rates by profile, machines by the hour for a month."""
    lines = [f"# GPU mix {name}: solve it with --catalog and the folder of this file."]
    lines += [f"# {note}" for note in notes]
    service = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)
    lines += [
        f"name: {json.dumps(name)}",
        "horizon: 1mo",
        f"currency: {currency}",
        "workloads:",
        f"  - name: {service}",
        "    kind: serve",
        f"    profile: {json.dumps(name)}",
        "    traffic:",
        f"      rate: {given['total_rate_rps']!r} req/s",
        "      sizes:",
    ]
    lines += [f"        - {{isl: {i}, osl: {o}, share: {share!r}}}" for i, o, share in sizes if share > 0]
    lines += [f"limits: {{providers: {{allow: [{PROVIDER}]}}}}"] if only_here else []
    lines += ["policy: {billing: [on_demand]}"]
    return "\n".join(lines) + "\n"
