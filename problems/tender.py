"""How plans are marked where several are compared by weight, as public tenders do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from problems import units
from problems.base import Fault, Strict
from problems.terms import Criterion


class Tender(Strict):
    """Weights of the criteria [points each]; any sum. `cost` is another word for `tco`.

    tco: total over the horizon; price: paid up front; power: nameplate, rented machines included; carbon; time: longest job;
    latency: of a mean request on the slowest replica; technical: performance; memory: least spare memory per accelerator;
    service: time until all of the plan can run.
    """

    weights: dict[Criterion, units.Number] = Field(
        examples=[{"price": 30, "tco": 30, "technical": 30, "service": 10}],
    )

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        weights = given.get("weights")
        if not isinstance(weights, dict):
            return
        numbers = [w for w in weights.values() if isinstance(w, int | float) and not isinstance(w, bool)]
        if len(numbers) == len(weights) and all(w == 0 for w in numbers):
            yield ("weights",), "must give at least one criterion a weight above 0"
        if "cost" in weights and "tco" in weights:
            yield ("weights",), "cost and tco are the same criterion: name one of them"

    @property
    def by_criterion(self) -> dict[str, float]:
        """Weights with the synonym resolved, in the order given; those of 0 are left out."""
        return {("tco" if name == "cost" else name): float(w) for name, w in self.weights.items() if w}
