"""What the rules share: figure arithmetic over lists, sums of named inputs, constants."""

from __future__ import annotations

import math
import re

from solver.validation.tco_rules.sheet import MissingQuantityError, Sheet, Value, numbers, over

FABRIC = ("network_bom", "cluster_bom", "fabric")
BUYING = (
    "break_even",
    "utilisation",
    "tco",
    "cluster_tco",
    "cloud_cost",
    "finance",
    "energy",
    "colocation",
    "buy_vs_rent",
)
GPUS_PER_NODE = 8
"""Cards of a node where a case does not say: HGX and DGX boards."""


def mul(*values: Value) -> Value:
    """Product of figures and lists."""
    return over(lambda *v: math.prod(v), *values)


def sub(a: Value, b: Value) -> Value:
    """Difference of figures and lists."""
    return over(lambda x, y: x - y, a, b)


def div(a: Value, b: Value) -> Value:
    """Quotient of figures and lists; a divisor of zero leaves the quantity underived."""

    def one(x: float, y: float) -> float:
        if y == 0:
            raise MissingQuantityError("a divisor other than zero")
        return x / y

    return over(one, a, b)


def sums(sheet: Sheet, pattern: str, *, but: str = r"(?!)") -> list[Value]:
    """Given figures whose names match one pattern and not the other."""
    return [v for k, v in sheet.given.items() if re.fullmatch(pattern, k) and not re.fullmatch(but, k) and numbers(v)]


def missing(name: str) -> Value:
    """Say that a quantity is not known."""
    raise MissingQuantityError(name)
