"""pareto, what-if and explain as a user meets them: streams, forms of output, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from click.testing import Result as Run

import cli
from solver.plan import Result

SOUND = """\
name: trials
horizon: 12mo
workloads:
  - name: lab
    kind: fixed
    accelerator: {memory: 16GB}
    hours: 60h/mo
limits:
  providers: [lambda, runpod]
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with one small problem."""
    monkeypatch.chdir(tmp_path)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "p.yaml").write_text(SOUND)
    return tmp_path


def kitout(*arguments: str) -> Run:
    return CliRunner().invoke(cli.main, [*arguments, "--workers", "1"])


def test_pareto_gives_results_as_json_and_progress_apart(room: Path) -> None:
    run = kitout("pareto", "p.yaml", "--axes", "cost,carbon", "--format", "json")
    assert run.exit_code == 0, run.output
    data = json.loads(run.stdout)
    assert data["axes"] == ["cost", "carbon"]
    assert data["points"]
    for point in data["points"]:
        result = Result.model_validate(point["result"])
        assert result.status == "optimal"
    assert "points" in run.stderr


def test_pareto_as_text_and_csv(room: Path) -> None:
    run = kitout("pareto", "p.yaml", "--axes", "cost,carbon", "--near", "50%", "-q")
    assert run.exit_code == 0
    assert "each proved" in run.stdout
    assert run.stderr == ""
    run = kitout("pareto", "p.yaml", "--axes", "cost,carbon", "-o", "front.csv")
    assert run.exit_code == 0
    assert run.stdout == ""
    rows = list(csv.DictReader(io.StringIO((room / "front.csv").read_text())))
    assert {r["kind"] for r in rows} == {"front"}


def test_what_if_in_every_form(room: Path) -> None:
    asked = ("what-if", "p.yaml", "--vary", "workloads.lab.hours=40h/mo..80h/mo:20h/mo")
    text = kitout(*asked)
    assert text.exit_code == 0, text.output
    assert "40h/mo" in text.stdout
    data = json.loads(kitout(*asked, "--format", "json").stdout)
    assert [p["varied"]["workloads.lab.hours"] for p in data["points"]] == ["40h/mo", "60h/mo", "80h/mo"]
    totals = [float(p["result"]["cost"]["total"]) for p in data["points"]]
    assert totals == sorted(totals)
    assert kitout(*asked, "-o", "w.parquet").exit_code == 0
    frame = pl.read_parquet(room / "w.parquet")
    assert frame.height == 3
    assert [float(x) for x in frame["total"]] == totals


def test_what_if_draws(room: Path) -> None:
    run = kitout("what-if", "p.yaml", "--sample", "prices.*:lognormal(0.2)", "-n", "5", "--format", "json")
    assert run.exit_code == 0, run.output
    data = json.loads(run.stdout)
    assert data["risk"]["scenarios"] == 5
    assert data["sampled"] == {"prices.*": "lognormal(0.2)"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("what-if", "p.yaml"), "--vary"),
        (("what-if", "p.yaml", "--vary", "prices.awz=1,2"), "did you mean"),
        (("what-if", "p.yaml", "--vary", "limits.pwer=1kW,2kW"), "did you mean"),
        (("what-if", "p.yaml", "--vary", "limits.power=1kg,2kg"), "limits.power"),
        (("pareto", "p.yaml", "--axes", "cost,joy"), "joy"),
        (("explain", "p.yaml", "--why-not", "Voodoo2"), "Voodoo2"),
        (("explain", "p.yaml", "--problem", "p.yaml"), "saved result"),
    ],
)
def test_bad_requests_exit_2_with_one_message(room: Path, arguments: tuple[str, ...], said: str) -> None:
    run = kitout(*arguments)
    assert run.exit_code == 2, run.output
    assert run.stdout == ""
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_explain_says_why_there_is_no_plan(room: Path) -> None:
    run = kitout("explain", "p.yaml", "--set", "limits.budget.total=$1")
    assert run.exit_code == 3, run.output
    assert "cannot hold together" in run.stdout
    assert "limits.budget.total" in run.stdout
    assert "p.yaml:4" in run.stdout or "workloads.lab.count" in run.stdout
    data = json.loads(kitout("explain", "p.yaml", "--set", "limits.budget.total=$1", "--format", "json").stdout)
    assert data["conflict"]["proved"]
    assert data["relaxations"]


def test_explain_a_plan_and_a_saved_result(room: Path) -> None:
    run = kitout("explain", "p.yaml", "--why-not", "H100")
    assert run.exit_code == 0, run.output
    assert "why not H100" in run.stdout
    assert kitout("solve", "p.yaml", "-o", "plan.json", "--no-runner-up").exit_code == 0
    assert kitout("explain", "plan.json").exit_code == 2
    run = kitout("explain", "plan.json", "--problem", "p.yaml")
    assert run.exit_code == 0, run.output
    assert "note:" not in run.stderr
    run = kitout("explain", "plan.json", "--problem", "p.yaml", "--set", "horizon=6mo")
    assert "not the one" in run.stderr
    assert kitout("explain", "p.yaml", "--format", "csv").stdout.startswith("kind,subject,said,total")
