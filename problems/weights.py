"""Priorities, values and least shares of workloads: what they mean together, and which do not go together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from problems.base import Fault

WEIGHTS = ("priority", "value", "min_share")


def part(work: Any, key: str) -> Any:
    """A field of a workload, read already or still plain data."""
    return work.get(key) if isinstance(work, dict) else getattr(work, key, None)


def weights_of(work: Any) -> list[str]:
    """Names of the weights that a workload gives."""
    return [key for key in WEIGHTS if part(work, key) is not None]


def weight_faults(given: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with the weights of all workloads taken together."""
    listed = given.get("workloads")
    works = list(listed) if isinstance(listed, list | tuple) else []
    for index, work in enumerate(works):
        kind = part(work, "kind")
        if part(work, "min_share") is not None and kind not in (None, "serve"):
            what = f"a {kind} workload is done whole or not at all: min_share is for kind serve"
            yield ("workloads", index, "min_share"), what
    levels: dict[str, list[int]] = defaultdict(list)
    for index, work in enumerate(works):
        levels[str(part(work, "priority") or 1)].append(index)
    for level, members in levels.items():
        without = [i for i in members if part(works[i], "value") is None]
        if without and len(without) < len(members):
            named = part(works[without[0]], "name") or f"workload {without[0] + 1}"
            what = f"{named} has no value beside others of priority {level} that have one: give each of them a value, or none"
            yield ("workloads", without[0]), what
    if any(weights_of(work) for work in works) and given.get("objective") == "scale":
        yield ("objective",), "scale grows all workloads alike: it cannot go with priority, value or min_share"
