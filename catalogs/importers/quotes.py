"""Quote sheets (CSV or XLSX, see `kitout catalog template`) -> offers and prices, prices of cards and machines.

Rented rows become offers; a price from a quantity on becomes an offer of its own that is only taken in that quantity.
Bought rows give the price of an accelerator, server, CPU or memory module that the catalogue knows. Prices are kept in
their currency where they are rented, and without tax: tax that a quote includes is taken off at the rate it states.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from catalogs.catalog import Catalog
from catalogs.columns import AS_OF, CURRENCIES
from catalogs.errors import CatalogError, Issue, UnknownName
from catalogs.importers.cards import with_countries
from catalogs.importers.facts_offers import link_class
from catalogs.importers.quotes_xlsx import xlsx_rows
from catalogs.importers.report import Imported, ImportReport
from catalogs.importers.rows import FILE, LINE, csv_rows, need_columns, numbers, text_frame
from catalogs.market import BILLINGS, DEPLOYMENTS
from catalogs.money import rates_to
from catalogs.names import resolve_accelerator
from catalogs.read import column_order, nearest
from catalogs.schema import TABLES

HOURS_PER_MONTH = 730.0
PER = ("hour", "accelerator_hour", "month", "unit")
COLUMNS: Mapping[str, str] = {
    "vendor": "who sells (rows that begin with # are left out)",
    "item": "instance type or machine, as the vendor names it; bought: the catalogue's name of the card, server, CPU, module",
    "kind": "rent | buy",
    "accelerator": "rented: accelerator, e.g. H100-80GB-SXM5; blank: none",
    "accelerators": "rented: how many per node",
    "vcpus": "rented: per node",
    "ram_gib": "rented: per node",
    "network_gbps": "rented: between nodes; blank: not stated",
    "rdma": "rented: InfiniBand or RoCE between nodes, yes | no",
    "region": "rented: where",
    "country": "ISO code, e.g. DE; blank: from the region's name",
    "deployment_mode": "rented: vm (default), container, bare_metal ...",
    "billing": "rented: on_demand (default), reserved, subscription, spot ...",
    "term_months": "reserved and subscription: for how long",
    "upfront_share": "part paid up front, 0 to 1; blank: 0",
    "quantity_from": "price holds from so many nodes on; blank: 1",
    "price": "plain digits with a point",
    "per": "hour | accelerator_hour | month | unit",
    "currency": " | ".join(CURRENCIES),
    "tax": "excluded, or included 13%",
    "quoted_on": "YYYY-MM-DD",
    "valid_until": "YYYY-MM-DD; blank: open",
    "lead_time_days": "blank: not stated",
    "stock": "nodes that can be had; blank: not stated",
    "notes": "",
}
NEEDED = ("vendor", "item", "kind", "price", "per", "currency", "tax")
NUMBERS = (
    "accelerators",
    "vcpus",
    "ram_gib",
    "network_gbps",
    "term_months",
    "upfront_share",
    "quantity_from",
    "price",
    "lead_time_days",
    "stock",
)
EXAMPLES = (
    "# Example GmbH,gpu-8xh100,rent,H100-80GB-SXM5,8,192,2048,3200,yes,fra1,DE,bare_metal,reserved,12,0,4,2.10,"
    "accelerator_hour,EUR,included 19%,2026-11-02,2027-01-31,45,16,framework contract 17",
    "# Example Ltd,H200-141GB-SXM5,buy,,,,,,,,,,,,,,33500,unit,USD,excluded,2026-11-02,2026-12-31,60,,",
)
# Table of parts -> column that names a row; each has price_usd.
PARTS = {"accelerators": "accelerator", "servers": "server", "cpus": "cpu", "ram": "module"}
TAX = re.compile(r"included\s*\(?(\d+(?:\.\d+)?)\s*%\)?")
# Day numbers of spreadsheets count from here.
SHEET_EPOCH = date(1899, 12, 30)


def template() -> str:
    """The quote sheet to fill in: header, what each column takes, and examples, all left out on import."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerow([f"# {text}" if name == "vendor" else text for name, text in COLUMNS.items()])
    writer.writerows(csv.reader(EXAMPLES))
    return out.getvalue()


def import_quotes(
    path: Path,
    catalog: Catalog,
    *,
    as_of: str | None = None,
    encoding: str | None = None,
    today: date | None = None,
) -> Imported:
    """Import a quote sheet.

    Raises
    ------
    CatalogError
        Every fault of the sheet, each with file, row and column.
    """
    report = ImportReport("quotes")
    rows = _read(path, report, encoding)
    reader = _Reader(catalog, report, as_of, today or date.today())
    lines = [line for row in rows.iter_rows(named=True) for line in reader.line(row)]
    if reader.issues:
        raise CatalogError(reader.issues)
    rented = [values for kind, values in lines if kind == "rent"]
    tables = _rented(rented, catalog, report) if rented else {}
    tables |= _bought(lines, catalog)
    report.kept = report.read - sum(report.dropped.values())
    report.offers = tables["offers"].height if "offers" in tables else 0
    if not tables:
        raise CatalogError(
            [Issue(str(path), None, None, "holds no quote that could be taken", "; ".join(report.refused))]
        )
    return Imported(tables, report)


