"""Fixed work on several nodes of an own site."""

from __future__ import annotations

from pathlib import Path

from catalogs.load import load_catalog
from problems.load import load_text
from solver.candidates import build_candidates
from solver.plan import Status
from solver.solve import SolveOptions, solve
from solver.verify import verify

TWO = """
horizon: 12mo
workloads:
  - {name: lab, kind: fixed, accelerator: {memory: 24GB}, count: 1, nodes: 2, hours: 300h/mo}
  - {name: alone, kind: fixed, accelerator: {memory: 24GB}, count: 1, hours: 300h/mo}
sites:
  - {name: room, country: US, pue: 1.2, electricity: $0.12/kWh, power: 60kW}
policy: {billing: [purchase]}
"""


def test_several_nodes_need_rdma_also_where_other_work_has_servers_without() -> None:
    loaded, catalog = load_text(TWO, "two.yaml"), load_catalog()
    found = build_candidates(loaded.problem, catalog, Path())
    pools = found.pools.select("pool", "rdma", "network")
    options = found.options.join(pools, on="pool").filter(found.options["work"] == "lab")
    assert options.height
    assert options["rdma"].all()
    alone = found.options.join(pools, on="pool").filter(found.options["work"] == "alone")
    assert not alone["rdma"].all()
    result = solve(loaded, catalog, SolveOptions(time_limit_s=30, workers=2, runner_up=False))
    assert result.status is Status.OPTIMAL
    assert verify(result, loaded.problem, catalog) == []
