"""One problem under study: its scenarios become problems and catalogues, compiled only as far as they differ, and solved.

Every answer is a pure function of the scenario: one solver worker, a fixed seed, a limit in the solver's own deterministic
unit, no hints from other scenarios. So it is the same in whatever process, order or company it is found.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import polars as pl
from pydantic import BaseModel

from catalogs.catalog import Catalog
from problems.load import LoadedProblem, load_text
from problems.paths import split_path
from solver.assemble import Answer, assemble, inputs_of, no_plan
from solver.blend import remixed, unmixed
from solver.bounding.beyond import Build, promising
from solver.bounding.restrict import Part, restricted
from solver.candidates import Candidates, Memo, build_candidates, reduced
from solver.events import SolveOptions
from solver.focus import MANY_POOLS, Focused, focused
from solver.hints import give_hint
from solver.instance import Instance
from solver.left_out import kept_portfolio
from solver.loosened import Looked, of_all_menus
from solver.model import PlanModel, build_model, tie_break_model
from solver.plan import Result, Status
from solver.priorities import Ranked, ranked
from solver.scaling import Scaled, scale, with_limits
from solver.search import Found, Values, run
from solver.search_state import How
from solver.solve import TIE_POOLS, base_dir, solve
from solver.whatif.price_factors import with_factors
from solver.whatif.shared import Shared
from solver.whatif.vary import PRICES, Amount, BadRequest, Scenario

WALL_BACKSTOP = 20.0
"""Wall seconds allowed per unit of deterministic time, against a machine that stands still."""
TIE_SHARE, TIE_WORK = 0.25, 2.0
"""Share of the limit of a search that breaking ties may take, and the most of it [deterministic units]."""
MOST_READ = 256
"""Scenarios whose problem is kept."""
WHOLE = (".users.total", ".requests", ".tokens", ".count", ".nodes", ".sequence", ".isl", ".osl", ".context", ".max")
"""Fields that take whole numbers only."""


@dataclass
class Study:
    """A problem with its catalogue and how each scenario is searched. Safe to pickle; each process keeps its own memo."""

    loaded: LoadedProblem
    catalog: Catalog
    seed: int = 1
    time_limit_s: float | None = None
    user_measurements: pl.DataFrame | None = None
    memo: Memo = field(default_factory=Memo)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("shared", "read")} | {"memo": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.memo = Memo()

    @property
    def options(self) -> SolveOptions:
        """Options that every point is solved under."""
        return SolveOptions(self.limit_s, None, workers=1, seed=self.seed, runner_up=False, additions=False)

    @property
    def limit_s(self) -> float:
        """Deterministic limit of one search."""
        return self.loaded.problem.time_limit if self.time_limit_s is None else self.time_limit_s

    @property
    def tie_share(self) -> float:
        """Share of the limit that the search among equal plans may take."""
        return min(TIE_SHARE, TIE_WORK / self.limit_s) if self.limit_s else TIE_SHARE

    @cached_property
    def shared(self) -> Shared:
        """What points of this study share; each process keeps its own."""
        return Shared(self.loaded.problem)

    @cached_property
    def read(self) -> dict[Scenario, tuple[LoadedProblem, Catalog]]:
        """Scenarios that were read lately."""
        return {}

    @cached_property
    def sha256(self) -> str:
        """Hash of all that an answer depends on beside its scenario."""
        at = inputs_of(self.loaded, self.catalog, self.options)
        return hashlib.sha256(f"{at!r} {self.limit_s!r}".encode()).hexdigest()

    def key(self, scenario: Scenario) -> str:
        """Hash of a scenario of this study."""
        return hashlib.sha256(f"{self.sha256} {scenario!r}".encode()).hexdigest()

    def at(self, scenario: Scenario) -> tuple[LoadedProblem, Catalog]:
        """Problem and catalogue of a scenario.

        Raises
        ------
        problems.issues.ProblemError
            For an override that the problem cannot take.
        BadRequest
            For a factor on something that is no single number, or a price selector without a match.
        """
        if scenario not in self.read:
            if len(self.read) >= MOST_READ:
                self.read.clear()
            self.read[scenario] = self._at(scenario)
        return self.read[scenario]

    def _at(self, scenario: Scenario) -> tuple[LoadedProblem, Catalog]:
        texts = [f"{path}={value}" for path, value in scenario.settings]
        for path, factor in scenario.factors:
            texts += [f"{p}={v}" for p, v in multiplied(self.loaded, path, Decimal(factor))]
        base = self.loaded
        loaded = load_text(base.text, base.path, (*base.overrides, *texts)) if texts else base
        if not scenario.prices:
            return loaded, self.catalog
        factors = [(selector, float(factor)) for selector, factor in scenario.prices]
        problem, catalog = with_factors(loaded.problem, self.catalog, factors)
        return replace(loaded, problem=problem), catalog

    def compiled(self, loaded: LoadedProblem, catalog: Catalog, *, any_watts: bool = False) -> Candidates:
        """All candidates, features taken from the memo where they did not change; `any_watts` as in `build_candidates`."""
        return build_candidates(
            loaded.problem, catalog, base_dir(loaded), self.user_measurements, memo=self.memo, any_watts=any_watts
        )

    def integers(
        self, loaded: LoadedProblem, catalog: Catalog, axes: Sequence[str] = ()
    ) -> tuple[Candidates, Scaled | None]:
        """Reduced candidates and integers, shared by problems that differ from the study's in amounts of limits alone.

        Parameters
        ----------
        axes : sequence of str
            What is asked about beside the objective (see `solver.candidates.reduced`); then limits may be lifted, too.

        Returns
        -------
        small, scaled
            No integers where workloads have no candidate.
        """
        key = self.shared.key(loaded.problem, axes) if catalog is self.catalog else None
        found = None if key is None else self.shared.get(key, loaded.problem)
        if found is None:
            alone = key is None and not axes
            small = reduced(self.compiled(loaded, catalog, any_watts=not alone), axes=axes, within_watts=alone)
            if small.unserved and (not small.problem.weighed or len(small.unserved) == len(small.problem.workloads)):
                return small, None
            found = small, scale(small, catalog)
            if key is not None:
                self.shared.put(key, found)
        return found[0], with_limits(found[1], loaded.problem, catalog)

    def search(self, built: PlanModel, share: float = 1.0, stop: threading.Event | None = None) -> Found:
        """Search one model under the study's limits."""
        return run(
            built,
            time_limit_s=WALL_BACKSTOP * self.limit_s,
            gap=0.0,
            workers=1,
            seed=self.seed,
            stop=stop,
            deterministic_limit=share * self.limit_s,
        )

    def best(
        self,
        instance: Instance,
        build: Build = build_model,
        share: float = 1.0,
        stop: threading.Event | None = None,
        near: Values | None = None,
        *,
        parts: bool = True,
    ) -> Found:
        """Search all of an instance at once as `build` has it, of all ways to fill racks, from a plan where one is known.

        `parts`: `build` can make a model of a part of the pools, too.
        """

        def search(some: Instance, _: float) -> Looked:
            built = build(some)
            if near is not None and some.pools == instance.pools:
                give_hint(built, near)
            return Looked(self.search(built, share, stop))

        return of_all_menus(instance, search, parts=parts).found

    def least(self, instance: Instance, build: Build = build_model, stop: threading.Event | None = None) -> Focused:
        """Minimise an instance as `build` has it: on few of many pools first, then on what could beat that (`solver.focus`).

        Mixes of sizes that must outlive losses go without their loads first (`solver.blend.unmixed`): the same plans, fewer
        variables. What goes by the clock (`solver.staged`) is not used: an answer must not depend on how fast it is found.
        """

        def search(some: Instance, _: float) -> Looked:
            at = self._unmixed(some, build, stop)
            return Looked(at.found, at.part, at.extra, at.unlimited)

        looked = of_all_menus(instance, search)
        at = self.all_of(instance, looked.found)
        return at if looked.part is None else replace(at, part=looked.part)

    def _unmixed(self, instance: Instance, build: Build, stop: threading.Event | None) -> Focused:
        plain = unmixed(instance) if build is build_model else instance
        if plain is not instance:
            at = self._least(plain, build, stop)
            values = None if at.found.values is None else remixed(instance, at.found.values)
            if values is not None or at.found.status is Status.INFEASIBLE:
                part = restricted(instance, at.part.pools, at.part.options)
                return Focused(replace(at.found, values=values), part)
        return self._least(instance, build, stop)

    def _least(self, instance: Instance, build: Build, stop: threading.Event | None) -> Focused:
        wall_s = WALL_BACKSTOP * self.limit_s
        how = How(wall_s, 0.0, 1, self.seed, stop=stop, work_limit=self.limit_s)
        found = focused(instance, how, build)
        if found is not None:
            return found
        return self.all_of(instance, self.search(build(instance), stop=stop))

    def all_of(self, instance: Instance, found: Found) -> Focused:
        """What was found, and all of the instance as the part that holds every plan as good."""
        return Focused(found, restricted(instance, range(len(instance.pools))))

    def solve(self, scenario: Scenario = Scenario(), stop: threading.Event | None = None) -> Result:
        """Best plan of a scenario, ties broken; without binding limits, runner-up or timings."""
        loaded, catalog = self.at(scenario)
        return self.solve_loaded(loaded, catalog, stop)

    def solve_loaded(self, loaded: LoadedProblem, catalog: Catalog, stop: threading.Event | None = None) -> Result:
        """As `solve`, for a problem at hand."""
        if loaded.problem.objective == "scale" or loaded.problem.weighed:
            result = solve(loaded, catalog, self.options, None, stop, self.user_measurements)
            return result.model_copy(update={"search": None, "runner_up": None})
        small, scaled = self.integers(loaded, catalog)
        if scaled is None:
            return no_plan(loaded, catalog, small, self.options, 0.0).model_copy(update={"search": None})
        at = self.least(scaled.instance, stop=stop)
        return self.answer(loaded, catalog, small, scaled, at.found, self.ties(at, stop))

    def settled(self, scaled: Scaled, stop: threading.Event | None = None) -> tuple[Scaled, Ranked | None]:
        """Where workloads are weighed: the integers with the largest value of each priority as a floor, and the search."""
        if not scaled.instance.wishes:
            return scaled, None
        ranks = ranked(scaled.instance, lambda inst, near, share: self.best(inst, share=share, stop=stop))
        return replace(scaled, instance=ranks.instance), ranks

    def ties(self, at: Focused, stop: threading.Event | None = None) -> Found | None:
        """Among equally good plans the one with the fewest pools, then the least power; only after proof."""
        best = at.found.objective
        if at.found.status is not Status.OPTIMAL or best is None or (stop is not None and stop.is_set()):
            return None
        if len(at.part.pools) > TIE_POOLS:
            return None
        built = tie_break_model(at.part.instance, best)
        known = None if at.found.values is None else at.part.narrowed(at.found.values)
        if known is not None:
            give_hint(built, known)
        again = self.search(built, self.tie_share, stop)
        return None if again.values is None else replace(again, values=at.part.widened(again.values))

    def part(self, instance: Instance, most: int) -> Part | None:
        """The part of a large instance in which every plan of an objective up to `most` lies; None: all of it."""
        if len(instance.pools) < MANY_POOLS or instance.wishes:
            return None
        return promising(instance, most, WALL_BACKSTOP * self.limit_s)

    def answer(
        self,
        loaded: LoadedProblem,
        catalog: Catalog,
        small: Candidates,
        scaled: Scaled,
        found: Found,
        final: Found | None = None,
        binding: dict[str, bool] | None = None,
    ) -> Result:
        """Result of a search."""
        values = (final or found).values
        kept = None if values is None else kept_portfolio(loaded.problem, scaled, values)
        made = assemble(Answer(loaded, catalog, small, scaled, found, final, binding, self.options, 0.0, kept))
        return made.model_copy(update={"search": None})


