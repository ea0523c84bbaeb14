"""The same capacity, replica or option on a pool of another number: thousands at a time, where `dataclasses.replace` takes long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

from solver.instance import Capacity, Option, Replica

Thing = TypeVar("Thing", Capacity, Replica, Option)
NAMES = {kind.__name__: [f.name for f in fields(kind)] for kind in (Capacity, Replica, Option)}
READ: dict[str, Callable[[Any], tuple[Any, ...]]] = {kind: attrgetter(*names) for kind, names in NAMES.items()}
"""All fields of a thing, in the order in which it is made from them."""
PLACE = {kind: names.index("pool") for kind, names in NAMES.items()}


def moved(thing: Thing, pool: int) -> Thing:
    """A thing with another number of its pool; itself where the number is the same."""
    if thing.pool == pool:
        return thing
    kind = type(thing).__name__
    values, place = READ[kind](thing), PLACE[kind]
    made: Callable[..., Thing] = type(thing)
    return made(*values[:place], pool, *values[place + 1 :])
