"""What comes out: Result and its parts, frozen and saved as JSON. The names are the CLI contract (`kitout schema result`)."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

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
        description="rental | compute_units | server | network | storage | rack | setup | staff | support | egress | operations | sale | energy | maintenance | space | residual | spares | tax | financing | replacement | goodput"
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
    fallback_share: float | None = Field(
        default=None,
        description="spot: share of its hours expected on demand, on the same machine, after interruptions",
    )
    fallback_price_per_hour: str | None = Field(default=None, description="what those hours cost, in price_currency")
    quantity_by_period: dict[str, int] | None = None
    from_month: float | None = Field(
        default=None,
        description="months after the start at which a commitment, or the stage that a line is of, begins; absent where the load is steady",
    )
    unit: str | None = Field(default=None, description="what the quantity counts, where it is not pieces")
    utilisation: float | None = Field(
        default=None, description="share of the pool's accelerator-hours held that work is planned on"
    )
    gear: str | None = Field(
        default=None, description="key of what is held beside nodes: switches, storage, racks, fees"
    )
    deployment_mode: str | None = None
    start_h: float | None = Field(default=None, description="from order to a running node, delivery included [h]")
    isolation: str | None = Field(default=None, description="shared_host | dedicated_vm | single_tenant | own")
    granularity_s: float | None = Field(default=None, description="step in which time is billed [s]")
    min_term_h: float | None = Field(default=None, description="least time that is billed [h]")
    operations_h: float | None = Field(default=None, description="work that one node makes for its user [h/month]")
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
    starts_h: tuple[int, ...] = Field(
        default=(), description="hour of the week, from Monday 00:00, in which each run of the week starts"
    )
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
    spare_nodes: int | None = Field(
        default=None, description="nodes that may fail at once, any of them, demand still served"
    )
    availability: float | None = Field(
        default=None, description="share of time in which no more nodes are down than that"
    )
    served_share: float = Field(default=1.0, description="part of the demand that is served; 0: left out")
    priority: int | None = None
    value: MoneyText | None = Field(default=None, description="of a month in which all of it is served")


class StageUse(Part):
    """A stretch of the horizon with one load, and its load periods."""

    name: str
    from_month: float
    months: float
    periods: tuple[str, ...]


class CalendarUse(Part):
    """Hours at each load level: `levels` are hours per month by name, busiest first, and slots hold their numbers.

    `week` has the 168 hours of the representative week, Monday 0:00 first. `hours` has every hour of measured traffic in
    order of time, one letter each (a: the first level); empty where nothing was measured.
    """

    levels: dict[str, float]
    week: tuple[int, ...]
    hours: str = ""
    over_provisioned: dict[str, float] = Field(
        default_factory=dict, description="per service: request-hours planned above what is needed, as a share of all"
    )


class StoredData(Part):
    """One copy of a class of data: where it lies, and what it asks of its tier at its busiest.

    A master copy stays where it is cheap; the working copy is made of it in `staging_h` hours.
    """

    name: str
    workload: str | None
    data_class: str = Field(description="training_data | checkpoints | weights | kv_offload | archive | backups")
    role: Literal["only", "working", "master"]
    tier: str
    place: str = Field(description="own site or provider")
    gear: str | None = Field(description="key of its tier's line on the bill; None: on the drives of the nodes")
    size_tb: float
    read_gb_s: float
    write_gb_s: float
    iops: float
    staging_h: float | None = None
    egress_tb_month: float = Field(
        default=0.0, description="sent between the data and its work, or to its working copy"
    )


class LimitUse(Part):
    """A limit of the problem, what the plan uses of it, and whether it binds."""

    field: str
    used: float
    limit: float
    slack: float
    unit: str
    binding: bool


class Level(Part):
    """Value served of one priority, of all that was wanted, and the most that any plan could serve of it."""

    priority: int
    unit: str = Field(description="money a month, or `workloads` where they count alike")
    value: float
    wanted: float
    bound: float
    proved: bool


class Extra(Part):
    """Money that a larger plan takes beyond this one's, budgets aside. `proved`: no cheaper way was left open."""

    total: MoneyText
    monthly: MoneyText
    capex: MoneyText
    proved: bool


class LeftOut(Part):
    """A workload that is left out, or served in part, and what serving all of it would take beside this plan."""

    name: str
    priority: int
    served_share: float
    because: str
    alone: Extra | None


class SingleMode(Part):
    """What the same limits give with one billing mode alone (what is owned stays): value of each priority, and its cost."""

    billing: str
    values: tuple[float, ...]
    total: MoneyText | None
    proved: bool


class Alone(Part):
    """The best plan under one billing mode alone, or without sharing machines over time; no total where there is none.

    `saving` is what this plan costs less, as a share of the alternative's bound: it costs that or more.
    """

    billing: str
    total: MoneyText | None
    bound: float | None
    saving: float | None
    proved: bool
    because: str | None = Field(default=None, description="why there is no such plan")


