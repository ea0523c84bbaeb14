"""The commands of `kitout catalog` that import, compare and ask: what they print, where, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli import main

SAMPLES = Path(__file__).parent / "catalogs" / "samples"


def kitout(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="kitout")


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "out"
    run = kitout("catalog", "import", "skypilot", SAMPLES / "skypilot", "-o", out)
    assert run.exit_code == 0
    return out


@pytest.mark.parametrize(
    ("source", "path", "read"),
    [
        ("skypilot", "skypilot", 31),
        ("skypilot", "skypilot/aws/vms.csv", 4),
        ("gpuhunt", "gpuhunt", 7),
        ("vantage", "vantage/instances.json", 5),
        ("quotes", "quotes.csv", 6),
    ],
)
def test_import_writes_an_overlay_and_says_what_it_did(tmp_path: Path, source: str, path: str, read: int) -> None:
    run = kitout("catalog", "import", source, SAMPLES / path, "-o", tmp_path / "out", "--format", "json")
    assert run.exit_code == 0
    rows = json.loads(run.stdout)["rows"]
    assert rows["read"] == read == rows["kept"] + rows["dropped"]
    listed = kitout("catalog", "list", "--catalog", tmp_path / "out", "--format", "json", "--limit", "1")
    assert listed.exit_code == 0
    assert len(json.loads(listed.stdout)) == 1


def test_import_as_text_gives_every_reason(overlay: Path) -> None:
    run = kitout("catalog", "import", "skypilot", SAMPLES / "skypilot", "-o", overlay)
    assert "31 rows read, 27 kept, 4 dropped" in run.stdout
    for reason in (
        "no price",
        "duplicate",
        "spot price of zero or below",
        "unknown accelerators",
        "spot above on demand",
    ):
        assert reason in run.stdout


def test_import_takes_the_date_of_the_prices(tmp_path: Path) -> None:
    words = ("catalog", "import", "skypilot", SAMPLES / "skypilot", "-o", tmp_path / "out", "--as-of")
    assert kitout(*words, "2026-11").exit_code == 0
    listed = kitout("catalog", "list", "--catalog", tmp_path / "out", "--format", "json", "--limit", "1")
    assert json.loads(listed.stdout)[0]["as_of"] == "2026-11"
    assert kitout(*words, "yesterday").exit_code == 2


def test_path_that_does_not_exist(tmp_path: Path) -> None:
    run = kitout("catalog", "import", "skypilot", tmp_path / "2gb.csv", "-o", tmp_path / "out")
    assert (run.exit_code, run.stdout) == (2, "")
    assert "2gb.csv' does not exist" in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_fault_in_the_source(tmp_path: Path) -> None:
    bad = tmp_path / "vms.csv"
    bad.write_text((SAMPLES / "skypilot/aws/vms.csv").read_text("utf-8").replace("22.0", "1,234"), encoding="utf-8")
    run = kitout("catalog", "import", "skypilot", bad, "-o", tmp_path / "out")
    # The comma shifts the row, which is refused by itself; the rest is taken.
    assert run.exit_code == 0
    assert f"{bad}:2  12 fields under a header of 11" in run.stdout
    bad.write_text(bad.read_text("utf-8").replace("1,234", '"1,234"'), encoding="utf-8")
    run = kitout("catalog", "import", "skypilot", bad, "-o", tmp_path / "other")
    assert (run.exit_code, run.stdout) == (2, "")
    assert run.stderr.startswith(f"{bad}:2  Price  '1,234' is no number (thousands separators)")
    assert not (tmp_path / "other").exists()


def test_cheapest_as_json(overlay: Path) -> None:
    words = ("catalog", "cheapest", "--gpu", "A100:8", "--cpus", "64+", "--memory", "500+", "--catalog", overlay)
    run = kitout(*words, "--nodes", "2", "--format", "json")
    assert run.exit_code == 0
    said = json.loads(run.stdout)
    assert (said["status"], said["price_per_hour"]) == ("optimal", 44.0)
    assert said["offers"] == [{"provider": "aws", "offer": "p4d.24xlarge", "region": "us-east-1", "zone": None}]


def test_cheapest_says_why_nothing_fits(overlay: Path) -> None:
    run = kitout("catalog", "cheapest", "--gpu", "A100:3", "--catalog", overlay, "--format", "json")
    assert run.exit_code == 3
    said = json.loads(run.stdout)
    assert (said["status"], said["price_per_hour"], said["offers"]) == ("infeasible", None, [])
    assert "not the accelerator asked for" in run.stderr
    assert "nothing fits" in kitout("catalog", "cheapest", "--gpu", "A100:3", "--catalog", overlay).stdout


@pytest.mark.parametrize("words", [("--cpus", "many"), ("--memory", "-3"), ("--nodes", "0"), ("--max-hourly", "0")])
def test_cheapest_refuses_what_makes_no_sense(words: tuple[str, str]) -> None:
    assert kitout("catalog", "cheapest", *words).exit_code == 2


def test_doubted_prices_only_when_asked_for(overlay: Path) -> None:
    words = ("catalog", "cheapest", "--provider", "azure", "--cpus", "4", "--catalog", overlay, "--format", "json")
    assert json.loads(kitout(*words).stdout)["price_per_hour"] == 0.2
    assert json.loads(kitout(*words, "--include-doubtful").stdout)["price_per_hour"] == 0.02


def test_diff_as_text_and_json(overlay: Path) -> None:
    run = kitout("catalog", "diff", "built-in", overlay)
    assert run.exit_code == 0
    assert "shown 20 of" in run.stdout
    said = json.loads(kitout("catalog", "diff", overlay, overlay, "--format", "json").stdout)
    assert said["changes"] == []
    assert said["counts"]["same"] > 0


def test_template_can_be_filled_in(tmp_path: Path) -> None:
    assert kitout("catalog", "template").stdout.startswith("vendor,item,kind,")
    assert kitout("catalog", "template", "-o", tmp_path / "quotes.csv").exit_code == 0
    sheet = tmp_path / "quotes.csv"
    sheet.write_text(sheet.read_text("utf-8").replace("# Example", "Example"), encoding="utf-8")
    run = kitout("catalog", "import", "quotes", sheet, "-o", tmp_path / "out", "--encoding", "utf-8")
    assert run.exit_code == 0


def test_imported_overlay_passes_the_checks(overlay: Path) -> None:
    run = kitout("catalog", "check", "--catalog", overlay, "--format", "json")
    assert run.exit_code == 0
    checks = {row["check"] for row in json.loads(run.stdout)}
    assert {"doubtful_offer", "spot_above_on_demand", "missing_as_of"} <= checks


def test_sources_name_the_files(overlay: Path) -> None:
    rows = json.loads(kitout("catalog", "sources", "--catalog", overlay, "--format", "json").stdout)
    assert any(row["source"] == "SkyPilot-format price list gcp/vms.csv" for row in rows)
