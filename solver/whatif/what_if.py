"""`kitout what-if` without its command line: texts of options in, a sweep or a replayed plan out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from solver.sweep import How, sample, sweep
from solver.whatif.stress import stress
from solver.whatif.study import Study, values_at
from solver.whatif.sweep_points import Stress, Sweep
from solver.whatif.vary import PRICES, BadRequest, Law, Scenario, Vary, parse_law, parse_vary

DEFAULT_DRAWS = 200


@dataclass(frozen=True)
class Wanted:
    """Options as written: ``--vary``, ``--sample`` and ``--stress`` texts, and how many scenarios to draw."""

    vary: Sequence[str] = ()
    sample: Sequence[str] = ()
    stress: Sequence[str] = ()
    draws: int | None = None


def what_if(study: Study, wanted: Wanted, how: How) -> Sweep | Stress:
    """Carry a what-if request out.

    Raises
    ------
    BadRequest, problems.issues.ProblemError
        For anything in the request that cannot be carried out, before any search.
    """
    varied = [parse_vary(text) for text in wanted.vary]
    laws = [parse_law(text) for text in wanted.sample]
    loads = [parse_vary(text) for text in wanted.stress]
    if not varied and not laws and not loads:
        raise BadRequest("what-if needs --vary PATH=LO..HI:STEP, --sample PATH:LAW(..) or --stress PATH=LO..HI")
    if loads and (varied or laws or len(loads) > 1):
        raise BadRequest("--stress replays one fixed plan: give it alone, once")
    if wanted.draws is not None and not laws:
        raise BadRequest("-n counts scenarios drawn: give --sample PATH:LAW(..) with it")
    paths = [*(v.path for v in varied), *(law.path for law in laws)]
    twice = sorted({p for p in paths if paths.count(p) > 1})
    if twice:
        raise BadRequest(f"{', '.join(twice)}: varied twice")
    _try(study, varied, laws)
    if loads:
        return stress(study, loads[0], how.stop, how.tell)
    if laws:
        return sample(study, laws, varied, wanted.draws or DEFAULT_DRAWS, how)
    return sweep(study, varied, how)


def _try(study: Study, varied: Sequence[Vary], laws: Sequence[Law]) -> None:
    """Make the problem of every single value once, so that a bad one is told before the work begins."""
    for vary in varied:
        for value in vary.values:
            price = vary.is_price
            pair = ((vary.path, value),)
            study.at(Scenario(() if price else pair, (), pair if price else ()))
            if price:
                break
    for law in laws:
        if law.path.startswith(PRICES):
            study.at(Scenario(prices=((law.path, "1"),)))
        elif law.is_factor:
            values_at(study.loaded, law.path)
            study.at(Scenario(factors=((law.path, "1"),)))
        else:
            unit = next(a for a in law.arguments if not a.bare)
            study.at(Scenario(((law.path, str(unit.at(abs(unit.number) or 1))),)))


def processes(asked: int) -> int:
    """Processes to use: as many as asked for, 0 for one per core that this process may use."""
    if asked:
        return asked
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else (os.cpu_count() or 1)
