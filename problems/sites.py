"""Own rooms and the machines that stand in them already."""

from __future__ import annotations

from pydantic import Field, field_validator

from problems import units
from problems.base import Country, Names, Strict


class Site(Strict):
    """An own room: what it can power, what electricity costs there, what it may be used for.

    `power` and `it_power` [W] limit the nameplate draw after and before PUE; `electricity` per kWh; `space`
    (colocation) per kW of IT nameplate and month; `carbon` [g CO2e/kWh].
    """

    name: str = Field(min_length=1, pattern=r"^[^.\s*\[\]]+$")
    power: units.Watts | None = Field(default=None, gt=0, examples=["30kW"])
    it_power: units.Watts | None = Field(default=None, gt=0, examples=["3kW"])
    pue: units.Number | None = Field(default=None, ge=1, le=5, examples=[1.4])
    electricity: units.MoneyPerKwh | None = Field(default=None, examples=["$0.12/kWh"])
    country: Country | None = Field(default=None, examples=["US"])
    compliance: Names = ()
    carbon: units.CarbonIntensity | None = Field(default=None, examples=["380g/kWh"])
    space: units.MoneyPerKwMonth | None = Field(default=None, examples=["$150/kW/mo"])


class Owned(Strict):
    """Machines already there: sunk cost, free to use up to `count` accelerators."""

    accelerator: str
    count: units.Whole = Field(ge=1)
    build: str | None = None
    site: str
    may_sell: bool = False

    @field_validator("may_sell")
    @classmethod
    def _kept(cls, value: bool) -> bool:
        if value:
            raise ValueError("selling owned machines is not weighed yet: leave may_sell out, or false")
        return value
