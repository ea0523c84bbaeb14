"""What an import did with the rows it read: kept, dropped by reason, kept with a remark, names it does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl


@dataclass
class ImportReport:
    """Counts of one import.

    Attributes
    ----------
    read, kept
        Rows of the source; rows that became part of an offer (or of a price of a part).
    offers
        Offers written; several rows may make one (a host and its accelerators), or one row several.
    dropped
        Rows left out, by reason.
    prices_dropped
        Prices left out of rows that were kept, by reason.
    remarks
        Rows kept with a remark, by remark.
    unknown
        Accelerator names that the catalogue does not know, with their rows: the offers are kept under that name
        alone, no model is ever sized on them.
    assumed
        Names that leave the variant open, with the variant taken and the rows.
    refused
        Single rows that were refused, each with file and line.
    """

    source: str
    files: list[str] = field(default_factory=list)
    read: int = 0
    kept: int = 0
    offers: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    prices_dropped: Counter[str] = field(default_factory=Counter)
    remarks: Counter[str] = field(default_factory=Counter)
    unknown: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def drop(self, reason: str, rows: int) -> None:
        """Count `rows` left out."""
        if rows:
            self.dropped[reason] += rows

    def drop_prices(self, reason: str, rows: int) -> None:
        if rows:
            self.prices_dropped[reason] += rows

    def remark(self, what: str, rows: int) -> None:
        if rows:
            self.remarks[what] += rows

    def refuse(self, reason: str, where: str) -> None:
        """Leave out one row that the user should look at."""
        self.dropped[reason] += 1
        self.refused.append(f"{where}  {reason}")

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {
            "source": self.source,
            "files": self.files,
            "rows": {"read": self.read, "kept": self.kept, "dropped": sum(self.dropped.values())},
            "offers": self.offers,
            "dropped": dict(self.dropped.most_common()),
            "prices_dropped": dict(self.prices_dropped.most_common()),
            "remarks": dict(self.remarks.most_common()),
            "unknown_accelerators": self.unknown,
            "assumed_variants": self.assumed,
            "refused": self.refused,
        }


@dataclass(frozen=True)
class Imported:
    """Tables that an importer made, in the schemas of the catalogue, and its report."""

    tables: Mapping[str, pl.DataFrame]
    report: ImportReport
