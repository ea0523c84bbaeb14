"""The cheapest plan of one type of accelerator: equal to trying every type, stated only where the plan mixes types."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from catalogs.load import load_catalog
from problems.load import load_problem
from solver.bounding.restrict import restricted
from solver.candidates import build_candidates, reduced
from solver.candidates.exclude import excluding
from solver.events import SolveOptions
from solver.instance import Capacity, Instance
from solver.plan import Alone, Result, SingleType
from solver.report.alone_text import alone_lines
from solver.report.messages import Messages
from solver.scaling import scale
from solver.single_type import Best, best_type, single_type
from solver.solve import solve
from solver.verify import verify
from tests.golden.sample import cheapest
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.highs import highs_optimum
from tests.solver.mixes import random_mix
from tests.solver.test_gpu_mix import MIX, imported
from tests.solver.test_mix_oracles import instances
from tests.solver.test_oracles import cp_sat

NO_PLAN = cheapest().model_copy(update={"objective": 1.0, "bound": None})
QUICK = SolveOptions(gap=0.0, workers=1)
STEPS = 60_000
MELANGE = Path(os.environ.get("KITOUT_SHARED", Path(__file__).parents[3] / "shared")) / "reference" / "melange"


def named(inst: Instance, *names: str) -> Instance:
    """The instance with its pools' accelerators called so."""
    return replace(inst, pools=tuple(replace(o, accelerator=n) for o, n in zip(inst.pools, names, strict=True)))


def least(inst: Instance) -> int | None:
    """Least cost of an instance, by enumeration where that knows it (one size of request), else by HiGHS."""
    if any(len(s.demand) > 1 for s in inst.services):
        return highs_optimum(inst).objective
    best = brute_force(inst, STEPS)
    return None if best is None else best.objective


def by_trying(inst: Instance) -> dict[str, int]:
    """Least cost of every type that can do all the work."""
    costs = {}
    for name in {o.accelerator for o in inst.pools}:
        mine = [o for o, pool in enumerate(inst.pools) if pool.accelerator == name]
        cost = least(restricted(inst, mine).instance)
        if cost is not None:
            costs[name] = cost
    return costs


@pytest.mark.parametrize(
    "more",
    [
        {"sizes": 1, "services": 2, "spread": 1.5},
        {"sizes": 1, "services": 2, "spread": 1.2, "periods": 2, "commit": True},
        {"sizes": 3},
        {"sizes": 2, "services": 2, "periods": 2, "commit": True},
    ],
    ids=["enumerated", "enumerated periods", "sizes", "sizes and periods"],
)
def test_random_mixes_equal_trying_every_type(more: dict[str, Any]) -> None:
    decided = none = 0
    for seed in range(40):
        inst = named(random_mix(seed, types=4, absent=0.45, **more), "a", "a", "b", "c")
        try:
            costs = by_trying(inst)
        except TooLargeError:
            continue
        best = best_type(inst, 20.0, QUICK)
        assert best.objective == min(costs.values(), default=None), f"seed {seed}"
        assert best.bound == best.objective, f"seed {seed}"
        assert best.types == len(costs), f"seed {seed}"
        if costs:
            assert best.accelerator is not None
            assert costs[best.accelerator] == best.objective
        decided, none = decided + 1, none + (not costs)
        if decided == 12:
            break
    assert decided == 12
    assert none < decided


def test_a_type_that_others_outdo_row_by_row_keeps_its_rows() -> None:
    """Candidates are reduced inside a type: the least cost of each type is that without any reduction."""
    outdone = 0
    for seed, loaded, catalog, _ in islice(instances(5000, small=False), 2):
        found = build_candidates(loaded.problem, catalog, Path())
        cards = sorted(found.pools["accelerator"].unique())
        costs = []
        for card in cards:
            small = reduced(excluding(found, frozenset(("accelerator", c) for c in cards if c != card)), prune=False)
            if not small.unserved:
                costs.append(cp_sat(scale(small, catalog).instance).objective)
        inside, across = reduced(found, within_accelerator=True), reduced(found)
        outdone += set(across.pools["accelerator"]) != set(inside.pools["accelerator"])
        best = best_type(scale(inside, catalog).instance, 30.0, QUICK)
        assert best.objective == min(c for c in costs if c is not None), f"seed {seed}"
        assert set(inside.pools["accelerator"]) == set(cards)
    assert outdone


