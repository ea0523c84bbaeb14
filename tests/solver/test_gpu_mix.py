"""GPU mixes: import, routing per size, load per node, and the cheapest fleet against an independent search."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Run

import cli
from catalogs.errors import CatalogError
from catalogs.importers.gpu_mix import read_gpu_mix
from catalogs.load import load_catalog
from problems.load import load_problem
from solver.plan import Result
from solver.verify import verify

MIX: dict[str, Any] = {
    "case_id": "small-mix",
    "currency": "USD",
    "total_rate_rps": 20,
    "gpu_types": [
        {"name": "L4", "price_per_hour": 0.7},
        {"name": "H100", "price_per_hour": 7.5},
        {"name": "oddcard", "price_per_hour": 2.0},
    ],
    "buckets": [
        {"fraction": 0.7, "input_tokens": 100, "output_tokens": 50},
        {"fraction": 0.2, "input_tokens": 1000, "output_tokens": 200},
        {"fraction": 0.1, "input_tokens": 8000, "output_tokens": 400},
    ],
    "max_rps": {"L4": [6, 0.8, None], "H100": [30, 12, 2.5], "oddcard": [5, 2.5, 0.5]},
}


def kitout(*arguments: str | Path) -> Run:
    return CliRunner().invoke(cli.main, [str(a) for a in arguments])


def imported(folder: Path, mix: dict[str, Any]) -> Path:
    (folder / "mix.json").write_text(json.dumps(mix))
    run = kitout("import", "gpu-mix", folder / "mix.json", "-o", folder / "out")
    assert run.exit_code == 0, run.stderr
    return folder / "out"


def solved(out: Path) -> Result:
    run = kitout(
        "solve", out / "problem.yaml", "--catalog", out, "--format", "json", "--no-runner-up", "-q", "--workers", "1"
    )
    assert run.exit_code == 0, run.stderr
    return Result.model_validate_json(run.stdout)


def carries(counts: tuple[int, ...], mix: dict[str, Any]) -> bool:
    """Whether a fleet can carry the mix, by Hall's condition on every weighting that a vertex of the routing has.

    Small enough for max-flow by hand: with rates r[g][b] the routing is a linear program; it is solved by HiGHS.
    """
    highspy = pytest.importorskip("highspy")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)  # the first use in a process sets it for all
    types = [g["name"] for g in mix["gpu_types"]]
    cells = [(g, b) for g, n in enumerate(types) for b, r in enumerate(mix["max_rps"][n]) if r]
    for _ in cells:
        solver.addVar(0.0, highspy.kHighsInf)
    for b, bucket in enumerate(mix["buckets"]):
        mine = [i for i, (_, c) in enumerate(cells) if c == b]
        need = bucket["fraction"] * mix["total_rate_rps"] * (1 - 1e-6)
        solver.addRow(need, highspy.kHighsInf, len(mine), mine, [1.0] * len(mine))
    for g, name in enumerate(types):
        mine = [i for i, (h, _) in enumerate(cells) if h == g]
        times = [1 / mix["max_rps"][name][cells[i][1]] for i in mine]
        solver.addRow(-highspy.kHighsInf, float(counts[g]), len(mine), mine, times)
    solver.run()
    return bool(solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)


def test_the_cheapest_fleet_with_its_routing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = imported(tmp_path, MIX)
    result = solved(out)
    catalog = load_catalog([out])
    problem = load_problem(out / "problem.yaml").problem
    assert result.status == "optimal"
    assert verify(result, problem, catalog, out) == []
    (work,) = result.workloads
    routed = [p.requests_by_bucket_and_period["always"] for p in work.placements]
    assert [sum(x) for x in zip(*routed, strict=True)] == pytest.approx([14, 4, 2], rel=3e-6)
    assert all(0 < p.busy_by_period["always"] <= 1 + 1e-9 for p in work.placements)
    l4 = [p for p in work.placements if p.offer.endswith("/L4")]
    assert all(p.requests_by_bucket_and_period["always"][2] == 0 for p in l4)  # it cannot serve that size
    prices = [g["price_per_hour"] for g in MIX["gpu_types"]]
    cheapest = min(
        sum(c * p for c, p in zip(counts, prices, strict=True))
        for counts in itertools.product(range(6), range(3), range(6))
        if carries(counts, MIX)
    )
    capfd.readouterr()  # HiGHS prints its banner
    assert result.objective == pytest.approx(cheapest * 730, abs=0.02)


def test_verify_refuses_a_routing_that_overloads_a_node(tmp_path: Path) -> None:
    out = imported(tmp_path, MIX)
    result = solved(out)
    (work,) = result.workloads
    first, *rest = work.placements
    more = {p: tuple(1.5 * x for x in v) for p, v in first.requests_by_bucket_and_period.items()}
    wrong = first.model_copy(update={"requests_by_bucket_and_period": more})
    plan = work.model_copy(update={"placements": (wrong, *rest)})
    faults = verify(
        result.model_copy(update={"workloads": (plan,)}),
        load_problem(out / "problem.yaml").problem,
        load_catalog([out]),
        out,
    )
    assert any("routing overloads" in f or "not as stated" in f for f in faults)
    assert any("routed in" in f for f in faults)


def test_verify_refuses_a_rate_that_the_profile_does_not_have(tmp_path: Path) -> None:
    out = imported(tmp_path, MIX)
    result = solved(out)
    (work,) = result.workloads
    first, *rest = work.placements
    wrong = first.model_copy(update={"rates_by_bucket": tuple(2 * x for x in first.rates_by_bucket)})
    plan = work.model_copy(update={"placements": (wrong, *rest)})
    faults = verify(
        result.model_copy(update={"workloads": (plan,)}),
        load_problem(out / "problem.yaml").problem,
        load_catalog([out]),
        out,
    )
    assert any("profile small-mix has" in f for f in faults)


def test_types_without_a_price_are_looked_for_in_the_catalogue(tmp_path: Path) -> None:
    mix = MIX | {
        "gpu_types": [{"name": "L4"}, {"name": "H100"}],
        "max_rps": {k: MIX["max_rps"][k] for k in ("L4", "H100")},
    }
    result = solved(imported(tmp_path, mix))
    assert result.status == "optimal"
    assert {p.accelerator for p in result.workloads[0].placements} <= {"L4", "H100-80GB-SXM5"}
    assert not any(p.offer.startswith("gpu-mix") for p in result.workloads[0].placements)


def test_every_fault_of_the_file_is_named(tmp_path: Path) -> None:
    mix = MIX | {"total_rate_rps": 0}
    (tmp_path / "a.json").write_text(json.dumps(mix))
    with pytest.raises(CatalogError, match="total_rate_rps"):
        read_gpu_mix(tmp_path / "a.json", load_catalog(), as_of="2026-11")
    mix = MIX | {"max_rps": {"L4": [1, 2], "H100": [1, -2, 3], "oddcard": [1, 1, 1], "extra": []}}
    (tmp_path / "b.json").write_text(json.dumps(mix))
    with pytest.raises(CatalogError) as caught:
        read_gpu_mix(tmp_path / "b.json", load_catalog(), as_of="2026-11")
    said = str(caught.value)
    assert all(part in said for part in ("max_rps.L4", "max_rps.H100", "max_rps.extra"))


def test_a_profile_that_the_catalogue_lacks_is_said(tmp_path: Path) -> None:
    out = imported(tmp_path, MIX)
    text = (out / "problem.yaml").read_text().replace("limits: {providers: {allow: [gpu-mix]}}", "")
    (tmp_path / "elsewhere.yaml").write_text(text)
    run = kitout("solve", tmp_path / "elsewhere.yaml", "--no-runner-up", "-q")
    assert run.exit_code == 3
    assert "the catalogue has no profile small-mix" in run.stdout.replace("\n", " ")
