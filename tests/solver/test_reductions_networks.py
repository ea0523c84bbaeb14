"""Networks, lean builds and power states under limits of watts: what is left out never changes the optimum.

Small parts lists with several networks at other prices, a limit of watts, and training that spans nodes: once with every build
there is and nothing left out at all, once as `solve` has it.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_text
from solver.bounding.beyond import promising
from solver.candidates import Candidates, build_candidates, onsite, reduced
from solver.candidates.within import limits_of_watts
from solver.events import SolveOptions
from solver.features import builds as features
from solver.model import build_model
from solver.plan import Result, Status
from solver.scaling import scale
from solver.search import run
from solver.solve import solve
from solver.verify import verify

NETWORKS = ["25GbE", "RoCEv2-200G", "InfiniBand-HDR", "InfiniBand-NDR", "InfiniBand-XDR"]
CARDS = ["L40S", "RTX-6000-Ada"]


@lru_cache(maxsize=1)
def real() -> Catalog:
    return load_catalog()


def parts(
    rng: random.Random, *, networks: list[str] = NETWORKS, pcie: int = 6, factors: tuple[float, ...] = (0.2, 1.0, 3.0)
) -> Catalog:
    """One server for two cards, two CPUs, memory modules and drives of each kind, and networks at drawn prices."""
    cat = real()

    def shifted(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        return frame.with_columns(
            (pl.col(c) * pl.Series([rng.choice(factors) for _ in range(frame.height)])).round(2) for c in columns
        )

    network = cat.network.filter(pl.col("network").is_in(networks))
    return replace(
        cat,
        servers=cat.servers.filter(pl.col("server") == "PCIe-4GPU-2U"),
        accelerators=cat.accelerators.filter(pl.col("accelerator").is_in(CARDS)),
        cpus=shifted(cat.cpus.filter(pl.col("cpu").is_in(["EPYC-9354", "EPYC-9454"])), "price_usd").with_columns(
            pcie_gen=pl.lit(pcie, cat.cpus.schema["pcie_gen"])
        ),
        ram=cat.ram.filter(pl.col("type") == "DDR5", pl.col("size_gib").is_in([64.0, 96.0])),
        storage=cat.storage.filter((pl.col("class") != "nvme_tlc") | (pl.col("capacity_tb") < 4)),
        network=shifted(network, "nic_price_usd", "switch_price_usd", "cable_price_usd"),
        power_curves=cat.power_curves.filter((pl.col("cap_share") * 100).round(0).is_in([60.0, 100.0])),
    )


def problem(
    watts: int | None, *, rate: float = 2.0, deadline: str = "96h", tokens: str = "20M", **more: Any
) -> LoadedProblem:
    tune = {
        "name": "tune", "kind": "finetune", "method": "full", "model": "llama-2-13b", "tokens": tokens, "sequence": 2048,
        "runs": "4/mo", "deadline": deadline,
    }  # fmt: skip
    chat = {
        "name": "chat", "kind": "serve", "model": "mistral-7b", "precision": ["bf16"],
        "traffic": {"rate": f"{rate} req/s", "isl": 500, "osl": 100},
    }  # fmt: skip
    site: dict[str, Any] = {"name": "room", "pue": 1.3, "electricity": "$0.12/kWh", "country": "US"}
    if watts is not None:
        site["it_power"] = f"{watts}W"
    whole = {
        "horizon": "36mo", "workloads": [tune, chat], "sites": [site],
        "policy": {"billing": ["purchase"], "min_confidence": "recalled"}, **more,
    }  # fmt: skip
    return load_text(json.dumps(whole), "test")


def everything(loaded: LoadedProblem, cat: Catalog) -> Candidates:
    """Candidates of every build on the staircase of price and watts, also where others stand in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "unbeaten", lambda builds, *_, **__: builds)
        patch.setattr(onsite, "largest_node_w", lambda *_: math.inf)
        patch.setattr(onsite, "largest_site_w", lambda *_: math.inf)
        patch.setattr(onsite, "watts_scarce", lambda _: True)
        return build_candidates(loaded.problem, cat, Path())


def optimum(found: Candidates, cat: Catalog) -> int | None:
    if found.unserved:
        return None
    built = build_model(scale(found, cat).instance)
    search = run(built, time_limit_s=60, gap=0.0, workers=2, seed=1, patience=1.0)
    assert search.status in (Status.OPTIMAL, Status.INFEASIBLE)
    return search.objective