def with_owned(inst: Instance) -> Instance:
    """The instance with one node of its first pool owned already, for less than any other costs."""
    owned = Capacity(0, "owned", True, 1, (5,) * 1, (5,), 0, (5,), (1,))
    return replace(inst, capacities=(*inst.capacities, owned))


def test_what_is_owned_stays_and_no_more_of_it_is_had() -> None:
    helped = 0
    for seed in range(12):
        inst = with_owned(random_mix(seed, types=2, sizes=1, services=2, absent=0.0, spread=1.5))
        costs = []
        for mine in ("card0", "card1"):
            ways = tuple(
                replace(
                    c, max_nodes=c.max_nodes if c.billing == "owned" or inst.pools[c.pool].accelerator == mine else 0
                )
                for c in inst.capacities
            )
            cost = least(replace(inst, capacities=ways))
            assert cost is not None
            costs.append(cost)
        found = best_type(inst, 20.0, QUICK)
        assert found.objective == min(costs), f"seed {seed}"
        bare = least(restricted(inst, [1]).instance)
        assert bare is not None
        helped += costs[1] == found.objective < bare
    assert helped


def test_no_type_alone_and_no_time() -> None:
    inst = random_mix(3, types=2, sizes=2, absent=0.0)
    first, second = inst.replicas
    split = replace(inst, replicas=(replace(first, rate=(first.rate[0], 0)), replace(second, rate=(0, second.rate[1]))))
    assert best_type(split, 5.0, QUICK) == Best(types=0)
    late = best_type(inst, 0.0, QUICK)
    assert (late.types, late.accelerator, late.objective, late.bound) == (2, None, None, -math.inf)
    poor = replace(inst, limit_total=1)
    assert best_type(poor, 5.0, QUICK) == Best(types=2)


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = imported(tmp_path_factory.mktemp("mix"), MIX)
    options = SolveOptions(gap=0.0, workers=1, runner_up=False, single_modes=True)
    return out, solve(load_problem(out / "problem.yaml"), load_catalog([out]), options)


def test_solve_states_the_best_type_of_a_mix(mix: tuple[Path, Result]) -> None:
    out, result = mix
    costs = least_costs(MIX)
    best = result.single_type
    assert best is not None
    assert len({p.accelerator for p in result.workloads[0].placements}) > 1
    assert best.total is not None
    assert result.objective is not None
    assert float(best.total) == pytest.approx(730 * min(costs.values()), abs=0.02)
    assert (best.types, best.proved, best.because) == (len(costs), True, None)
    assert best.saving == pytest.approx(1 - result.objective / float(best.total), abs=1e-5)
    assert verify(result, load_problem(out / "problem.yaml").problem, load_catalog([out]), out) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [({"saving": 0.9}, "is not 90.0% cheaper"), ({"total": Decimal(1)}, "below the bound")],
)
def test_verify_refuses_a_boast(mix: tuple[Path, Result], change: dict[str, Any], expected: str) -> None:
    out, result = mix
    assert result.single_type is not None
    told = result.model_copy(update={"single_type": result.single_type.model_copy(update=change)})
    wrong = verify(told, load_problem(out / "problem.yaml").problem, load_catalog([out]), out)
    assert any(expected in fault for fault in wrong), wrong


def test_nothing_is_said_of_a_plan_of_one_type(tmp_path: Path) -> None:
    one = MIX | {"gpu_types": [MIX["gpu_types"][1]], "max_rps": {"H100": MIX["max_rps"]["H100"]}}
    out = imported(tmp_path, one)
    options = SolveOptions(gap=0.0, workers=1, runner_up=False, single_modes=True)
    assert solve(load_problem(out / "problem.yaml"), load_catalog([out]), options).single_type is None


def test_reasons_where_there_is_no_such_plan(tmp_path: Path) -> None:
    apart = MIX | {
        "gpu_types": MIX["gpu_types"][:2],
        "max_rps": {"L4": [6, 0.8, None], "H100": [None, 12, 2.5]},
    }
    out = imported(tmp_path, apart)
    catalog = load_catalog([out])
    found = build_candidates(load_problem(out / "problem.yaml").problem, catalog, out)
    said = single_type(found, catalog, NO_PLAN, 5.0, QUICK, None)
    assert (said.types, said.proved, said.because) == (0, True, "no single type can do all the work")
    out = imported(tmp_path, MIX)
    catalog = load_catalog([out])
    found = build_candidates(load_problem(out / "problem.yaml").problem, catalog, out)
    late = single_type(found, catalog, NO_PLAN, 0.0, QUICK, None)
    assert (late.proved, late.total, late.because) == (False, None, "none was found in its share of the time")


