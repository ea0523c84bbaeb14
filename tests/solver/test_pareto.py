"""Fronts: equal to full enumeration, no point beaten, ends optimal, every plan accepted by the recheck."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from catalogs.load import load_catalog
from problems.load import LoadedProblem, load_problem
from solver.front.axes import AXES, parse_axes
from solver.front.explorer import Explorer, split
from solver.front.front_points import Front
from solver.front.near import kind_of
from solver.instance import Instance
from solver.pareto import pareto
from solver.verify import verify
from solver.whatif.study import Study
from solver.whatif.vary import BadRequest
from tests.oracle.brute import TooLargeError, brute_force
from tests.oracle.problems import Case, random_case

ROOT = Path(__file__).resolve().parents[2]
STEPS = 20_000


def study_of(case: Case) -> Study:
    return Study(case.loaded, case.catalog)


def quiet(done: int, of: int, said: str) -> None:
    del done, of, said


def points_of(explorer: Explorer) -> set[tuple[int, ...]]:
    if explorer.scaled is None:
        return set()
    assert explorer.all_points(quiet)
    return {s.at for s in explorer.spots}


def swapped(inst: Instance, first: str, second: str, most: int | None) -> Instance:
    """The instance with `first` as its cost and `second` as its cash, of which at most `most` is allowed."""

    def amount(thing: object, axis: str, periods: int) -> object:
        if axis in ("cost", "carbon"):
            return getattr(thing, axis)
        if hasattr(thing, "pooled"):
            return 0 if thing.pooled else inst.pools[thing.pool].facility_w * thing.nodes  # type: ignore[attr-defined]
        if hasattr(thing, "max_nodes"):
            return (inst.pools[thing.pool].facility_w,) * periods  # type: ignore[attr-defined]
        return (0,) * periods

    def moved(things: tuple[object, ...]) -> tuple[object, ...]:
        out = []
        for t in things:
            n = len(t.cost) if isinstance(t.cost, tuple) else 1  # type: ignore[attr-defined]
            out.append(replace(t, cost=amount(t, first, n), cash=amount(t, second, n)))  # type: ignore[type-var]
        return tuple(out)

    return replace(
        inst,
        capacities=moved(inst.capacities),  # type: ignore[arg-type]
        replicas=moved(inst.replicas),  # type: ignore[arg-type]
        options=moved(inst.options),  # type: ignore[arg-type]
        limit_total=most,
        objective="cost",
    )


def enumerated(inst: Instance, other: str) -> set[tuple[int, int]]:
    """Front of cost and another axis by plain enumeration of the whole instance, one level after another."""
    found: set[tuple[int, int]] = set()
    most: int | None = None
    while True:
        cheap = brute_force(swapped(inst, "cost", other, most), STEPS)
        if cheap is None:
            return found
        least = brute_force(swapped(inst, other, "cost", cheap.objective), STEPS)
        assert least is not None
        found.add((cheap.objective, least.objective))
        most = least.objective - 1
        assert len(found) < 500


def small_cases(count: int, *, one_period: bool) -> list[tuple[int, Explorer, set[tuple[int, int]], str]]:
    """Random problems whose front plain enumeration can give, without candidates taken out."""
    other = "power" if one_period else "carbon"
    out: list[tuple[int, Explorer, set[tuple[int, int]], str]] = []
    for seed in range(400):
        if len(out) == count:
            break
        case = random_case(seed, objective=False)
        if case.loaded.problem.limits.budget.total is not None:
            continue
        bare = Explorer(study_of(case), ("cost", other), prune=False)
        if bare.scaled is None or (one_period and len(bare.scaled.instance.periods) > 1):
            continue
        if sum(r.max_count for r in bare.scaled.instance.replicas) > 60 or len(bare.scaled.instance.gear) > 100:
            continue
        try:
            front = enumerated(bare.scaled.instance, other)
        except TooLargeError:
            continue
        out.append((seed, Explorer(study_of(case), ("cost", other)), front, other))
    return out


@pytest.mark.parametrize("one_period", [False, True], ids=["carbon", "power"])
@pytest.mark.slow
def test_fronts_equal_full_enumeration(one_period: bool) -> None:
    cases = small_cases(16, one_period=one_period)
    assert len(cases) == 16
    assert sum(len(front) > 1 for _, _, front, _ in cases) >= 2
    for seed, explorer, front, other in cases:
        assert points_of(explorer) == front, (seed, other)


@pytest.mark.parametrize(
    "axes",
    [
        "cost,time",
        "cost,risk",
        pytest.param("cost,carbon,power", marks=pytest.mark.slow),
        pytest.param("power,carbon,time", marks=pytest.mark.slow),
    ],
)
def test_pruning_for_the_axes_loses_no_point(axes: str) -> None:
    compared = 0
    for seed in range(100, 105):
        case = random_case(seed, objective=False)
        names = parse_axes(axes)
        pruned, whole = Explorer(study_of(case), names), Explorer(study_of(case), names, prune=False)
        if whole.scaled is None or len(whole.scaled.instance.replicas) > 60:
            assert (pruned.scaled is None) == (whole.scaled is None)
            continue
        assert points_of(pruned) == points_of(whole), seed
        compared += 1
    assert compared >= 2


@pytest.mark.parametrize("cases", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_no_point_beats_another_and_each_passes_verify(cases: int) -> None:
    three = 0
    for seed in range(200, 200 + cases):
        case = random_case(seed, objective=False)
        explorer = Explorer(study_of(case), ("cost", "carbon", "power"))
        points = points_of(explorer)
        for a, b in combinations(points, 2):
            assert any(x < y for x, y in zip(a, b, strict=True))
            assert any(x > y for x, y in zip(a, b, strict=True))
        two = points_of(Explorer(study_of(case), ("cost", "carbon")))
        assert two <= {p[:2] for p in points}
        for spot in explorer.spots:
            result = explorer.result(spot)
            assert verify(result, explorer.loaded.problem, case.catalog) == []
        three += len(points) > 1
    assert three >= 1


@pytest.mark.slow
def test_the_ends_are_single_objective_optima() -> None:
    ends = 0
    for seed in range(300, 308):
        case = random_case(seed, objective=False)
        explorer = Explorer(study_of(case), ("cost", "carbon"))
        points = sorted(points_of(explorer))
        if not points:
            continue
        for axis, value in (("cost", points[0][0]), ("carbon", points[-1][1])):
            problem = case.loaded.problem.model_copy(update={"objective": axis})
            alone = Study(replace(case.loaded, problem=problem), case.catalog).solve()
            assert alone.objective == pytest.approx(value * (0.01 if axis == "cost" else 1.0), abs=0.006)
        ends += 1
    assert ends >= 4


@pytest.fixture(scope="module", params=["some cards", pytest.param("all cards", marks=pytest.mark.slow)])
def room(request: pytest.FixtureRequest) -> LoadedProblem:
    """The room with a choice of a few cards; with all of the catalogue, each search takes seconds."""
    cards = "limits.accelerators=[B200-180GB-SXM6, MI300X, MI355X]"
    path = ROOT / "problems" / "power-capped-room.yaml"
    return load_problem(path, [cards] if request.param == "some cards" else [])


@pytest.fixture(scope="module")
def room_front(room: LoadedProblem) -> Front:
    return pareto(Study(room, load_catalog()), ("cost", "power"), 4, 0.3, threading.Event())


def test_some_points_of_a_front_hold_its_ends(room: LoadedProblem, room_front: Front) -> None:
    loaded, catalog = room, load_catalog()
    assert 2 <= len(room_front.points) <= 4
    costs = [p.values["cost"] for p in room_front.points]
    watts = [p.values["power"] for p in room_front.points]
    assert costs == sorted(costs)
    assert watts == sorted(watts, reverse=True)
    assert room_front.points[0].result.objective == Study(loaded, catalog).solve().objective
    power = loaded.problem.model_copy(update={"objective": "power"})
    assert watts[-1] == Study(replace(loaded, problem=power), catalog).solve().objective
    for point in room_front.points:
        assert verify(point.result, loaded.problem, catalog, ROOT / "problems") == []
        assert point.result.status == "optimal"
    assert all(p.change for p in room_front.points[1:])


def test_near_plans_differ_in_kind_and_stay_within_the_slack(room: LoadedProblem, room_front: Front) -> None:
    best = room_front.points[0].result
    assert best.objective is not None
    assert room_front.near
    kinds = {kind_of(best)}
    for near in room_front.near:
        assert near.result.objective is not None
        assert near.result.objective <= best.objective * 1.3
        assert near.difference == pytest.approx(near.result.objective / best.objective - 1, abs=1e-6)
        assert kind_of(near.result) not in kinds
        kinds.add(kind_of(near.result))
        for name in near.without:
            assert name.split(" ", 1) not in [list(t) for t in kind_of(near.result)]
        assert verify(near.result, room.problem, load_catalog(), ROOT / "problems") == []


def test_latency_axis_gives_quicker_and_dearer_plans() -> None:
    loaded = load_problem(ROOT / "problems" / "small-office.yaml")
    study = Study(loaded, load_catalog())
    found = pareto(study, ("cost", "latency"), 5, None, threading.Event())
    assert len(found.points) > 1
    slow = [p.values["latency"] for p in found.points]
    assert slow == sorted(slow, reverse=True)
    for point in found.points:
        worst = max(
            placement.ttft_ms + 250 * placement.tpot_ms
            for w in point.result.workloads
            for placement in w.placements
            if placement.ttft_ms is not None and placement.tpot_ms is not None
        )
        assert worst <= point.values["latency"] + 1e-6
        assert point.values["latency"] <= worst + 1 + 1e-6


def test_corners_after_a_point() -> None:
    assert split([(None,)], (7,)) == [(7,)]
    assert sorted(split([(None, None)], (3, 5)), key=str) == sorted([(3, None), (None, 5)], key=str)
    # A point outside a corner leaves it alone; corners within others go.
    assert split([(2, None), (None, 2)], (2, 2)) == [(2, None), (None, 2)]
    assert (3, 5) not in split([(4, 6), (3, None)], (3, 5))


def test_interrupted_front_keeps_what_is_there() -> None:
    loaded = load_problem(ROOT / "problems" / "small-office.yaml")
    stop = threading.Event()

    def after_one(done: int, of: int, said: str) -> None:
        stop.set()

    found = pareto(Study(loaded, load_catalog()), ("cost", "carbon"), 0, None, stop, after_one)
    assert not found.complete
    assert not found.whole
    assert len(found.points) == 1


@pytest.mark.parametrize("text", ["cost", "cost,cost", "cost,beauty", "cost,power,carbon,time", "latency,risk"])
def test_bad_axes(text: str) -> None:
    with pytest.raises(BadRequest, match="--axes"):
        parse_axes(text)


def test_cost_comes_first() -> None:
    assert parse_axes("power, COST") == ("cost", "power")
    assert parse_axes("latency,power") == ("power", "latency")
    assert set(AXES) == {"cost", "power", "carbon", "time", "latency", "risk"}
