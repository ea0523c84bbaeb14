"""Import of gpuhunt catalogues, Vantage exports and quote sheets, all from made-up samples."""

from __future__ import annotations

import json
import zipfile
from datetime import date
from pathlib import Path
from xml.sax.saxutils import escape

import polars as pl
import pytest

from catalogs.errors import CatalogError
from catalogs.importers.gpuhunt import import_gpuhunt
from catalogs.importers.quotes import COLUMNS, import_quotes, template
from catalogs.importers.vantage import import_vantage
from catalogs.imports import import_source
from catalogs.load import load_catalog

SAMPLES = Path(__file__).parent / "samples"
TODAY = date(2026, 11, 30)


def price_rows(frame: pl.DataFrame, offer_id: str) -> list[tuple[object, ...]]:
    rows = frame.filter(pl.col("offer_id") == offer_id).sort("billing", "term_months")
    return rows.select("billing", "term_months", "upfront_share", "price_per_hour").rows()


# --- gpuhunt ----------------------------------------------------------------------------------------------


def test_gpuhunt_joins_spot_rows_to_their_machine() -> None:
    found = import_gpuhunt(SAMPLES / "gpuhunt", load_catalog())
    machine = "lambdalabs/gpu_8x_h100_sxm5/us-east-1"
    assert price_rows(found.tables["prices"], machine) == [("on_demand", 0, 0, 24.0), ("spot", 0, 0, 10.0)]
    offers = found.tables["offers"]
    assert offers.filter(pl.col("offer_id") == machine)["accelerator"].item() == "H100-80GB-SXM5"
    assert offers.filter(pl.col("accelerator").is_not_null())["label"].null_count() == 2
    assert found.report.unknown == {"n150": 1}
    assert dict(found.report.dropped) == {"duplicate": 1, "no price": 1}
    assert found.report.read == found.report.kept + 2


def test_gpuhunt_files_without_vendor_columns() -> None:
    found = import_gpuhunt(SAMPLES / "gpuhunt_old" / "gcp.csv", load_catalog())
    assert found.report.remarks["slice of a TPU pod, priced as a whole"] == 1
    assert found.tables["prices"]["billing"].to_list() == ["on_demand", "spot"]


def test_gpuhunt_reads_the_zip_they_come_in(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "catalog.zip", "w") as packed:
        packed.write(SAMPLES / "gpuhunt" / "lambdalabs.csv", "lambdalabs.csv")
    found = import_gpuhunt(tmp_path / "catalog.zip", load_catalog())
    plain = import_gpuhunt(SAMPLES / "gpuhunt", load_catalog())
    assert found.tables["offers"].equals(plain.tables["offers"])


def test_gpuhunt_spot_is_true_or_false(tmp_path: Path) -> None:
    text = (SAMPLES / "gpuhunt" / "lambdalabs.csv").read_text("utf-8").replace(",True,", ",perhaps,")
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=r"x\.csv:3  spot  'perhaps', allowed: True \| False"):
        import_gpuhunt(tmp_path / "x.csv", load_catalog())


# --- vantage ----------------------------------------------------------------------------------------------


def test_vantage_takes_linux_prices_of_every_way_to_pay() -> None:
    found = import_vantage(SAMPLES / "vantage" / "instances.json", load_catalog())
    assert price_rows(found.tables["prices"], "aws/p5.48xlarge/us-east-1") == [
        ("on_demand", 0, 0, 55.04),
        ("reserved", 12, 0, 34.6),
        ("reserved", 36, 1, 23.7),
        ("spot", 0, 0, 20.1),
    ]
    spot = found.tables["prices"].filter(pl.col("billing") == "spot")
    assert spot["interruption_per_month"].to_list() == [0.125]
    machine = found.tables["offers"].filter(pl.col("offer") == "p5.48xlarge").row(0, named=True)
    assert (machine["network_gbps"], machine["local_storage_tb"], machine["country"]) == (3200.0, 30.4, "US")
    assert dict(found.report.dropped) == {"no instance_type or no pricing": 1, "no price": 1}
    assert found.report.read == found.report.kept + 2
    assert found.report.unknown == {"AMD Radeon Pro V520": 1}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"a": 1}', "is no list of instances"),
        ('[{"instance_type": ', r"instances\.json:1  is not readable as JSON"),
        ('[{"instance_type":"a","pricing":{"r":{"linux":{"ondemand":"cheap"}}}}]', "'cheap' is no number, entry 1"),
    ],
)
def test_vantage_faults_are_named(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "instances.json").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=what):
        import_vantage(tmp_path / "instances.json", load_catalog())


