"""Recheck that the NICs of every bought server are fast enough for what runs on it: their number on the bill times the speed of one.

The rules are read from problem and catalogue once more; nothing of the model is used.
"""

from __future__ import annotations

from catalogs.catalog import Catalog
from problems.schema import Batch, Finetune, Pretrain, Problem, RuleName, Serve
from solver.plan import Item, Result
from solver.verify_gear import network_row, pool_oversubscription
from solver.verify_sites import is_complete, node_ports


def check_nics(result: Result, problem: Problem, catalog: Catalog) -> list[str]:
    """Gb/s of a node's NICs together against the rules that are hard for bought servers."""
    servers: dict[str | None, Item] = {
        i.pool: i for i in result.items if i.kind == "server" and i.gear is None and i.billing == "purchase"
    }
    kinds = {w.name: w for w in problem.workloads}
    wrong = []
    for plan in result.workloads:
        work = kinds.get(plan.name)
        for p in plan.placements:
            item = servers.get(p.pool)
            if item is None or is_complete(item, catalog):
                continue
            rule: RuleName
            if isinstance(work, Serve | Batch):
                rule = "serving_network_gbps" if p.nodes <= 1 else "serving_network_gbps_multinode"
            elif isinstance(work, Pretrain | Finetune) and p.nodes > 1:
                many = p.nodes >= _rule("training_large_nodes", problem, catalog)[0]
                rule = "training_network_gbps_large" if many else "training_network_gbps"
            else:
                continue
            asked, binds = _rule(rule, problem, catalog)
            have = _gbps(item, p.nodes, catalog)
            if binds and have < asked * (1 - 1e-9):
                wrong.append(f"{plan.name} on {item.item}: NICs of {have:g} Gb/s a node, {rule} asks for {asked:g}")
    return wrong


def _rule(name: RuleName, problem: Problem, catalog: Catalog) -> tuple[float, bool]:
    """Value of a rule, and whether it is hard for bought servers."""
    row = next(r for r in catalog.rules.iter_rows(named=True) if r["rule"] == name)
    own = problem.policy.rules.get(name)
    value = row["value"] if own is None or own.value is None else own.value
    severity = row["bought"] if own is None or own.bought is None else own.bought
    return float(value), severity == "hard"


def _gbps(item: Item, nodes: int, catalog: Catalog) -> float:
    """Gb/s of a node, its share of the uplinks where work does not fit under one leaf of an oversubscribed network."""
    ports = node_ports(item, catalog)
    row = None if ports is None else network_row(catalog, ports[0])
    if ports is None or row is None:
        return 0.0
    count, ratio = ports[1], pool_oversubscription(item.pool)
    each = float(row["gbps_per_port"]) * count
    if ratio <= 1 or not row["switch_ports"]:
        return each
    down = int(row["switch_ports"] * ratio / (ratio + 1) + 1e-9)
    return each if nodes <= down // count else each / ratio
