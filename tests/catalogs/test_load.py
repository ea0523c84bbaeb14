"""Overlays and broken files: one message per fault, with file, line, column, value, what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.errors import CatalogError, Issue
from catalogs.load import load_catalog

PRICES = "offer_id,billing,term_months,upfront_share,price_per_hour,currency,"
PRICES += "min_hours,granularity_s,source,confidence\n"
FX = "from_currency,to_currency,rate,source,as_of,confidence\n"
Overlay = Callable[..., Path]


def faults(folder: Path) -> tuple[Issue, ...]:
    with pytest.raises(CatalogError) as caught:
        load_catalog([folder])
    assert str(caught.value).count("\n") + 1 == len(caught.value.issues)
    return caught.value.issues


def one_fault(folder: Path) -> Issue:
    issues = faults(folder)
    assert len(issues) == 1, issues
    return issues[0]


def test_overlay_replaces_by_key_and_adds(catalog: Catalog, overlay: Overlay) -> None:
    rows = "USD,CNY,7.05,own bank,2026-11-30,measured\nEUR,GBP,0.87,own bank,2026-11-30,measured\n"
    laid = load_catalog([overlay(fx=FX + rows)])
    assert laid.fx.height == catalog.fx.height + 1
    changed = laid.fx.filter((pl.col("from_currency") == "USD") & (pl.col("to_currency") == "CNY"))
    assert changed.select("rate", "source", "rate_low").rows() == [(7.05, "own bank", None)]
    assert laid.offers.equals(catalog.offers)
    assert laid.sha256 != catalog.sha256


def test_later_overlays_win(tmp_path: Path) -> None:
    for name, rate in (("a", 7.0), ("b", 6.9)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fx.csv").write_text(FX + f"USD,CNY,{rate},own,,estimate\n")
    laid = load_catalog([tmp_path / "a", tmp_path / "b"])
    assert laid.fx.filter(pl.col("to_currency") == "CNY")["rate"].to_list() == [6.9]


def test_hash_is_of_content_not_of_row_order(catalog: Catalog, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "catalogs" / "data" / "fx.csv").read_text()
    head, *rows = text.splitlines()
    (tmp_path / "fx.csv").write_text("\n".join([head, *reversed(rows)]) + "\n")
    assert load_catalog([tmp_path]).sha256 == catalog.sha256
    assert load_catalog().sha256 == catalog.sha256


def test_windows_file_with_bom_and_padding_is_read(overlay: Overlay) -> None:
    text = "\ufeff" + FX.replace("\n", "\r\n") + " USD , CNY, 7.1 ,own,,estimate\r\n\r\n"
    laid = load_catalog([overlay(fx=text)])
    assert laid.fx.filter(pl.col("to_currency") == "CNY")["rate"].to_list() == [7.1]


def test_quoted_line_breaks_do_not_shift_line_numbers(overlay: Overlay) -> None:
    issue = one_fault(overlay(fx=FX + 'USD,CNY,7.1,"two\nlines",,estimate\nUSD,JPY,many,own,,estimate\n'))
    assert (issue.row, issue.column) == (4, "rate")


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        ("a/b/c,on_demand,0,0,cheap,USD,0,1,own,listed", "price_per_hour", "'cheap'"),
        ('a/b/c,on_demand,0,0,"1,200",USD,0,1,own,listed', "price_per_hour", "'1,200'"),
        ("a/b/c,on_demand,0,0,-3,USD,0,1,own,listed", "price_per_hour", "-3"),
        ("a/b/c,on_demand,0,0,0,USD,0,1,own,listed", "price_per_hour", "0"),
        ("a/b/c,on_demand,0,0,inf,USD,0,1,own,listed", "price_per_hour", "inf"),
        ("a/b/c,on_demand,0,0,nan,USD,0,1,own,listed", "price_per_hour", "nan"),
        ("a/b/c,on_demand,0,0,,USD,0,1,own,listed", "price_per_hour", "is blank"),
        ("a/b/c,on_demand,0,0,1,RMB,0,1,own,listed", "currency", "'RMB'"),
        ("a/b/c,monthly,0,0,1,USD,0,1,own,listed", "billing", "'monthly'"),
        ("a/b/c,on_demand,0,0,1,USD,0,1,own,sure", "confidence", "'sure'"),
        ("a/b/c,on_demand,0,1.5,1,USD,0,1,own,listed", "upfront_share", "1.5"),
        ("a/b/c,on_demand,0,0,1,USD,0,1,,listed", "source", "is blank"),
    ],
)
def test_bad_cell(overlay: Overlay, row: str, column: str, value: str) -> None:
    issue = one_fault(overlay(prices=PRICES + row + "\n"))
    assert issue.file.endswith("prices.csv")
    assert (issue.row, issue.column) == (2, column)
    assert value in issue.what
    assert issue.allowed


def test_commitment_without_term_breaks_a_rule(overlay: Overlay) -> None:
    issue = one_fault(overlay(prices=PRICES + "a/b/c,reserved,0,0,1,USD,0,1,own,listed\n"))
    assert issue.row == 2
    assert "commitment_has_term" in issue.what
    assert "term" in issue.allowed


def test_bad_date(overlay: Overlay) -> None:
    issue = one_fault(overlay(fx=FX + "USD,CNY,7.1,own,Nov 2026,estimate\n"))
    assert (issue.column, issue.allowed) == ("as_of", "YYYY-MM or YYYY-MM-DD, or blank")


def test_unknown_accelerator_names_the_nearest(overlay: Overlay) -> None:
    head = "offer_id,provider,offer,deployment_mode,accelerator,accelerator_count,rdma,interconnect_class,region"
    row = "me/x/us,me,x,vm,H100-80GB-SXM,8,true,nvlink,us,false,own,measured"
    text = f"{head},doubtful,source,confidence\n{row}\n"
    issue = one_fault(overlay(offers=text))
    assert (issue.row, issue.column) == (2, "accelerator")
    assert "did you mean H100-80GB-SXM5?" in issue.what


def test_price_of_an_unknown_offer(overlay: Overlay) -> None:
    issue = one_fault(overlay(prices=PRICES + "AWS/p5.48xlarge/us-eats-1,on_demand,0,0,1,USD,0,1,own,listed\n"))
    assert (issue.row, issue.column) == (2, "offer_id")
    assert "did you mean AWS/p5.48xlarge/us-east-1?" in issue.what


def test_duplicate_key_names_both_lines(overlay: Overlay) -> None:
    row = "AWS/p5.48xlarge/us-east-1,on_demand,0,0,{},USD,0,1,own,listed\n"
    issue = one_fault(overlay(prices=PRICES + row.format(50) + row.format(51)))
    assert issue.row == 3
    assert "line 2 too" in issue.what


def test_columns_missing_unknown_and_twice(overlay: Overlay) -> None:
    issues = faults(
        overlay(fx="from_currency,to_currency,rates,source,confidence,source\nUSD,CNY,7,own,estimate,own\n")
    )
    assert [(i.row, i.column) for i in issues] == [(1, "source"), (1, "rates"), (1, "rate")]
    assert "twice" in issues[0].what
    assert "did you mean rate?" in issues[1].what
    assert "missing" in issues[2].what


def test_ragged_rows_are_named_one_by_one(overlay: Overlay) -> None:
    text = FX + "USD,CNY,7.1,own,,estimate\nUSD,JPY,150\nUSD,HKD,7.8,own,,estimate,extra\n"
    issues = faults(overlay(fx=text))
    assert [(i.row, i.what) for i in issues] == [(3, "has 3 fields"), (4, "has 7 fields")]


def test_not_utf8_names_the_line(overlay: Overlay) -> None:
    issue = one_fault(overlay(fx=FX.encode() + "USD,CNY,7.1,银行,,estimate\n".encode("gbk")))
    assert issue.row == 2
    assert "not UTF-8" in issue.what


def test_empty_file(overlay: Overlay) -> None:
    assert "is empty" in one_fault(overlay(fx="")).what


def test_open_quote(overlay: Overlay) -> None:
    issue = one_fault(overlay(fx=FX + 'USD,CNY,7.1,"own,,estimate\n'))
    assert issue.row == 2
    assert "not readable as CSV" in issue.what


def test_noise_is_refused_in_one_message(overlay: Overlay) -> None:
    issue = one_fault(overlay(fx=bytes(range(128, 256)) * 1000))
    assert "not UTF-8" in issue.what


def test_unknown_table_and_other_formats(overlay: Overlay) -> None:
    folder = overlay(price="a\n1\n")
    (folder / "offers.xlsx").write_bytes(b"PK")
    (folder / "README.md").write_text("mine")
    issues = faults(folder)
    assert [Path(i.file).name for i in issues] == ["offers.xlsx", "price.csv"]
    assert "did you mean prices.csv?" in issues[1].what


def test_folder_missing_empty_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("x")
    (tmp_path / "empty").mkdir()
    assert "does not exist" in one_fault(tmp_path / "nowhere").what
    assert "is a file" in one_fault(tmp_path / "file.csv").what
    assert "no catalogue table" in one_fault(tmp_path / "empty").what


def test_all_faults_of_all_files_at_once(overlay: Overlay) -> None:
    prices = PRICES + "a/b/c,on_demand,0,0,x,USD,0,y,own,listed\n"
    issues = faults(overlay(prices=prices, fx=FX + "USD,RMB,-7,own,,estimate\n"))
    assert {(Path(i.file).name, i.column) for i in issues} == {
        ("prices.csv", "price_per_hour"),
        ("prices.csv", "granularity_s"),
        ("fx.csv", "to_currency"),
        ("fx.csv", "rate"),
    }


def test_overlapping_calendar_is_refused(overlay: Overlay) -> None:
    rows = "calendar,day,hour_from,hour_to,level,source,confidence\n"
    rows += "shifts,mon,0,9,1,own,measured\nshifts,mon,8,24,0,own,measured\n"
    issue = one_fault(overlay(calendars=rows))
    assert "whole_day" in issue.what


def test_faults_are_printed_on_one_line_each(overlay: Overlay) -> None:
    with pytest.raises(CatalogError) as caught:
        load_catalog([overlay(fx=FX + "USD,CNY,x,own,,estimate\nUSD,JPY,y,own,,estimate\n")])
    first, second = str(caught.value).splitlines()
    assert "fx.csv:2  rate  'x', allowed: a number above 0" in first
    assert "fx.csv:3  rate  'y'" in second
