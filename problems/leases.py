"""Rented machines that run already: what keeping them costs, and what giving them up costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from problems import units
from problems.base import Fault, Strict


class Lease(Strict):
    """`count` nodes of an offer (name, or provider/offer, or provider/offer/region) that run already.

    `ends` is how long the term still runs [months from now]; on-demand machines have none. `notice` is what is still paid when
    they are given up [months]; without it the rest of the term, and nothing on demand. `price` per node [money/h]: the
    catalogue's for that offer and billing mode where none is given.
    """

    offer: str = Field(min_length=1, examples=["AWS/p5.48xlarge"])
    region: str | None = Field(default=None, examples=["us-east-1"])
    count: units.Whole = Field(ge=1)
    billing: Literal["on_demand", "reserved", "subscription"]
    ends: units.Months | None = Field(default=None, gt=0, examples=["8mo"])
    notice: units.Months | None = Field(default=None, ge=0, examples=["1mo"])
    price: units.MoneyPerHour | None = Field(default=None, examples=["$24.5/h"])

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        billing, ends = given.get("billing"), given.get("ends")
        if billing == "on_demand" and ends is not None:
            yield ("ends",), "machines on demand have no end: leave ends out, or give the billing mode of their term"
        if billing in ("reserved", "subscription") and ends is None:
            yield (), f"a {billing} lease needs ends: how long its term still runs, e.g. 8mo"

    def keep_months(self, horizon: float, *, pro_rate: bool) -> float:
        """Months that a kept node is paid for: renewed at its price where its term ends within the horizon; a term that goes
        beyond it until it ends or is given up then, unless commitments are pro-rated.
        """
        if self.ends is None or self.ends <= horizon or pro_rate:
            return horizon
        return min(self.ends, horizon + (self.ends if self.notice is None else self.notice))

    @property
    def give_up_months(self) -> float:
        """Months that a node given up now is still paid for."""
        if self.ends is None:
            return self.notice or 0.0
        return self.ends if self.notice is None else min(self.notice, self.ends)