# --- quotes -----------------------------------------------------------------------------------------------


def test_quotes_become_offers_without_tax_in_their_currency() -> None:
    found = import_quotes(SAMPLES / "quotes.csv", load_catalog(), today=TODAY)
    prices = found.tables["prices"]
    # 2.38 EUR per card and hour with 19 % tax, eight cards.
    assert price_rows(prices, "Nord Compute/n8-h100/osl1") == [("on_demand", 0, 0, 16.0), ("reserved", 12, 0, 14.4)]
    assert set(prices["currency"]) == {"EUR"}
    offers = found.tables["offers"]
    assert offers.select("stock", "min_nodes", "lead_time_days", "country", "rdma").rows() == [
        (4, None, 10.0, "NO", True),
        (4, 4, 10.0, "NO", True),
    ]
    assert "tax of 19 % that the quote includes is taken off" in offers["notes"][0]


def test_quote_of_a_card_changes_its_price_only() -> None:
    catalog = load_catalog()
    found = import_quotes(SAMPLES / "quotes.csv", catalog, today=TODAY)
    card = found.tables["accelerators"].row(0, named=True)
    before = catalog.accelerators.filter(pl.col("accelerator") == card["accelerator"]).row(0, named=True)
    assert card["accelerator"] == "H200-141GB-SXM5"
    assert card["price_usd"] == pytest.approx(240_000 / 7.2, abs=0.01)
    assert "CNY at 0.138889 USD of 2026-11" in card["price_basis"]
    changed = {k for k in card if card[k] != before[k]}
    assert changed <= {k for k in card if k.startswith("price_")}


def test_expired_quotes_are_refused() -> None:
    found = import_quotes(SAMPLES / "quotes.csv", load_catalog(), today=TODAY)
    assert found.report.dropped["valid until 2026-02-01, which is past"] == 1
    assert "Late Ltd" not in found.tables["offers"]["provider"]


def test_template_imports_nothing_until_it_is_filled_in(tmp_path: Path) -> None:
    (tmp_path / "quotes.csv").write_text(template(), encoding="utf-8")
    with pytest.raises(CatalogError, match="holds no quotes"):
        import_quotes(tmp_path / "quotes.csv", load_catalog(), today=TODAY)
    filled = template().replace("# Example", "Example")
    (tmp_path / "quotes.csv").write_text(filled, encoding="utf-8")
    found = import_quotes(tmp_path / "quotes.csv", load_catalog(), today=TODAY)
    assert set(found.tables) == {"offers", "prices", "accelerators"}


HEADER = ",".join(COLUMNS)


