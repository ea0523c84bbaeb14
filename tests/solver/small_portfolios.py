"""Small portfolios whose optima CP-SAT proves on the plain model."""

from __future__ import annotations

from dataclasses import replace

from solver.instance import Instance
from solver.model import build_model
from solver.plan import Status
from solver.search import run
from tests.bench.portfolios import portfolio


def small_portfolio(works: int, periods: int, offers: int, seed: int) -> Instance:
    """A portfolio of two request sizes, a quarter of which is wanted: CP-SAT proves it within a second or two."""
    inst = portfolio(works, periods, offers, seed)
    services = tuple(replace(s, demand=s.demand[:2]) for s in inst.services)
    return replace(
        inst,
        services=services,
        replicas=tuple(replace(r, rate=tuple(4 * x for x in r.rate[:2])) for r in inst.replicas),
    )


def optimum(inst: Instance) -> int:
    found = run(build_model(inst), time_limit_s=60.0, gap=0.0, workers=2, seed=1, patience=1.0)
    assert found.status is Status.OPTIMAL
    assert found.objective is not None
    return found.objective
