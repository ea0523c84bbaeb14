"""Problem files drawn at random, small enough for each to be solved in a second or two: services, mixes, jobs, sites, limits."""

from __future__ import annotations

import random
from typing import Any

Block = dict[str, Any]
MODELS = ("llama-3-8b", "llama-2-13b", "mixtral-8x7b", "llama-3-70b")
FEW = (("lambda", "runpod"), ("coreweave", "nebius"), ("aws",), ("vultr", "lambda"), ("gcp", "runpod"))
"""Providers that are allowed: of all clouds the problems would be large."""


def drawn_problem(seed: int) -> Block:
    """A problem as its file would be read; the same for the same seed."""
    r = random.Random(seed)
    own, rented = r.random() < 0.5, r.random() < 0.85
    billing = ["on_demand", *r.sample(["reserved", "spot"], r.randint(0, 2))] if rented or not own else []
    limits: Block = {"providers": {"allow": list(r.choice(FEW))}}
    if r.random() < 0.3:
        limits["budget"] = {r.choice(["total", "total", "capex"]): f"${r.choice([5, 60, 400, 3000])}k"}
    if r.random() < 0.2:
        limits["accelerators"] = {"deny": r.sample(["H100", "A100", "L40S", "B200"], 2)}
    problem: Block = {
        "horizon": r.choice(["6mo", "12mo", "24mo"]),
        "workloads": [_workload(r, n) for n in range(r.choice([1, 1, 2, 2, 3]))],
        "limits": limits,
    }
    policy: Block = {"billing": [*billing, "purchase"] if own else billing}
    if own:
        problem["sites"] = [_site(r)]
        if r.random() < 0.4:
            problem["tco"] = _charges(r)
    if "spot" in billing and r.random() < 0.5:
        policy["spot_share"] = "50%"
    if r.random() < 0.3:
        policy |= {"discount_rate": "6%", "residual_value": "20%"}
    return problem | {"policy": policy}


def _workload(r: random.Random, number: int) -> Block:
    kind = r.choice(["serve", "serve", "serve", "finetune", "batch", "fixed"])
    work: Block = {"name": f"w{number}", "kind": kind}
    if kind == "serve":
        return work | _service(r)
    if kind == "finetune":
        when = r.choice([{"deadline": "48h"}, {"deadline": "168h"}, {"window": "nights"}])
        job = {"method": r.choice(["lora", "qlora"]), "tokens": r.choice(["20M", "200M"]), "sequence": 4096}
        return work | job | {"model": r.choice(MODELS[:2]), "runs": r.choice(["2", "4/mo"])} | when
    if kind == "batch":
        job = {"requests": r.choice(["200k", "2M"]), "isl": 1500, "osl": 200, "runs": "4/mo", "deadline": "24h"}
        return work | job | {"model": r.choice(MODELS)}
    need = r.choice([{"memory": "16GB"}, {"memory": "40GB"}, "L40S", "H100"])
    return work | {"accelerator": need, "count": r.choice([1, 2, 8]), "hours": r.choice(["60h/mo", "300h/mo"])}


def _service(r: random.Random) -> Block:
    traffic: Block = {"rate": f"{r.choice([1, 4, 15])} req/s"}
    if r.random() < 0.5:
        traffic |= {"isl": r.choice([300, 1500, 3000]), "osl": r.choice([50, 300])}
    else:
        share = r.choice([20, 50, 80])
        sizes = [(r.choice([200, 800]), r.choice([50, 150]), share), (r.choice([2000, 4000]), 300, 100 - share)]
        traffic["sizes"] = [{"isl": isl, "osl": osl, "share": f"{x}%"} for isl, osl, x in sizes]
    if r.random() < 0.4:
        traffic["calendar"] = r.choice(["office_hours", "day_night"])
    if r.random() < 0.3:
        traffic["growth"] = "2%/mo"
    work: Block = {
        "model": r.choice(MODELS),
        "traffic": traffic,
        "slo": {"ttft": "4s", "tpot": r.choice(["60ms", "200ms"])},
    }
    if r.random() < 0.3:
        work["redundancy"] = r.choice(["n+1", "n+2"])
    elif r.random() < 0.2:
        work["interruptible"] = True
    if r.random() < 0.3:
        work["precision"] = r.choice([["bf16"], ["fp8", "bf16"], ["int4", "fp8"]])
    return work


def _site(r: random.Random) -> Block:
    site: Block = {"name": "room", "country": r.choice(["US", "DE"]), "electricity": "$0.12/kWh", "pue": 1.3}
    if r.random() < 0.7:
        site["power"] = f"{r.choice([3, 12, 40])}kW"
    if r.random() < 0.2:
        site["racks"] = {"count": 2, "power": "20kW", "units": 42}
    return site


def _charges(r: random.Random) -> Block:
    some: list[Block] = [
        {"financing": {"upfront": "30%", "rate": "6%", "term": "12mo"}},
        {"spares": {"parts": "3%", "nodes": 1}},
        {"staff": {"salary": "$120k/yr", "per_node": 0.02}},
        {"tax": {"purchase": "8%", "rental": "20%"}},
    ]
    return {k: v for block in r.sample(some, r.randint(1, 3)) for k, v in block.items()}
