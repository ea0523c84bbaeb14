"""Rules that work out published buying cases from their kind and the names of their figures.

`RULES` holds them all in the order in which they are tried; the arithmetic stands in `solver.features`.
"""

from __future__ import annotations

from solver.validation.tco_rules import (
    budgets,
    buy_or_rent,
    financing,
    generic,
    networks,
    owning,
    prices,
    renting,
    rooms,
    storing,
    watts,
    work,
)
from solver.validation.tco_rules.sheet import RuleBook

RULES = RuleBook()
for _part in (prices, owning, buy_or_rent, renting, financing, work, networks, rooms, watts, budgets, storing, generic):
    RULES.entries += _part.BOOK.entries

__all__ = ["RULES"]
