"""Search on few pools first, then on all that a better plan could use, where most of many pools cannot pay.

1. The linear relaxation of the whole model gives a bound, and for every pool the least that a node of it costs beyond the bound.
   Pools that differ in money and watts alone are one pool there (`solver.bounding.fold`).
2. CP-SAT searches the pools that the relaxation uses and those nearest to paying: any plan of theirs is a plan.
3. Pools and options that cost more than that plan leaves are out for good. Where many are left of few families, the folded
   instance is searched first: it has no plan dearer than the best, so a plan of the same cost from the families that it uses is
   the best.
4. Else CP-SAT searches all that is left, with hint and bound.

What is left out would make a plan dearer than one that is known, so bounds and optima are those of the whole instance, and so is
the set of all optimal plans. The pools left out are no less candidates for other questions (limits lifted, ties at a higher cost).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from solver.bounding.beyond import Build, Extra, beyond, of_families, priced, within
from solver.bounding.fold import Folded, fold, remember
from solver.bounding.restrict import Part, restricted
from solver.hints import fix, give_hint, give_whole_hint
from solver.instance import Instance
from solver.limits import without_limits
from solver.model import build_model
from solver.plan import Status, StopReason
from solver.search import PATIENCE, PROOF_S, Found, Values, relative_gap, run
from solver.search_state import How

START_POOLS = (0, 8)
SMALL_COUNTS = 1_000
"""Pools beside those that the relaxation uses, that are searched before all others where the few have more counts of replicas
than that: of many services in many load periods forty pools are already too many for a good plan soon."""
FEW_POOLS = 40
MORE_POOLS = 200
FAR = 0.1
"""Pools searched first; and then, where these have no plan, or none within so much of the bound."""
MANY_POOLS = 80
"""With fewer pools than that the model is small as it is."""
FAMILIES_S = 2 * PROOF_S
"""Longest time for which they are searched to a full proof although the asked gap is already reached [s]."""
MOST_ROUNDS = 8
"""Most times that families are unfolded and searched again."""
MANY_LEFT = 100
"""With more pools left than that they are priced one by one, or searched as families first."""
RELAX_SHARE = 0.15
START_SHARE = 0.05
FIRST_SHARE = 0.25
"""Shares of the time limit that the relaxation, each search of a start and that on few pools may take."""
START_S, FIRST_S = 0.3, 1.0
"""Where time is short these searches take so much of it [s]: without a good plan the rest is of no use."""
REFIT_S = 1.0
"""Time to find room for a plan of the instance without limits within them [s]."""
ALONE_S = 3.0
"""So long a worker that is alone searches by the bound before it looks for plans [s]."""
LEAST_S = 0.5
"""With less time left than that no proof among many pools is begun [s]: their model takes as long to build."""
FIRST_GAP, FIRST_PATIENCE = 0.002, 0.1
"""The search on few pools stops at this gap, after this share of its time: what it finds is no more than a start."""


@dataclass(frozen=True)
class Focused:
    """What was found, the part of the instance in which every plan as good as it lies, and what pools cost beyond its bound."""

    found: Found
    part: Part
    extra: Extra | None = None
    unlimited: bool = False
    """No plan is better without any limit of money, watts or room either."""


class _LimitsBind(Exception):  # noqa: N818 - no error
    """The best plan known without limits breaks one."""


def focused(inst: Instance, how: How, build: Build = build_model, *, slack_first: bool = False) -> Focused | None:
    """Minimise an instance of many pools; None where there are few, or where the relaxation says nothing in time.

    Parameters
    ----------
    build : callable, optional
        Model of the instance or a part of it, with limits and an objective of its own.
    slack_first
        The instance without its limits is searched first, while what is found keeps them: its best plan then is that of both,
        and that no limit binds is known too.
    """
    if len(inst.pools) < MANY_POOLS or inst.wishes:
        return None
    started = time.monotonic()
    if slack_first and _may_be_slack(inst):
        free = without_limits(inst)
        families = fold(inst)
        if families is not None:
            # Of one family with the limits is of one without.
            remember(free, replace(families, instance=without_limits(families.instance)))
        known = priced(free, RELAX_SHARE * how.time_limit_s)
        if known is None:
            return None
        focus = _Focus(free, how, build_model, *known, started, refit=partial(refitted, inst, how))
        try:
            done = focus.search()
            return replace(done, part=_limited(done.part, inst), unlimited=done.found.status is Status.OPTIMAL)
        except _LimitsBind:
            how = replace(how, time_limit_s=focus.left(), floor=max(how.floor, focus.bound))
            started = time.monotonic()
    found = priced(inst, RELAX_SHARE * how.time_limit_s, build)
    if found is None:
        return None
    return _Focus(inst, how, build, *found, started).search()


def _may_be_slack(inst: Instance) -> bool:
    """Whether the limits may all be slack: without them, what is owned or asked for by quota alone would be taken first."""
    limited = any(x is not None for x in (inst.limit_capex, inst.limit_monthly, inst.limit_total, inst.limit_power_w))
    limited |= any(s.limit_it_w is not None or s.limit_facility_w is not None for s in inst.sites)
    limited |= any(row.field for row in inst.rows)
    return limited and not inst.quotas and all(p.node_limit is None for p in inst.pools)


def refitted(inst: Instance, how: How, found: Found) -> Values | None:
    """A plan of an instance with the same machines at the same work as one of a like instance, at no higher objective; None where
    none is found.

    Hours of jobs are chosen anew, and so are racks, circuits and the like, which may cost nothing and are then taken as it happens.
    """
    assert found.values is not None
    assert found.objective is not None
    used = {inst.capacities[i].pool for i, n in found.values.commit.items() if n}
    used |= {inst.capacities[i].pool for (i, _), n in found.values.hourly.items() if n}
    used |= {inst.options[q].pool for q, n in found.values.chosen.items() if n}
    part = restricted(inst, used)
    mine = part.narrowed(found.values)
    if mine is None:
        return None
    built = build_model(part.instance)
    built.model.add(built.objective <= found.objective)
    give_hint(built, mine)
    fix(built, replace(mine, gear={}, load={}, start={}, share={}))
    again = run(built, time_limit_s=REFIT_S, gap=1.0, workers=how.workers, seed=how.seed, stop=how.stop, patience=0.0)
    return None if again.values is None else part.widened(again.values)


def _limited(part: Part, inst: Instance) -> Part:
    """A part of the instance without limits as one of the instance with them; counts stay bounded as they are."""
    same = restricted(inst, part.pools, part.options, part.replicas)
    small = part.instance
    counts = replace(same.instance, capacities=small.capacities, replicas=small.replicas, gear=small.gear)
    return replace(same, instance=counts)


def at_most(inst: Instance, most: int, plan: Values, how: How, build: Build = build_model) -> Found | None:
    """A plan of an objective up to `most`: found (its bound says nothing), or proved not to exist; None where the relaxation says
    nothing in time.

    Parameters
    ----------
    plan : Values
        A plan of an instance with the same pools: those like its own are told apart at once.
    """
    started = time.monotonic()

    def left() -> float:
        return max(0.05, how.time_limit_s - (time.monotonic() - started))

    def first(part: Part) -> Found:
        built = build(part.instance)
        built.model.add(built.objective <= most)
        found = run(
            built, time_limit_s=left(), gap=1.0, workers=how.workers, seed=how.seed, stop=how.stop, patience=0.0
        )
        return found if found.values is None else replace(found, values=part.widened(found.values))

    known = priced(inst, how.time_limit_s, build)
    if known is None:
        return None
    extra, folded = known
    part = within(inst, extra, most - extra.bound)
    if folded is None or len(part.pools) <= MANY_LEFT:
        return first(part)
    number = {o: n for n, o in enumerate(part.pools)}
    apart = set(folded.behind(folded.image(plan)))
    for _ in range(MOST_ROUNDS):
        families = fold(part.instance, frozenset(number[o] for o in apart if o in number))
        if families is None:
            break
        found = first(within(families.instance, of_families(extra.of(part), families), most - extra.bound))
        if found.values is None:
            return found
        behind = {part.pools[o] for o in families.behind(found.values)}
        near = first(restricted(inst, behind))
        if near.values is not None:
            return near
        if behind <= apart or near.status is not Status.INFEASIBLE:
            break
        apart |= behind
    return first(part)


@dataclass
class _Focus:
    """A search under way: what is known of the whole instance so far."""

    inst: Instance
    how: How
    build: Build
    extra: Extra
    folded: Folded | None
    started: float
    best: Found | None = None
    bound: int = field(default=0)
    refit: Callable[[Found], Values | None] | None = None
    _part: tuple[float, Part] | None = None

    def __post_init__(self) -> None:
        self.bound = math.ceil(max(self.extra.bound, self.how.floor) - 1e-6)
        self.how.on_progress(None, self.bound)

    def left(self) -> float:
        return max(0.1, self.how.time_limit_s - (time.monotonic() - self.started))

    @property
    def room(self) -> float:
        """What a plan as good as the best one known leaves beyond the bound of the relaxation."""
        best = None if self.best is None else self.best.objective
        return math.inf if best is None else best - self.extra.bound

    def _within(self) -> Part:
        """The part in which every plan as good as the best one known lies."""
        if self._part is None or self._part[0] != self.room:
            self._part = (self.room, within(self.inst, self.extra, self.room))
        return self._part[1]

    def search(self) -> Focused:
        for count in (*START_POOLS, FEW_POOLS, MORE_POOLS):
            if count < FEW_POOLS and self._counts(FEW_POOLS) <= SMALL_COUNTS:
                continue
            few = restricted(self.inst, self._nearest(count))
            status = self._first(few, start=count < FEW_POOLS)
            if len(few.pools) == len(self.inst.pools) or (count >= FEW_POOLS and self._near()):
                break
        if self.folded is not None and self.best is not None and self.best.values is not None:
            # Of the families in use all pools.
            near = restricted(self.inst, self.folded.behind(self.folded.image(self.best.values)))
            if not set(near.pools) <= set(few.pools):
                self._take(self._on(near, self.how, FIRST_PATIENCE), near)
        part = self._within()
        covered = set(part.pools) <= set(few.pools) and set(part.options) <= set(few.options)
        if self.best is not None and covered and status is Status.OPTIMAL:
            return Focused(replace(self.best, wall_s=time.monotonic() - self.started), part, self.extra)
        if len(part.pools) > MANY_LEFT and self.folded is not None:
            if self.best is not None and self._over(LEAST_S):
                return Focused(self._so_far(), part, self.extra)
            proved = self._by_families()
            if proved is not None:
                return Focused(proved, self._within(), self.extra)
            if self.best is not None and self._over():
                return Focused(self._so_far(), self._within(), self.extra)
            part = self._priced_singly(self._within())
        found = self._on(part, self.how)
        done = _joined(found, self.best, part, self.bound, time.monotonic() - self.started)
        self._take(found, part)
        # A better plan leaves less room.
        less = self._within()
        return Focused(done, min(part, less, key=lambda p: len(p.pools)), self.extra)

    def _counts(self, count: int) -> int:
        """Numbers of replicas, by kind and period, in a search of so many pools."""
        near = set(self._nearest(count))
        return len(self.inst.periods) * sum(r.pool in near for r in self.inst.replicas)

    def _near(self) -> bool:
        """Whether a plan is known that is near enough to the bound for most pools to go out."""
        gap = None if self.best is None else relative_gap(self.best.objective, self.bound)
        return gap is not None and gap <= FAR

    def _over(self, needed_s: float = 0.0) -> bool:
        """Whether less time is left than is needed."""
        stopped = self.how.stop is not None and self.how.stop.is_set()
        return stopped or time.monotonic() - self.started > self.how.time_limit_s - needed_s

    def _so_far(self) -> Found:
        """What is known where time is over, with the bound of all pools: a model of all of them takes long to build alone."""
        stopped = self.how.stop is not None and self.how.stop.is_set()
        why, wall_s = StopReason.INTERRUPTED if stopped else StopReason.TIME_LIMIT, time.monotonic() - self.started
        if self.best is None or self.best.objective is None:
            return Found(Status.UNKNOWN, why, None, float(self.bound), None, wall_s, None, 0, 0)
        bound = min(float(self.bound), float(self.best.objective))
        gap = relative_gap(self.best.objective, bound)
        if gap is not None and gap <= self.how.gap:
            why = StopReason.GAP_REACHED if gap else StopReason.PROVED
        status = Status.FEASIBLE if gap else Status.OPTIMAL
        return replace(self.best, status=status, stop_reason=why, bound=bound, wall_s=wall_s)

    def _nearest(self, count: int) -> Sequence[int]:
        """Pools that the relaxation uses, and those that cost least beyond it; of a family its cheapest and its leanest one."""
        likely = range(len(self.inst.pools)) if self.folded is None else self._ends(self.folded)
        used = set(self.extra.used).intersection(likely)
        order = sorted(likely, key=lambda o: (self.extra.pools[o], o))
        return sorted({*used, *order[:count]})

    def _ends(self, folded: Folded) -> list[int]:
        """The cheapest and the leanest pool of every family."""
        cost = np.full(len(self.inst.pools), math.inf)
        for c in self.inst.capacities:
            cost[c.pool] = min(cost[c.pool], sum(c.cost))
        watts = [p.it_w for p in self.inst.pools]
        cheapest = (min(some, key=lambda o: (cost[o], watts[o])) for some in folded.pools)
        leanest = (min(some, key=lambda o: (watts[o], cost[o])) for some in folded.pools)
        return sorted({*cheapest, *leanest})

    def _first(self, few: Part, *, start: bool) -> Status:
        """Search few pools for a plan to start from; `start`: very few, for a moment."""
        # By the clock a near plan is enough; without one, the answer must not depend on how fast it was found.
        gap = max(self.how.gap, FIRST_GAP) if self.how.work_limit is None else self.how.gap
        least_s, share = (START_S, START_SHARE) if start else (FIRST_S, FIRST_SHARE)
        how = replace(self.how, time_limit_s=max(least_s, share * self.how.time_limit_s), gap=gap)
        found = self._on(few, how, FIRST_PATIENCE)
        self._take(found, few)
        return found.status

    def _take(self, found: Found, part: Part) -> None:
        """Keep a plan of a part of the instance that is better than what is known."""
        if found.values is None or found.objective is None:
            return
        if self.best is None or self.best.objective is None or found.objective < self.best.objective:
            first = found.first_s if self.best is None else self.best.first_s
            values = part.widened(found.values)
            if self.refit is not None:
                kept = self.refit(replace(found, values=values))
                if kept is None:
                    raise _LimitsBind
                found, values = replace(found, values=kept), kept
                self.how.on_progress(found.objective, self.bound)
            self.best = replace(found, values=values, first_s=first)

    def _by_families(self) -> Found | None:
        """Search the folded instance, and the pools of the families that its best plan uses; None where that is no proof.

        Only families that leave room for a plan better than the best one known are searched. Those that the plan used stay
        unfolded the next time, until it uses real pools only, or none is better than the best plan known.
        """
        assert self.folded is not None
        # Where the best plan known is the best of all, its families are those that merging makes look better.
        best = None if self.best is None else self.best.values
        apart = set() if best is None else set(self.folded.behind(self.folded.image(best)))
        for _ in range(MOST_ROUNDS):
            left = self._within()
            number = {o: n for n, o in enumerate(left.pools)}
            folded = fold(left.instance, frozenset(number[o] for o in apart if o in number))
            if folded is None:
                return None
            part = within(folded.instance, of_families(self.extra.of(left), folded), self.room)
            found = self._run(part, self.how, seen=partial(_image, left=left, folded=folded))
            if found.status is Status.INFEASIBLE and self.best is None:
                return found
            if found.bound is not None:
                self.bound = max(self.bound, math.ceil(found.bound - 1e-6))
            done = self._proved()
            if done is not None or found.values is None:
                return done
            behind = {left.pools[o] for o in folded.behind(part.widened(found.values))}
            near = restricted(self.inst, behind)
            self._take(self._on(near, self.how, FIRST_PATIENCE), near)
            done = self._proved()
            if done is not None or behind <= apart:
                return done
            apart |= behind
        return None

    def _proved(self) -> Found | None:
        """The best plan known, where the bound of all pools shows that it is the best or, some time on, within the gap asked."""
        gap = None if self.best is None else relative_gap(self.best.objective, self.bound)
        late = self.how.work_limit is None and time.monotonic() - self.started > FAMILIES_S
        if self.best is None or gap is None or (gap > 0 and not (late and gap <= self.how.gap)):
            return None
        return replace(
            self.best,
            status=Status.FEASIBLE if gap else Status.OPTIMAL,
            stop_reason=StopReason.GAP_REACHED if gap else StopReason.PROVED,
            bound=float(self.bound),
            wall_s=time.monotonic() - self.started,
        )

    def _priced_singly(self, part: Part) -> Part:
        """What is left of a part where each of its pools is priced by itself."""
        best = None if self.best is None else self.best.objective
        if best is None or len(part.pools) <= MANY_LEFT:
            return part
        extra = beyond(self.build(part.instance), min(self.left(), RELAX_SHARE * self.how.time_limit_s))
        if extra is None:
            return part
        less = within(part.instance, extra, best - extra.bound)
        # No plan as good lies outside the part, so its bound is one of all.
        self.bound = max(self.bound, min(best, math.ceil(extra.bound - 1e-6)))
        return restricted(self.inst, [part.pools[o] for o in less.pools], [part.options[q] for q in less.options])

    def _on(self, part: Part, how: How, patience: float | None = None) -> Found:
        return self._run(part, replace(how, time_limit_s=min(how.time_limit_s, self.left())), patience)

    def _run(
        self,
        part: Part,
        how: How,
        patience: float | None = None,
        seen: Callable[[Values], Values | None] | None = None,
    ) -> Found:
        """CP-SAT on a part of the instance, which has no plan below the bound, starting from a plan that is known.

        `seen` : what a plan is in the instance that the part is one of, where that is a folded one.
        """
        built = self.build(part.instance)
        built.model.add(built.objective >= self.bound)
        if self.best is not None and self.best.values is not None:
            plan = self.best.values if seen is None else seen(self.best.values)
            known = None if plan is None else part.narrowed(plan)
            if known is not None:
                give_whole_hint(built, known)
        bound = self.bound

        def progress(value: float | None, low: float | None) -> None:
            # A bound of the first search is one of few pools only; plans of folded pools are none, nor those that break limits.
            value = value if seen is None and self.refit is None else None
            how.on_progress(value, bound if patience is not None or low is None else max(low, bound))

        def searched(limit_s: float, work: float | None, *, by_bound: bool) -> Found:
            return run(
                built,
                time_limit_s=min(limit_s, self.left()),
                gap=how.gap,
                workers=how.workers,
                seed=how.seed,
                log=how.log,
                stop=how.stop,
                on_progress=progress,
                patience=PATIENCE if patience is None else patience,
                deterministic_limit=work,
                known_bound=bound,
                by_bound=by_bound,
            )

        if how.workers == 1:
            # Most often the bound soon is a plan; where it is not for long, plans are looked for.
            work = None if how.work_limit is None else min(ALONE_S, how.work_limit)
            soon = how.time_limit_s if work is not None else min(ALONE_S, how.time_limit_s)
            found = searched(soon, work, by_bound=True)
            if found.status in (Status.OPTIMAL, Status.INFEASIBLE):
                return found
            if found.values is not None:
                built.model.clear_hints()  # type: ignore[no-untyped-call]
                give_whole_hint(built, found.values)
        return searched(how.time_limit_s, how.work_limit, by_bound=False)


def _image(values: Values, left: Part, folded: Folded) -> Values | None:
    """A plan in the instance that a part is folded into; None where it lies outside the part."""
    inside = left.narrowed(values)
    return None if inside is None else folded.image(inside)


def _joined(found: Found, best: Found | None, part: Part, bound: int, wall_s: float) -> Found:
    """Outcome for the whole instance: the better plan, and a bound that minds the plans that were left out."""
    if found.values is not None:
        found = replace(found, values=part.widened(found.values))
    if best is None or best.objective is None:
        return replace(found, wall_s=wall_s)
    if found.objective is None or best.objective < found.objective:
        # Plans that were left out cost more than the best, and what was searched has none below its bound.
        proved = found.status is Status.INFEASIBLE
        low = float(best.objective) if proved else max(float(bound), found.bound or -math.inf)
        found = replace(
            found,
            status=Status.OPTIMAL if proved else Status.FEASIBLE,
            objective=best.objective,
            bound=min(low, float(best.objective)),
            values=best.values,
        )
    gap = relative_gap(found.objective, found.bound)
    why = found.stop_reason
    if found.status is Status.FEASIBLE and gap == 0.0:
        found, why = replace(found, status=Status.OPTIMAL), StopReason.PROVED
    return replace(found, stop_reason=why, first_s=best.first_s, wall_s=wall_s)
