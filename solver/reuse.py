"""Integers of candidates that are known already: those of other ones with the same rows, or with more pools.

Questions beside a plan are of the same problem with less to choose from. Scaling thousands of pools takes longer than asking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from catalogs.catalog import Catalog
from solver.bounding.beyond import MANY_POOLS
from solver.bounding.fold import fold, folded_part, remember
from solver.bounding.restrict import Part, restricted
from solver.candidates import Candidates
from solver.scaling import Scaled, scale

FRAMES = ("pools", "capacity", "prices", "replicas", "options")
"""Frames of candidates that their integers are made of."""
WORKED_WITH = ("apart",)
"""Columns that rows were compared by; integers are not made of them."""
Known = tuple[Candidates, Scaled]
"""Reduced candidates with their integers."""


def scaled_as(found: Candidates, catalog: Catalog, known: Known | None) -> Scaled:
    """The integer instance of candidates; the known one where they are the same rows of the same problem and catalogue."""
    return known[1] if known is not None and _same(found, known[0], FRAMES) else scale(found, catalog)


def scaled_inside(found: Candidates, known: Known) -> Part | None:
    """The part of a known instance that candidates are, where they are all the known ones of their pools; None else.

    Gear for other pools stays on offer in it: it is of the same problem, so that no plan of the part is less of a plan.
    """
    names = found.pools["pool"].implode()
    pools = known[0].pools.filter(pl.col("pool").is_in(names))
    rows = {n: f.filter(pl.col("pool").is_in(names)) for n in FRAMES[1:] if not (f := getattr(known[0], n)).is_empty()}
    mine = {n: f.filter(pl.col("pool").is_in(names)) for n in FRAMES[1:] if not (f := getattr(found, n)).is_empty()}
    if not _same(replace(found, **mine), replace(known[0], pools=pools, **rows), FRAMES):
        return None
    whole = known[1].instance
    index = {p.key: o for o, p in enumerate(whole.pools)}
    part = restricted(whole, (index[name] for name in found.pools["pool"]))
    families = fold(whole) if len(whole.pools) >= MANY_POOLS else None
    if families is not None:
        remember(part.instance, folded_part(families, part))
    return part


def _same(found: Candidates, known: Candidates, frames: Sequence[str]) -> bool:
    """Whether two reductions of the same candidates left the same rows."""
    if found.problem is not known.problem or found.data != known.data:
        return False
    for name in frames:
        a, b = getattr(found, name), getattr(known, name)
        both = [c for c in a.columns if c in b.columns and c not in WORKED_WITH]
        if a.height != b.height or not a.select(both).equals(b.select(both)):
            return False
    return True
