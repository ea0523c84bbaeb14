"""Speed at the command line: measurements that go before the model, refits, load from users, rates of `size`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Run

import cli

PROBLEM = """\
horizon: 12mo
workloads:
  - name: chat
    kind: serve
    model: llama-3.1-8b
    precision: [fp8]
    engine: {engine}
    traffic: {{rate: 20 req/s, isl: 1000, osl: 1000}}
    slo: {slo}
    accelerators: {{allow: [{card}]}}
policy: {{billing: [on_demand]}}
"""
BENCHMARK = """\
accelerator,model,precision,tp,isl,osl,output_tokens_per_s,tpot_ms,ttft_ms,concurrency,offer
H100 SXM,llama-3.1-8b,fp8,1,1000,1000,11000,27,300,300,{offer}
H100 SXM,llama-3.1-8b,fp8,1,1000,1000,5000,12,100,64,{offer}
"""


def kitout(*arguments: str | Path) -> Run:
    return CliRunner().invoke(cli.main, [str(a) for a in arguments])


def problem(folder: Path, *, engine: str = "vllm", slo: str = "{}", card: str = "H100-80GB-SXM5") -> Path:
    path = folder / "wanted.yaml"
    path.write_text(PROBLEM.format(engine=engine, slo=slo, card=card))
    return path


def solved(*arguments: str | Path) -> dict[str, Any]:
    run = kitout("solve", *arguments, "--format", "json", "--no-runner-up", "-q", "--workers", "1")
    assert run.exit_code == 0, run.stderr
    return dict(json.loads(run.stdout))


def overlay(folder: Path, offer: str = "") -> Path:
    """An overlay made of a benchmark file by the import command."""
    (folder / "bench.csv").write_text(BENCHMARK.format(offer=offer))
    run = kitout("import", "benchmark", folder / "bench.csv", "-o", folder / "mine")
    assert run.exit_code == 0, run.stderr
    return folder / "mine"


def placement(result: dict[str, Any]) -> dict[str, Any]:
    (only,) = result["workloads"][0]["placements"]
    return dict(only)


def test_measured_rates_go_before_the_model_and_say_so(tmp_path: Path) -> None:
    """11,000 tokens/s measured: two H100 serve 22 of the 20 requests/s asked for; the model needs three."""
    wanted = problem(tmp_path)
    modelled, measured = placement(solved(wanted)), placement(solved(wanted, "--catalog", overlay(tmp_path)))
    assert (modelled["source"], measured["source"]) == ("model", "user")
    assert measured["rate"] == pytest.approx(11.0)
    assert measured["expected_error"] < modelled["expected_error"]
    assert modelled["replicas_by_period"] == {"always": 3}
    assert measured["replicas_by_period"] == {"always": 2}
    assert measured["tpot_ms"] == pytest.approx(27.0)
    text = kitout("solve", wanted, "--catalog", tmp_path / "mine", "--no-runner-up", "-q").stdout
    assert "yours ± 3%" in text


def test_the_point_that_keeps_the_limits_answers(tmp_path: Path) -> None:
    wanted = problem(tmp_path, slo="{tpot: 15ms}")
    found = placement(solved(wanted, "--catalog", overlay(tmp_path)))
    assert (found["source"], found["rate"]) == ("user", pytest.approx(5.0))


def test_a_measurement_of_one_offer_says_nothing_of_others(tmp_path: Path) -> None:
    wanted = problem(tmp_path)
    offer = placement(solved(wanted))["offer"]
    tied = overlay(tmp_path, offer)
    here = solved(wanted, "--catalog", tied)
    assert {p["source"] for p in here["workloads"][0]["placements"] if p["offer"] == offer} == {"user"}
    other = solved(wanted, "--catalog", overlay(tmp_path, "nowhere/none"))
    assert placement(other)["source"] == "model"


def test_impossible_and_unknown_rows_are_refused_by_number(tmp_path: Path) -> None:
    rows = BENCHMARK.format(offer="") + "H100 SXM,llama-3.1-8b,fp8,1,1000,1000,900000,1,1,64,\nnone,x,fp8,1,9,9,1,,,,\n"
    (tmp_path / "bench.csv").write_text(rows)
    run = kitout("import", "benchmark", tmp_path / "bench.csv", "-o", tmp_path / "mine", "--format", "json")
    said = json.loads(run.stdout)
    assert (run.exit_code, said["kept"]) == (0, 2)
    assert [r["row"] for r in said["refused"]] == [4, 5]
    assert "peak FLOPS and memory bandwidth" in said["refused"][0]["reason"]
    wrong = kitout("import", "aiconfigurator", tmp_path / "bench.csv", "-o", tmp_path / "other")
    assert wrong.exit_code == 2
    assert "tokens/s/gpu" in wrong.stderr
    assert not (tmp_path / "other").exists()


def test_an_engine_that_does_not_run_on_a_card_drops_it(tmp_path: Path) -> None:
    run = kitout("solve", problem(tmp_path, engine="tensorrt-llm", card="MI300X"), "--format", "json", "-q")
    assert run.exit_code == 3
    because = " ".join(json.loads(run.stdout)["no_plan_because"])
    assert "engine tensorrt-llm does not run on rocm" in because
    assert kitout("check", problem(tmp_path, engine="no-such-engine")).exit_code == 2


def test_cost_of_tokens_adds_up_to_the_bill(tmp_path: Path) -> None:
    wanted = tmp_path / "two.yaml"
    batch = "  - {name: tag, kind: batch, model: llama-3.1-8b, requests: 2M, isl: 800, osl: 100, runs: 2/mo, deadline: 24h}\n"
    wanted.write_text(problem(tmp_path).read_text().replace("policy:", batch + "policy:"))
    result = solved(wanted)
    works = {w["name"]: w for w in result["workloads"]}
    assert sum(float(w["cost"]) for w in works.values()) == pytest.approx(float(result["cost"]["total"]), abs=0.01)
    requests = {"chat": 20 * 3600 * 730 * 12, "tag": 2e6 * 2 * 12}
    for name, work in works.items():
        tokens = work["tokens"]
        assert tokens["input_millions"] == pytest.approx(requests[name] * {"chat": 1000, "tag": 800}[name] / 1e6)
        assert 0 < tokens["input_time_share"] < 1
        both = tokens["input_millions"] * float(tokens["per_million_input"])
        both += tokens["output_millions"] * float(tokens["per_million_output"])
        assert both == pytest.approx(float(work["cost"]), rel=1e-3)
    # Writing a token takes longer than reading one.
    assert float(works["chat"]["tokens"]["per_million_output"]) > float(works["chat"]["tokens"]["per_million_input"])
    (tmp_path / "plan.json").write_text(json.dumps(result))
    assert "per million tokens in" in kitout("report", tmp_path / "plan.json").stdout


def test_load_shows_its_steps() -> None:
    said = (
        "--users",
        "5000",
        "--active",
        "4%",
        "--requests",
        "6/h",
        "--isl",
        "1000",
        "--osl",
        "300",
        "--latency",
        "8s",
    )
    steps = json.loads(kitout("load", *said, "--format", "json").stdout)
    assert [s["value"] for s in steps] == pytest.approx([200, 1 / 3, 1000 / 3, 100, 8 / 3])
    assert "Little's law" in kitout("load", *said).stdout
    assert kitout("load", *said[:-2], "--latency", "0s").exit_code == 2


def test_size_shows_rates_with_source_error_and_gpus_for_the_load() -> None:
    asked = ("size", "--model", "llama-3.3-70b", "--precision", "fp8", "--isl", "1000", "--osl", "300", "--gpu", "H100")
    rows = {r["accelerator"]: r for r in json.loads(kitout(*asked, "--rate", "12 req/s", "--format", "json").stdout)}
    row = rows["H100-80GB-SXM5"]
    assert row["output_tokens_per_s"] == pytest.approx(row["rate_req_s"] * 300)
    assert row["replicas"] == -(-12 // row["rate_req_s"])
    assert row["all_gpus"] == row["replicas"] * row["gpus"]
    assert row["rate_source"] == "model"
    assert 0 < row["rate_error"] < 1
    assert row["ttft_s"] > 0
    assert row["tpot_s"] > 0
    assert rows["H100-80GB-PCIe"]["rate_warning"] == "this card was not measured, cards of class h100_sxm were"
    strict = json.loads(kitout(*asked, "--tpot", "1ms", "--format", "json").stdout)
    assert all(r["rate_req_s"] is None and "TPOT limit not met" in r["rate_reason"] for r in strict if r["gpus"])
    assert "model ±" in kitout(*asked).stdout
    assert kitout("size", "--model", "llama-3.1-8b", "--isl", "1000").exit_code == 2
    assert kitout("size", "--model", "llama-3.1-8b", "--rate", "1 req/s").exit_code == 2


TRAINED = (
    "case_id,kind,model,params_total_b,layers,hidden,seq_len,precision,gpu,gpu_count,framework,tokens_per_s_per_gpu\n"
)


def test_few_training_rows_move_their_class_and_narrow_its_error(tmp_path: Path) -> None:
    runs = "".join(
        f"own-{i},pretrain,x,{7 + i / 10},32,4096,2048,bf16,A100-80GB-SXM4,8,NeMo,{3000 - 40 * i}\n" for i in range(8)
    )
    (tmp_path / "runs.csv").write_text(TRAINED + runs)
    run = kitout("calibrate", tmp_path / "runs.csv", "-o", tmp_path / "fit", "--format", "json", "--as-of", "2026-11")
    assert run.exit_code == 0, run.stderr
    said = json.loads(run.stdout)
    assert said["tables"] == {"calibration_training": 2}
    (error,) = said["errors"]
    assert (error["group"], error["n"]) == ("a100_sxm/bf16", 8)
    assert error["median"] < 0.05
    before, after = (
        json.loads(kitout("validate", "training", tmp_path / "runs.csv", "--format", "json", *more).stdout)
        for more in ((), ("--catalog", tmp_path / "fit"))
    )
    figure = "median_abs_rel"
    assert after["metrics"]["tokens_per_s_per_gpu"][figure] < 0.03 < before["metrics"]["tokens_per_s_per_gpu"][figure]


def test_files_of_no_known_kind_are_named(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    run = kitout("calibrate", tmp_path / "odd.csv")
    assert run.exit_code == 2
    assert "odd.csv: no known kind of measurements" in run.stderr


def test_a_running_plan_is_compared(tmp_path: Path) -> None:
    plan, rows = tmp_path / "plan.json", tmp_path / "run.csv"
    plan.write_text(json.dumps(solved(problem(tmp_path))))
    rows.write_text("workload,rate,gpu_utilisation,data_wait_share\nchat,9,40%,35%\n")
    (found,) = json.loads(kitout("calibrate", "--against", plan, rows, "--format", "json").stdout)
    assert found["bottleneck"] == "storage"
    assert found["ratio"] == pytest.approx(9 / found["planned_rate"])
    text = kitout("calibrate", "--against", plan, rows).stdout
    assert "bottleneck: storage" in text
    rows.write_text("workload,rate\nlost,9\n")
    assert kitout("calibrate", "--against", plan, rows).exit_code == 2
    rows.write_text("workload\nchat\n")
    assert "columns rate are missing" in kitout("calibrate", "--against", plan, rows).stderr


def test_watts_say_which_cap_curves_they_rest_on(tmp_path: Path) -> None:
    wanted = tmp_path / "room.yaml"
    text = problem(tmp_path, card="H200-141GB-SXM5, MI300X").read_text().replace("on_demand", "purchase")
    wanted.write_text(text + "sites: [{name: room, power: 30kW, pue: 1.3, electricity: $0.12/kWh, country: US}]\n")
    result = solved(wanted)
    said = [a for a in result["assumptions"] if a.startswith("power limits: ")]
    assert any("no cap curve" in a and "MI300X" in a for a in said)
    assert any("H200-141GB-SXM5" in a and "no cap curve, so" not in a for a in said)


@pytest.mark.parametrize(
    ("kind", "header", "row", "quantities", "figures"),
    [
        (
            "power", "gpu,workload,power_cap_w,relative_throughput,avg_power_w,note", "RTX-4090,decode,350,0.98,340,x",
            {"relative_throughput", "avg_power_w"}, {"median_abs", "p90_abs"},
        ),
        (
            "training", TRAINED.strip(), "a,pretrain,x,7,32,4096,2048,bf16,A100-80GB-SXM4,8,NeMo,3000",
            {"tokens_per_s_per_gpu"}, {"median_abs_rel", "p90_abs_rel", "mean_signed_rel"},
        ),
        (
            "inference", "case_id,model,gpu,engine,output_tokens_per_s_total", "a,no such model,L40S,vLLM,9",
            {"output_tokens_per_s"}, {"median_abs_rel", "p90_abs_rel", "mean_signed_rel"},
        ),
    ],
)  # fmt: skip
def test_every_validation_has_the_same_keys(
    tmp_path: Path, kind: str, header: str, row: str, quantities: set[str], figures: set[str]
) -> None:
    (tmp_path / "m.csv").write_text(f"{header}\n{row}\n")
    run = kitout("validate", kind, tmp_path / "m.csv", "--format", "json")
    assert run.exit_code == 0, run.stderr
    found = json.loads(run.stdout)
    assert {"n", "refused", "metrics", "verdicts", "groups", "rows"} <= set(found)
    assert set(found["metrics"]) == quantities
    assert all({"n", *figures} <= set(metrics) for metrics in found["metrics"].values())
    assert all(set(r) == {"case_id", "quantity", "measured", "predicted", "reason"} for r in found["rows"])
    assert all((r["predicted"] is None) == (r["reason"] is not None) for r in found["rows"])
