"""What comes out: Result and its parts, frozen and saved as JSON. The names are the CLI contract (`kitout schema result`)."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

FORMAT_VERSION = "1.0"

MoneyText = Annotated[Decimal, PlainSerializer(lambda d: f"{d:.2f}", return_type=str, when_used="json")]


def _unit_text(amount: Decimal) -> str:
    """Unit prices keep up to six decimals; sums are always whole cents."""
    text = f"{amount:.6f}".rstrip("0")
    whole, _, cents = text.partition(".")
    return f"{whole}.{cents:0<2}"


UnitMoneyText = Annotated[Decimal, PlainSerializer(_unit_text, return_type=str, when_used="json")]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Status(StrEnum):
    """What is known about the plan, apart from why the search stopped."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class StopReason(StrEnum):
    PROVED = "proved"
    GAP_REACHED = "gap_reached"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"
    NO_CANDIDATES = "no_candidates"


class Cost(Part):
    """Money over the horizon. `monthly` is the highest month without capex; `per_hour` is total / hours of horizon."""

    total: MoneyText
    capex: MoneyText
    monthly: MoneyText
    per_hour: UnitMoneyText
    currency: str
    by_category: dict[str, MoneyText]


class Power(Part):
    """Own sites only: nameplate watts before and after PUE, and energy drawn over the horizon after PUE."""

    it_peak_w: float
    facility_peak_w: float
    energy_kwh: float


class Item(Part):
    """One line of the bill. `total_cost` = what this line costs over the horizon; lines add up to cost.total."""

    item: str
    kind: str = Field(
        description="rental | server | network | storage | rack | setup | staff | support | egress | energy | maintenance | space | residual"
    )
    quantity: float
    billing: str
    site: str
    unit_cost: UnitMoneyText
    total_cost: MoneyText
    power_w: float | None = None
    power_limit_w: float | None = Field(default=None, description="power limit set on each accelerator")
    pool: str | None = None
    accelerator: str | None = None
    accelerators: int | None = None
    provider: str | None = None
    hours_per_month: float | None = None
    price_per_hour: str | None = None
    price_currency: str | None = None
    price_as_of: str | None = None
    price_confidence: str | None = None
    price_source: str | None = None
    quantity_by_period: dict[str, int] | None = None
    unit: str | None = Field(default=None, description="what the quantity counts, where it is not pieces")
    gear: str | None = Field(
        default=None, description="key of what is held beside nodes: switches, storage, racks, fees"
    )
    parts: tuple[str, ...] = ()
    starred: bool = False


class Placement(Part):
    """Where a workload runs. `rate` is requests/s per replica (serve, batch) or tokens/s of the whole job (training)."""

    offer: str
    pool: str
    accelerator: str
    accelerators_per_replica: int
    tp: int
    pp: int
    precision: str
    power_limit_w: float | None
    billing: str
    replicas_by_period: dict[str, int]
    rate: float
    rate_unit: str
    rates_by_bucket: tuple[float, ...] = ()
    load_by_bucket_and_period: dict[str, tuple[float, ...]] = Field(
        default_factory=dict, description="replicas' worth of time that each request size takes"
    )
    requests_by_bucket_and_period: dict[str, tuple[float, ...]] = Field(
        default_factory=dict,
        description="the routing: load of each request size sent here, in rate_unit, all replicas together",
    )
    busy_by_period: dict[str, float] = Field(
        default_factory=dict, description="share of its time that each replica is busy under this routing"
    )
    source: str
    expected_error: float | None = None
    nodes: int = 1
    hours_per_month: float | None = None
    duration_h: float | None = None
    memory_per_gpu_gib: float | None = None
    memory_slack_gib: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    batch: float | None = None


class TokenCost(Part):
    """What a million tokens cost. Input and output share the workload's cost by the time that each takes, so that
    millions times prices add up to it; no split where that time is not known.
    """

    input_millions: float = Field(description="tokens read over the horizon [millions]")
    output_millions: float = Field(description="tokens written over the horizon [millions]")
    per_million: UnitMoneyText | None = Field(description="of all tokens")
    per_million_input: UnitMoneyText | None = None
    per_million_output: UnitMoneyText | None = None
    input_time_share: float | None = Field(default=None, description="share of busy time spent on prompts")


class WorkloadPlan(Part):
    """Placements of one workload and its headroom: spare share of supply over demand in the tightest period.

    `cost` is its share of the plan's total over the horizon; machines that several use are shared by GPU-hours.
    """

    name: str
    kind: str
    model: str | None = None
    placements: tuple[Placement, ...]
    headroom: float
    demand_by_period: dict[str, float] = Field(default_factory=dict)
    demand_unit: str = ""
    cost: MoneyText | None = None
    tokens: TokenCost | None = None


class LimitUse(Part):
    """A limit of the problem, what the plan uses of it, and whether it binds."""

    field: str
    used: float
    limit: float
    slack: float
    unit: str
    binding: bool


class RunnerUp(Part):
    """The best plan that does without the main accelerator of this one; None cost: there is no such plan."""

    without: str
    summary: str
    total: MoneyText | None
    difference: float | None = Field(description="relative to the plan's objective")
    proved: bool


class PriceUse(Part):
    """One price used, with its age on the day of the plan [days]; as_of None: the source gives no date."""

    item: str
    billing: str
    price: str
    currency: str
    as_of: str | None
    age_days: int | None
    confidence: str
    source: str


class Inputs(Part):
    problem_sha256: str
    catalog_sha256: str
    kitout: str
    ortools: str
    seed: int


class Search(Part):
    """How the search went: candidates kept and dropped by reason, seconds, model size."""

    candidates: int
    dropped: dict[str, int]
    dominated: int
    pools: int
    variables: int
    constraints: int
    wall_s: float
    time_to_first_s: float | None = None


class Result(Part):
    """A plan and the proof of how good it is."""

    format_version: str = FORMAT_VERSION
    problem: str
    status: Status
    stop_reason: StopReason
    objective_name: str
    objective: float | None
    bound: float | None
    gap: float | None
    horizon_months: float
    cost: Cost | None
    power: Power | None
    items: tuple[Item, ...] = ()
    workloads: tuple[WorkloadPlan, ...] = ()
    periods: dict[str, float] = Field(default_factory=dict, description="hours per month of each load period")
    limits: tuple[LimitUse, ...] = ()
    runner_up: RunnerUp | None = None
    prices: tuple[PriceUse, ...] = ()
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    no_plan_because: tuple[str, ...] = ()
    search: Search | None = None
    inputs: Inputs