def nothing_better(found: Candidates, cat: Catalog, known: int | None) -> bool:
    """No plan of these candidates has an objective below the known one, or none exists where none is known."""
    instance = scale(found, cat).instance
    part = None if known is None else promising(instance, known - 1, 30)
    built = build_model(instance if part is None else part.instance)
    if known is not None:
        built.model.add(built.objective <= known - 1)
    search = run(built, time_limit_s=90, gap=0.0, workers=2, seed=1, patience=1.0)
    assert search.status is Status.INFEASIBLE or search.values is not None
    return search.values is None


def machines(found: Candidates) -> set[tuple[object, ...]]:
    """Pools by what they are: a machine that several levels lead to has the name of the first of them."""
    named = found.pools.with_columns(parts=pl.col("parts").list.join(";"))
    return set(named.select("site", "offer", "parts", "power_limit_w", "oversubscription").rows())


def compared(loaded: LoadedProblem, cat: Catalog) -> int | None:
    """All candidates against those of `solve`: what is left has a plan as good as any of what there is."""
    whole = reduced(everything(loaded, cat), prune=False)
    small = reduced(build_candidates(loaded.problem, cat, Path()), within_watts=True)
    assert small.pools.height < whole.pools.height
    assert machines(small) <= machines(whole)
    known = optimum(small, cat)
    assert nothing_better(whole, cat, known)
    return known


def solved(loaded: LoadedProblem, cat: Catalog) -> Result:
    result = solve(loaded, cat, SolveOptions(gap=0.0, workers=2, time_limit_s=60, runner_up=False))
    assert result.status == "optimal"
    assert verify(result, loaded.problem, cat) == []
    return result


def placed(result: Result, work: str) -> list[Any]:
    return [p for w in result.workloads if w.name == work for p in w.placements]


def networks(result: Result, work: str) -> set[str]:
    """Networks of the servers that a workload runs on, from the bill of materials."""
    pools = {p.pool for p in placed(result, work)}
    nics = [i.parts[-1] for i in result.items if i.kind == "server" and i.pool in pools and i.parts]
    return {nic[nic.rfind("(") + 1 : -1] for nic in nics}


def drawn(seed: int) -> tuple[LoadedProblem, Catalog]:
    """A problem with or without a limit of watts or money, and a parts list for it."""
    rng = random.Random(seed)
    cat = parts(rng, networks=["25GbE", *rng.sample(NETWORKS[1:], 3)])
    watts = rng.choice([None, *range(4500, 12_000, 500)])
    limits = rng.choice([{}, {}, {"budget": {"monthly": "$9k/mo"}}, {"budget": {"capex": "$260k"}}])
    if watts is not None and rng.random() < 0.3:
        limits = {**limits, "power": f"{round(watts * rng.uniform(1.0, 1.6))}W"}
    return problem(watts, rate=rng.choice([0.5, 2.0, 9.0]), deadline=rng.choice(["60h", "96h"]), limits=limits), cat


def test_the_fastest_network_is_bought_where_it_saves_a_node() -> None:
    """One port a node: a job too long for two nodes with 400 Gb/s is done in time by two with 800."""
    cat = parts(random.Random(1), factors=(1.0,))
    cat = replace(cat, servers=cat.servers.with_columns(nic_slots=pl.lit(1, cat.servers.schema["nic_slots"])))
    slow = replace(cat, network=cat.network.filter(pl.col("gbps_per_port") < 800))
    loaded = problem(None, tokens="4B", rate=0.5)
    fast = solved(loaded, cat)
    assert networks(fast, "tune") == {"InfiniBand-XDR"}
    without = solved(loaded, slow)
    assert fast.objective is not None
    assert without.objective is not None
    assert fast.objective < without.objective
    compared(loaded, cat)


def test_a_leaner_build_is_bought_for_work_across_nodes_where_watts_are_short() -> None:
    cat = parts(random.Random(1), networks=NETWORKS[:2], factors=(1.0,))
    short, ample = (solved(problem(watts), cat) for watts in (5800, 7000))
    assert [p.nodes for p in placed(short, "tune")] == [2]
    assert "~" in placed(short, "tune")[0].pool
    assert "~" not in placed(ample, "tune")[0].pool
    compared(problem(5800), cat)