class SingleType(Part):
    """The cheapest plan in which all that is bought or rented has one type of accelerator; no total where there is none.

    Of `types` that could do all the work by themselves none costs less than `bound`; `saving` is what this plan costs less, as
    a share of it. `proved`: the total is the least there is.
    """

    accelerator: str | None
    types: int
    total: MoneyText | None
    bound: float | None
    saving: float | None
    proved: bool
    because: str | None = Field(default=None, description="why there is no such plan")


class Portfolio(Part):
    """What was served of each priority, what was left out and what it would cost, and how far single billing modes come."""

    levels: tuple[Level, ...]
    left_out: tuple[LeftOut, ...] = ()
    whole: Extra | None = Field(default=None, description="for all workloads in full")
    next_best: str | None = Field(
        default=None, description="addition of most value, or least money, of the first priority"
    )
    single_modes: tuple[SingleMode, ...] = Field(default=(), description="the best one first")


class Change(Part):
    """One step from the running fleet to the plan. `cost` over the horizon, what giving up and starting costs included."""

    action: str = Field(description="keep | renew | drop | add")
    item: str
    count: int = Field(description="nodes; by the hour those of the busiest period")
    before: str = Field(description="how it is held now; empty for what is added")
    after: str = Field(description="how the plan holds it; empty for what is dropped")
    cost: MoneyText


class Stayed(Part):
    """The plan near the running fleet beside the cheapest one: at most `tolerance` dearer, with the fewest nodes changed."""

    cheapest: MoneyText
    tolerance: float
    changed_nodes: int


class RunnerUp(Part):
    """The best plan that does without the main accelerator of this one; None cost: there is no such plan."""

    without: str
    summary: str
    total: MoneyText | None
    difference: float | None = Field(description="relative to the plan's objective")
    proved: bool


class CashMonth(Part):
    """Money of one month; month 0 is what is paid up front. What comes in is negative; `cumulative` from the start."""

    month: int
    capex: MoneyText = Field(description="purchases, spares, set-up; under financing the part of them paid by then")
    rental: MoneyText
    energy: MoneyText
    maintenance: MoneyText
    staff: MoneyText
    other: MoneyText = Field(description="space, support, interest, tax on rentals, storage and egress ...")
    residual: MoneyText = Field(description="value left at the end, and what is sold (negative)")
    total: MoneyText
    cumulative: MoneyText


class Alternative(Part):
    """The best plan of one kind, beside the chosen one. None total: there is no such plan, and `because` says why."""

    name: str = Field(description="all rented | all bought")
    status: Status | None = Field(description="None: not looked for, since the problem leaves no room for it")
    total: MoneyText | None = None
    difference: float | None = Field(default=None, description="of its objective, relative to the chosen plan's")
    proved: bool = Field(default=False, description="no plan of its kind is better by more than the gap asked")
    summary: str = ""
    because: str = ""
    cost: Cost | None = None
    cash_flow: tuple[CashMonth, ...] = ()


class BreakEven(Part):
    """Where buying and renting cost the same, from the cash of the all-bought and the all-rented plan.

    `months` of use until what buying has cost falls below what renting has, for good: up to the horizon from the two
    cash flows, beyond it (`beyond_horizon`) at the same payments a month and without the value left over. `utilisation` is
    the share of the rented plan's hours above which buying is cheaper than renting the same machines by the hour, committed
    ones at their on-demand price. None: never.
    """

    months: float | None
    beyond_horizon: bool = False
    utilisation: float | None
    discount_rate: float
    because: str = Field(default="", description="why there is no such point")


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
    periods: dict[str, float] = Field(
        default_factory=dict, description="hours per month of each load period, while its stage lasts"
    )
    stages: tuple[StageUse, ...] = ()
    calendar: CalendarUse | None = None
    storage: tuple[StoredData, ...] = ()
    limits: tuple[LimitUse, ...] = ()
    portfolio: Portfolio | None = None
    changes: tuple[Change, ...] = ()
    stayed: Stayed | None = None
    runner_up: RunnerUp | None = None
    cash_flow: tuple[CashMonth, ...] = Field(
        default=(), description="one entry per month from 0 on; adds up to cost.total"
    )
    alternatives: tuple[Alternative, ...] = ()
    break_even: BreakEven | None = None
    single_modes: tuple[Alone, ...] = Field(
        default=(), description="where the plan mixes billing modes: each mode alone, the cheapest first"
    )
    single_type: SingleType | None = Field(
        default=None, description="where the plan mixes types of accelerator: the cheapest plan of one type"
    )
    unshared: Alone | None = Field(
        default=None, description="where jobs run in hours that others leave free: the best plan in which none does"
    )
    prices: tuple[PriceUse, ...] = ()
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    no_plan_because: tuple[str, ...] = ()
    search: Search | None = None
    inputs: Inputs
