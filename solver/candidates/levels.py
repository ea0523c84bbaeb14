"""Requirement levels: what one server must have for the work of a problem, which builds are made for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import polars as pl

from catalogs.catalog import Catalog
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, Serve
from solver.candidates.plain_networks import bundles, pcie_generations, plain_networks
from solver.candidates.storage_needs import classes_of
from solver.candidates.terms import effective_rules
from solver.features.parts import HOST_NEEDS, LEVEL_SCHEMA
from solver.features.storage import raw_tb

NOTHING = {
    **dict.fromkeys(HOST_NEEDS, 0.0),
    "cores_min": 1.0,
    "node_gbps": 0.0,
    "spans": False,
    "usual": False,
    "rdma": False,
    "network": None,
    "beside_w": None,
    "pair_w": None,
}
"""A level that asks for nothing."""
FEW_COUNTS = "servers for work across nodes have one NIC or one for each card (other numbers are not weighed beside racks and circuits)"


def requirement_levels(
    problem: Problem, catalog: Catalog, there: Iterable[str] = (), site_w: float = math.inf
) -> pl.DataFrame:
    """What one node must have for each class of work in the problem, and for all of them together.

    Columns as `solver.features.parts.LEVEL_SCHEMA`; only rules that are hard for bought machines ask for anything. What NICs
    are plugged into is paid apart, so levels name their network: work that spans nodes has one for each that is fast enough with
    as many NICs as servers have slots for (`_ports_of`), other work, beside that with whichever NICs are cheapest, one for each that
    could make the cheaper plan (`solver.candidates.plain_networks`). Levels that end in "-data" hold a workload's whole `dataset` on
    their own drives.

    Parameters
    ----------
    there : iterable of str
        Networks of systems sold whole that could be bought: their switches may be there in any case.
    site_w : float
        All that the servers of a site may draw [W].
    """
    rules = effective_rules(problem, catalog)
    usual = few_counts(problem)

    def hard(name: str) -> float:
        return rules[name].hard_value(bought=True)  # type: ignore[index]

    rows: list[dict[str, object]] = []

    def level(name: str, **need: object) -> None:
        rows.append({"level": name, **NOTHING, **need})

    switch_w = dict(catalog.network.select("network", pl.col("switch_power_w").fill_null(0.0)).iter_rows())

    def cluster(name: str, gbps: float, need: dict[str, float], suffix: str = "", *, serves: bool = False) -> None:
        able: list[str | None] = [*_ports_of(catalog, gbps, usual=usual)]
        for network in able or [None]:
            named = f"{name}-{network}{suffix}" if network else name + suffix
            # Two nodes of a job may do without a switch, those of a service may not.
            few = {"beside_w": math.inf, "pair_w": float(switch_w.get(network, 0.0)) if serves else 0.0}
            level(named, **need, **few, node_gbps=gbps, rdma=True, spans=True, usual=usual, network=network)

    works = problem.workloads
    if any(isinstance(w, Serve | Batch) for w in works):
        serve = {
            "ram_ratio": hard("serving_ram_ratio"),
            "cores_per_gpu": hard("cores_per_gpu"),
            "nvme_tb": hard("serving_nvme_tb"),
        }
        large = {**serve, "ram_min_gib": hard("serving_large_ram_gib")}
        level("serving", **serve, node_gbps=hard("serving_network_gbps"))
        level("serving-large", **large, node_gbps=hard("serving_network_gbps"))
        cluster("serving-multinode", hard("serving_network_gbps_multinode"), large, serves=True)
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
        if many < between_nodes["cluster"] or not _ports_of(catalog, many, usual=usual):
            between_nodes["cluster-large"] = many
        for suffix, nvme_tb in _local_tb(trains, hard("training_nvme_tb")).items():
            need = {**train, "nvme_tb": nvme_tb}
            level("training" + suffix, **need, ram_min_gib=cached)
            for name, gbps in between_nodes.items():
                cluster(name, gbps, need, suffix)
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
            needs = {k: max(float(r[k]) for r in joined) for k in (*HOST_NEEDS, "node_gbps")}  # type: ignore[arg-type]
            level("all" + suffix, **needs)
    spanned = {str(r["network"]) for r in rows if r["rdma"] and r["network"]}
    rows += _on_networks([r for r in rows if not r["rdma"]], spanned, problem, catalog, there, site_w)
    return pl.DataFrame(rows, schema=LEVEL_SCHEMA)


def few_counts(problem: Problem) -> bool:
    """Whether servers for work across nodes have one NIC or one for each card only, each as fast as is asked of the node.

    That is so where racks or circuits are counted: there every kind of node is one more in the patterns that fill them, and the proof
    takes three times as long with all numbers of NICs. A limit less never takes a choice away.
    """
    return any(s.racks is not None or s.circuits for s in problem.sites)


def _on_networks(
    plain: Sequence[dict[str, object]],
    spanned: set[str],
    problem: Problem,
    catalog: Catalog,
    there: Iterable[str],
    site_w: float,
) -> list[dict[str, object]]:
    """Levels of work that spans no nodes once more on every network that could make the cheaper plan.

    Not on the one of which the NICs that a node needs are cheapest, draw least, take the fewest slots and lanes and go into every
    slot that others go into: the level itself has it wherever it could be of use.
    """
    needs = [float(str(r["node_gbps"])) for r in plain]
    choices = plain_networks(problem, catalog, needs, spanned, there, site_w)
    nics = catalog.network.select("network", "gbps_per_port", "nic_price_usd", "nic_power_w").drop_nulls()
    # Beside two nodes of a job that is no service others may run, without any switch.
    alone = any(isinstance(w, Batch | Fixed) for w in problem.workloads)
    slots = _most_slots(catalog)
    out = []
    for row, gbps in zip(plain, needs, strict=True):
        able = bundles(nics, [gbps], pcie_generations(catalog)).filter(pl.col("nics 0") <= slots)
        if able.is_empty():
            continue
        taken = [c for c in able.columns if c not in nics.columns]
        first = able.sort("usd 0", "watts 0", "network").head(1)
        had = first.filter(pl.all_horizontal(pl.col(c) <= able[c].min() for c in taken))["network"].to_list()
        offered = choices.join(able.select("network"), on="network", how="semi", maintain_order="left")
        for name, idle, switch_w in offered.select("network", "idle", "switch_power_w").iter_rows():
            if name not in had:
                head, dash, data = str(row["level"]).partition("-data")
                beside = {"beside_w": switch_w or 0.0, "pair_w": 0.0 if alone else switch_w or 0.0} if idle else {}
                out.append({**row, "level": f"{head}-{name}{dash}{data}", "network": name, **beside})
    return out


def _ports_of(catalog: Catalog, gbps: float, *, usual: bool) -> list[str]:
    """Networks for work that spans nodes: all with RDMA of which as many NICs as any server takes are as fast as asked for.

    `usual`: of which one is.

    None is left out for another: a faster one speeds up training, one with other switches is cheaper for other numbers of ports.
    """
    known = pl.all_horizontal(pl.col(c).is_not_null() for c in ("nic_price_usd", "nic_power_w"))
    fast = pl.col("gbps_per_port") * (1 if usual else _most_slots(catalog)) >= gbps
    return catalog.network.filter("rdma", fast, known)["network"].sort().to_list()


def _most_slots(catalog: Catalog) -> int:
    """The most NICs that any server takes whose NICs are chosen."""
    most = catalog.servers.filter(~pl.col("complete"))["nic_slots"].max()
    return int(most) if isinstance(most, int | float) else 0


def _local_tb(trains: Sequence[Pretrain | Finetune], least_tb: float) -> dict[str, float]:
    """Local NVMe of training nodes by suffix of the level [TB]: what the rule asks for, and what holds the data sets.

    Data sets of different sizes have levels of their own: "-data" for the smallest, "-data2" for the next.
    """
    sizes = sorted({d.size for w in trains for d in classes_of(w) if d.kind == "training_data" and d.size})
    sized = [tb for tb in (raw_tb(size / 1e12) for size in sizes) if tb > least_tb]
    return {"": least_tb, **{f"-data{n}" if n > 1 else "-data": tb for n, tb in enumerate(sized, 1)}}
