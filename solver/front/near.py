"""Near-optimal plans that differ in kind: what the best plan uses is taken away, one thing at a time, and the rest solved again.

Things are an accelerator, a provider, a billing mode, a place. Each answer is the best plan without them, by proof, so nothing
better of that kind exists; those within the slack are listed, and what they use is taken away in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from catalogs.catalog import Catalog
from problems.load import LoadedProblem
from solver.candidates import Candidates, reduced
from solver.candidates.exclude import Thing, excluding
from solver.front.front_points import Near
from solver.front.scoring import figures_of
from solver.plan import Result
from solver.scaling import scale
from solver.whatif.study import Study
from solver.whatif.sweep_points import change_text, plan_text, signature

MOST_SEARCHES = 24
Tell = Callable[[int, int, str], None]


def things_of(result: Result) -> list[Thing]:
    """What a plan uses: (accelerator | provider | billing | place, name)."""
    out: dict[Thing, None] = {}
    for item in result.items:
        if item.kind not in ("rental", "server"):
            continue
        if item.accelerator:
            out["accelerator", item.accelerator] = None
        if item.kind == "rental" and item.provider:
            out["provider", item.provider] = None
        out["billing", item.billing.split(" ")[0]] = None
        out["place", item.site] = None
    return list(out)


def kind_of(result: Result) -> tuple[Thing, ...]:
    """The kind of a plan: everything it uses, without numbers."""
    return tuple(sorted(things_of(result)))


def near_plans(
    study: Study,
    loaded: LoadedProblem,
    catalog: Catalog,
    everything: Candidates,
    best: Result,
    slack: float,
    stop: threading.Event,
    tell: Tell = lambda done, of, said: None,
    floors: tuple[int, ...] = (),
) -> list[Near]:
    """Plans of another kind than `best` whose objective is at most 1 + slack times its; they keep the values of `floors`."""
    if best.objective is None:
        return []
    limit = best.objective + slack * abs(best.objective)
    seen = {kind_of(best)}
    queue: list[frozenset[Thing]] = [frozenset([t]) for t in things_of(best)]
    tried = set(queue)
    out: list[Near] = []
    searches = 0
    while queue and searches < MOST_SEARCHES and not stop.is_set():
        without = queue.pop(0)
        searches += 1
        small = reduced(excluding(everything, without), within_watts=True)
        if small.unserved and not small.problem.weighed:
            continue
        scaled = scale(small, catalog)
        scaled = replace(scaled, instance=replace(scaled.instance, floors=floors))
        at = study.least(scaled.instance, stop=stop)
        found = at.found
        if found.values is None or found.objective is None:
            continue
        final = study.ties(at, stop)
        result = study.answer(loaded, catalog, small, scaled, found, final)
        values = found.values if final is None or final.values is None else final.values
        if result.objective is None or result.objective > limit + 1e-12 * abs(limit) + 1e-9:
            continue
        if kind_of(result) not in seen:
            seen.add(kind_of(result))
            names = tuple(f"{d} {n}" for d, n in sorted(without))
            difference = (result.objective - best.objective) / abs(best.objective) if best.objective else 0.0
            change = change_text(best, result)
            out.append(
                Near(
                    without=names,
                    difference=round(difference, 6),
                    plan=plan_text(result),
                    change=change,
                    result=result,
                    figures=figures_of(scaled.instance, values),
                )
            )
            tell(len(out), 0, f"+{difference:.2%} {plan_text(result)}")
        for thing in things_of(result):
            more = without | {thing}
            if more not in tried:
                tried.add(more)
                queue.append(more)
    assert len({signature(n.result) for n in out}) == len(out)
    return sorted(out, key=lambda n: n.difference)