def sheet(folder: Path, **changes: str) -> Path:
    row = dict.fromkeys(COLUMNS, "") | {
        "vendor": "V",
        "item": "m",
        "kind": "rent",
        "accelerator": "L4",
        "accelerators": "1",
        "price": "1",
        "per": "hour",
        "currency": "USD",
        "tax": "excluded",
    }
    path = folder / "q.csv"
    path.write_text(f"{HEADER}\n{','.join((row | changes).values())}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "column", "what"),
    [
        ({"price": ""}, "price", "is blank"),
        ({"price": "-3"}, "price", "-3"),
        ({"price": "abc"}, "price", "'abc' is no number"),
        ({"price": '"3,000.5"'}, "price", "thousands separators"),
        ({"price": "€3"}, "price", "currency sign"),
        ({"currency": "XYZ"}, "currency", "'XYZ'"),
        ({"tax": ""}, "tax", "is blank"),
        ({"tax": "included"}, "tax", "'included'"),
        ({"kind": "lease"}, "kind", "'lease'"),
        ({"per": "day"}, "per", "'day'"),
        ({"accelerator": "H1000"}, "accelerator", "unknown accelerator 'H1000'"),
        ({"accelerators": ""}, "accelerators", "go together"),
        ({"billing": "reserved"}, "term_months", "is blank"),
        ({"valid_until": "soon"}, "valid_until", "'soon'"),
        ({"vendor": ""}, "vendor", "is blank"),
        ({"kind": "buy", "per": "unit", "item": "EPIC-9654"}, "item", "did you mean EPYC-9654"),
    ],
)
def test_faults_of_a_quote_are_named_with_row_and_column(
    tmp_path: Path, changes: dict[str, str], column: str, what: str
) -> None:
    path = sheet(tmp_path, **changes)
    with pytest.raises(CatalogError) as caught:
        import_source("quotes", path, tmp_path / "out", load_catalog())
    issue = caught.value.issues[0]
    assert (issue.row, issue.column) == (2, column)
    assert what in str(issue)
    assert not (tmp_path / "out").exists()


def test_every_fault_of_a_sheet_is_named_at_once(tmp_path: Path) -> None:
    path = sheet(tmp_path, currency="XYZ", tax="", kind="lease")
    with pytest.raises(CatalogError) as caught:
        import_quotes(path, load_catalog(), today=TODAY)
    assert {issue.column for issue in caught.value.issues} == {"currency", "tax", "kind"}


def test_mixed_currencies_in_one_column_are_refused(tmp_path: Path) -> None:
    text = sheet(tmp_path).read_text("utf-8")
    row = text.splitlines()[1]
    mixed = "\n".join([HEADER, row.replace(",1,hour", ",$1,hour"), row.replace(",1,hour", ",€1,hour")]) + "\n"
    (tmp_path / "q.csv").write_text(mixed, encoding="utf-8")
    with pytest.raises(CatalogError, match=r"q\.csv  price  prices in several currencies \(\$, €\)"):
        import_quotes(tmp_path / "q.csv", load_catalog(), today=TODAY)


def test_gbk_sheet_is_named_and_read_when_told(tmp_path: Path) -> None:
    text = sheet(tmp_path, vendor="星云算力", currency="CNY").read_text("utf-8")
    path = tmp_path / "报价.csv"
    path.write_bytes(text.encode("gbk"))
    with pytest.raises(CatalogError, match=r"报价\.csv:2  is not UTF-8 text, it reads as GBK/GB18030"):
        import_quotes(path, load_catalog(), today=TODAY)
    found = import_quotes(path, load_catalog(), encoding="gb18030", today=TODAY)
    assert found.tables["offers"]["provider"].to_list() == ["星云算力"]


def test_unknown_column_is_named(tmp_path: Path) -> None:
    path = sheet(tmp_path)
    path.write_text(path.read_text("utf-8").replace("currency", "curency", 1), encoding="utf-8")
    with pytest.raises(CatalogError, match=r"curency  unknown column; did you mean currency\?"):
        import_quotes(path, load_catalog(), today=TODAY)


def test_the_same_quote_twice_is_refused(tmp_path: Path) -> None:
    path = sheet(tmp_path)
    path.write_text(path.read_text("utf-8") + path.read_text("utf-8").splitlines()[1] + "\n", encoding="utf-8")
    with pytest.raises(CatalogError, match="stand in several rows"):
        import_quotes(path, load_catalog(), today=TODAY)


