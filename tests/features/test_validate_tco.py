"""Published buying cases: names and units, rules on cases made here, and the reference cases where they are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from catalogs.load import load_catalog
from solver.validation.tco_rules.names import canonical, unit_siblings
from solver.validation.tco_rules.sheet import from_words, over
from solver.validation.validate_memory import ValidationError
from solver.validation.validate_tco import agrees, read_cases, tolerance_of, validate_tco, validate_tco_cases

CATALOG = load_catalog()


def shared(name: str) -> Path:
    root = os.environ.get("KITOUT_SHARED")
    folder = Path(root) if root else Path(__file__).parents[2].parent / "shared"
    path = folder / "reference" / name
    if not path.is_file():
        pytest.skip("reference cases are not at hand (KITOUT_SHARED)")
    return path


def case(kind: str, inputs: dict[str, Any], expected: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "made-up", "kind": kind, "inputs": inputs, "expected": expected, "tolerance": {"rel": 0.001}, **more}


def judged(*made: Any, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = validate_tco_cases(CATALOG, [case(*made, **more)])["cases"][0]
    return found


# --- names, units, words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "spelled", "currency", "scale"),
    [
        ("cloud_usd_per_h", "cloud_per_h", "USD", 1),
        ("rental_rate_eur_per_hour", "cloud_per_h", "EUR", 1),
        ("cloud_usd_per_gpu_hour", "price_per_gpu_h", "USD", 1),
        ("usd_per_kwh", "price_per_kwh", "USD", 1),
        ("electricity_gbp_per_kwh", "price_per_kwh", "GBP", 1),
        ("capex_kusd", "capex", "USD", 1000),
        ("server_price_rmb", "capex", "CNY", 1),
        ("payback_months", "break_even_months", None, 1),
        ("saving_pct", "saving_percent", None, 1),
        ("usd", "price", "USD", 1),
        ("gpu", "gpu", None, 1),
    ],
)
def test_spelling(name: str, spelled: str, currency: str | None, scale: float) -> None:
    found = canonical(name)
    assert (found.canonical, found.currency, found.scale) == (spelled, currency, scale)


def test_units() -> None:
    assert dict(unit_siblings("gpu_kw")) == {"gpu_w": 0.001, "gpu_mw": 1000.0}
    # A price per MWh is a thousandth of it per kWh; a number of MWh a thousand kWh.
    assert dict(unit_siblings("price_per_kwh"))["price_per_mwh"] == 0.001
    assert dict(unit_siblings("energy_kwh"))["energy_mwh"] == 1000.0
    assert unit_siblings("nodes") == []


def test_what_only_words_say() -> None:
    assert from_words("hours_per_day", "renting for 4 and 24 h a day") == [4, 24]
    assert from_words("hours_per_day", "used 8 hours per day") == 8
    assert from_words("phases", "on a Three-Phase supply") == 3
    assert from_words("budget_units", "40 machines (1,760 units)") == 1760
    assert from_words("interruptions_per_h", "at 5, 20 and 50 % per hour") == [0.05, 0.2, 0.5]
    assert from_words("hours_per_day", "around the clock") is None


def test_figures_lists_and_mappings() -> None:
    assert over(lambda a, b: a * b, [1, 2], 3) == [3, 6]
    assert over(lambda a: a * 8, {"x": 1, "y": [2, 3]}) == {"x": 8, "y": [16, 24]}


# --- tolerances --------------------------------------------------------------------------------------------------------


def test_agreement() -> None:
    assert agrees(1.009, 1.0, (0.01, 0.0))
    assert not agrees(1.02, 1.0, (0.01, 0.0))
    assert agrees(28.35, 28.3, (0.0, 0.05))
    assert agrees(64.0, 64, (0.0, 0.0))
    assert not agrees(65, 64, (0.0, 0.0))
    assert agrees([1, 2], [1.0, 2.0], (0, 0))
    assert not agrees([1, 2, 3], [1, 2], (0, 0))
    # One figure inside a stated range, and one outside it.
    assert agrees(17, [15, 20], (0, 0))
    assert not agrees(21, [15, 20], (0.02, 0))
    assert agrees(None, None, (0, 0))
    assert agrees(None, "never", (0, 0))
    assert not agrees(None, 3, (1, 1))
    assert not agrees(3, "never", (1, 1))
    assert agrees({"a": 1, "b": 2}, {"a": 1}, (0, 0))
    assert agrees(True, 1, (0, 0))


def test_tolerance_by_case_or_by_figure() -> None:
    made = {"tolerance": {"rel": 0.1, "b": {"abs": 2}, "c": 3}}
    assert [tolerance_of(made, k) for k in "abc"] == [(0.1, 0.0), (0.0, 2.0), (0.0, 3.0)]
    assert tolerance_of({}, "a") == (0.0, 0.0)


# --- cases made here ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "inputs", "expected"),
    [
        # 500,000 / (8 x 3 - 5) = 26,315.8 h; / 730
        (
            "break_even",
            {"capex_usd": 500_000, "own_opex_usd_per_h": 5, "cloud_usd_per_gpu_h": 3, "gpus": 8},
            {"break_even_hours": 26_315.8, "break_even_months_730h": 36.049},
        ),
        # (200,000 - 50,000) / (24 - 4) = 7,500 h, at half use 7,500 / 365
        (
            "break_even",
            {"capex_eur": 200_000, "residual_eur": 50_000, "running_cost_eur_per_h": 4, "rent_eur_per_h": 24, "utilisation": 0.5},
            {"break_even_hours": 7500, "payback_months": 20.548},
        ),
        ("break_even", {"capex_usd": 1, "own_opex_usd_per_h": 40, "cloud_usd_per_h": 24}, {"break_even_hours": None}),
        # 1,440,000 CNY / 7.2 = 200,000 USD; / 8
        ("price_quote", {"price_cny": 1_440_000, "gpus": 8}, {"usd_per_gpu": 25_000}),
        # 1,000 EUR at the case's own 1.25 USD
        ("price_quote", {"price_eur": 1000, "usd_per_eur": 1.25, "gpus": 1}, {"usd_per_gpu": 1250}),
        # 200,000 + 3 x (50,000 + 12 x 2,000 + 8,760 x 10 x 1.4 x 0.1) = 200,000 + 3 x 86,264
        (
            "tco",
            {
                "capex_usd": 200_000, "years": 3, "kw": 10, "pue": 1.4, "usd_per_kwh": 0.1,
                "staff_usd_per_year": 50_000, "colocation_usd_per_month": 2000,
            },
            {"total_usd": 458_792},
        ),
        # 31 nodes: 32 less the ports of the managers
        ("cluster_bom", {"scalable_units": 1, "nodes_per_su": 32}, {"gpu_nodes": 31, "gpus": 248}),
        ("circuit", {"volts": 240, "amps": 30, "phases": 1, "derate": 0.8}, {"continuous_w": 5760}),
        # (1,440 x 0.9 - 300) / 250 = 3.98
        (
            "circuit",
            {"volts": 120, "amps": 15, "derate": 0.8, "gpu_w": 250, "host_w": 300, "psu_efficiency": 0.9},
            {"max_gpus": 3},
        ),
        # 184.32 TB raw; RAID 6 of twelve keeps 10/12; 80 % of it
        (
            "storage",
            {"drives": 12, "drive_tb": 15.36, "raid": "raid6", "max_fill": 0.8},
            {"raw_tb": 184.32, "usable_tb": 122.88},
        ),
        # 50 MW x 8,760 h x 1.2 = 525,600 MWh at 60
        ("energy", {"it_mw": 50, "pue": 1.2, "usd_per_mwh": 60}, {"annual_mwh": 525_600, "annual_usd": 31_536_000}),
        # 300,000 / (3 x 8,760) = 11.416 an hour, of 24 rented
        ("utilisation", {"capex_usd": 300_000, "years": 3, "cloud_usd_per_h": 24}, {"break_even_utilisation": 0.47565}),
        ("iso_budget", {"h100_max": 40, "h100_power": 44, "a100_power": 24.8, "h100": [0, 10, 40]}, {"a100": [70, 53, 0]}),
    ],
)  # fmt: skip
def test_cases_of_known_kinds(kind: str, inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    found = judged(kind, inputs, expected)
    assert found["within"] is True, found


@pytest.mark.parametrize("made", read_cases(Path(__file__).with_name("buying_cases.json")), ids=lambda c: str(c["id"]))
def test_cases_as_people_write_them(made: dict[str, Any]) -> None:
    found = validate_tco_cases(CATALOG, [made])["cases"][0]
    assert found["within"] is True, found


def test_a_wrong_value_is_called_outside() -> None:
    inputs = {"capex_usd": 100, "own_opex_usd_per_h": 0, "cloud_usd_per_h": 1}
    found = judged("break_even", inputs, {"break_even_hours": 101})
    assert found["within"] is False
    assert found["got"] == {"break_even_hours": 100}
    assert "break_even_hours" in found["reason"]


def test_what_does_not_follow_is_unsupported_with_its_reason() -> None:
    found = judged("break_even", {"capex_usd": 100}, {"break_even_hours": 3})
    assert (found["within"], found["got"]) == (None, {})
    assert "cloud_per_h" in found["reason"]
    found = judged("no such kind", {"colour": "red"}, {"mood": "blue"})
    assert found["within"] is None
    # Half a case is not a whole one.
    half = judged("circuit", {"volts": 240, "amps": 30, "phases": 1}, {"continuous_kw": 5.76, "cooling": "air"})
    assert half["within"] is None
    assert half["got"]["continuous_kw"] == pytest.approx(5.76)


def test_the_id_decides_nothing() -> None:
    made = case("circuit", {"kw": 10.2, "volts": 208, "phases": 3}, {"amps": 28.31})
    ids = ["a", "tco-lenovo2025-h100-ondemand", "x-gold"]
    found = validate_tco_cases(CATALOG, [{**made, "id": i} for i in ids])
    assert found["within"] == 3
    assert len({json.dumps(c["got"]) for c in found["cases"]}) == 1


def test_a_case_may_refer_to_another() -> None:
    base = {"gpus": 10, "months": 10, "hours_per_month": 700}
    gold = case("rental_tco", {**base, "usd_per_gpu_h": 2.0}, {"total_usd": 140_000})
    tin = case("rental_tco", {**base, "usd_per_gpu_h": 2.5}, {"ratio_to_gold": 1.25})
    made = [{**gold, "id": "x-gold"}, {**tin, "id": "x-tin"}]
    assert [c["within"] for c in validate_tco_cases(CATALOG, made)["cases"]] == [True, True]
    alone = validate_tco_cases(CATALOG, made[1:])["cases"][0]
    assert (alone["within"], alone["got"]) == (None, {})


def test_stated_facts_may_carry_the_rest() -> None:
    # The case says itself that only the rate can be recomputed: 438,000 / (5 x 8,760 x 8) = 1.25.
    expected = {"cloud_total_usd": 438_000, "cloud_usd_per_gpu_h": 1.25}
    inputs = {"gpus": 8, "years": 5}
    found = judged("tco", inputs, expected, recomputed={"cloud_usd_per_gpu_h": 1.25})
    assert found["within"] is True
    assert found["reason"] == "taken as stated: cloud_total_usd"
    # Without that word the total is missing, and the case with it.
    assert judged("tco", inputs, expected)["within"] is None


# --- files -------------------------------------------------------------------------------------------------------------


def test_files_that_hold_no_cases(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    with pytest.raises(ValidationError, match="cannot be read"):
        read_cases(path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValidationError, match="not JSON"):
        read_cases(path)
    path.write_text('{"rows": []}', encoding="utf-8")
    with pytest.raises(ValidationError, match="list of cases"):
        read_cases(path)
    path.write_text('[{"id": "a", "kind": "tco"}, 3]', encoding="utf-8")
    with pytest.raises(ValidationError) as refused:
        read_cases(path)
    assert "a: inputs, expected" in str(refused.value)
    assert "case 2" in str(refused.value)


def test_reference_cases() -> None:
    path = shared("tco_cases.json")
    found = validate_tco(CATALOG, path)
    assert found["n"] == len(read_cases(path))
    assert found["within"] + found["unsupported"] + found["outside"] == found["n"]
    assert found["unsupported"] <= 0.15 * found["n"]
    # Cap curves are measured to within some points; what is arithmetic alone is never outside.
    outside = [c["id"] for c in found["cases"] if c["within"] is False and c["kind"] != "power_whatif"]
    assert outside == []
    assert found["within"] >= 0.9 * found["n"]


def test_without_its_expected_values_a_reference_case_gives_the_same() -> None:
    """What is worked out never reads what is expected, but for facts that a case itself sets apart."""
    cases = read_cases(shared("tco_cases.json"))
    before = validate_tco_cases(CATALOG, cases)["cases"]

    def blank(value: Any) -> Any:
        return [blank(v) for v in value] if isinstance(value, list) else 987_654_321

    blanked = [{**c, "expected": {k: blank(v) for k, v in c["expected"].items()}} for c in cases]
    after = validate_tco_cases(CATALOG, blanked)["cases"]
    checked = 0
    for old, new in zip(before, after, strict=True):
        if old["within"] and not str(old["reason"]).startswith("taken as stated"):
            assert new["got"] == old["got"], old["id"]
            assert new["within"] is False, old["id"]
            checked += 1
    assert checked > 0.85 * len(cases)
