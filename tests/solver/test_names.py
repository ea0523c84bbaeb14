"""Names of a problem that the catalogue does not hold: all of them, and the same whether looked up in frames or in rows."""

from __future__ import annotations

from pathlib import Path

import problems
from catalogs.embedded import sealed_rows
from catalogs.load import load_catalog
from problems.load import load_problem, load_text
from solver.names import unknown_names

WRONG = """
workloads:
  - {name: chat, kind: serve, model: lama-3-70b, engine: vlm, accelerators: [H101], traffic: {rate: 1 req/s, isl: 100, osl: 100}}
  - {name: long, kind: serve, model: llama-3-70b, context: 9k, traffic: {rate: 1 req/s, isl: 8000, osl: 1000}}
  - {name: bare, kind: batch, model: {params: 7B}, requests: 1M, deadline: 30d, isl: 9000, osl: 10}
  - {name: file, kind: batch, model: ./no-such/config.json, requests: 1M, deadline: 30d, isl: 10, osl: 10}
  - {name: tune, kind: finetune, method: lora, model: nonsense, tokens: 1M, sequence: 1024}
  - {name: lab, kind: fixed, accelerator: [H100, "B999:8"], count: 1, hours: 60h/mo, providers: [amazn]}
owned: [{accelerator: Q100, count: 4, build: HGX-A100-4GPU-2V, site: room}]
sites: [{name: room, power: 30kW, electricity: $0.12/kWh, country: US}]
limits:
  accelerators: {deny: [V101]}
  providers: [gpc]
  vendors: {deny: [nvidea]}
  regions: {allow: [us-east-9]}
  quota: [{offer: p5.48xlarg, max: 4}, {offer: p5.48xlarge, max: 4}]
"""
SAID = [
    "unknown model 'lama-3-70b'; did you mean Llama-3-70B",
    "unknown engine 'vlm'; did you mean vllm",
    "unknown accelerator 'H101'; did you mean",
    "a request of 9,000 tokens is longer than the model's context of 8,192",
    "9,000 tokens are more than the model's context of 8,192",
    "a request of 9,010 tokens is longer than the model's context of 8,192",
    "config.json: cannot be read",
    "unknown model 'nonsense'",
    "unknown accelerator 'B999:8'",
    "unknown provider 'amazn'",
    "unknown accelerator 'Q100'",
    "unknown server 'HGX-A100-4GPU-2V'; did you mean HGX-A100-4GPU-2U",
    "unknown accelerator 'V101'; did you mean",
    "unknown provider 'gpc'; did you mean GCP",
    "unknown vendor 'nvidea'; did you mean NVIDIA",
    "unknown region 'us-east-9'; did you mean us-east-",
    "unknown offer 'p5.48xlarg'; did you mean p5.48xlarge",
]


def test_every_unknown_name_is_said_at_once_from_rows_and_from_frames() -> None:
    catalog = load_catalog()
    loaded = load_text(WRONG)
    rows = sealed_rows()
    assert rows is not None
    found = unknown_names(loaded, rows)
    assert found == unknown_names(loaded, catalog)
    assert [said for said, issue in zip(SAID, found, strict=True) if said not in str(issue)] == []
    assert all(issue.line for issue in found)


def test_examples_hold_no_unknown_name() -> None:
    catalog = load_catalog()
    rows = sealed_rows()
    assert rows is not None
    examples = sorted(Path(problems.__file__).parent.glob("*.yaml"))
    assert examples
    for path in examples:
        assert unknown_names(load_problem(path), rows) == unknown_names(load_problem(path), catalog) == []
