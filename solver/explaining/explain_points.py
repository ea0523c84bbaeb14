"""What `kitout explain` answers: why there is no plan and what would make one, or why this plan and not another."""

from __future__ import annotations

from pydantic import Field

from solver.plan import FORMAT_VERSION, Inputs, LimitUse, MoneyText, Part, Result


class Member(Part):
    """A field that is part of a conflict: where it stands and what it says."""

    field: str
    value: str
    where: str


class Change(Part):
    """One field changed by a relaxation; `override` is what `--set` takes (empty: the workload is left out)."""

    field: str
    before: str
    after: str
    override: str


class Relaxation(Part):
    """Changes that together make a plan possible, with the best plan then."""

    changes: tuple[Change, ...]
    total: MoneyText | None
    currency: str
    proved: bool
    plan: str
    result: Result


class Dropped(Part):
    """A filter and how many candidates it took."""

    reason: str
    count: int


class Conflict(Part):
    """Fields that cannot hold together; without any one of them the others can. `proved`: solved again by itself."""

    members: tuple[Member, ...]
    proved: bool


class LimitWorth(Part):
    """What loosening a binding limit is worth: the next value at which a better plan exists, and what that saves.

    `one_more` is what one more unit (1 kW, one node, 1000 of the currency) saves.
    """

    field: str
    limit: str
    where: str
    unit: str
    one_more: MoneyText | None
    next_at: str | None
    next_saves: MoneyText | None
    per_unit_month: float | None
    next_plan: str
    more_value: str = Field(default="", description="what one more unit adds where workloads are left out")


class WhyNot(Part):
    """The best plan that uses a named accelerator, provider, billing mode or offer, beside the best plan of all."""

    name: str
    possible: bool
    reasons: tuple[Dropped, ...] = ()
    total: MoneyText | None = None
    difference: MoneyText | None = None
    share: float | None = None
    by_category: dict[str, MoneyText] = Field(default_factory=dict, description="difference per cost category")
    plan: str = ""
    proved: bool = True
    result: Result | None = None


class PriceMove(Part):
    """How far a price may move before the plan changes: between `holds` and `changes` times today's price."""

    selector: str
    direction: str
    holds: float
    changes: float | None
    then: str


class Explanation(Part):
    """Everything that was found out."""

    format_version: str = FORMAT_VERSION
    problem: str
    feasible: bool
    result: Result
    plan: str = ""
    conflict: Conflict | None = None
    dropped: tuple[Dropped, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    limits: tuple[LimitUse, ...] = ()
    worth: tuple[LimitWorth, ...] = ()
    why_not: tuple[WhyNot, ...] = ()
    prices: tuple[PriceMove, ...] = ()
    tiers: tuple[str, ...] = ()
    complete: bool
    inputs: Inputs
