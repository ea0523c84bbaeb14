"""Questions beside the plan where menus of racks were cut down: what is said to be proved holds for every way to fill racks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from problems.load import load_text
from solver.binding import binding_limits
from solver.candidates import build_candidates, rack_menu, reduced
from solver.events import SolveOptions
from solver.explain import Feasibility
from solver.explaining.explain_fields import asked_fields
from solver.front.explorer import Explorer
from solver.instance import Instance
from solver.least import least
from solver.loosened import any_of_all_menus, is_cut, loosened
from solver.plan import Status
from solver.scaling import scale
from solver.search_state import How
from solver.whatif.study import Study
from tests.solver.test_rack_plans import DGX, only, storage_hall

HOW = How(30.0, 0.0, 2, 1)
SEEDS = range(6)
FEW = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[2:])]


@contextmanager
def menus(monkeypatch: pytest.MonkeyPatch, *, whole: bool) -> Iterator[None]:
    """Menus of racks as long as they get, or cut down to so few types that racks are often badly filled."""
    useful = rack_menu._useful
    with monkeypatch.context() as m:
        for limit in ("MOST_LOOKED_AT", "MOST_IN_MENU"):
            m.setattr(rack_menu, limit, 10**6)
        if not whole:
            m.setattr(rack_menu, "MOST_LOOKED_AT", -1)
            m.setattr(rack_menu, "_useful", lambda types: useful(types)[:1])
        yield


def study_of(seed: int) -> Study:
    """A hall of racks that are paid and few, under a limit of watts."""
    rng = random.Random(seed)
    loaded = storage_hall(rng)
    text = loaded.text + f"\nlimits: {{power: {rng.choice([18, 30, 45])}kW}}\n"
    return Study(load_text(text, loaded.path, loaded.overrides), only(DGX), time_limit_s=20.0)


def both(monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object]) -> tuple[object, object]:
    """What is said with whole menus, and with poor ones."""
    with menus(monkeypatch, whole=True):
        known = ask()
    with menus(monkeypatch, whole=False):
        said = ask()
    return known, said


def instance_of(study: Study) -> Instance:
    small = reduced(build_candidates(study.loaded.problem, study.catalog, Path()), axes=("power",))
    return scale(small, study.catalog).instance


@pytest.mark.parametrize("seed", SEEDS)
def test_a_poor_menu_is_cut_and_a_whole_one_is_not(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with menus(monkeypatch, whole=True):
        assert not is_cut(instance_of(study_of(seed)))
    with menus(monkeypatch, whole=False):
        assert is_cut(instance_of(study_of(seed)))


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_of_a_study(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> tuple[Status, float | None]:
        result = study_of(seed).solve()
        return result.status, result.objective

    (status, cost), (said, at) = both(monkeypatch, ask)  # type: ignore[misc]
    assert status in ("optimal", "infeasible")
    if said == "infeasible":
        assert status == "infeasible"
    elif said == "optimal":
        assert at == cost
    elif at is not None:
        assert at >= cost


@pytest.mark.parametrize("seed", FEW)
def test_conflicts_and_ways_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> list[bool | None]:
        feasibility = Feasibility(study_of(seed))
        return [feasibility.without([f]) for f in asked_fields(feasibility.problem)]

    known, said = both(monkeypatch, ask)
    assert None not in known  # type: ignore[operator]
    assert all(b is None or a == b for a, b in zip(known, said, strict=True))  # type: ignore[call-overload]


@pytest.mark.parametrize("seed", FEW)
def test_limits_that_bind(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> dict[str, bool]:
        inst = instance_of(study_of(seed))
        found = least(inst, HOW).found
        # A plan counts as the best whatever its menu, so that each limit is asked about.
        found = replace(found, status=Status.OPTIMAL)
        return {} if found.objective is None else binding_limits(inst, ["hall"], found, SolveOptions(), None, 20.0)

    def cost() -> float | None:
        return least(instance_of(study_of(seed)), HOW).found.objective

    known, said = both(monkeypatch, ask)
    mine, theirs = both(monkeypatch, cost)
    if mine == theirs:
        assert all(known[field] == verdict for field, verdict in said.items())  # type: ignore[index,attr-defined]


@pytest.mark.parametrize("seed", FEW)
def test_points_of_a_front(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> tuple[bool, list[tuple[int, ...]]]:
        explorer = Explorer(study_of(seed), ("cost", "power"))
        if explorer.scaled is None:
            return True, []
        whole = explorer.all_points(lambda *_: None)
        return whole, sorted(s.at for s in explorer.spots)

    (sure, points), (whole, some) = both(monkeypatch, ask)  # type: ignore[misc]
    assert sure
    assert set(some) <= set(points)
    if whole:
        assert some == points


@pytest.mark.parametrize("seed", SEEDS)
def test_no_menu_cut_down_proves_that_nothing_is_possible(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with menus(monkeypatch, whole=False):
        inst = instance_of(study_of(seed))
    loose = loosened(inst)
    assert loose is not None
    asked: list[Instance] = []

    def search(said: dict[bool, bool | None]) -> Callable[[Instance], bool | None]:
        def one(some: Instance) -> bool | None:
            asked.append(some)
            return said[is_cut(some)]

        return one

    assert any_of_all_menus(inst, search({False: False, True: True})) is False
    assert len(asked) == 1
    assert any_of_all_menus(inst, search({False: None, True: True})) is None
    assert any_of_all_menus(inst, search({False: True, True: False})) is None
    assert any_of_all_menus(inst, search({False: True, True: True})) is True