def _read(path: Path, report: ImportReport, encoding: str | None) -> pl.DataFrame:
    """Rows of the sheet, comments left out, numbers as numbers."""
    if path.suffix.lower() in (".xlsx", ".xlsm"):
        header, body, numbers_of_rows, where = xlsx_rows(path)
        rows = text_frame(header, body, numbers_of_rows, where)
        report.read += rows.height
        report.files.append(str(path))
    elif path.suffix.lower() == ".xls":
        raise CatalogError([Issue(str(path), None, None, "is of the old XLS form", "XLSX or CSV")])
    else:
        rows = csv_rows(path, report, encoding)
    file = str(rows[FILE][0]) if rows.height else str(path)
    known = [*COLUMNS, FILE, LINE]
    strange = [c for c in rows.columns if c not in known]
    missing = [c for c in NEEDED if c not in rows.columns]
    if len(missing) == len(NEEDED):
        told = f"has none of the columns of a quote sheet ({', '.join(strange)})"
        raise CatalogError([Issue(file, 1, None, told, "the columns that kitout catalog template writes")])
    if strange:
        allowed = "the columns that kitout catalog template writes"
        said = [Issue(file, 1, c, f"unknown column{nearest(c, COLUMNS)}", allowed) for c in strange]
        raise CatalogError(said)
    need_columns(rows, NEEDED, file, "the quote sheet (kitout catalog template)")
    rows = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in COLUMNS if name not in rows.columns)
    comment = pl.col("vendor").str.starts_with("#").fill_null(False)
    report.read -= rows.filter(comment).height
    rows = rows.filter(~comment)
    if rows.is_empty():
        raise CatalogError([Issue(file, None, None, "holds no quotes", "rows below the header")])
    signs = _signs(rows["price"])
    if len(signs) > 1:
        told = f"prices in several currencies ({', '.join(signs)})"
        raise CatalogError([Issue(file, None, "price", told, "plain digits; the currency stands in column currency")])
    return numbers(rows, NUMBERS)


def _signs(prices: pl.Series) -> list[str]:
    found = prices.str.extract(r"([$€£¥￥]|USD|EUR|CNY|RMB|GBP)").drop_nulls()
    return sorted(str(sign) for sign in found.unique())