# --- XLSX -------------------------------------------------------------------------------------------------

NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else "A" + chr(ord("A") + index - 26)


def workbook(path: Path, rows: list[list[str | float]], merged: str = "", extra: str = "") -> Path:
    """Write a workbook as spreadsheets do: shared strings, numbers as numbers."""
    strings: list[str] = []
    lines = []
    for number, row in enumerate(rows, 1):
        cells = []
        for index, value in enumerate(row):
            if value == "":
                continue
            if isinstance(value, str):
                strings.append(value)
                cells.append(f'<c r="{letter(index)}{number}" t="s"><v>{len(strings) - 1}</v></c>')
            else:
                cells.append(f'<c r="{letter(index)}{number}"><v>{value}</v></c>')
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    merges = f'<mergeCells count="1"><mergeCell ref="{merged}"/></mergeCells>' if merged else ""
    items = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{NAMESPACE}" xmlns:r="{RELATIONS}"><sheets>'
        '<sheet name="Quotes" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId1" Type="x" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{NAMESPACE}"><sheetData>{"".join(lines)}{extra}</sheetData>{merges}</worksheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{NAMESPACE}">{items}</sst>',
    }
    with zipfile.ZipFile(path, "w") as book:
        for name, text in parts.items():
            book.writestr(name, text)
    return path


def quote_rows(**changes: str | float) -> list[list[str | float]]:
    row: dict[str, str | float] = dict.fromkeys(COLUMNS, "")
    row |= {"vendor": "V & Sons", "item": "m", "kind": "rent", "accelerator": "L4", "accelerators": 1, "price": 1.25}
    row |= {"per": "hour", "currency": "USD", "tax": "excluded"} | changes
    return [list(COLUMNS), list(row.values())]


def test_workbook_reads_as_the_csv_does(tmp_path: Path) -> None:
    # Day 46387 of a spreadsheet is 2026-12-31.
    path = workbook(tmp_path / "q.xlsx", quote_rows(valid_until=46387))
    found = import_quotes(path, load_catalog(), today=TODAY)
    assert found.tables["prices"]["price_per_hour"].to_list() == [1.25]
    assert found.tables["offers"]["provider"].to_list() == ["V & Sons"]
    assert found.tables["offers"]["notes"].to_list() == ["valid until 2026-12-31"]


def test_merged_cells_are_refused_with_their_range(tmp_path: Path) -> None:
    path = workbook(tmp_path / "q.xlsx", quote_rows(), merged="A2:A4")
    with pytest.raises(CatalogError, match=r"q\.xlsx \[Quotes\]:2  cells A2:A4 are merged"):
        import_source("quotes", path, tmp_path / "out", load_catalog())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ('<c r="A3" t="e"><v>#REF!</v></c>', "holds the error #REF!"),
        ('<c r="A3"><f>1+1</f></c>', "formula without a saved value"),
        ('<c r="AZ3"><v>5</v></c>', "stands right of the header's columns"),
    ],
)
def test_cells_that_cannot_be_read_safely_are_refused(tmp_path: Path, cell: str, what: str) -> None:
    path = workbook(tmp_path / "q.xlsx", quote_rows(), extra=f'<row r="3">{cell}</row>')
    with pytest.raises(CatalogError, match=what):
        import_quotes(path, load_catalog(), today=TODAY)


def test_a_workbook_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.xlsx").write_text("no zip", encoding="utf-8")
    with pytest.raises(CatalogError, match="is not readable as XLSX"):
        import_quotes(tmp_path / "q.xlsx", load_catalog(), today=TODAY)


def test_report_as_data_can_be_written_as_json() -> None:
    report = import_quotes(SAMPLES / "quotes.csv", load_catalog(), today=TODAY).report
    said = json.loads(json.dumps(report.as_dict()))
    assert said["rows"] == {"read": 6, "kept": 4, "dropped": 2}
