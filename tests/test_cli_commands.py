"""Commands beside solve as a user meets them: check, schema, catalog, size, init, validate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cli
from tests.commands import SOUND, kitout


def test_help_without_arguments_is_short_and_ends_with_an_example() -> None:
    run = kitout()
    assert run.exit_code == 0
    lines = run.stdout.strip().splitlines()
    assert len(lines) <= 6
    problem = lines[-1].split()[-1]
    assert (Path(cli.__file__).parent / problem).is_file()


def test_unknown_command_and_option() -> None:
    run = kitout("slove")
    assert run.exit_code == 2
    assert "solve" in run.stderr
    assert kitout("solve", "--no-such-option").exit_code == 2


@pytest.mark.parametrize("option", [("--time-limit", "60"), ("--gap", "lots"), ("--time-limit", "-5s")])
def test_options_want_units(room: Path, option: tuple[str, str]) -> None:
    run = kitout("solve", "wanted.yaml", *option)
    assert run.exit_code == 2
    assert option[0] in run.stderr


def test_check_says_what_is_asked(room: Path) -> None:
    run = kitout("check", "wanted.yaml")
    assert run.exit_code == 0
    assert "no faults" in run.stdout
    assert "GPU of at least 16 GB" in run.stdout
    assert kitout("check", "wanted.yaml", "-q").stdout == ""


@pytest.mark.parametrize("kind", ["problem", "result", "catalog"])
def test_schema_is_a_json_schema(kind: str) -> None:
    schema = json.loads(kitout("schema", kind).stdout)
    assert schema["type"] == "object"
    assert {"problem": "workloads", "result": "items", "catalog": "offers"}[kind] in schema["properties"]


def test_catalog_list(room: Path) -> None:
    run = kitout("catalog", "list", "--gpu", "H100", "--limit", "3")
    assert run.exit_code == 0
    assert "shown 3 of " in run.stdout
    rows = json.loads(kitout("catalog", "list", "--gpu", "H100", "--limit", "3", "--format", "json").stdout)
    assert len(rows) == 3
    prices = [row["price_per_gpu_hour"] for row in rows]
    assert prices == sorted(prices)
    assert all(row["accelerator"].startswith("H100") for row in rows)
    every = kitout("catalog", "list", "--format", "csv", "--columns", "offer,price_per_gpu_hour")
    assert every.stdout.splitlines()[0] == "offer,price_per_gpu_hour"
    assert len(every.stdout.splitlines()) > 200


@pytest.mark.parametrize(
    "arguments",
    [("list", "--gpu", "H101"), ("list", "--sort", "colour"), ("list", "--columns", "colour"), ("show", "nothing")],
)
def test_catalog_refuses_unknown_names(arguments: tuple[str, ...]) -> None:
    run = kitout("catalog", *arguments)
    assert run.exit_code == 2
    assert run.stdout == ""
    assert run.stderr.startswith("unknown ")


@pytest.mark.parametrize("name", ["L40S", "p5.48xlarge", "EPYC-9654"])
def test_catalog_show(name: str) -> None:
    run = kitout("catalog", "show", name)
    assert run.exit_code == 0
    assert "source" in run.stdout
    assert json.loads(kitout("catalog", "show", name, "--format", "json").stdout)


def test_catalog_sources_and_check() -> None:
    assert "shown" in kitout("catalog", "sources").stdout
    assert kitout("catalog", "check", "-q", "--format", "json").exit_code == 0
    assert kitout("catalog", "check", "--strict", "--format", "json").exit_code == 6


@pytest.mark.parametrize("arguments", [(), ("--precision", "int4", "--tp", "2"), ("--method", "lora")])
def test_size(arguments: tuple[str, ...]) -> None:
    run = kitout("size", "--model", "llama-3-70b", *arguments)
    assert run.exit_code == 0, run.stderr
    assert "fits on" in run.stdout
    rows = json.loads(
        kitout("size", "--model", "llama-3-70b", *arguments, "--gpu", "H100-80GB-SXM5", "--format", "json").stdout
    )
    assert [row["accelerator"] for row in rows] == ["H100-80GB-SXM5"]


def test_size_takes_the_fewest_cards_that_fit() -> None:
    def row(*arguments: str) -> dict[str, Any]:
        run = kitout("size", "--model", "llama-3-70b", "--gpu", "H100-80GB-SXM5", "--format", "json", *arguments)
        (only,) = json.loads(run.stdout)
        return dict(only)

    chosen = row()
    assert chosen["verdict"] == "fits"
    assert row("--tp", str(chosen["gpus"] // 2))["verdict"] == "short"
    assert row("--tp", "1")["slack_gib"] < 0
    assert row("--context", "32k", "--concurrency", "64")["gpus"] >= chosen["gpus"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--model", "lama-3-70b"),
        ("--model", "llama-3-70b", "--gpu", "H101"),
        ("--model", "llama-3-70b", "--engine", "vlm"),
        ("--model", "llama-3-70b", "--precision", "fp7"),
        ("--model", "llama-3-70b", "--method", "lora", "--optimizer", "adam"),
        ("--model", "./config.json"),
    ],
)
def test_size_refuses_unknown_names(room: Path, arguments: tuple[str, ...]) -> None:
    run = kitout("size", *arguments)
    assert run.exit_code == 2, run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize("task", ["serve", "finetune", "pretrain", "batch", "fixed"])
def test_init_writes_a_problem_without_faults(room: Path, task: str) -> None:
    run = kitout("init", "--task", task, "--months", "6", "--budget", "$300k", "--region", "US")
    assert run.exit_code == 0, run.stderr
    assert run.stdout == ""
    text = (room / "problem.yaml").read_text()
    assert "#" in text
    assert f"kind: {task}" in text
    assert kitout("check", "problem.yaml").exit_code == 0


def test_init_does_not_overwrite_unasked(room: Path) -> None:
    run = kitout("init", "-o", "wanted.yaml")
    assert run.exit_code == 2
    assert "--force" in run.stderr
    assert (room / "wanted.yaml").read_text() == SOUND
    assert kitout("init", "-o", "wanted.yaml", "--force").exit_code == 0
    assert "kind: serve" in (room / "wanted.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "lama-3-70b"), "unknown model"),
        (("--task", "bake"), "--task"),
        (("--rate", "5 tokens", "--months", "soon"), "--months"),
        (("--budget", "300"), "--budget"),
    ],
)
def test_init_refuses_what_would_not_solve(room: Path, arguments: tuple[str, ...], said: str) -> None:
    run = kitout("init", *arguments)
    assert run.exit_code == 2
    assert said in run.stderr
    assert not (room / "problem.yaml").exists()


def test_init_asks_again_until_the_answer_can_be_used(room: Path) -> None:
    from solver.report.ask import ask_missing

    @cli.main.command("ask-for-test", hidden=True)
    def ask() -> None:
        given = {"task": None, "model": "70B", "rate": None, "months": None, "budget": None}
        print(json.dumps(ask_missing(given | {"region": None, "compliance": None})))

    try:
        run = kitout("ask-for-test", stdin="serve\nlots\n5 req/s\n\n\nUS\n\n")
    finally:
        del cli.main.commands["ask-for-test"]
    assert run.exit_code == 0, run.stderr
    answers = json.loads(run.stdout)
    assert answers == {
        "task": "serve", "model": "70B", "rate": "5 req/s", "months": "12mo", "budget": "", "region": "US",
        "compliance": "",
    }  # fmt: skip
    assert run.stderr.count("How many requests?") == 2


MEMORY_LOG = """\
case_id,engine,engine_version,model,weight_precision,kv_precision,tp,gpu,gpu_count,weights_gib_per_gpu_reported
one,vllm,0.9.0,llama-3-8b,bf16,bf16,1,H100-80GB-SXM5,1,14.99
two,vllm,0.9.0,no-such-model,bf16,bf16,1,H100-80GB-SXM5,1,14.99
"""


def test_validate_sets_predicted_beside_measured(room: Path) -> None:
    (room / "log.csv").write_text(MEMORY_LOG.replace(",gpu_count", "").replace("SXM5,1,", "SXM5,"))
    run = kitout("validate", "memory", "log.csv", "--format", "json")
    assert run.exit_code == 0, run.stderr
    found = json.loads(run.stdout)
    assert {"n", "refused", "metrics", "verdicts", "groups", "rows"} <= set(found)
    assert found["n"] == 2
    assert found["refused"] == 1
    assert found["rows"][0]["predicted"] == pytest.approx(14.99, rel=0.05)
    assert "no-such-model" in found["rows"][1]["reason"]
    text = kitout("validate", "memory", "log.csv").stdout
    assert "weights_gib" in text
    assert "1 declined" in text
    assert kitout("validate", "memory", "log.csv", "--format", "csv").stdout.startswith("case_id,quantity,measured")


TRAINING_LOG = """\
case_id,kind,model,params_total_b,layers,hidden,seq_len,precision,gpu,gpu_count,global_batch_tokens,tokens_per_s_per_gpu
one,pretrain,llama-3-8b,8.03,32,4096,8192,bf16,H100-80GB-SXM5,8,1000000,10000
two,pretrain,llama-3-8b,8.03,32,4096,8192,bf16,H101,8,1000000,10000
"""
POWER_LOG = """\
gpu,workload,power_cap_w,relative_throughput,avg_power_w,source,note
H100-80GB-SXM5,decode,500,0.97,480,a bench,relative to 700 W
H101,decode,500,0.97,480,a bench,relative to 700 W
"""


@pytest.mark.parametrize(
    ("kind", "log", "quantity"),
    [("training", TRAINING_LOG, "tokens_per_s_per_gpu"), ("power", POWER_LOG, "relative_throughput")],
)
def test_validate_speed_and_power(room: Path, kind: str, log: str, quantity: str) -> None:
    (room / "log.csv").write_text(log)
    run = kitout("validate", kind, "log.csv", "--format", "json")
    assert run.exit_code == 0, run.stderr
    found = json.loads(run.stdout)
    rows = [row for row in found["rows"] if row["quantity"] == quantity]
    assert [row["predicted"] is None for row in rows] == [False, True]
    assert "H101" in rows[1]["reason"]
    text = kitout("validate", kind, "log.csv").stdout
    assert quantity in text
    assert "declined" in text


def test_validate_refuses_another_file(room: Path) -> None:
    for kind in ("memory", "training", "inference", "power"):
        for name in ("wanted.yaml", "nowhere.csv", "."):
            run = kitout("validate", kind, name)
            assert run.exit_code == 2, (kind, name, run.stderr)
            assert name in run.stderr
            assert run.stderr.count("\n") == 1