class _Reader:
    """Reads rows one by one and collects every fault."""

    def __init__(self, catalog: Catalog, report: ImportReport, as_of: str | None, today: date) -> None:
        self.catalog, self.report, self.as_of, self.today = catalog, report, as_of, today
        self.issues: list[Issue] = []
        usd = rates_to(catalog, "USD")
        self.usd = {c: (r, d) for c, r, d in usd.select("currency", "rate", "rate_as_of").iter_rows()}

    def _fault(self, row: Mapping[str, Any], column: str, what: str, allowed: str = "") -> None:
        self.issues.append(Issue(row[FILE], row[LINE], column, what, allowed))

    def _choice(self, row: Mapping[str, Any], column: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = (row[column] or default or "").lower()
        if value not in [a.lower() for a in allowed]:
            self._fault(row, column, repr(row[column]) if row[column] else "is blank", " | ".join(allowed))
        return value

    def _day(self, row: Mapping[str, Any], column: str) -> str | None:
        """A date as text; spreadsheets hold day numbers."""
        text = row[column]
        if text is None:
            return None
        if re.fullmatch(r"\d{5}(\.0+)?", text):
            return (SHEET_EPOCH + timedelta(days=int(float(text)))).isoformat()
        try:
            date.fromisoformat(text)
        except ValueError:
            if not re.match(AS_OF, text):
                self._fault(row, column, repr(text), "YYYY-MM-DD")
        return str(text)

    def _untaxed(self, row: Mapping[str, Any]) -> tuple[float, str | None]:
        """What the price is divided by to be without tax, and a note."""
        text = (row["tax"] or "").lower()
        if text == "excluded":
            return 1.0, None
        found = TAX.fullmatch(text)
        if not found:
            said = repr(row["tax"]) if row["tax"] else "is blank"
            self._fault(row, "tax", said, "excluded, or included with its rate: included 13%")
            return 1.0, None
        return 1 + float(found[1]) / 100, f"tax of {found[1]} % that the quote includes is taken off"

    def line(self, row: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """One quote as (table or `rent`, values); nothing where the row is at fault or out of date."""
        before = len(self.issues)
        for column in ("vendor", "item"):
            if row[column] is None:
                self._fault(row, column, "is blank")
        kind = self._choice(row, "kind", ("rent", "buy"))
        self._choice(row, "per", PER)
        currency = (row["currency"] or "").upper().replace("RMB", "CNY")
        if currency not in CURRENCIES:
            self._fault(
                row, "currency", repr(row["currency"]) if row["currency"] else "is blank", " | ".join(CURRENCIES)
            )
        if row["price"] is None or row["price"] <= 0:
            said = "is blank" if row["price"] is None else f"{row['price']:g}"
            self._fault(row, "price", said, "a price above zero")
        factor, note = self._untaxed(row)
        until, quoted = self._day(row, "valid_until"), self._day(row, "quoted_on")
        if len(self.issues) > before:
            return
        if until is not None and until[:10] < self.today.isoformat()[: len(until)]:
            self.report.refuse(f"valid until {until}, which is past", f"{row[FILE]}:{row[LINE]}")
            return
        told = [note, f"valid until {until}" if until else None, row["notes"]]
        common = {
            "source": f"quote of {row['vendor']}",
            "as_of": quoted or self.as_of,
            "confidence": "listed",
            "notes": "; ".join(t for t in told if t) or None,
            "currency": currency,
            "net": row["price"] / factor,
        }
        found = self._rent(row, common) if kind == "rent" else self._buy(row, common)
        if found is not None and len(self.issues) == before:
            yield found

    def _rent(self, row: Mapping[str, Any], common: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        billing = self._choice(row, "billing", BILLINGS, "on_demand")
        mode = self._choice(row, "deployment_mode", DEPLOYMENTS, "vm")
        card = None
        if row["accelerator"] is not None:
            try:
                card = resolve_accelerator(self.catalog, row["accelerator"])
            except UnknownName as error:
                self._fault(row, "accelerator", str(error))
        for column in ("accelerators", "quantity_from", "stock"):
            if row[column] is not None and row[column] != int(row[column]):
                self._fault(row, column, f"{row[column]:g}", "a whole number")
        count = int(row["accelerators"] or 0)
        if (row["accelerator"] is None) != (count == 0):
            self._fault(row, "accelerators", "and accelerator go together", "both, or neither")
        term = row["term_months"] or 0.0
        if billing in ("reserved", "subscription") and term <= 0:
            self._fault(row, "term_months", "is blank", "how long the commitment runs, e.g. 12")
        if row["per"] == "unit":
            self._fault(row, "per", "'unit'", "hour | accelerator_hour | month for rented items")
        hourly = {"month": common["net"] / HOURS_PER_MONTH, "accelerator_hour": common["net"] * max(count, 1)}
        least = int(row["quantity_from"] or 1)
        region = row["region"] or "any"
        name = row["item"] if least == 1 else f"{row['item']} from {least}"
        return "rent", common | {
            "offer_id": f"{row['vendor']}/{name}/{region}",
            "provider": row["vendor"],
            "offer": row["item"],
            "deployment_mode": mode,
            "accelerator": card,
            "accelerator_count": count or None,
            "vcpus": row["vcpus"],
            "ram_gib": row["ram_gib"],
            "network_gbps": row["network_gbps"],
            "rdma": (row["rdma"] or "no").lower() in ("yes", "true", "1"),
            "region": region,
            "given_country": row["country"],
            "stock": None if row["stock"] is None else int(row["stock"]),
            "min_nodes": least if least > 1 else None,
            "lead_time_days": row["lead_time_days"],
            "billing": billing,
            "term_months": term,
            "upfront_share": row["upfront_share"] or 0.0,
            "price_per_hour": round(hourly.get(row["per"], common["net"]), 9),
            FILE: row[FILE],
            LINE: row[LINE],
        }

    def _buy(self, row: Mapping[str, Any], common: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        if row["per"] != "unit":
            self._fault(row, "per", repr(row["per"]), "unit for bought items")
        if (row["quantity_from"] or 1) > 1:
            reason = "price of bought items from a quantity on: plans count one price per item"
            self.report.refuse(reason, f"{row[FILE]}:{row[LINE]}")
            return None
        rate, day = self.usd.get(common["currency"], (None, None))
        if rate is None:
            self._fault(row, "currency", f"no exchange rate from {common['currency']} to USD", "a row in table fx")
            return None
        for table, column in PARTS.items():
            names = {str(n).lower(): n for n in getattr(self.catalog, table)[column]}
            name = names.get(row["item"].lower())
            if name is not None:
                changed = common["currency"] != "USD"
                fx = f"{common['currency']} at {rate:g} USD of {day or 'no date'}" if changed else None
                lead = f"lead time {row['lead_time_days']:g} d" if row["lead_time_days"] else None
                notes = "; ".join(t for t in (common["notes"], fx, lead) if t) or None
                return table, common | {"name": name, "price_usd": common["net"] * rate, "notes": notes}
        known = [n for table, column in PARTS.items() for n in getattr(self.catalog, table)[column]]
        self._fault(row, "item", f"{row['item']!r} is no card, server, CPU or module{nearest(row['item'], known)}")
        return None


def _rented(lines: list[dict[str, Any]], catalog: Catalog, report: ImportReport) -> dict[str, pl.DataFrame]:
    """Offers and prices; the same machine may have several prices, but one shape."""
    price_key = ["offer_id", "billing", "term_months", "upfront_share"]
    counts = Counter(tuple(line[k] for k in price_key) for line in lines)
    twice = [line for line in lines if counts[tuple(line[k] for k in price_key)] > 1]
    if twice:
        said = "the same machine, terms and quantity stand in several rows"
        raise CatalogError([Issue(line[FILE], line[LINE], "item", said, "one row each") for line in twice])
    types = {"min_nodes": pl.Int64, "stock": pl.Int64, "lead_time_days": pl.Float64, "accelerator_count": pl.Int64}
    texts = {"given_country": pl.String, "as_of": pl.String, "notes": pl.String, "accelerator": pl.String}
    frame = pl.DataFrame(lines, infer_schema_length=None, schema_overrides={**types, **texts})
    frame = with_countries(frame, catalog).with_columns(country=pl.coalesce("given_country", "country"))
    shape = ["accelerator", "accelerator_count", "vcpus", "ram_gib", "stock", "min_nodes", "deployment_mode"]
    several = frame.filter(pl.struct(shape).n_unique().over("offer_id") > 1)
    if several.height:
        rows = several.select(FILE, LINE).iter_rows()
        raise CatalogError([Issue(f, n, "item", "this machine has another shape in another row") for f, n in rows])
    forms = catalog.accelerators.select("accelerator", "form_factor")
    frame = frame.join(forms, on="accelerator", how="left", maintain_order="left").with_columns(
        interconnect=pl.lit(None, pl.String), doubtful=pl.lit(False)
    )
    frame = frame.with_columns(
        interconnect_class=link_class(
            pl.col("accelerator_count").fill_null(0), pl.col("interconnect"), pl.col("form_factor").fill_null("")
        ),
        min_hours=pl.lit(0.0),
        granularity_s=pl.lit(3600.0),
        interruption_per_month=pl.lit(None, pl.Float64),
    )
    offers = frame.unique("offer_id", keep="first", maintain_order=True)
    return {"offers": _whole(offers, "offers"), "prices": _whole(frame, "prices")}


def _whole(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """All columns of a table, those without values blank."""
    columns = TABLES[table].columns()
    blank = [pl.lit(None, columns[c].dtype).alias(c) for c in columns if c not in frame.columns]
    return frame.with_columns(blank).select(column_order(TABLES[table])).cast({c: k.dtype for c, k in columns.items()})


def _bought(lines: list[tuple[str, dict[str, Any]]], catalog: Catalog) -> dict[str, pl.DataFrame]:
    """Rows of the part tables with their quoted prices; everything else of the row stays."""
    tables: dict[str, pl.DataFrame] = {}
    for table, column in PARTS.items():
        quotes = [values for kind, values in lines if kind == table]
        if not quotes:
            continue
        given = pl.DataFrame(
            [
                {column: q["name"], "new": q["price_usd"], "said": q["source"], "day": q["as_of"], "told": q["notes"]}
                for q in quotes
            ],
            schema={column: pl.String, "new": pl.Float64, "said": pl.String, "day": pl.String, "told": pl.String},
        ).unique(column, keep="last", maintain_order=True)
        rows = getattr(catalog, table).join(given, on=column, how="inner", maintain_order="left")
        told = pl.concat_str(pl.format("price: {}", "said"), "told", separator="; ", ignore_nulls=True)
        values = {
            "price_usd": pl.col("new").round(2),
            "price_low_usd": pl.lit(None, pl.Float64),
            "price_high_usd": pl.lit(None, pl.Float64),
            "price_confidence": pl.lit("listed"),
            "price_as_of": pl.col("day"),
            "price_basis": told,
        }
        # Tables that say nothing of the price apart are dated by the row.
        if "price_as_of" not in rows.columns:
            values["as_of"] = pl.col("day")
        if "price_basis" not in rows.columns:
            values["notes"] = pl.concat_str("notes", told, separator="; ", ignore_nulls=True)
        tables[table] = _whole(rows.with_columns(**{k: v for k, v in values.items() if k in rows.columns}), table)
    return tables
