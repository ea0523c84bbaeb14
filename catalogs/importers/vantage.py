"""Vantage exports (`instances.json`, as ec2instances.info serves it) -> offers and prices.

Prices stand by region, operating system and way to pay, as text; the Linux ones are taken. Reserved prices are the
hourly cost over the term, payment up front spread over it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.errors import CatalogError, Issue
from catalogs.importers.market import build_market
from catalogs.importers.report import Imported, ImportReport
from catalogs.importers.rows import decoded

SOURCE = "Vantage export {file}"
SYSTEM = "linux"
TERM = re.compile(r"yrTerm(\d)(Standard|Convertible)?\.(no|partial|all)Upfront")
UPFRONT = {"no": 0.0, "partial": 0.5, "all": 1.0}
# Interruption classes as the middle of their range; the open one is taken as 25 %.
INTERRUPTION = {"<5%": 0.025, "5-10%": 0.075, "10-15%": 0.125, "15-20%": 0.175, ">20%": 0.25}
GBPS = re.compile(r"(\d+(?:\.\d+)?)\s*Gigabit", re.IGNORECASE)
MACHINE: dict[str, Any] = {
    "provider": pl.String,
    "offer": pl.String,
    "region": pl.String,
    "zone": pl.String,
    "label": pl.String,
    "label_count": pl.Float64,
    "memory_gib": pl.Float64,
    "vcpus": pl.Float64,
    "ram_gib": pl.Float64,
    "network_gbps": pl.Float64,
    "local_storage_tb": pl.Float64,
    "price": pl.Float64,
    "spot": pl.Float64,
    "interruption_per_month": pl.Float64,
    "file": pl.String,
    "line": pl.Int64,
}
RESERVED: dict[str, Any] = {
    "provider": pl.String,
    "offer": pl.String,
    "region": pl.String,
    "term_months": pl.Float64,
    "upfront_share": pl.Float64,
    "price_per_hour": pl.Float64,
}


def import_vantage(path: Path, catalog: Catalog, *, as_of: str | None = None, encoding: str | None = None) -> Imported:
    """Import an `instances.json`; the provider is AWS unless the file's name says azure or gcp.

    Raises
    ------
    CatalogError
        Not a list of instances, or a price that is no number.
    """
    report = ImportReport("vantage")
    file = path / "instances.json" if path.is_dir() else path
    try:
        found = json.loads(decoded(file.read_bytes(), str(file), encoding))
    except OSError as error:
        raise CatalogError([Issue(str(file), None, None, f"cannot be read ({error.strerror})")]) from None
    except json.JSONDecodeError as error:
        raise CatalogError([Issue(str(file), error.lineno, None, f"is not readable as JSON ({error.msg})")]) from None
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise CatalogError([Issue(str(file), None, None, "is no list of instances", "Vantage's instances.json")])
    report.files.append(str(file))
    machines: list[dict[str, Any]] = []
    reserved: list[dict[str, Any]] = []
    for number, entry in enumerate(found, 1):
        name = entry.get("instance_type")
        if not isinstance(name, str) or not isinstance(entry.get("pricing"), dict):
            report.read += 1
            report.refuse("no instance_type or no pricing", f"{file}: entry {number}")
            continue
        reader = _Entry(entry, name, str(file), _provider(file), number)
        places = list(reader.machines())
        report.read += len(places)
        machines += places
        reserved += reader.reserved()
    return build_market(
        pl.DataFrame(machines, schema=MACHINE),
        catalog,
        report,
        source=SOURCE.replace("{file}", file.name),
        as_of=as_of,
        reserved=pl.DataFrame(reserved, schema=RESERVED),
    )


def _provider(file: Path) -> str:
    folder = str(file).lower()
    return next((name for name in ("azure", "gcp") if name in folder), "aws")


class _Entry:
    """One instance type of the export."""

    def __init__(self, entry: Mapping[str, Any], name: str, file: str, provider: str, number: int) -> None:
        self.entry, self.name, self.file, self.provider, self.number = entry, name, file, provider, number

    def _number(self, value: Any, what: str) -> float | None:
        """A number, also written as text; null, blank and N/A are none."""
        if value in (None, "", "N/A", "NA") or isinstance(value, bool):
            return None
        try:
            return float(value)
        except (TypeError, ValueError):
            said = f"{value!r} is no number, entry {self.number} ({self.name})"
            raise CatalogError([Issue(self.file, None, what, said, "1.2345")]) from None

    def _linux(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for region, systems in self.entry["pricing"].items():
            prices = systems.get(SYSTEM) if isinstance(systems, dict) else None
            if isinstance(prices, dict):
                yield region, prices

    def machines(self) -> Iterator[dict[str, Any]]:
        entry = self.entry
        count = self._number(entry.get("GPU"), "GPU") or 0.0
        label = entry.get("GPU_model") if count > 0 else None
        speed = GBPS.search(str(entry.get("network_performance") or ""))
        for region, prices in self._linux():
            yield {
                "provider": self.provider,
                "offer": self.name,
                "region": region,
                "zone": None,
                "label": str(label) if label else None,
                "label_count": count if label else None,
                "memory_gib": self._number(entry.get("GPU_memory"), "GPU_memory") or None,
                "vcpus": self._number(entry.get("vCPU"), "vCPU"),
                "ram_gib": self._number(entry.get("memory"), "memory"),
                "network_gbps": float(speed[1]) if speed else None,
                "local_storage_tb": self._disks(),
                "price": self._number(prices.get("ondemand"), f"{region} ondemand"),
                "spot": self._number(prices.get("spot_avg") or prices.get("spot_min"), f"{region} spot_avg"),
                "interruption_per_month": INTERRUPTION.get(str(prices.get("pct_interrupt"))),
                "file": self.file,
                "line": self.number,
            }

    def _disks(self) -> float | None:
        storage = self.entry.get("storage")
        if not isinstance(storage, dict):
            return None
        size, count = self._number(storage.get("size"), "storage"), self._number(storage.get("devices"), "storage")
        return None if size is None else size * (count or 1.0) / 1000

    def reserved(self) -> Iterator[dict[str, Any]]:
        for region, prices in self._linux():
            ways = prices.get("reserved")
            for way, price in (ways if isinstance(ways, dict) else {}).items():
                term = TERM.fullmatch(way)
                amount = self._number(price, f"{region} {way}")
                # Convertible terms cost more for a freedom that plans make no use of.
                if term is None or term[2] == "Convertible" or amount is None or amount <= 0:
                    continue
                yield {
                    "provider": self.provider,
                    "offer": self.name,
                    "region": region,
                    "term_months": 12.0 * int(term[1]),
                    "upfront_share": UPFRONT[term[3]],
                    "price_per_hour": amount,
                }
