"""Leaner builds that are no candidates: whether one of them could make a better plan.

Where racks or circuits are counted, nodes for work that spans several are candidates as money and the room of a rack or circuit say
(`solver.candidates.onsite`); the leaner ones among the rest would multiply them. A leaner build is dearer than a candidate
that does the same, energy counted, so it can only pay by the watts of a site. Put the candidate in its place: the plan costs no
more, and breaks at most a site's limit of watts. So the best plan without these limits bounds all plans with leaner builds, and
where it keeps the limits all the same, it is the best of all. Where it does not, everything is searched with the leaner builds
among the candidates.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from problems.schema import Problem
from solver.bounding.restrict import Part, restricted
from solver.candidates import Candidates
from solver.hints import held_at
from solver.instance import Instance
from solver.model import build_model
from solver.search import Found


def some_left_out(problem: Problem, found: Candidates) -> bool:
    """Whether leaner builds may be missing: racks or circuits are counted, watts limited, and nodes with RDMA for sale."""
    counted = any(s.racks is not None or s.circuits for s in problem.sites)
    watts = problem.limits.power is not None or any(s.power or s.it_power for s in problem.sites)
    if not counted or not watts or problem.objective != "cost" or problem.weighed:
        return False
    return found.pools.filter((pl.col("kind") == "server") & pl.col("rdma").fill_null(False)).height > 0


def without_site_watts(instance: Instance) -> Instance:
    """The instance without limits of what sites draw."""
    sites = tuple(replace(s, limit_it_w=None, limit_facility_w=None) for s in instance.sites)
    return replace(instance, sites=sites, limit_power_w=None)


def keeps_watts(instance: Instance, found: Found, part: Part | None) -> bool:
    """Whether a plan of the instance without limits of what sites draw is one of the instance with them."""
    if found.values is None:
        return False
    limited = limited_part(instance, part)
    values = found.values if limited is None else limited.narrowed(found.values)
    built = build_model(instance if limited is None else limited.instance)
    return values is not None and held_at(built, values) is not None


def limited_part(instance: Instance, part: Part | None) -> Part | None:
    """The same part of an instance that has the limits."""
    return None if part is None else restricted(instance, part.pools, part.options)
