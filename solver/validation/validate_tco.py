"""`kitout validate tco FILE.json`: published buying cases worked out again, each beside the value it states.

A case is computed from its kind and the names of its inputs by the rules of `solver.validation.tco_rules`, which
call the public functions of `solver.features`; its id decides nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from solver.validation.tco_rules import RULES
from solver.validation.tco_rules.names import RATIOS, canonical
from solver.validation.tco_rules.sheet import MissingQuantityError, Sheet, Value, numbers, over
from solver.validation.validate_memory import ValidationError

Record = dict[str, Any]
EXACT = 1e-9
"""Relative room of a tolerance of zero, for sums of floats."""
NEVER = frozenset({"never", "none", "inf", "infinity"})


def read_cases(path: Path) -> list[Record]:
    """Read the cases of a file: ``{"cases": [..]}`` or a bare list.

    Raises
    ------
    ValidationError
        The file is not JSON, or a case lacks id, kind, inputs or expected; every fault is named.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ValidationError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise ValidationError(f"{path}: not JSON ({error})") from None
    cases = content.get("cases") if isinstance(content, dict) else content
    if not isinstance(cases, list):
        raise ValidationError(f"{path}: has no list of cases")
    faults = []
    for place, case in enumerate(cases, start=1):
        name = case.get("id", f"case {place}") if isinstance(case, dict) else f"case {place}"
        if not isinstance(case, dict):
            faults.append(f"{name}: not an object")
            continue
        lacks = [key for key in ("id", "kind", "inputs", "expected") if key not in case]
        lacks += [k for k in ("inputs", "expected") if k in case and not isinstance(case[k], dict)]
        if lacks:
            faults.append(f"{name}: {', '.join(lacks)} missing or not an object")
    if faults:
        raise ValidationError("\n".join(f"{path}: {fault}" for fault in faults))
    return cases


def validate_tco(catalog: Catalog, path: Path) -> Record:
    """Work out the cases of a file; see `validate_tco_cases`.

    Raises
    ------
    ValidationError
        The file is not one of cases.
    """
    return validate_tco_cases(catalog, read_cases(path))


def validate_tco_cases(catalog: Catalog, cases: Sequence[Mapping[str, Any]]) -> Record:
    """Work out published cases and set what comes out beside what they state.

    Returns
    -------
    dict
        ``{n, within, unsupported, outside, kinds, cases[{id, kind, expected, got, within, reason}]}``. `got` has the
        names of `expected`; `within` is None where a figure that could be recomputed was not: such a case is
        unsupported, and its reason says what is missing.
    """
    records = [_judge(catalog, case, cases) for case in cases]
    kinds = {}
    for kind in sorted({r["kind"] for r in records}):
        of = [r for r in records if r["kind"] == kind]
        kinds[kind] = {
            "n": len(of),
            "within": sum(r["within"] is True for r in of),
            "unsupported": sum(r["within"] is None for r in of),
        }
    return {
        "n": len(records),
        "within": sum(r["within"] is True for r in records),
        "unsupported": sum(r["within"] is None for r in records),
        "outside": sum(r["within"] is False for r in records),
        "kinds": kinds,
        "cases": records,
    }


# --- one case ----------------------------------------------------------------------------------------------------------


def sheet_of(catalog: Catalog, case: Mapping[str, Any], cases: Sequence[Mapping[str, Any]] = ()) -> Sheet:
    """Give a case's figures their spelling and one currency, and lay the rules beside them."""
    currency = _currency(case)
    given, money = {}, []
    for key, value in case["inputs"].items():
        name = canonical(key)
        if name.currency and numbers(value):
            money.append(name.canonical)
        if numbers(value) and (name.scale != 1.0 or (name.currency and name.currency != currency)):
            rate = _exchange(catalog, case, name.currency, currency) * name.scale
            value = over(lambda v, r=rate: v * r, value)
        given[name.canonical] = value
        stem = name.canonical.removesuffix("_percent")
        ratio = next((r for r in (stem, f"{stem}_share") if r in RATIOS), None)
        if stem != name.canonical and ratio is not None and numbers(value):
            given[ratio] = over(lambda v: v / 100.0, value)
    words = " ".join(str(case.get(k, "")) for k in ("question", "note"))

    def others(name: str, quantity: str) -> Value:
        return _other(catalog, case, cases, name, quantity)

    asked = {canonical(key).canonical for key in case["expected"]}
    return Sheet(str(case["kind"]), given, words, RULES, catalog, others, asked, money)


def _currency(case: Mapping[str, Any]) -> str | None:
    for part in ("expected", "inputs"):
        for key in case[part]:
            if (found := canonical(key).currency) is not None:
                return found
    return None


def _exchange(catalog: Catalog, case: Mapping[str, Any], source: str | None, target: str | None) -> float:
    """Units of the target currency for one of the source: the case's own rate, else the catalogue's."""
    if source == target or source is None or target is None:
        return 1.0
    for key, value in case["inputs"].items():
        low = key.lower()
        if isinstance(value, int | float) and {source.lower(), target.lower()} <= set(low.split("_")):
            first = low.split("_per_")[0] if "_per_" in low else low.split("_")[-1]
            return float(value) if target.lower() in first else 1.0 / float(value)
    graph = catalog.fx.select("from_currency", "to_currency", "rate").rows()
    to_usd = {"USD": 1.0}
    for start, end, rate in graph:
        to_usd |= {start: rate} if end == "USD" else ({end: 1.0 / rate} if start == "USD" else {})
    if source not in to_usd or target not in to_usd:
        raise MissingQuantityError(f"rate from {source} to {target}")
    return float(to_usd[source] / to_usd[target])


