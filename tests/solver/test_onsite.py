"""Servers on own sites as pools: requirement levels, what pools carry of a build, and which builds are kept."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_problem, load_text
from solver.candidates import onsite
from solver.candidates.frames import POOL_COLUMNS, Pools, fx_rates
from solver.candidates.levels import requirement_levels
from solver.candidates.onsite import bought_pools, owned_pools
from solver.candidates.pools import build_pools
from solver.candidates.watts import largest_node_w, most_per_watt, watts_scarce
from solver.events import SolveOptions
from solver.features import builds as features
from solver.features.builds import Built, server_builds
from solver.features.speed_tables import SpeedTables
from solver.solve import solve
from solver.verify import verify

TUNE: dict[str, Any] = {
    "name": "tune", "kind": "finetune", "method": "lora", "model": "llama-3-8b", "tokens": "20M", "runs": "4/mo", "deadline": "48h",
}  # fmt: skip
CHAT: dict[str, Any] = {
    "name": "chat", "kind": "serve", "model": "mistral-7b", "precision": ["bf16"],
    "traffic": {"rate": "20 req/s", "isl": 500, "osl": 100},
}  # fmt: skip
ROOM: dict[str, Any] = {"name": "room", "pue": 1.4, "electricity": "$0.12/kWh", "country": "US"}


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    return load_catalog()


def problem(*works: dict[str, Any], **others: Any) -> LoadedProblem:
    whole = {"horizon": "36mo", "workloads": works, "sites": [ROOM], "policy": {"billing": ["purchase"]}, **others}
    return load_text(json.dumps(whole), "test")


def bought(loaded: LoadedProblem) -> Pools:
    return bought_pools(loaded.problem, catalog(), fx_rates(catalog(), loaded.problem.currency))


def names(loaded: LoadedProblem) -> set[str]:
    return set(requirement_levels(loaded.problem, catalog())["level"])


def test_work_that_spans_nodes_has_a_level_for_each_network_that_is_fast_enough() -> None:
    levels = requirement_levels(problem(TUNE, CHAT).problem, catalog())
    named = levels.filter(pl.col("network").is_not_null()).join(catalog().network, on="network")
    rdma = catalog().network.filter("rdma")
    for kind, gbps in (("cluster-", 200), ("serving-multinode-", 100)):
        # Servers take twelve NICs at most.
        able = rdma.filter(pl.col("gbps_per_port") * 12 >= gbps)["network"]
        assert {"RoCEv2-25G", "InfiniBand-EDR", "InfiniBand-NDR", "InfiniBand-XDR", "RoCEv2-800G"} <= set(able)
        assert set(named.filter(pl.col("level") == kind + pl.col("network"))["network"]) == set(able)
    assert levels["level"].is_unique().all()
    assert levels.filter(pl.col("level").is_in(["serving", "training", "all"]))["network"].null_count() == 3


def test_no_network_fast_enough_is_a_level_that_is_refused_by_name() -> None:
    rules = {"training_network_gbps": {"value": 99000}, "training_network_gbps_large": {"value": 99000}}
    loaded = problem(
        TUNE, policy={"billing": ["purchase"], "rules": rules}, limits={"accelerators": ["H100-80GB-SXM5"]}
    )
    assert "cluster" in names(loaded)
    dropped = bought(loaded).dropped.filter(pl.col("item").str.contains(r"8x H100-80GB-SXM5 \(cluster\)"))
    assert dropped.height > 0
    assert dropped["reason"].str.starts_with("NIC slots").all()


def test_local_drives_hold_the_data_set_with_a_fifth_left_free() -> None:
    loaded = problem({**TUNE, "dataset": "40TB"}, limits={"accelerators": ["H100-80GB-SXM5"]})
    levels = requirement_levels(loaded.problem, catalog())
    assert set(levels.filter(pl.col("level").str.ends_with("-data"))["nvme_tb"]) == {50.0}
    pools = bought(loaded).pools
    held = pools.filter(pl.col("pool").str.contains("-data"))
    assert held.height > 0
    assert (held["nvme_tb"] >= 50.0).all()
    assert (pools.filter(~pl.col("pool").str.contains("-data"), ~pl.col("complete"))["nvme_tb"] < 50.0).any()


def test_data_sets_of_two_sizes_have_two_levels() -> None:
    two = problem({**TUNE, "dataset": "40TB"}, {**TUNE, "name": "other", "dataset": "80TB"})
    levels = requirement_levels(two.problem, catalog()).filter(pl.col("network").is_null())
    found = {n for n in levels["level"] if "training" in n}
    assert found == {"training", "training-data", "training-data2"}
    assert {"all", "all-data"} <= names(two)


def test_a_small_data_set_asks_for_nothing_more() -> None:
    assert not any("data" in n for n in names(problem({**TUNE, "dataset": "1TB"})))


def test_a_data_set_beyond_the_bays_is_refused_by_name() -> None:
    loaded = problem({**TUNE, "dataset": "9000TB"}, limits={"accelerators": ["H100-80GB-SXM5"]})
    found = bought(loaded)
    assert found.pools.filter(pl.col("pool").str.contains("data")).is_empty()
    assert found.dropped.filter(pl.col("item").str.contains("-data"))["reason"].str.starts_with("drive bays").any()


# --- what pools carry --------------------------------------------------------------------------------------------------


def test_pools_carry_network_space_and_cooling() -> None:
    loaded = problem(
        TUNE,
        policy={"billing": ["purchase", "on_demand", "owned"]},
        owned=[{"accelerator": "L40S", "count": 2, "site": "room"}],
    )
    tables = SpeedTables.of(catalog(), None)
    pools = build_pools(loaded.problem, catalog(), tables).pools
    assert pools.columns == POOL_COLUMNS
    schema = {c: pools.schema[c] for c in ("network", "nic_count", "rack_units", "cooling")}
    assert schema == {"network": pl.String, "nic_count": pl.Int64, "rack_units": pl.Float64, "cooling": pl.String}
    rented = pools.filter(pl.col("kind") == "rental").select(list(schema))
    assert rented.null_count().row(0) == (rented.height,) * 4
    built = pools.filter(pl.col("kind") == "server", ~pl.col("complete")).select(list(schema))
    assert built.null_count().row(0) == (0,) * 4
    known = dict(catalog().network.select("network", "gbps_per_port").iter_rows())
    rows = pools.filter(pl.col("kind") == "server", pl.col("network").is_not_null())
    assert (rows["network"].replace_strict(known) * rows["nic_count"] == rows["network_gbps"]).all()
    owned = pools.filter(pl.col("kind") == "owned").select(list(schema))
    assert owned["network"].null_count() == owned.height > 0
    assert owned["rack_units"].null_count() == 0


def test_owned_machines_stand_whatever_the_rules_ask() -> None:
    loaded = problem(CHAT, policy={"billing": ["owned"]}, owned=[{"accelerator": "A40", "count": 4, "site": "room"}])
    pools = owned_pools(loaded.problem, catalog(), fx_rates(catalog(), "USD")).pools
    assert pools["gpus"].to_list() == [4]


# --- which builds are kept ---------------------------------------------------------------------------------------------


def optimum(loaded: LoadedProblem) -> float:
    result = solve(loaded, catalog(), SolveOptions(gap=0.0, workers=2, time_limit_s=60, runner_up=False))
    assert result.status == "optimal"
    assert verify(result, loaded.problem, catalog()) == []
    assert result.objective is not None
    return result.objective


@pytest.mark.slow
@pytest.mark.parametrize(
    "loaded",
    [
        problem(CHAT, TUNE, limits={"accelerators": ["L40S", "RTX-6000-Ada"]}),
        problem(CHAT, sites=[{**ROOM, "power": "3kW"}], limits={"accelerators": ["L4", "L40S"]}),
    ],
    ids=["two works", "few watts"],
)
@pytest.mark.slow
def test_builds_that_others_stand_in_for_change_no_optimum(
    loaded: LoadedProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = optimum(loaded)
    fewer = bought(loaded).pools.height
    monkeypatch.setattr(features, "unbeaten", lambda builds, *_: builds)
    assert bought(loaded).pools.height > fewer
    assert optimum(loaded) == pytest.approx(found, abs=0.02)


def test_services_with_redundancy_ask_for_no_more_builds() -> None:
    """Builds with the same cards count as one where nodes are lost, so mixing them is worth nothing."""
    plain = problem(CHAT, limits={"accelerators": ["L40S"]})
    spare = problem({**CHAT, "redundancy": "n+1"}, limits={"accelerators": ["L40S"]})
    assert bought(spare).pools["pool"].to_list() == bought(plain).pools["pool"].to_list()


def test_a_dearer_build_that_draws_less_is_there_where_watts_are_short() -> None:
    cash = bought(problem(TUNE, sites=[{**ROOM, "power": "9kW"}], limits={"accelerators": ["L40S"]}))
    priced = cash.pools.join(cash.capacity.select("pool", "price"), on="pool")
    lean = priced.filter(pl.col("pool").str.contains("~"))
    assert lean.height > 0
    plain = lean.with_columns(pool=pl.col("pool").str.replace(r"~\d+$", "")).join(priced, on="pool", suffix="_plain")
    assert plain.height > 0
    assert (plain["price"] > plain["price_plain"]).all()
    assert (plain["nameplate_w"] < plain["nameplate_w_plain"]).all()
    # At 12 cents per kWh no watt is worth what a leaner part costs.
    assert not any("~" in name for name in bought(problem(TUNE, limits={"accelerators": ["L40S"]})).pools["pool"])


def test_a_watt_is_worth_its_energy_over_the_horizon() -> None:
    found = most_per_watt(problem(TUNE).problem, catalog())
    # 0.7 of nameplate x 730 h x 36 x 1.4 x 0.12 $/kWh, over a dollar with 8 % of maintenance a year.
    assert found == pytest.approx(0.7 * 730 * 36 * 1.4 * 0.12 / 1000 / 1.24, rel=0.02)
    dear = most_per_watt(problem(TUNE, sites=[{**ROOM, "electricity": "$1.2/kWh"}]).problem, catalog())
    assert dear == pytest.approx(10 * found)
    assert watts_scarce(problem(TUNE, sites=[{**ROOM, "it_power": "9kW"}]).problem)
    assert not watts_scarce(problem(TUNE).problem)
    assert largest_node_w(problem(TUNE, sites=[{**ROOM, "power": "7kW"}]).problem, catalog()) == pytest.approx(5000.0)


def test_a_server_may_draw_what_limits_leave_once_one_of_them_is_lifted() -> None:
    def largest(**site: Any) -> float:
        return largest_node_w(problem(TUNE, sites=[{**ROOM, **site}]).problem, catalog())

    racks = {"count": 2, "power": "9kW"}
    assert largest(it_power="3kW") == 3000.0
    assert largest(it_power="3kW", power="7kW") == pytest.approx(5000.0)
    assert largest(it_power="3kW", power="7kW", racks=racks) == pytest.approx(5000.0)
    assert largest(it_power="3kW", racks=racks) == 9000.0
    assert largest(racks=racks) == 9000.0
    assert largest(it_power="3kW", circuits="230V 16A 1ph x4") == pytest.approx(4 * 0.8 * 230 * 16)
    assert largest() == math.inf
    sites = [{**ROOM, "it_power": "3kW"}]
    assert largest_node_w(problem(TUNE, sites=sites, objective="power").problem, catalog()) == math.inf
    both = problem(TUNE, sites=[*sites, {**ROOM, "name": "hall", "it_power": "6kW"}], limits={"power": "14kW"})
    assert largest_node_w(both.problem, catalog()) == pytest.approx(10_000.0)


def spied(monkeypatch: pytest.MonkeyPatch) -> list[pl.DataFrame]:
    """What `server_builds` gives from here on."""
    made: list[pl.DataFrame] = []

    def counting(*args: Any, **more: Any) -> Built:
        built = server_builds(*args, **more)
        made.append(built.builds)
        return built

    monkeypatch.setattr(onsite, "server_builds", counting)
    return made


EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "problems").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_the_builds_of_every_example_stay_few(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every network, lean builds and all."""
    made = spied(monkeypatch)
    loaded = load_problem(path)
    pools = bought(loaded).pools
    buys = loaded.problem.sites and "purchase" in loaded.problem.billing_modes
    assert len(made) == (1 if buys else 0)
    assert all(0 < frame.height < 5000 for frame in made)
    assert pools.height <= sum(frame.height for frame in made) * len(loaded.problem.sites)


