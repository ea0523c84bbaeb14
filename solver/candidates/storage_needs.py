"""What data must be kept: classes of the problem with size, speed and time, from what is stated and from the workload.

Sizes and speeds that are not stated follow from the work: a saved training state from parameters and optimizer, weights
from the largest precision allowed, the writing of a checkpoint from the time it may take, the reading of training data
from the tokens per second of the option that is chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from catalogs.catalog import Catalog
from problems.data import STAGEABLE, DataClass, DataKind, KeptData, Raid, Staged
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, Serve, Workload
from solver.candidates.jobs import deadline_h
from solver.candidates.serving import model_frame
from solver.candidates.storage_boxes import storage_networks
from solver.features.memory_training import adapter_parameters
from solver.features.storage import (
    checkpoint_gb_s,
    checkpoint_store_tb,
    checkpoint_tb,
    raid_share,
    saved_bytes_per_param,
    transfer_gb_s,
)

Sender = Literal["storage", "compute", "nobody"]
ADAPTER_OPTIMIZER = "adamw"


@dataclass(frozen=True)
class DataNeed:
    """One class of data. Zero speed: none is asked for.

    Parameters
    ----------
    key : str
        Unique: workload and class, or the name of what belongs to no workload.
    work : str, optional
        Workload that uses it.
    size_tb, read_gb_s, write_gb_s, iops : float
        Of all of it, at its busiest [TB, GB/s, 1/s].
    token_bytes : float
        Bytes read per token trained; 0 where reading does not follow the training rate [B].
    staged : str
        Whether there is a master copy beside the working copy: no, auto (if cheaper), yes.
    stage_h : float
        Time for copying it from the one to the other; 0: no time is asked for [h].
    deadline_h : float, optional
        Hours that staging and one run may take together.
    sender : str
        Who sends where data and compute are apart; nobody: they must be at one place.
    moved_tb : float
        Sent in a month where they are apart [TB/month].
    staged_tb : float
        Copied from the master in a month [TB/month].
    runs : float
        Runs of the work in a month; 0 for services.
    local : bool
        May lie on the drives of the nodes that use it (a working copy, or what may be lost).
    raid_kept : float
        Share of the drives that RAID keeps there [fraction].
    site, country : str, optional
        Where it must be.
    readers : int
        Replicas that read it together at `read_gb_s`.
    port_gb_s : float
        Speed of the slowest port that a server may have towards storage boxes of own sites; infinite where there are none [GB/s].
    """

    key: str
    work: str | None
    kind: DataKind
    size_tb: float
    read_gb_s: float = 0.0
    write_gb_s: float = 0.0
    iops: float = 0.0
    token_bytes: float = 0.0
    staged: Staged = "no"
    stage_h: float = 0.0
    deadline_h: float | None = None
    sender: Sender = "nobody"
    moved_tb: float = 0.0
    staged_tb: float = 0.0
    runs: float = 0.0
    local: bool = False
    raid_kept: float = 1.0
    site: str | None = None
    country: str | None = None
    readers: int = 1
    port_gb_s: float = math.inf

    @property
    def stage_gb_s(self) -> float:
        """Speed of staging [GB/s]."""
        return transfer_gb_s(self.size_tb, self.stage_h * 3600) if self.stage_h else 0.0

    @property
    def fast(self) -> bool:
        """Whether any speed is asked for."""
        return self.read_gb_s > 0 or self.write_gb_s > 0 or self.iops > 0 or self.token_bytes > 0


def data_needs(problem: Problem, catalog: Catalog, base_dir: Path) -> tuple[DataNeed, ...]:
    """Every class of data of the problem.

    Raises
    ------
    catalogs.errors.UnknownName
        For a model that the catalogue does not know.
    """
    needs = [
        _of_work(work, data, problem, catalog, base_dir) for work in problem.workloads for data in classes_of(work)
    ]
    return (*needs, *(_kept(data, n, problem) for n, data in enumerate(problem.data)))


def classes_of(work: Workload) -> tuple[DataClass, ...]:
    """Data classes of a workload, the short form `dataset` among them."""
    size = getattr(work, "dataset", None)
    if size is None:
        return work.data
    return (DataClass.model_validate({"class": "training_data", "size": f"{size}B"}), *work.data)


def _kept(data: KeptData, number: int, problem: Problem) -> DataNeed:
    assert data.size is not None
    return DataNeed(
        key=data.name or (data.kind if len(problem.data) == 1 else f"{data.kind} {number + 1}"),
        work=None,
        kind=data.kind,
        size_tb=data.size / 1e12,
        read_gb_s=data.read or 0.0,
        write_gb_s=data.write or 0.0,
        iops=float(data.iops or 0),
        site=data.site,
        country=data.country,
    )


def runs_a_month(work: Workload, horizon: float) -> float:
    """Runs of a job in a month; a reservation of fixed nodes counts as one, a service as none."""
    if isinstance(work, Serve):
        return 0.0
    if isinstance(work, Fixed):
        return 1.0
    return work.runs.value if work.runs.per_month else work.runs.value / horizon


def _of_work(work: Workload, data: DataClass, problem: Problem, catalog: Catalog, base_dir: Path) -> DataNeed:
    size = _size_tb(work, data, catalog, base_dir)
    runs = runs_a_month(work, problem.horizon)
    job = isinstance(work, Pretrain | Finetune | Batch)
    limit = deadline_h(work, problem.horizon) if isinstance(work, Pretrain | Finetune | Batch) else None
    read, write, token_bytes = data.read or 0.0, data.write or 0.0, 0.0
    sender: Sender = "storage"
    moved = size * (runs or 1.0)
    stage_h = 0.0
    if data.kind == "training_data":
        cached = isinstance(work, Pretrain | Finetune) and work.dataset_in_ram
        if data.read is None and isinstance(work, Pretrain | Finetune) and not cached:
            token_bytes = float(data.token_bytes or catalog.assumption("token_bytes"))
            moved = max(moved, work.tokens * token_bytes / 1e12 * runs)
        elif data.read is not None and data.moved is None:
            sender = "nobody"  # how much a stated speed moves in a month is not known
        stage_h = (data.within or 0.0) / 3600 or _usual_stage_h(limit, catalog)
    elif data.kind == "checkpoints":
        sender = "compute"
        if not isinstance(work, Fixed):
            one = _checkpoint_tb(work, catalog, base_dir) if data.size is None else size / _copies(data, catalog)
            write = write or checkpoint_gb_s(one, _checkpoint_s(work, data, catalog))
            interval_h = getattr(work, "checkpoint_interval", 3600.0) / 3600
            moved = one * (limit or 0.0) / interval_h * runs
        elif data.within is not None and not write:
            write = checkpoint_gb_s(size / _copies(data, catalog), data.within)
    elif data.kind == "weights":
        if data.within is not None and not read:
            read = transfer_gb_s(size * (data.readers or 1), data.within)
        moved *= data.readers or 1
        stage_h = (data.within or 0.0) / 3600
    elif data.kind == "kv_offload":
        sender = "nobody"
    else:
        sender = "compute"
        moved = size / (data.retention or problem.horizon)
    if data.moved is not None:
        moved = data.moved / 1e12
    raid: Raid = data.raid or "none"
    return DataNeed(
        key=f"{work.name} {data.kind}",
        work=work.name,
        kind=data.kind,
        size_tb=size,
        read_gb_s=read,
        write_gb_s=write,
        iops=float(data.iops or 0),
        token_bytes=token_bytes,
        staged=(data.staged or "auto") if data.kind in STAGEABLE else "no",
        stage_h=stage_h,
        deadline_h=limit if job and data.kind == "training_data" else None,
        sender=sender,
        moved_tb=moved,
        staged_tb=size * (runs or 1.0),
        runs=runs,
        local=data.kind in (*STAGEABLE, "kv_offload"),
        raid_kept=raid_share(raid, 2),
        readers=int(data.readers or 1),
        port_gb_s=_slowest_port(catalog) if problem.sites else math.inf,
    )


def _slowest_port(catalog: Catalog) -> float:
    ports = catalog.network.filter(pl.col("network").is_in(storage_networks(catalog)))["gbps_per_port"]
    return min((float(gbps) / 8 for gbps in ports), default=math.inf)


def _usual_stage_h(limit_h: float | None, catalog: Catalog) -> float:
    """Time for staging where none is stated: a share of the deadline, but no more than a day or so [h]."""
    most = catalog.assumption("staging_most_h")
    return most if limit_h is None else min(most, limit_h * catalog.assumption("staging_share_of_deadline"))


def _copies(data: DataClass, catalog: Catalog) -> float:
    """Checkpoints that there is room for: those kept, and the one being written."""
    return float(data.kept or catalog.assumption("checkpoints_kept")) + 1


def _size_tb(work: Workload, data: DataClass, catalog: Catalog, base_dir: Path) -> float:
    if data.size is not None:
        return data.size / 1e12
    if data.kind == "checkpoints":
        return checkpoint_store_tb(_checkpoint_tb(work, catalog, base_dir), int(_copies(data, catalog)) - 1)
    params = float(model_frame(work.model, catalog, base_dir)["params_total_b"][0]) * 1e9  # type: ignore[union-attr]
    rows = catalog.quantisation.filter(pl.col("precision").is_in(list(getattr(work, "precision", ("bf16",)))))
    each = rows.select(pl.max_horizontal("linear_bytes", "attention_bytes", "expert_bytes")).to_series().max()
    # A job may choose among precisions: the widest needs the most room.
    return checkpoint_tb(params, float(each))  # type: ignore[arg-type]


def _checkpoint_tb(work: Workload, catalog: Catalog, base_dir: Path) -> float:
    """One saved training state: of all parameters, or of the adapters alone."""
    assert isinstance(work, Pretrain | Finetune)
    model = model_frame(work.model, catalog, base_dir)
    if isinstance(work, Finetune) and work.method in ("lora", "qlora"):
        ranked = model.with_columns(lora_rank=pl.lit(work.lora_rank), tp=pl.lit(1), pp=pl.lit(1))
        params = float(ranked.select(adapter_parameters()).item())
        return checkpoint_tb(params, saved_bytes_per_param(catalog.optimisers, ADAPTER_OPTIMIZER))
    params = float(model["params_total_b"][0]) * 1e9
    return checkpoint_tb(params, saved_bytes_per_param(catalog.optimisers, work.optimizer))


def _checkpoint_s(work: Workload, data: DataClass, catalog: Catalog) -> float:
    """Time that one checkpoint may take: as stated, or such that all of them take a small share of the run [s]."""
    if data.within is not None:
        return data.within
    share = catalog.assumption("checkpoint_stall_share")
    interval: float = getattr(work, "checkpoint_interval", 3600.0)
    return interval * share / (1 - share)
