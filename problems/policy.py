"""What no plan may exceed, and how the choice is made."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from problems import units
from problems.base import Countries, Names, OneOrMore, Strict
from problems.picks import Pick, or_else
from problems.terms import Billing, Confidence, Deployment, HeldBilling, Isolation, RuleName, Severity


class Budget(Strict):
    """Money caps: `capex` (bought, paid up front), `monthly` (highest month), `total` (over the horizon)."""

    capex: units.Money | None = None
    monthly: units.MoneyPerMonth | None = None
    total: units.Money | None = None


class Quota(Strict):
    """At most `max` nodes of an offer (name, or provider/offer, or provider/offer/region)."""

    offer: str
    max: units.Whole = Field(ge=0)


class Limits(Strict):
    """What no plan may exceed. `power` [W] is the sum over own sites after PUE.

    `start_within` [s]: from order to running, delivery included. `isolation`: at least so much. `operations` [h/month]: work
    that the machines make for their user.
    """

    budget: Budget = Budget.model_construct()
    power: units.Watts | None = Field(default=None, gt=0)
    countries: Countries | None = None
    regions: Pick | None = None
    providers: Pick | None = None
    deployment: Annotated[tuple[Deployment, ...], OneOrMore] | None = None
    start_within: units.Seconds | None = Field(default=None, examples=["1d"])
    isolation: Isolation | None = None
    operations: units.EffortPerMonth | None = Field(default=None, examples=["20h/mo"])
    accelerators: Pick | None = None
    vendors: Pick | None = None
    compliance: Names = ()
    quota: tuple[Quota, ...] = ()


class RuleSetting(Strict):
    """A practice rule's value and how it binds bought and rented machines."""

    value: units.Number | None = Field(default=None, ge=0)
    bought: Severity | None = None
    rented: Severity | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_value(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return {"value": value}
        if isinstance(value, str) and value in ("hard", "warn", "off"):
            return {"bought": value, "rented": value}
        if isinstance(value, str | list | tuple):
            raise ValueError("must be a number, hard, warn, off, or {value, bought, rented}")
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        reference = super().__get_pydantic_json_schema__(core, handler)
        return or_else(reference, handler, {"type": "number"}, {"enum": ["hard", "warn", "off"]})


class Policy(Strict):
    """How the choice is made: billing modes allowed, what prices to trust, money over time.

    `gpu_power_limit`: most that a card on an own site may draw, of its rated power. Spot only where it saves `spot_min_saving`
    of the on-demand price and at most `spot_max_interruption` of such machines is taken back within a month [ratio].
    `lead_time`: months from the order to the first use, by billing mode; before it the demand is met in other ways.
    `operations_rate`: what an hour of the work that machines make is worth. `sales_fund_capex`: what owned machines are sold
    for counts against the capex budget.
    `move_cost` is paid for each node newly started or given up. Among plans that cost at most `keep_unless_saves` more than
    the cheapest [ratio] the one with the fewest such nodes is taken.
    """

    billing: Annotated[tuple[Billing, ...], OneOrMore] | None = None
    spot_share: units.Ratio = Field(default=1.0, ge=0, le=1)
    spot_min_saving: units.Ratio = Field(default=0.0, ge=0, lt=1, examples=["40%"])
    spot_max_interruption: units.Ratio = Field(default=1.0, gt=0, le=1, examples=["10%"])
    gpu_power_limit: units.Ratio | None = Field(default=None, gt=0, le=1, examples=["80%"])
    min_confidence: Confidence = "recalled"
    discount_rate: units.Ratio = Field(default=0.0, ge=0, le=1)
    residual_value: units.Ratio = Field(default=0.0, ge=0, le=1)
    pro_rate_commitments: bool = False
    lead_time: dict[HeldBilling, units.Months] = Field(default_factory=dict, examples=[{"purchase": "2mo"}])
    include_doubtful: bool = False
    operations_rate: units.MoneyPerHour | None = Field(default=None, examples=["$80/h"])
    sales_fund_capex: bool = False
    move_cost: units.Money | None = Field(default=None, examples=["$500"])
    keep_unless_saves: units.Ratio = Field(default=0.0, ge=0, le=1, examples=["3%"])
    rules: dict[RuleName, RuleSetting] = Field(default_factory=dict)
