"""Networks of work that spans no nodes: NICs, switches and cables are weighed together, against every network there is."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem
from solver.candidates import Candidates, build_candidates, levels, reduced
from solver.candidates.levels import requirement_levels
from solver.candidates.plain_networks import FIGURES, unbeaten_networks
from tests.solver.test_reductions_networks import (
    everything,
    networks,
    nothing_better,
    optimum,
    parts,
    placed,
    problem,
    real,
    solved,
)

GENERATIONS = [3, 4, 5]
PLAIN = ["10GbE", "25GbE", "RoCEv2-25G", "100GbE", "400GbE"]


def priced(cat: Catalog, **figures: dict[str, float]) -> Catalog:
    """Catalogue with other figures of networks: column -> network -> value."""
    network = cat.network
    for column, values in figures.items():
        known = pl.col("network").replace_strict(values, default=None, return_dtype=pl.Float64)
        network = network.with_columns(pl.coalesce(known, pl.col(column)).cast(network.schema[column]).alias(column))
    return replace(cat, network=network)


def on_every_network(loaded: LoadedProblem, cat: Catalog) -> Candidates:
    """Candidates of every build there is, work that spans no nodes on every network."""

    def all_of_them(problem: Any, catalog: Catalog, *_: Any) -> pl.DataFrame:
        del problem
        return catalog.network.select("network", "gbps_per_port", "switch_power_w", idle=pl.lit(False))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "plain_networks", all_of_them)
        return everything(loaded, cat)


def held(loaded: LoadedProblem, cat: Catalog) -> int | None:
    """The optimum of what `solve` looks at; no plan over all builds and networks is better."""
    small = reduced(build_candidates(loaded.problem, cat, Path()), within_watts=True)
    known = optimum(small, cat)
    whole = reduced(on_every_network(loaded, cat), prune=False)
    assert whole.unserved or nothing_better(whole, cat, known)
    return known


def small_modules(cat: Catalog) -> Catalog:
    """Modules of 16 GiB, too: what a replica across nodes asks for is more than the work inside a node then has."""
    sizes = pl.col("size_gib").is_in([16.0, 64.0])
    return replace(cat, ram=real().ram.filter(pl.col("type") == "DDR5", sizes, pl.col("speed_mts") == 4800))


RUN: dict[str, Any] = {
    "name": "tune", "kind": "finetune", "method": "lora", "model": "mistral-7b", "tokens": "20M", "runs": "4/mo", "deadline": "48h",
}  # fmt: skip
SERVICE: dict[str, Any] = {
    "name": "chat", "kind": "serve", "model": "mistral-7b", "precision": ["bf16"],
    "traffic": {"rate": "9 req/s", "isl": 500, "osl": 100},
}  # fmt: skip


def two_works(watts: int | None = None, **more: Any) -> LoadedProblem:
    """A run on one node and a service on another, which share a switch where they stand on one network."""
    service = {**SERVICE, "accelerators": ["L40S"]}
    return problem(watts, workloads=[{**RUN, "accelerators": ["RTX-6000-Ada"]}, service], **more)


def test_a_dear_switch_takes_the_cheapest_nic_out_of_the_plan() -> None:
    cat = parts(random.Random(1), networks=["25GbE", "100GbE", "InfiniBand-HDR"], factors=(1.0,))
    dear = priced(cat, switch_price_usd={"25GbE": 60_000.0})
    assert networks(solved(two_works(), cat), "chat") == {"25GbE"}
    found = solved(two_works(), dear)
    assert networks(found, "chat") == {"100GbE"}
    names = set(build_candidates(two_works().problem, dear, Path()).pools["network"])
    assert {"25GbE", "100GbE"} <= names
    held(two_works(), dear)


def test_dear_cables_and_thirsty_switches_count_like_dear_switches() -> None:
    cat = parts(random.Random(1), networks=["25GbE", "100GbE", "InfiniBand-HDR"], factors=(1.0,))
    cables = priced(cat, cable_price_usd={"25GbE": 20_000.0})
    assert networks(solved(two_works(), cables), "chat") == {"100GbE"}
    thirsty = priced(cat, switch_power_w={"25GbE": 3000.0})
    assert networks(solved(two_works(4500), thirsty), "chat") == {"100GbE"}
    for other, watts in ((cables, None), (thirsty, 4500)):
        held(two_works(watts), other)


def test_work_with_lesser_needs_may_share_a_faster_switch() -> None:
    """A run asks for no speed, a service for 25 Gb/s: both on one switch of 25 Gb/s cost less than two switches."""
    cat = parts(random.Random(1), networks=["10GbE", "25GbE", "InfiniBand-HDR"], factors=(1.0,))
    cat = priced(cat, switch_price_usd={"10GbE": 12_000.0})
    names = requirement_levels(two_works().problem, cat)["level"].to_list()
    assert {"training-25GbE", "serving-10GbE"} <= set(names)
    assert "serving-25GbE" not in names
    found = solved(two_works(), cat)
    assert networks(found, "chat") == networks(found, "tune") == {"25GbE"}
    held(two_works(), cat)


def test_a_level_has_its_cheapest_network_by_itself_only_where_that_fits_every_host() -> None:
    """A NIC that is cheapest but faster than another may find no lanes beside the cheapest CPU, where the slower one does."""
    cat = parts(random.Random(1), networks=["25GbE", "100GbE", "InfiniBand-HDR"], factors=(1.0,), pcie=3)
    assert "serving-25GbE" not in set(requirement_levels(two_works().problem, cat)["level"])
    fast = priced(cat, nic_price_usd={"100GbE": 100.0}, nic_power_w={"100GbE": 5.0})
    assert {"serving-100GbE", "serving-25GbE"} <= set(requirement_levels(two_works().problem, fast)["level"])


def test_networks_of_systems_sold_whole_are_a_choice_for_what_stands_beside_them() -> None:
    cat = real()
    sold = requirement_levels(two_works().problem, cat, ["100GbE"])["level"]
    assert {"serving-100GbE", "training-100GbE", "all-100GbE"} <= set(sold)
    assert not any("100GbE" in n for n in requirement_levels(two_works().problem, cat)["level"])


def two_networks() -> Catalog:
    """One network that is cheap in everything, and one that work across nodes may use."""
    return small_modules(parts(random.Random(1), networks=["25GbE", "InfiniBand-HDR"], factors=(1.0,)))


def test_the_dearer_network_is_bought_where_its_switch_draws_less_than_the_room_has_left() -> None:
    """Two nodes and a switch of 900 W do not fit; two dearer nodes on a dearer switch of 460 W do."""
    cat = priced(two_networks(), switch_power_w={"25GbE": 900.0})
    assert networks(solved(two_works(4500), cat), "chat") == {"25GbE"}
    found = solved(two_works(3600), cat)
    assert networks(found, "chat") == networks(found, "tune") == {"InfiniBand-HDR"}
    assert ["serving-InfiniBand-HDR" in p.pool for p in placed(found, "chat")] == [True]
    held(two_works(3600), cat)


def test_a_dearer_port_on_a_switch_that_is_there_is_cheaper_than_a_switch() -> None:
    """NIC and cable of the network of a run on several nodes cost more, but no second switch is bought for the service."""
    loaded, cat = problem(None, rate=9.0, tokens="9B"), two_networks()
    found = solved(loaded, cat)
    assert [p.nodes > 1 for p in placed(found, "tune")] == [True]
    assert networks(found, "chat") == networks(found, "tune") == {"InfiniBand-HDR"}
    assert ["serving-InfiniBand-HDR" in p.pool for p in placed(found, "chat")] == [True]
    bought = [i for i in found.items if i.billing == "purchase" and (i.gear or "").startswith("fabric switch")]
    assert [i.quantity for i in bought] == [1]
    held(loaded, cat)


def drawn(seed: int) -> tuple[LoadedProblem, Catalog]:
    """A problem with or without limits, and networks at drawn prices, watts and ports."""
    rng = random.Random(seed)
    some = [*rng.sample(PLAIN, 3), rng.choice(["InfiniBand-HDR", "RoCEv2-200G"])]
    cat = small_modules(parts(rng, networks=some, factors=(0.2, 1.0, 3.0)))
    network = cat.network.with_columns(
        *(
            (pl.col(c) * pl.Series([rng.choice((0.2, 1.0, 3.0)) for _ in range(cat.network.height)]))
            .round(0)
            .cast(cat.network.schema[c])
            for c in ("nic_power_w", "switch_power_w")
        ),
        switch_ports=pl.Series([rng.choice([2, 3, 4, 48]) for _ in range(cat.network.height)]).cast(
            cat.network.schema["switch_ports"]
        ),
    )
    site: dict[str, Any] = {"name": "room", "pue": 1.3, "electricity": "$0.12/kWh", "country": "US"}
    if rng.random() < 0.4:
        site["racks"] = {"count": rng.choice([1, 2, 3]), "power": f"{rng.randrange(2800, 8000, 60)}W", "units": 42}
    watts = rng.choice([None, None, *range(4500, 9000, 500)])
    if watts is not None:
        site["it_power"] = f"{watts}W"
    loaded = problem(
        None,
        rate=rng.choice([2.0, 9.0, 25.0]),
        tokens=rng.choice(["9M", "20M"]),
        deadline=rng.choice(["60h", "96h"]),
        sites=[site],
    )
    return loaded, replace(cat, network=network)


@pytest.mark.parametrize("seed", [1, 4])
def test_no_network_that_is_left_out_makes_a_better_plan(seed: int) -> None:
    held(*drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 3, 5, 6, 7, 8, 9, 10, 11])
def test_no_network_that_is_left_out_makes_a_better_plan_of_more_problems(seed: int) -> None:
    held(*drawn(seed))


def test_a_part_of_a_price_that_is_not_sure_enough_takes_the_place_of_none_that_is() -> None:
    """The cheaper CPU may not be bought: machines with the other one are."""
    cat = parts(random.Random(1), networks=["25GbE", "InfiniBand-HDR"], factors=(1.0,))
    sure = {c: pl.lit("listed") for c in ("confidence", "price_confidence")}

    def listed(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(**{c: x for c, x in sure.items() if c in frame.columns})

    tables = ("servers", "accelerators", "ram", "storage", "network")
    cpus = cat.cpus.with_columns(
        confidence=pl.when(pl.col("cpu") == "EPYC-9354").then(pl.lit("recalled")).otherwise(pl.lit("listed"))
    )
    cat = replace(cat, cpus=cpus, **{t: listed(getattr(cat, t)) for t in tables})
    policy = {"billing": ["purchase"], "min_confidence": "listed"}
    found = build_candidates(problem(None, policy=policy).problem, cat, Path())
    built = found.pools.filter(pl.col("kind") == "server", ~pl.col("complete"))
    assert built.height > 0
    assert built["parts"].list.join(" ").str.contains("EPYC-9454").all()
    none = replace(cat, cpus=cat.cpus.with_columns(confidence=pl.lit("recalled")))
    refused = build_candidates(problem(None, policy=policy).problem, none, Path())
    assert refused.pools.is_empty()
    assert refused.dropped["reason"].str.contains("policy.min_confidence", literal=True).any()


# --- which networks go, by itself --------------------------------------------------------------------------------------


def network_rows(rng: random.Random, count: int) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "network": f"n{k}",
                "gbps_per_port": rng.choice([10, 25, 100]),
                **{c: rng.choice([1, 2, 3]) for c in FIGURES},
                "switch_ports": rng.choice([2, 4, 8]),
            }
            for k in range(count)
        ]
    )


def cost(row: dict[str, Any], nodes: int, usd_per_watt: float) -> float:
    """Of so many nodes on a network, each with one port: NICs, cables and as many switches as the ports fill."""
    switches = -(-nodes // row["switch_ports"])
    money = nodes * (row["nic_price_usd"] + row["cable_price_usd"]) + switches * row["switch_price_usd"]
    return float(money + usd_per_watt * (nodes * row["nic_power_w"] + switches * row["switch_power_w"]))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_nodes_stand_on_a_network_that_went_costs_no_less_than_on_one_that_stayed(seed: int) -> None:
    every = network_rows(random.Random(seed), 5)
    left = unbeaten_networks(every, [0.0, 25.0], GENERATIONS, one_for_one=False)
    assert 0 < left.height <= every.height
    rows = every.to_dicts()
    kept = [r for r in rows if r["network"] in left["network"].to_list()]
    needs = (0.0, 25.0)

    def best(some: list[dict[str, Any]], slow: int, fast: int, usd: float) -> float:
        """Cheapest way to put nodes that need nothing and nodes that need 25 Gb/s on one or two networks."""
        able = [r for r in some if r["gbps_per_port"] >= needs[1]]
        return min(
            (
                cost(a, slow + fast, usd) if a is b else cost(a, slow, usd) + cost(b, fast, usd)
                for a, b in itertools.product(some, able)
            ),
            default=float("inf"),
        )

    for slow, fast, usd in itertools.product(range(0, 10, 3), range(0, 10, 3), (0.0, 0.5, 5.0)):
        assert best(kept, slow, fast, usd) == pytest.approx(best(rows, slow, fast, usd))


def test_one_of_two_that_are_alike_stays_and_what_cannot_be_switched_is_only_for_one_node() -> None:
    row = {"network": "a", "gbps_per_port": 25, **dict.fromkeys(FIGURES, 3), "switch_ports": 48}
    same = pl.DataFrame([row, {**row, "network": "b"}])
    assert unbeaten_networks(same, [0.0], GENERATIONS, one_for_one=False)["network"].to_list() == ["a"]
    unknown = pl.DataFrame([row, {**row, "network": "b", "switch_price_usd": None}])
    assert unbeaten_networks(unknown, [0.0], GENERATIONS, one_for_one=False)["network"].to_list() == ["a"]
    cheap = pl.DataFrame([row, {**row, "network": "b", "switch_price_usd": None, "nic_price_usd": 2}])
    assert unbeaten_networks(cheap, [0.0], GENERATIONS, one_for_one=False).height == 2
    # Two small switches in place of one take two places.
    small = pl.DataFrame([row, {**row, "network": "b", "switch_ports": 24, "switch_price_usd": 1, "switch_power_w": 1}])
    assert unbeaten_networks(small, [0.0], GENERATIONS, one_for_one=False)["network"].to_list() == ["b"]
    assert unbeaten_networks(small, [0.0], GENERATIONS, one_for_one=True).height == 2
