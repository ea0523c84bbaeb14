"""What every class of data of a problem needs, worked out again from the problem and the catalogue alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from catalogs.catalog import Catalog
from catalogs.models import models_frame, resolve_model
from problems.data import DataClass
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, Serve, Workload

HOURS = 730.0
STAGEABLE = ("training_data", "weights")


@dataclass(frozen=True)
class Due:
    """Least size [TB], reading and writing [GB/s], operations [1/s], bytes read per token; how it may be kept and sent.

    `stage_h`: hours that a staging takes; `limit_h`: hours that it and a run may take together. `sent_tb` and `staged_tb` in
    a month; `sender`: storage, work or nobody.
    """

    name: str
    work: Workload | None
    data: DataClass | None
    kind: str
    size_tb: float
    read: float
    write: float
    iops: float
    token_bytes: float
    staged: str
    stage_h: float
    limit_h: float | None
    sender: str
    sent_tb: float
    staged_tb: float
    runs: float

    @property
    def stage_speed(self) -> float:
        """GB/s of a staging."""
        return self.size_tb * 1000 / (self.stage_h * 3600) if self.stage_h else 0.0


def due_data(problem: Problem, catalog: Catalog, base_dir: Path) -> dict[str, Due]:
    """Every class by its name in the plan."""
    found = {}
    for work in problem.workloads:
        classes = list(work.data)
        dataset = getattr(work, "dataset", None)
        if dataset is not None:
            classes.insert(0, DataClass.model_validate({"class": "training_data", "size": f"{dataset}B"}))
        for data in classes:
            due = _of_work(work, data, problem, catalog, base_dir)
            found[due.name] = due
    for n, kept in enumerate(problem.data):
        name = kept.name or (kept.kind if len(problem.data) == 1 else f"{kept.kind} {n + 1}")
        size = (kept.size or 0) / 1e12
        asked = (kept.read or 0.0, kept.write or 0.0, float(kept.iops or 0))
        found[name] = Due(name, None, None, kept.kind, size, *asked, 0.0, "no", 0.0, None, "nobody", 0.0, 0.0, 0.0)
    return found


def _model(work: Workload, catalog: Catalog, base_dir: Path) -> dict[str, float]:
    """Architecture of the work's model: numbers by column, 0 where there is none."""
    ref = work.model if not isinstance(work, Fixed) else None
    assert ref is not None
    row = models_frame(catalog, [resolve_model(catalog, ref, base_dir)]).row(0, named=True)
    return {k: float(v) for k, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def _adapters(model: dict[str, float], rank: int) -> float:
    """LoRA parameters: pairs of rank-wide matrices beside q, k, v, o and the dense feed-forward matrices."""
    hidden, layers = model["hidden"], model["layers"]
    q = model["heads"] * model["head_dim"]
    kv = model["kv_heads"] * model["head_dim"]
    attention = 2 * (hidden + q) + 2 * (hidden + kv)
    moe = layers - model.get("dense_layers", 0.0) if model.get("experts", 0.0) else 0.0
    dense_layers = model.get("mlp_layers", layers - moe)
    mlp = model.get("ffn_matrices", 3.0) * (hidden + model.get("intermediate", 0.0))
    return rank * (layers * attention + dense_layers * mlp)


def _one_checkpoint_tb(work: Workload, catalog: Catalog, base_dir: Path) -> float:
    assert isinstance(work, Pretrain | Finetune)
    model = _model(work, catalog, base_dir)
    adapters = isinstance(work, Finetune) and work.method in ("lora", "qlora")
    optimizer = "adamw" if adapters else work.optimizer
    row = catalog.optimisers.filter(pl.col("optimizer") == optimizer).row(0, named=True)
    each = row["weight_bytes"] + row["master_bytes"] + row["state_bytes"]
    params = (
        _adapters(model, work.lora_rank) if isinstance(work, Finetune) and adapters else model["params_total_b"] * 1e9
    )
    return float(params * each / 1e12)


def _weights_tb(work: Workload, catalog: Catalog, base_dir: Path) -> float:
    model = _model(work, catalog, base_dir)
    widest = 0.0
    for row in catalog.quantisation.iter_rows(named=True):
        if row["precision"] in getattr(work, "precision", ()):
            widest = max(widest, row["linear_bytes"], row["attention_bytes"], row["expert_bytes"])
    return model["params_total_b"] * 1e9 * widest / 1e12


def limit_hours(work: Workload, problem: Problem) -> float | None:
    """Deadline of a run, else the time until the next one [h]; None for services and reservations."""
    if isinstance(work, Serve | Fixed):
        return None
    if work.deadline is not None:
        return work.deadline / 3600
    return (HOURS if work.runs.per_month else HOURS * problem.horizon) / work.runs.value


def monthly_runs(work: Workload, problem: Problem) -> float:
    """Runs in a month: 0 for services, 1 for reservations."""
    if isinstance(work, Serve):
        return 0.0
    if isinstance(work, Fixed):
        return 1.0
    return work.runs.value if work.runs.per_month else work.runs.value / problem.horizon


def _of_work(work: Workload, data: DataClass, problem: Problem, catalog: Catalog, base_dir: Path) -> Due:
    kind, limit, runs = data.kind, limit_hours(work, problem), monthly_runs(work, problem)
    trains = isinstance(work, Pretrain | Finetune)
    stated = None if data.size is None else data.size / 1e12
    kept = data.kept or catalog.assumption("checkpoints_kept")
    read, write, per_token, stage_h = data.read or 0.0, data.write or 0.0, 0.0, 0.0
    times = runs if runs else 1.0
    size = stated or 0.0
    sender, sent = "storage", 0.0
    if kind == "checkpoints":
        one = size / (kept + 1) if stated is not None else _one_checkpoint_tb(work, catalog, base_dir)
        size = one * (kept + 1)
        sender, sent = "work", size * times
        interval = getattr(work, "checkpoint_interval", 3600.0)
        stall = catalog.assumption("checkpoint_stall_share")
        seconds = data.within if data.within is not None else interval * stall / (1 - stall)
        if trains or data.within is not None:
            write = write or one * 1000 / seconds
        if trains:
            sent = one * (limit or 0.0) * 3600 / interval * runs
    elif kind == "weights":
        size = stated if stated is not None else _weights_tb(work, catalog, base_dir)
        readers = data.readers or 1
        sent = size * times * readers
        if data.within is not None:
            read, stage_h = read or size * 1000 * readers / data.within, data.within / 3600
    elif kind == "training_data":
        sent = size * times
        if isinstance(work, Pretrain | Finetune) and data.read is None and not work.dataset_in_ram:
            per_token = float(data.token_bytes or catalog.assumption("token_bytes"))
            sent = max(sent, work.tokens * per_token * runs / 1e12)
        if data.read is not None and data.moved is None:
            sender = "nobody"
        most = catalog.assumption("staging_most_h")
        usual = most if limit is None else min(most, catalog.assumption("staging_share_of_deadline") * limit)
        stage_h = usual if data.within is None else data.within / 3600
    elif kind == "kv_offload":
        sender = "nobody"
    else:
        sender, sent = "work", size / (data.retention or problem.horizon)
    if data.moved is not None:
        sent = data.moved / 1e12
    bounded = kind == "training_data" and isinstance(work, Pretrain | Finetune | Batch)
    return Due(
        name=f"{work.name} {kind}",
        work=work,
        data=data,
        kind=kind,
        size_tb=size,
        read=read,
        write=write,
        iops=float(data.iops or 0),
        token_bytes=per_token,
        staged=data.staged or "auto" if kind in STAGEABLE else "no",
        stage_h=stage_h,
        limit_h=limit if bounded else None,
        sender=sender,
        sent_tb=sent,
        staged_tb=size * times,
        runs=runs,
    )