def test_lines(mix: tuple[Path, Result]) -> None:
    _, result = mix
    best = result.single_type
    assert best is not None

    def line(said: SingleType, lang: Any = "en") -> str:
        lines = dict(alone_lines(result.model_copy(update={"single_type": said}), Messages(lang)))
        return lines[Messages(lang)("One type")]

    assert line(best).startswith(f"Beats the best single type of accelerator ({best.accelerator}) by ")
    assert line(best).endswith("that can do all the work)")
    assert line(best, "zh").startswith("比最优的单一加速卡型号")
    assert "costs as little" in line(best.model_copy(update={"saving": 0.0}))
    assert "not proved" in line(best.model_copy(update={"saving": 0.0, "proved": False}))
    nothing = {"accelerator": None, "total": None, "bound": None, "saving": None}
    assert "keeps the limits" in line(best.model_copy(update=nothing))
    assert "can do all the work" in line(best.model_copy(update={**nothing, "types": 0}))
    assert "share of the time" in line(best.model_copy(update={**nothing, "proved": False}))


def least_costs(mix: dict[str, Any]) -> dict[str, float]:
    """Price per hour of the fewest nodes of each type that carry the mix; a node's time may be split at will."""
    costs = {}
    for card in mix["gpu_types"]:
        rates = mix["max_rps"][card["name"]]
        needs = [b["fraction"] * mix["total_rate_rps"] for b in mix["buckets"]]
        if all(rate for rate, need in zip(rates, needs, strict=True) if need > 0):
            load = sum(need / rate for rate, need in zip(rates, needs, strict=True) if need > 0)
            costs[card["name"]] = math.ceil(load * (1 - 1e-6)) * card["price_per_hour"]
    return costs


def published() -> list[Path]:
    return sorted(MELANGE.glob("*.json"))


@pytest.mark.skipif(not published(), reason="the reference mixes are not here")
@pytest.mark.parametrize(
    "file", [pytest.param(f, id=f.stem, marks=[pytest.mark.slow] * (n % 3 > 0)) for n, f in enumerate(published())]
)
def test_published_mixes(file: Path, tmp_path: Path) -> None:
    data = json.loads(file.read_text())
    costs = least_costs(data)
    if len(data["gpu_types"]) > 60:
        pytest.skip("200 types: see the slow test")
    check_published(data, costs, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not published(), reason="the reference mixes are not here")
def test_published_mixes_of_200_types(tmp_path: Path) -> None:
    large = [d for d in (json.loads(f.read_text()) for f in published()) if len(d["gpu_types"]) > 60]
    assert large
    for number, data in enumerate(large):
        (tmp_path / str(number)).mkdir()
        check_published(data, least_costs(data), tmp_path / str(number))


def check_published(data: dict[str, Any], costs: dict[str, float], folder: Path) -> None:
    out = imported(folder, data)
    catalog = load_catalog([out])
    found = build_candidates(load_problem(out / "problem.yaml").problem, catalog, out)
    best = best_type(scale(reduced(found, within_accelerator=True), catalog).instance, 60.0, QUICK)
    assert best.types == len(costs)
    if not costs:
        assert best.objective is None
        return
    assert best.objective is not None
    assert best.objective / 100 == pytest.approx(730 * min(costs.values()), abs=0.02)
    assert best.bound == best.objective


@pytest.mark.parametrize(("proved", "said"), [(True, "there is no plan (cannot meet"), (False, "no plan was found in")])
def test_no_plan_without_sharing_is_claimed_only_where_proved(proved: bool, said: str) -> None:
    other = Alone(
        billing="unshared", total=None, bound=None, saving=None, proved=proved, because="cannot meet the limits"
    )
    result = cheapest().model_copy(update={"unshared": other})
    for language in ("en", "zh"):
        lines = dict(alone_lines(result, Messages(language)))
        assert len(lines) == 1
        assert language == "zh" or said in lines["Shared"]