def test_barred_servers_and_cards_are_not_built_and_named_by_what_bars_them(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = {"deployment": ["on_premises"]}
    limits = {"accelerators": {"deny": ["L4"]}, "vendors": {"deny": ["amd"]}, **modes}
    # What nodes of some networks must stand beside depends on the lightest that may be built.
    monkeypatch.setattr(onsite, "largest_site_w", lambda _: math.inf)
    loaded = problem(TUNE, CHAT, sites=[{**ROOM, "it_power": "9kW"}], limits=limits)
    made = spied(monkeypatch)
    found = bought(loaded)
    barred = found.dropped.filter(pl.col("reason").str.contains("limits."))
    assert set(barred["reason"]) >= {
        "accelerator not allowed (limits.accelerators)",
        "vendor not allowed (limits.vendors)",
    }
    assert barred.filter(pl.col("item").str.ends_with("x L4")).height > 1
    assert "L4" not in made[0]["accelerator"]
    # The same pools as where all is built first and barred after.
    whole = bought(problem(TUNE, CHAT, sites=[{**ROOM, "it_power": "9kW"}], limits=modes))
    assert made[1].height > made[0].height
    vendors = dict(catalog().accelerators.select("accelerator", "vendor").iter_rows())
    left = whole.pools.filter(pl.col("accelerator") != "L4", pl.col("accelerator").replace_strict(vendors) != "AMD")
    assert found.pools.equals(left)


def test_a_question_about_looser_watts_has_the_builds_that_no_site_could_power(monkeypatch: pytest.MonkeyPatch) -> None:
    made = spied(monkeypatch)
    monkeypatch.setattr(features, "unbeaten", lambda builds, *_: builds)
    modes = {"deployment": ["on_premises"]}
    loaded = problem(TUNE, sites=[{**ROOM, "it_power": "1kW"}], limits=modes)
    bought(loaded)
    bought_pools(loaded.problem, catalog(), fx_rates(catalog(), "USD"), any_watts=True)
    bought(problem(TUNE, limits=modes))
    named = ["server", "accelerator", "gpus", "parts"]
    few, every, free = (frame.with_columns(pl.col("parts").list.join(";")).select(*named) for frame in made)
    assert few.join(every, on=named, how="anti").is_empty()
    assert few.height < every.height
    # What money would choose without the limit is there in any case: a limit may turn out to bind.
    assert free.join(few, on=named, how="anti").is_empty()
    gone = made[1].join(few, on=["server", "accelerator", "gpus"], how="anti")
    assert gone.is_empty()