def multiplied(loaded: LoadedProblem, path: str, factor: Decimal) -> list[tuple[str, str]]:
    """Overrides that multiply the field(s) at `path`; ``traffic.rate`` of a service given by users or concurrency
    multiplies that.

    Raises
    ------
    BadRequest
        Where the path leads to no single number.
    """
    out = []
    for concrete, text in values_at(loaded, path):
        plain = number_at(loaded, concrete)
        if concrete.endswith(WHOLE) and plain is not None:
            out.append((concrete, str(round(Decimal(plain) * factor))))
            continue
        amount = Amount.parse(text)
        out.append((concrete, str(amount.at(amount.number * factor))))
    return out


def values_at(loaded: LoadedProblem, path: str) -> list[tuple[str, str]]:
    """Concrete paths and values (as one would write them) that a path with ``*`` names.

    Raises
    ------
    BadRequest
        Where there are none.
    """
    data = loaded.problem.model_dump(mode="json")
    found: list[tuple[str, str]] = []
    _walk(data, split_path(path), [], found)
    if not found:
        raise BadRequest(f"{path}: the problem has no number there")
    return found


def _walk(node: Any, parts: list[str], done: list[str], found: list[tuple[str, str]]) -> None:
    if not parts:
        if node is not None and not isinstance(node, dict | list | bool):
            found.append((".".join(done), str(node)))
        return
    part, rest = parts[0], parts[1:]
    if isinstance(node, list):
        for index, item in enumerate(node):
            name = str(item.get("name", index)) if isinstance(item, dict) else str(index)
            if part in ("*", name, str(index)):
                _walk(item, rest, [*done, name], found)
    elif isinstance(node, dict):
        if part == "rate" and node.get("rate") is None and done and done[-1] == "traffic":
            if node.get("concurrency") is not None:
                _walk(node["concurrency"], [], [*done, "concurrency"], found)
            elif node.get("users") is not None:
                _walk(node["users"]["total"], [], [*done, "users", "total"], found)
        elif part in node:
            _walk(node[part], rest, [*done, part], found)


def number_at(loaded: LoadedProblem, path: str) -> float | None:
    """Value of a field in its plain unit (W, money, 1/s, share); of the first one where the path names several."""
    if path.startswith(PRICES):
        return None
    node: Any = loaded.problem
    for part in split_path(path):
        if isinstance(node, tuple | list):
            items = [x for x in node if getattr(x, "name", None) == part]
            if not items and part.isdigit() and int(part) < len(node):
                items = [node[int(part)]]
            if not items and part == "*":
                items = list(node[:1])
            if not items:
                return None
            node = items[0]
        elif isinstance(node, BaseModel) and part in type(node).model_fields:
            node = getattr(node, part)
        elif isinstance(node, dict) and part in node:
            node = node[part]
        else:
            return None
    if isinstance(node, bool) or node is None:
        return None
    amount = getattr(node, "amount", node)
    if path.startswith("limits.budget.") and getattr(node, "currency", "") != loaded.problem.currency:
        return None  # plans are counted in the problem's currency
    try:
        return float(amount)
    except (TypeError, ValueError):
        return None