@pytest.mark.parametrize(("watts", "binds"), [(5800, True), pytest.param(12_000, False, marks=pytest.mark.slow)])
def test_whether_a_limit_of_watts_binds_does_not_hang_on_builds_that_it_leaves_no_room_for(
    watts: int, binds: bool
) -> None:
    cat, loaded = parts(random.Random(1), networks=NETWORKS[:2], factors=(1.0,)), problem(watts)
    options = SolveOptions(gap=0.0, workers=2, time_limit_s=60, runner_up=False)
    for any_watts in (False, True):
        found = build_candidates(loaded.problem, cat, Path(), any_watts=any_watts)
        limits = solve(loaded, cat, options, candidates=found).limits
        assert [x.binding for x in limits if x.field == "sites.room.it_power"] == [binds]


def dear_switches() -> Catalog:
    """Three networks, of which the one without RDMA has switches at forty times the price."""
    cat = parts(random.Random(1), networks=NETWORKS[:3], factors=(1.0,))
    dear = pl.when(pl.col("network") == "25GbE").then(40.0).otherwise(1.0)
    return replace(cat, network=cat.network.with_columns(pl.col("switch_price_usd") * dear))


def test_a_service_may_share_the_switch_of_a_job() -> None:
    """Where the switch that leads out is dear, a service stands on the network of the job across nodes, which has one anyhow."""
    found = solved(problem(None, rate=9.0, tokens="9B"), dear_switches())
    assert networks(found, "chat") == networks(found, "tune") != {"25GbE"}
    bought = [i for i in found.items if i.billing == "purchase" and (i.gear or "").startswith("fabric switch")]
    assert [i.quantity for i in bought] == [1]


def test_two_nodes_of_a_job_need_no_switch_where_others_serve() -> None:
    """Services could stand on that network, but this job keeps both of its nodes all month."""
    found = solved(problem(None, rate=9.0, tokens="4B"), dear_switches())
    (run,) = placed(found, "tune")
    (network,) = networks(found, "tune")
    gear = {i.gear: i.quantity for i in found.items if i.gear and i.gear.endswith(network) and i.billing == "purchase"}
    assert run.nodes == 2
    assert set(gear) == {f"fabric links 1 room {network}"}
    assert networks(found, "chat") != {network}


@pytest.mark.parametrize("seed", [1, 5])
def test_what_is_left_out_changes_no_optimum(seed: int) -> None:
    loaded, cat = drawn(seed)
    compared(loaded, cat)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 3, 6, 8, 10])
def test_what_is_left_out_changes_no_optimum_of_more_problems(seed: int) -> None:
    loaded, cat = drawn(seed)
    compared(loaded, cat)


def test_under_a_limit_of_watts_most_of_what_exists_for_it_goes() -> None:
    cat = parts(random.Random(1), factors=(1.0,))
    found = build_candidates(problem(6000).problem, cat, Path())
    plain, within = reduced(found), reduced(found, within_watts=True)
    capped = pl.col("power_limit_w").is_not_null()
    assert within.pools.filter(capped).height < plain.pools.filter(capped).height
    # No two nodes of a job draw more, and slim leaves are for more ports than the room feeds.
    left = within.options.join(within.pools.filter(capped), on="pool").filter(pl.col("nodes") > 1)
    assert left.height > 0
    assert (left["nodes"] * left["it_w"]).max() <= 6001  # type: ignore[operator]
    assert within.pools.filter(capped & pl.col("oversubscription").is_not_null()).is_empty()
    assert not within.pools.filter(~capped & pl.col("oversubscription").is_not_null()).is_empty()


def test_what_no_limit_asks_for_stays_where_racks_or_policy_could() -> None:
    room = {"name": "room", "country": "US", "it_power": "6kW"}
    for more in (
        {"sites": [{**room, "racks": {"count": 2, "power": "6kW"}}]},
        {"objective": "power"},
        {"policy": {"billing": ["purchase"], "gpu_power_limit": 0.9}},
    ):
        assert limits_of_watts(problem(6000, **more).problem) == []
    assert [x.watts for x in limits_of_watts(problem(6000).problem)] == [6001.0]
    assert limits_of_watts(problem(6000).problem, axes=("power",)) == []
