"""Leaner builds where racks and circuits are counted: all are candidates, and folding builds into families changes no optimum."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from catalogs.catalog import Catalog
from problems.load import LoadedProblem
from problems.schema import Problem
from solver import binding, focus
from solver.binding import binding_limits
from solver.bounding import beyond
from solver.bounding.fold import fold, folded_part
from solver.bounding.restrict import restricted
from solver.candidates import build_candidates, onsite, reduced
from solver.candidates.watts import most_per_watt
from solver.features.builds import Built, server_builds, worth_keeping
from solver.features.parts import KEY
from solver.focus import focused
from solver.instance import Instance
from solver.model import build_model
from solver.plan import Status
from solver.scaling import scale
from solver.search import Found, run
from solver.search_state import How
from solver.solve import solve
from solver.verify import verify
from tests.solver.test_reductions_networks import (
    NETWORKS,
    SolveOptions,
    everything,
    nothing_better,
    optimum,
    parts,
    placed,
    problem,
)

OPTIONS = SolveOptions(gap=0.0, workers=2, time_limit_s=60, runner_up=False)
HOW = How(time_limit_s=600, gap=0.0, workers=1, seed=1, work_limit=60)


def room(watts: int | None, **site: Any) -> LoadedProblem:
    base = {"name": "room", "pue": 1.3, "electricity": "$0.12/kWh", "country": "US", **site}
    return problem(None, sites=[base if watts is None else {**base, "it_power": f"{watts}W"}])


def racks(count: int, watts: int) -> dict[str, Any]:
    return {"racks": {"count": count, "power": f"{watts}W", "units": 42, "price": "$200/mo"}}


def two_networks() -> Catalog:
    return parts(random.Random(1), networks=NETWORKS[:2], factors=(1.0,))


def by_money_and_nodes_per_rack(builds: pl.DataFrame, problem: Problem, watt_usd: float) -> pl.DataFrame:
    """A rule without proof: lean builds with RDMA only where money asks for them, or where a rack takes more of them."""
    lean = builds.filter("has_rdma")
    paid = worth_keeping(lean.with_columns(supply_w="nameplate_w"), watt_usd).select(builds.columns)
    watts = [s.racks.power for s in problem.sites if s.racks is not None and s.racks.power is not None]
    fits = [(pl.lit(w) / pl.col("nameplate_w")).floor() for w in watts]
    more = pl.any_horizontal((fit > fit.cum_max().shift(1).over(KEY)).fill_null(False) for fit in fits)
    roomy = lean.filter(more).join(paid, on=[*KEY, "variant"], how="anti")
    return pl.concat([builds.filter(~pl.col("has_rdma")), paid, roomy])


def by_the_rule(loaded: LoadedProblem, cat: Catalog) -> int | None:
    worth = most_per_watt(loaded.problem, cat)

    def ruled(*args: Any, **more: Any) -> Built:
        built = server_builds(*args, **more)
        return built._replace(builds=by_money_and_nodes_per_rack(built.builds, loaded.problem, worth))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onsite, "server_builds", ruled)
        return optimum(reduced(build_candidates(loaded.problem, cat, Path()), within_watts=True), cat)


def test_a_leaner_build_leaves_room_for_a_switch_in_the_only_rack() -> None:
    """As many of the cheapest stand in a rack, but no switch beside them."""
    cat, loaded = two_networks(), room(None, **racks(1, 6540))
    assert by_the_rule(loaded, cat) is None
    result = solve(loaded, cat, OPTIONS)
    assert result.status == "optimal"
    assert verify(result, loaded.problem, cat) == []
    assert nothing_better(reduced(everything(loaded, cat), prune=False), cat, round(result.objective * 100))  # type: ignore[operator]


@pytest.mark.slow
def test_a_leaner_build_saves_the_second_rack() -> None:
    cat, loaded = two_networks(), room(None, **racks(2, 6540))
    result = solve(loaded, cat, OPTIONS)
    known = by_the_rule(loaded, cat)
    assert result.objective is not None
    assert known is not None
    assert round(result.objective * 100) < known
    assert nothing_better(reduced(everything(loaded, cat), prune=False), cat, round(result.objective * 100))


@pytest.mark.slow
def test_watts_of_the_site_call_for_a_leaner_build_and_ample_ones_do_not() -> None:
    cat = two_networks()
    for watts, lean in ((5800, True), (9000, False)):
        loaded = room(watts, **racks(6, 20_000))
        result = solve(loaded, cat, OPTIONS)
        assert result.status == "optimal"
        assert verify(result, loaded.problem, cat) == []
        assert ("~" in placed(result, "tune")[0].pool) is lean


def drawn(seed: int) -> tuple[LoadedProblem, Catalog]:
    """A room with racks or circuits that may be few and small, with or without watts of the site, and a parts list."""
    rng = random.Random(seed)
    cat = parts(rng, networks=["25GbE", *rng.sample(NETWORKS[1:], 1)], factors=(0.2, 1.0, 3.0))
    if rng.random() < 0.7:
        site: dict[str, Any] = racks(rng.choice([1, 2, 3, 6]), rng.randrange(2800, 8000, 60))
    else:
        site = {"circuits": f"208V {rng.choice([16, 30, 32])}A 1ph x{rng.choice([3, 4, 6, 8])}"}
    return room(rng.choice([None, None, *range(5200, 9000, 400)]), **site), cat


def differs(seed: int) -> bool:
    """Whether the rule loses a plan here; `solve` does not."""
    loaded, cat = drawn(seed)
    result = solve(loaded, cat, OPTIONS)
    known = None if result.objective is None else round(result.objective * 100)
    assert result.status in ("optimal", "infeasible")
    whole = reduced(everything(loaded, cat), prune=False)
    assert whole.unserved or nothing_better(whole, cat, known)
    return known is not None and by_the_rule(loaded, cat) != known if loaded.problem.sites[0].racks else False


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_plan_over_all_builds_is_better_in_rooms_with_racks_or_circuits(seed: int) -> None:
    differs(seed)


def instance_of(loaded: LoadedProblem, cat: Catalog) -> Instance:
    return scale(reduced(build_candidates(loaded.problem, cat, Path()), within_watts=True), cat).instance


def least(inst: Instance) -> Found:
    found = run(build_model(inst), time_limit_s=60, gap=0.0, workers=2, seed=1, patience=1.0)
    assert found.status in (Status.OPTIMAL, Status.INFEASIBLE)
    return found


def test_families_bound_the_whole_and_hold_the_image_of_its_plans() -> None:
    cat = two_networks()
    inst = instance_of(room(None, **racks(2, 6540)), cat)
    folded = fold(inst)
    assert folded is not None
    assert len(folded.pools) < len(inst.pools)
    assert sorted(o for family in folded.pools for o in family) == list(range(len(inst.pools)))
    whole, small = least(inst), least(folded.instance)
    assert whole.values is not None
    assert whole.objective is not None
    assert small.objective is not None
    assert small.objective <= whole.objective
    image = folded.image(whole.values)
    assert sum(image.commit.values()) == sum(whole.values.commit.values())
    assert sum(image.chosen.values()) == sum(whole.values.chosen.values())


def test_a_part_of_whole_families_folds_as_it_does_by_itself() -> None:
    inst = instance_of(room(None, **racks(2, 6540)), two_networks())
    folded = fold(inst)
    assert folded is not None
    some = sorted(o for family in folded.pools[::2] for o in family)
    part = restricted(inst, some)
    small, alone = folded_part(folded, part), fold(part.instance)
    assert small is not None
    assert alone is not None
    assert sorted(small.pools) == sorted(alone.pools)
    assert least(small.instance).objective == least(alone.instance).objective
    cut = next(family for family in folded.pools if len(family) > 1)
    assert folded_part(folded, restricted(inst, cut[1:])) is None


def test_no_limit_binds_where_families_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether racks and watts bind is answered the same by families and without."""
    seen = set()
    for watts in (5800, 9000):
        inst = instance_of(room(watts, **racks(6, 20_000)), two_networks())
        names = [s.name for s in inst.sites]
        plain = binding_limits(inst, names, least(inst), OPTIONS, None, 60.0)
        with monkeypatch.context() as at:
            at.setattr(binding, "MANY_POOLS", 1)
            at.setattr(focus, "MANY_LEFT", 1)
            at.setattr(beyond, "MANY_POOLS", 1)
            assert binding_limits(inst, names, least(inst), OPTIONS, None, 60.0) == plain
        seen |= set(plain.values())
    assert seen == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("watts", [6540, 6700, 6000])
def test_a_search_by_families_finds_the_optimum(watts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(focus, "MANY_POOLS", 1)
    monkeypatch.setattr(focus, "MANY_LEFT", 1)
    monkeypatch.setattr(beyond, "MANY_POOLS", 1)
    inst = instance_of(room(None, **racks(2, watts)), two_networks())
    found = focused(inst, HOW)
    assert found is not None
    expected = least(inst)
    assert (found.found.status, found.found.objective) == (expected.status, expected.objective)
    assert found.found.bound == expected.objective