def _other(
    catalog: Catalog, case: Mapping[str, Any], cases: Sequence[Mapping[str, Any]], name: str, quantity: str
) -> Value:
    """Quantity of the one case of the same kind that a figure's name points to ("ratio_to_gold")."""
    found = [
        c for c in cases if c is not case and c["kind"] == case["kind"] and name in str(c["id"]).lower().split("-")
    ]
    if len(found) != 1:
        raise MissingQuantityError(f"the case that is meant by {name}")
    return sheet_of(catalog, found[0]).need(quantity)


def _judge(catalog: Catalog, case: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> Record:
    expected: dict[str, Any] = case["expected"]
    got: Record = {}
    lacking: dict[str, str] = {}
    facts: dict[str, str] = {}
    # A file may say which of its figures can be recomputed; the others are facts of the case.
    recomputable = set(case.get("recomputed") or expected)
    try:
        sheet = sheet_of(catalog, case, cases)
    except MissingQuantityError as error:
        return _record(case, {}, None, f"not known: {error}")
    for key in expected:
        found, reason = _work_out(sheet, key)
        if reason is None:
            got[key] = found
        elif key in recomputable:
            lacking[key] = reason
        else:
            facts[key] = reason
    if lacking and facts:
        # What the case states as fact may be what the rest follows from.
        stated = {canonical(k).canonical: expected[k] for k in facts if numbers(expected[k])}
        sheet = sheet_of(catalog, case, cases)
        sheet.given |= stated
        for key in list(lacking):
            found, reason = _work_out(sheet, key)
            if reason is None:
                got[key] = found
                del lacking[key]
    if lacking or not got:
        missing = sorted({*lacking.values(), *(facts.values() if not got else ())})
        return _record(case, got, None, f"not derived: {', '.join(lacking or facts)} (lacks {'; '.join(missing)})")
    off = [key for key, value in got.items() if not agrees(value, expected[key], tolerance_of(case, key))]
    reason = f"outside the tolerance: {', '.join(off)}" if off else None
    if facts and not off:
        reason = f"taken as stated: {', '.join(facts)}"
    return _record(case, got, not off, reason)


def _work_out(sheet: Sheet, key: str) -> tuple[Value, str | None]:
    name = canonical(key)
    try:
        value = sheet.need(name.canonical)
    except MissingQuantityError as error:
        return None, str(error)
    if name.scale != 1.0 and numbers(value):
        value = over(lambda v: v / name.scale, value)
    return value, None


def _record(case: Mapping[str, Any], got: Record, within: bool | None, reason: str | None) -> Record:
    return {
        "id": case["id"],
        "kind": case["kind"],
        "expected": case["expected"],
        "got": got,
        "within": within,
        "reason": reason,
    }


# --- tolerance ---------------------------------------------------------------------------------------------------------


def tolerance_of(case: Mapping[str, Any], key: str) -> tuple[float, float]:
    """Relative and absolute tolerance of a figure: its own, the case's, or none at all (exact)."""
    stated = case.get("tolerance") or {}
    own = stated.get(key, stated)
    if isinstance(own, int | float) and not isinstance(own, bool):
        return 0.0, float(own)
    if not isinstance(own, Mapping):
        own = stated
    return float(own.get("rel", 0.0)), float(own.get("abs", 0.0))


def agrees(got: Value, expected: Value, tolerance: tuple[float, float]) -> bool:
    """True if a value is the expected one within the tolerance; one figure may also lie in an expected range of two."""
    if expected is None or (isinstance(expected, str) and expected.lower() in NEVER):
        return got is None
    if isinstance(expected, Mapping):
        return isinstance(got, Mapping) and all(k in got and agrees(got[k], v, tolerance) for k, v in expected.items())
    if isinstance(expected, list):
        if isinstance(got, list):
            return len(got) == len(expected) and all(
                agrees(g, e, tolerance) for g, e in zip(got, expected, strict=True)
            )
        if len(expected) == 2 and numbers(expected) and numbers(got):
            low, high = sorted(expected)
            return _room(low, tolerance, got, below=True) and _room(high, tolerance, got, below=False)
        return False
    if isinstance(expected, bool) or isinstance(got, bool):
        return bool(got) == bool(expected) and got is not None
    if isinstance(expected, int | float) and isinstance(got, int | float):
        rel, absolute = tolerance
        return math.isclose(got, expected, rel_tol=max(rel, EXACT), abs_tol=max(absolute * (1 + EXACT), 1e-12))
    return bool(got == expected)


def _room(edge: float, tolerance: tuple[float, float], got: float, *, below: bool) -> bool:
    slack = max(tolerance[0] * abs(edge), tolerance[1], EXACT * abs(edge))
    return got >= edge - slack if below else got <= edge + slack


def case_rows(report: Mapping[str, Any]) -> pl.DataFrame:
    """Cases as flat rows for CSV and Parquet: id, kind, within, reason, expected and got as JSON text."""
    rows = [
        {
            "id": r["id"],
            "kind": r["kind"],
            "within": r["within"],
            "reason": r["reason"],
            "expected": json.dumps(r["expected"]),
            "got": json.dumps(r["got"]),
        }
        for r in report["cases"]
    ]
    schema = {"id": pl.String, "kind": pl.String, "within": pl.Boolean, "reason": pl.String}
    return pl.DataFrame(rows, schema={**schema, "expected": pl.String, "got": pl.String})
