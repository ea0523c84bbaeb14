"""What a room must have for a server to stand in it: its cooling, and a known height where racks are counted."""

from __future__ import annotations

import polars as pl

from problems.schema import Problem

COOLED_BY = {
    "air": ("air", "rear_door"),
    "liquid": ("liquid",),
    "air or liquid": ("air", "rear_door", "liquid"),
}
"""What cools a server, by the cooling that the catalogue states for it."""


def room_reasons(problem: Problem) -> list[tuple[pl.Expr, str]]:
    """Drop reasons over columns site, cooling (null: air) and rack_units of servers on own sites."""
    reasons: list[tuple[pl.Expr, str]] = []
    for site in problem.sites:
        here = pl.col("site") == site.name
        fitting = [need for need, cools in COOLED_BY.items() if set(cools) & set(site.cooling)]
        cooled = pl.col("cooling").fill_null("air").is_in(fitting)
        has = " and ".join(site.cooling).replace("_", "-")
        reasons.append((here & ~cooled, f"needs other cooling than the room has: {has} (sites.{site.name}.cooling)"))
        if site.racks is not None:
            unknown = here & pl.col("rack_units").is_null()
            reasons.append((unknown, f"height not known, racks are counted (sites.{site.name}.racks)"))
    return reasons
