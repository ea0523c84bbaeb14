"""Nodes and options that many rules have in the same way, said once as a sum (`solver.candidates.gear.GearSum`).

Two columns are alike where every rule has them with the same coefficient, or the one with a multiple of the other's. All that are
alike make one sum x = sum g_i x_i, which stands in each rule with the coefficient that is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from solver.candidates.gear import GearRule, GearSum

RULES = ("fabric", "storage")
"""Rules that thousands of pools and options are in."""
LEAST = 4
"""So many alike are worth a sum."""
Pattern = tuple[tuple[int, int], ...]
"""Number of the rule and coefficient, of all rules that something is in."""


def shared(rules: Sequence[GearRule]) -> list[GearRule]:
    """The same rules with sums in place of what is alike in them."""
    out = list(rules)
    for name in RULES:
        mine = [n for n, rule in enumerate(rules) if rule.rule == name and rule.stage is None]
        nodes = _alike([rules[n].nodes for n in mine])
        options = _alike([rules[n].options for n in mine])
        sums: list[dict[GearSum, int]] = [dict(rules[n].sums) for n in mine]
        gone: tuple[set[Any], set[Any]] = (set(), set())
        for kind, groups in enumerate((nodes, options)):
            for pattern, members in groups.items():
                if len(members) >= LEAST and len(pattern) > 1:
                    part = GearSum({}, members) if kind else GearSum(members)
                    gone[kind].update(members)
                    for n, factor in pattern:
                        sums[n][part] = factor
        for n, parts in zip(mine, sums, strict=True):
            out[n] = replace(
                rules[n], nodes=_without(rules[n].nodes, gone[0]), options=_without(rules[n].options, gone[1])
            )
            out[n] = replace(out[n], sums=parts)
    return out


def _alike(terms: Sequence[dict[Any, int]]) -> dict[Pattern, dict[Any, int]]:
    """Names by what the terms say of them, up to a factor of their own, which they come with."""
    patterns: dict[Any, list[tuple[int, int]]] = {}
    for n, mine in enumerate(terms):
        for name, factor in mine.items():
            if factor:
                patterns.setdefault(name, []).append((n, factor))
    groups: dict[Pattern, dict[Any, int]] = {}
    reduced: dict[Pattern, tuple[Pattern, int]] = {}
    for name, pattern in patterns.items():
        key = tuple(pattern)
        if key not in reduced:
            common = math.gcd(*(factor for _, factor in key))
            common = common if key[0][1] > 0 else -common
            reduced[key] = tuple((n, factor // common) for n, factor in key), common
        alike, common = reduced[key]
        groups.setdefault(alike, {})[name] = common
    return groups


def _without(terms: dict[Any, int], names: set[Any]) -> dict[Any, int]:
    return {name: factor for name, factor in terms.items() if name not in names} if names else terms
