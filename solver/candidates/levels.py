"""Requirement levels: what one server must have for the work of a problem, which builds are made for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, Serve
from solver.candidates.plain_networks import plain_networks
from solver.candidates.storage_needs import classes_of
from solver.candidates.terms import effective_rules
from solver.features.parts import HOST_NEEDS, LEVEL_SCHEMA
from solver.features.storage import raw_tb


def requirement_levels(problem: Problem, catalog: Catalog, there: Iterable[str] = ()) -> pl.DataFrame:
    """What one node must have for each class of work in the problem, and for all of them together.

    Columns as `solver.features.parts.LEVEL_SCHEMA`; only rules that are hard for bought machines ask for anything. What NICs
    are plugged into is paid apart, so levels name their network: work that spans nodes has one for each that is fast enough
    (`_ports_of`), other work, beside that with whichever NIC is cheapest, one for each that could make the cheaper plan
    (`solver.candidates.plain_networks`). Levels that end in "-data" hold a workload's whole `dataset` on their own drives.

    Parameters
    ----------
    there : iterable of str
        Networks of systems sold whole that could be bought: their switches may be there in any case.
    """
    rules = effective_rules(problem, catalog)

    def hard(name: str) -> float:
        return rules[name].hard_value(bought=True)  # type: ignore[index]

    rows: list[dict[str, object]] = []
    empty = {**dict.fromkeys(HOST_NEEDS, 0.0), "cores_min": 1.0, "nic_gbps": 0.0, "nic_per_gpu": False, "rdma": False}

    def level(name: str, **need: object) -> None:
        rows.append({"level": name, "network": None, **empty, **need})

    def cluster(name: str, gbps: float, need: dict[str, float], suffix: str = "", *, per_gpu: bool = False) -> None:
        able: list[str | None] = [*_ports_of(catalog, gbps)]
        for network in able or [None]:
            named = f"{name}-{network}{suffix}" if network else name + suffix
            level(named, **need, nic_gbps=gbps, rdma=True, nic_per_gpu=per_gpu, network=network)

    works = problem.workloads
    if any(isinstance(w, Serve | Batch) for w in works):
        serve = {
            "ram_ratio": hard("serving_ram_ratio"),
            "cores_per_gpu": hard("cores_per_gpu"),
            "nvme_tb": hard("serving_nvme_tb"),
        }
        large = {**serve, "ram_min_gib": hard("serving_large_ram_gib")}
        level("serving", **serve, nic_gbps=hard("serving_network_gbps"))
        level("serving-large", **large, nic_gbps=hard("serving_network_gbps"))
        cluster("serving-multinode", hard("serving_network_gbps_multinode"), large)
    trains = [w for w in works if isinstance(w, Pretrain | Finetune)]
    if trains:
        cached = max((w.dataset or 0.0) / 2**30 for w in trains) if any(w.dataset_in_ram for w in trains) else 0.0
        train = {
            "ram_ratio": hard("training_ram_ratio"),
            "cores_min": max(1.0, hard("training_cores_per_node")),
            "cores_per_gpu": hard("cores_per_gpu"),
            "nvme_gb_s": hard("training_nvme_gb_s"),
        }
        # What many nodes need is among what few need, unless no network is that fast: then it is refused by its own name.
        between_nodes = {"cluster": hard("training_network_gbps")}
        many = hard("training_network_gbps_large")
        if many < between_nodes["cluster"] or not _ports_of(catalog, many):
            between_nodes["cluster-large"] = many
        for suffix, nvme_tb in _local_tb(trains, hard("training_nvme_tb")).items():
            need = {**train, "nvme_tb": nvme_tb}
            level("training" + suffix, **need, ram_min_gib=cached)
            for name, gbps in between_nodes.items():
                cluster(name, gbps, need, suffix)
                cluster(f"{name}-rail", gbps, need, suffix, per_gpu=True)
    fixed = [w for w in works if isinstance(w, Fixed)]
    if fixed:
        level(
            "fixed",
            ram_min_gib=max(((w.ram or 0.0) / 2**30 for w in fixed), default=0.0),
            cores_min=max([1.0, *((w.cpus or 0.0) / 2 for w in fixed)]),
        )
    if len(rows) > 1:
        single = [r for r in rows if not r["rdma"]]
        for suffix in dict.fromkeys("-data" if "-data" in str(r["level"]) else "" for r in single):
            joined = [r for r in single if suffix or "-data" not in str(r["level"])]
            needs = {k: max(float(r[k]) for r in joined) for k in (*HOST_NEEDS, "nic_gbps")}  # type: ignore[arg-type]
            level("all" + suffix, **needs)
    spanned = {str(r["network"]) for r in rows if r["rdma"] and r["network"]}
    rows += _on_networks([r for r in rows if not r["rdma"]], spanned, problem, catalog, there)
    return pl.DataFrame(rows, schema=LEVEL_SCHEMA)


def _on_networks(
    plain: Sequence[dict[str, object]],
    spanned: set[str],
    problem: Problem,
    catalog: Catalog,
    there: Iterable[str],
) -> list[dict[str, object]]:
    """Levels of work that spans no nodes once more on every network that could make the cheaper plan.

    Not on the one whose NIC is cheapest, draws least and is the slowest of all that are fast enough: it goes into every host that
    another goes into, for no more, so the level itself has it wherever it could be of use.
    """
    needs = [float(str(r["nic_gbps"])) for r in plain]
    choices = plain_networks(problem, catalog, needs, spanned, there)
    nics = catalog.network.select("network", "gbps_per_port", "nic_price_usd", "nic_power_w").drop_nulls()
    out = []
    for row, gbps in zip(plain, needs, strict=True):
        able = nics.filter(pl.col("gbps_per_port") >= gbps).sort("nic_price_usd", "nic_power_w", "network")
        least = [pl.col(c) <= able[c].min() for c in ("nic_power_w", "gbps_per_port")]
        had = able.head(1).filter(*least)["network"]
        for network in choices.filter(pl.col("gbps_per_port") >= gbps)["network"]:
            if network not in had.to_list():
                head, dash, data = str(row["level"]).partition("-data")
                out.append({**row, "level": f"{head}-{network}{dash}{data}", "network": network})
    return out


def _ports_of(catalog: Catalog, gbps: float) -> list[str]:
    """Networks for work that spans nodes: all with RDMA that are as fast as asked for and whose NIC has price and watts.

    None is left out for another: a faster one speeds up training, one with other switches is cheaper for other numbers of ports.
    """
    known = pl.all_horizontal(pl.col(c).is_not_null() for c in ("nic_price_usd", "nic_power_w"))
    return catalog.network.filter("rdma", pl.col("gbps_per_port") >= gbps, known)["network"].sort().to_list()


def _local_tb(trains: Sequence[Pretrain | Finetune], least_tb: float) -> dict[str, float]:
    """Local NVMe of training nodes by suffix of the level [TB]: what the rule asks for, and what holds the data sets.

    Data sets of different sizes have levels of their own: "-data" for the smallest, "-data2" for the next.
    """
    sizes = sorted({d.size for w in trains for d in classes_of(w) if d.kind == "training_data" and d.size})
    sized = [tb for tb in (raw_tb(size / 1e12) for size in sizes) if tb > least_tb]
    return {"": least_tb, **{f"-data{n}" if n > 1 else "-data": tb for n, tb in enumerate(sized, 1)}}
