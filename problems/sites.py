"""Own rooms and the machines that stand in them already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from problems import units
from problems.base import Country, Fault, Names, Strict
from problems.rooms import Circuits, Coolings, Electricity, Feeds, RackRoom, Space, room_faults

_YES = ("true", "yes", "on", "y", "t", "1")


class Site(Strict):
    """An own room: what it can power, what electricity costs there, what it may be used for.

    `power` and `it_power` [W] limit the nameplate draw after and before PUE; `electricity` per kWh, flat or by the hour;
    `space` per kW of IT nameplate and month, or `colocation`: the catalogue's price for the country; `carbon` [g CO2e/kWh].
    `redundancy` is that of the feeds: n+1 keeps one circuit of a kind free, 2n half of them. `cooling` is what the room has.
    """

    name: str = Field(min_length=1, pattern=r"^[^.\s*\[\]]+$")
    power: units.Watts | None = Field(default=None, gt=0, examples=["30kW"])
    it_power: units.Watts | None = Field(default=None, gt=0, examples=["3kW"])
    pue: units.Number | None = Field(default=None, ge=1, le=5, examples=[1.4])
    electricity: Electricity | None = Field(default=None, examples=["$0.12/kWh"])
    country: Country | None = Field(default=None, examples=["US"])
    compliance: Names = ()
    carbon: units.CarbonIntensity | None = Field(default=None, examples=["380g/kWh"])
    space: units.MoneyPerKwMonth | None = Field(default=None, examples=["$150/kW/mo"])
    colocation: Space | None = Field(default=None, examples=["retail"])
    racks: RackRoom | None = None
    circuits: Circuits = ()
    redundancy: Feeds = "n"
    cooling: Coolings = ("air",)

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        yield from room_faults(given)


class Owned(Strict):
    """Machines already there: sunk cost, free to use up to `count` accelerators.

    With `may_sell`, those not used may be sold at the start for `resale` per accelerator, in whole machines.
    """

    accelerator: str
    count: units.Whole = Field(ge=1)
    build: str | None = None
    site: str
    may_sell: bool = False
    resale: units.Money | None = Field(default=None, examples=["$8k"])

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        sells, resale = str(given.get("may_sell", False)).strip().lower() in _YES, given.get("resale")
        if sells and resale is None:
            yield (("may_sell",), "needs resale beside it, what each accelerator with its machine is sold for: $8k")
        if not sells and resale is not None:
            yield ("resale",), "resale is only read with may_sell: true"
