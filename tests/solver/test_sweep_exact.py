"""Points of sweeps and fronts over all candidates: equal to `solve`, also where builds with RDMA are the better ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_problem, load_text
from solver.blend import remixed
from solver.events import SolveOptions
from solver.front.explorer import Explorer
from solver.instance import Instance
from solver.plan import Status
from solver.search import Values
from solver.solve import solve
from solver.verify import verify
from solver.whatif.study import Study
from solver.whatif.vary import Scenario

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = SolveOptions(gap=0.0, workers=2, time_limit_s=60, runner_up=False)
WATTS = ("13100W", "16600W", "17000W", "30000W")
"""Limits of the room at which the best plan changes; at the first two it is one of lean builds with RDMA."""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="module")
def loaded() -> LoadedProblem:
    return load_problem(ROOT / "problems" / "power-capped-room.yaml")


def limited(watts: str) -> Scenario:
    return Scenario((("sites.room.power", watts),))


@pytest.mark.slow
@pytest.mark.parametrize("watts", WATTS)
def test_a_point_of_a_sweep_costs_what_solve_finds(watts: str, catalog: Catalog, loaded: LoadedProblem) -> None:
    study = Study(loaded, catalog)
    point = study.solve(limited(watts))
    alone = solve(study.at(limited(watts))[0], catalog, OPTIONS)
    assert point.status == alone.status == "optimal"
    assert point.objective == alone.objective


@pytest.mark.slow
def test_points_that_share_their_integers_are_what_each_is_alone(catalog: Catalog, loaded: LoadedProblem) -> None:
    together = Study(loaded, catalog)
    for watts in WATTS:
        assert together.solve(limited(watts)) == Study(loaded, catalog).solve(limited(watts))
    assert len(together.shared.kept) == 1


@pytest.mark.slow
def test_builds_with_rdma_that_nothing_spans_may_be_the_best(catalog: Catalog, loaded: LoadedProblem) -> None:
    """Where no slow network is sold, the plan at this limit is dearer without them: no rule may leave them out."""
    study = Study(loaded, replace(catalog, network=catalog.network.filter(pl.col("gbps_per_port") >= 25)))
    best = study.solve(limited("16600W"))
    found = study.compiled(study.at(limited("16600W"))[0], study.catalog)
    rdma = set(found.pools.filter("rdma")["pool"])
    used = {p.pool for w in best.workloads for p in w.placements}
    assert used & rdma


@pytest.mark.slow
def test_a_point_of_the_front_costs_what_solve_finds_within_its_watts(catalog: Catalog, loaded: LoadedProblem) -> None:
    explorer = Explorer(Study(loaded, catalog), ("cost", "power"))
    for watts in (16_600, 17_000):
        spot = explorer.lowest([["cost"], ["power"]], {"power": watts})
        alone = solve(Study(loaded, catalog).at(limited(f"{watts}W"))[0], catalog, OPTIONS)
        assert spot is not None
        assert alone.objective is not None
        assert spot.at[0] == round(alone.objective * 100)
        assert spot.at[1] <= watts


MIXED = """
horizon: 6mo
limits: {providers: {allow: [lambda, runpod]}}
policy: {billing: [on_demand]}
workloads:
  - name: chat
    kind: serve
    model: llama-3-8b
    precision: [bf16]
    traffic: {rate: 6 req/s, sizes: [{isl: 300, osl: 100, share: 70%}, {isl: 3000, osl: 300, share: 30%}]}
    slo: {ttft: 4s, tpot: 100ms}
    redundancy: n+1
"""


def test_mixes_that_outlive_losses_are_searched_without_their_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same optimum as with them, loads and all, and the same answer twice."""
    loaded = load_text(MIXED, "mixed.yaml")
    made: list[bool] = []

    def counted(instance: Instance, values: Values) -> Values | None:
        done = remixed(instance, values)
        made.append(done is not None)
        return done

    monkeypatch.setattr("solver.whatif.study.remixed", counted)
    first, again = (Study(loaded, load_catalog()).solve() for _ in range(2))
    assert made == [True, True]
    assert first == again
    monkeypatch.setattr("solver.whatif.study.unmixed", lambda instance: instance)
    whole = Study(loaded, load_catalog()).solve()
    assert (first.status, first.objective) == (whole.status, whole.objective) == (Status.OPTIMAL, first.objective)
    assert verify(first, loaded.problem, load_catalog(), Path()) == []
