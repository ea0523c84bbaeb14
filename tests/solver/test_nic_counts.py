"""How many NICs a server has, and of what kind, is a decision; what is left out for limits of watts changes no optimum."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem
from solver.candidates import build_candidates
from solver.candidates.levels import FEW_COUNTS
from solver.plan import Item, Result
from solver.verify import verify
from tests.solver.test_plain_networks import held, priced, two_works
from tests.solver.test_reductions_networks import compared, everything, parts, placed, problem, solved


def nics(result: Result, work: str) -> set[str]:
    """NICs of a server that a workload runs on, from the bill of materials."""
    pools = {p.pool for p in placed(result, work)}
    return {i.parts[-1] for i in result.items if i.kind == "server" and i.pool in pools and i.parts}


def cables(result: Result, network: str) -> float:
    named = [i for i in result.items if (i.gear or "") == f"fabric links 1 room {network}" and i.billing == "purchase"]
    return sum(i.quantity for i in named)


def changed(result: Result, change: Callable[[Item], Item]) -> Result:
    return result.model_copy(update={"items": tuple(change(i) for i in result.items)})


def with_nics(result: Result, old: str, new: str) -> Result:
    """The same plan with other NICs on its bill."""
    return changed(
        result, lambda i: i.model_copy(update={"parts": tuple(p.replace(old, new) for p in i.parts)} if i.parts else {})
    )


def slow_and_fast() -> Catalog:
    return parts(random.Random(1), networks=["10GbE", "25GbE", "InfiniBand-HDR"], factors=(1.0,))


def test_several_slow_nics_take_the_place_of_a_fast_one_where_their_switch_is_cheaper() -> None:
    """Three NICs of 10 Gb/s for the service, one for the run, four ports of a cheap switch: less than two ports of a dear one."""
    cat = slow_and_fast()
    found = solved(two_works(), cat)
    assert (nics(found, "chat"), nics(found, "tune")) == ({"3 x X710 (10GbE)"}, {"1 x X710 (10GbE)"})
    assert cables(found, "10GbE") == 4
    held(two_works(), cat)
    # A server with two slots has no room for three.
    few = replace(cat, servers=cat.servers.with_columns(nic_slots=pl.lit(2, cat.servers.schema["nic_slots"])))
    assert nics(solved(two_works(), few), "chat") == {"1 x ConnectX-6 Lx (25GbE)"}


def test_other_numbers_of_nics_on_a_bill_are_refused() -> None:
    loaded, cat = two_works(), slow_and_fast()
    found = solved(loaded, cat)

    def faults(result: Result) -> list[str]:
        return verify(result, loaded.problem, cat)

    def fewer_cables(item: Item) -> Item:
        fewer = item.gear == "fabric links 1 room 10GbE" and item.billing == "purchase"
        return item.model_copy(update={"quantity": 3}) if fewer else item

    assert any("NICs of 20 Gb/s" in f for f in faults(with_nics(found, "3 x X710", "2 x X710")))
    assert any("3 cables for 4 ports" in f for f in faults(changed(found, fewer_cables)))
    more = faults(with_nics(found, "3 x X710", "4 x X710"))
    assert any("4 cables for 5 ports" in f for f in more)
    assert any("nameplate" in f for f in more)
    assert any("NIC slots" in f for f in faults(with_nics(found, "3 x X710", "5 x X710")))
    # A switch with fewer ports than the NICs have.
    ports = {"10GbE": 3.0}
    assert any("4 ports" in f for f in verify(found, loaded.problem, priced(cat, switch_ports=ports)))
    lanes = replace(cat, cpus=cat.cpus.with_columns(pcie_lanes=pl.lit(20, cat.cpus.schema["pcie_lanes"])))
    assert any("PCIe lanes" in f for f in verify(found, loaded.problem, lanes))


def across() -> LoadedProblem:
    """A run too long for one node."""
    return problem(None, rate=0.5, tokens="3B")


def two_kinds() -> Catalog:
    return parts(random.Random(1), networks=["25GbE", "InfiniBand-EDR", "InfiniBand-HDR"], factors=(1.0,))


def test_two_nics_of_100_take_the_place_of_one_of_200_where_they_are_cheaper() -> None:
    cat = two_kinds()
    found = solved(across(), cat)
    assert [p.nodes > 1 for p in placed(found, "tune")] == [True]
    (bought,) = nics(found, "tune")
    assert bought.endswith("(InfiniBand-EDR)")
    count = int(bought.split(" ")[0])
    assert count >= 2
    compared(across(), cat)
    fewer = with_nics(found, bought, bought.replace(f"{count} x", "1 x"))
    assert any("training_network_gbps" in f for f in verify(fewer, across().problem, cat))
    dear = priced(cat, nic_price_usd={"InfiniBand-EDR": 9000.0})
    assert all(n.endswith("(InfiniBand-HDR)") for n in nics(solved(across(), dear), "tune"))


def test_every_number_that_cards_share_evenly_is_offered_unless_racks_are_counted() -> None:
    cat = two_kinds()
    room = {"name": "room", "pue": 1.3, "electricity": "$0.12/kWh", "country": "US"}
    racked = problem(None, sites=[{**room, "racks": {"count": 3, "power": "9kW", "units": 42}}])

    def offered(loaded: LoadedProblem) -> tuple[set[tuple[Any, ...]], bool]:
        found = build_candidates(loaded.problem, cat, Path())
        rows = found.pools.filter("rdma", pl.col("gpus") > 1).select("network", "gpus", "nic_count").unique().rows()
        return set(rows), FEW_COUNTS in found.assumed

    # Four slots; the work asks for 200 Gb/s, or 100 where it serves.
    every, told = offered(problem(None))
    assert not told
    assert {(n, g) for name, g, n in every if name == "InfiniBand-HDR"} == {
        (1, 2),
        (2, 2),
        (4, 2),
        (1, 4),
        (2, 4),
        (4, 4),
    }
    assert {(n, g) for name, g, n in every if name == "InfiniBand-EDR"} >= {(2, 2), (4, 2), (2, 4), (4, 4)}
    few, told = offered(racked)
    assert told
    assert few < every
    assert {(n, g) for name, g, n in few if name == "InfiniBand-HDR"} == {(1, 2), (2, 2), (1, 4), (4, 4)}


def room_for(watts: int, seed: int) -> tuple[LoadedProblem, Catalog]:
    """A small room, a run across nodes and a service, and networks at drawn prices."""
    rng = random.Random(seed)
    cat = parts(rng, networks=["10GbE", "25GbE", "RoCEv2-100G", "InfiniBand-HDR"], factors=(0.2, 1.0, 3.0))
    return problem(watts, rate=rng.choice([0.5, 2.0]), tokens="4B", deadline=rng.choice(["60h", "96h"])), cat


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n == 1 else pytest.mark.slow) for n in range(1, 5)])
def test_what_no_node_may_stand_beside_changes_no_optimum(seed: int) -> None:
    """Nodes on a network that pays only beside work across nodes, in rooms that may have none for such work."""
    loaded, cat = room_for(2200 + 400 * seed, seed)
    found = build_candidates(loaded.problem, cat, Path())
    assert found.pools.height < everything(loaded, cat).pools.height
    held(loaded, cat)
