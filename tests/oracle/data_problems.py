"""Random small problems whose workloads have data: the cases of `problems`, with classes of data drawn on top."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from problems.data import OF_KIND
from problems.load import load_text
from tests.oracle.problems import Case, random_case

SIZES = ("200GB", "2TB", "9TB", "30TB", "150TB")
SPEEDS = ("300MB/s", "1GB/s", "4GB/s", "15GB/s")


def _class(rng: random.Random, kind: str, *, model: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"class": kind}
    derived = model and kind in ("checkpoints", "weights") and rng.random() < 0.7
    if not derived:
        data["size"] = rng.choice(SIZES)
    if kind in ("training_data", "kv_offload") and rng.random() < 0.5:
        data["read"] = rng.choice(SPEEDS)
    if kind == "training_data" and "read" not in data and rng.random() < 0.5:
        data["token_bytes"] = rng.choice(["20kB", "300kB"])
    if kind == "kv_offload" and rng.random() < 0.5:
        data["write"] = rng.choice(SPEEDS)
    if kind in ("training_data", "weights"):
        data["staged"] = rng.choice(["auto", "auto", "yes", "no"])
    if kind in ("training_data", "weights", "checkpoints") and rng.random() < 0.5:
        data["within"] = rng.choice(["2min", "1h", "8h"])
    if kind in ("training_data", "weights", "kv_offload") and rng.random() < 0.2:
        data["raid"] = "raid10"
    if kind != "archive" and rng.random() < 0.1:
        data["iops"] = rng.choice([1000, 20000])
    return data


def data_case(seed: int) -> Case:
    """A case of `random_case` with data."""
    case = random_case(seed, objective=False, small=False)
    rng = random.Random(seed + 1)
    problem = case.loaded.problem.model_dump(mode="json", exclude_none=True)
    for work in problem["workloads"]:
        kinds = OF_KIND[work["kind"]]
        some = rng.sample(kinds, rng.choice([0, 1, 1, 2, 3]))
        work["data"] = [_class(rng, kind, model=work.get("model") is not None) for kind in some]
    if rng.random() < 0.4:
        problem["data"] = [{"class": "backups", "size": rng.choice(SIZES)}]
    return replace(case, loaded=load_text(json.dumps(problem), f"<seed {seed}>"))
