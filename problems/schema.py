"""What is wanted: the problem file as pydantic models.

Every quantity is parsed by `problems.units` into a number in the unit that the docstring names, so nothing
behind this module ever sees text such as ``"3kW"``; saved as JSON it is text again and reads back as the same
problem. Defaults stand here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, GetJsonSchemaHandler, Tag, field_validator, model_validator
from pydantic_core import CoreSchema

from problems import units
from problems.base import Countries, Country, Fault, Names, OneOrMore, Strict
from problems.terms import Billing as Billing
from problems.terms import Calendar as Calendar
from problems.terms import Confidence as Confidence
from problems.terms import Currency as Currency
from problems.terms import Deployment as Deployment
from problems.terms import KvPrecision as KvPrecision
from problems.terms import Objective as Objective
from problems.terms import Percentile as Percentile
from problems.terms import RuleName as RuleName
from problems.terms import Severity as Severity
from problems.terms import WeightPrecision as WeightPrecision


def or_else(reference: dict[str, Any], handler: GetJsonSchemaHandler, *others: dict[str, Any]) -> dict[str, Any]:
    """JSON schema of a model that may be written in `others` shorter ways too."""
    schema = handler.resolve_ref_schema(reference)
    whole = dict(schema)
    schema.clear()
    schema.update({"anyOf": [*others, whole], "title": whole.get("title", "")})
    return reference


class Pick(Strict):
    """An allow list, a deny list, or both (deny wins)."""

    allow: Names | None = None
    deny: Names = ()

    @model_validator(mode="before")
    @classmethod
    def _plain_list(cls, value: Any) -> Any:
        return {"allow": value} if isinstance(value, str | list | tuple) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        reference = super().__get_pydantic_json_schema__(core, handler)
        return or_else(reference, handler, {"type": "string"}, {"type": "array", "items": {"type": "string"}})


# --- models of neural networks -------------------------------------------------------------------------


class BareModel(Strict):
    """A model known by its size; a stand-in dense architecture is used and starred. `params` [parameters]."""

    params: units.Count = Field(gt=0, examples=["175B"])


class ConfigModel(Strict):
    """A model described by a Hugging Face ``config.json`` on disk (path relative to the problem file)."""

    config: str = Field(min_length=1, examples=["./config.json"])


def _is_name(value: Any) -> bool:
    """Text, or a number that stands for text (``accelerator: 4090``)."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _model_form(value: Any) -> str | None:
    if _is_name(value):
        return "<name>"
    if isinstance(value, ConfigModel) or (isinstance(value, dict) and "config" in value):
        return "<config>"
    if isinstance(value, BareModel) or (isinstance(value, dict) and "params" in value):
        return "<size>"
    return None


ModelRef = Annotated[
    Annotated[str, Field(min_length=1, examples=["llama-3-70b"]), Tag("<name>")]
    | Annotated[BareModel, Tag("<size>")]
    | Annotated[ConfigModel, Tag("<config>")],
    Discriminator(
        _model_form,
        custom_error_type="fault",
        custom_error_message="must be the name of a model, {params: 175B} or {config: ./config.json}",
    ),
]


# --- traffic -------------------------------------------------------------------------------------------


class Users(Strict):
    """People behind a service: rate = total x active share x requests each makes [1/s]."""

    total: units.Count = Field(gt=0, examples=[5000])
    active: units.Ratio = Field(default=0.05, gt=0, le=1, examples=["4%"])
    requests: units.RequestRate = Field(gt=0, examples=["6/h"])

    @property
    def rate_per_s(self) -> float:
        """Requests per second of all active users."""
        return self.total * self.active * self.requests


class SizeBucket(Strict):
    """One class of request: input and output length [tokens] and its share of the requests."""

    isl: units.Tokens = Field(gt=0)
    osl: units.Tokens = Field(gt=0)
    share: units.Ratio = Field(gt=0, le=1)


class Traffic(Strict):
    """Load of a service in its busiest period; the calendar scales it down elsewhere."""

    concurrency: units.Number | None = Field(default=None, gt=0, examples=[100])
    rate: units.RequestRate | None = Field(default=None, gt=0, examples=["12 req/s"])
    users: Users | None = None
    isl: units.Tokens | None = Field(default=None, gt=0, examples=[1000])
    osl: units.Tokens | None = Field(default=None, gt=0, examples=[300])
    sizes: tuple[SizeBucket, ...] | None = Field(default=None, min_length=1)
    calendar: Calendar = "flat"
    growth: units.Growth = 0.0

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        loads = [name for name in ("concurrency", "rate", "users") if name in given]
        if len(loads) != 1:
            yield (), f"give exactly one of concurrency, rate, users (given: {', '.join(loads) or 'none'})"
        lengths = [name for name in ("isl", "osl") if name in given]
        if "sizes" in given and lengths:
            yield (), f"give either isl and osl, or sizes, not both (given: {lengths[0]}, sizes)"
        if "sizes" not in given and not lengths:
            yield (), "give the request size: isl and osl [tokens], or sizes: [{isl, osl, share}]"
        if "sizes" not in given and len(lengths) == 1:
            yield (), f"give both isl and osl [tokens] (given: {lengths[0]})"

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.sizes is not None and abs(sum(s.share for s in self.sizes) - 1) > 1e-6:
            total = units.format_ratio(sum(s.share for s in self.sizes), digits=4)
            raise ValueError(f"the shares of sizes must add up to 100% (they add up to {total})")
        return self

    @property
    def buckets(self) -> tuple[SizeBucket, ...]:
        """Request-size buckets; a plain isl/osl pair is one bucket with share 1."""
        if self.sizes is not None:
            return self.sizes
        assert self.isl is not None
        assert self.osl is not None
        return (SizeBucket(isl=self.isl, osl=self.osl, share=1.0),)


class Slo(Strict):
    """Latency targets: time to first token and time per output token [s]."""

    ttft: units.Seconds | None = Field(default=None, gt=0, examples=["500ms"])
    tpot: units.Seconds | None = Field(default=None, gt=0, examples=["50ms"])
    percentile: Percentile = "p95"


class MeasuredRate(Strict):
    """A rate that the user measured: `accelerators` cards of `accelerator` serve `rate` requests/s."""

    accelerator: str = Field(min_length=1)
    accelerators: units.Whole = Field(default=1, ge=1)
    rate: units.RequestRate = Field(gt=0)


# --- workloads -----------------------------------------------------------------------------------------


def _nothing_to_run(given: Mapping[str, Any]) -> Iterator[Fault]:
    if "model" not in given and not given.get("measured") and "profile" not in given:
        yield (), "give a model, or measured: [{accelerator, accelerators, rate}] for other work"


class WorkloadBase(Strict):
    name: str = Field(min_length=1, pattern=r"^[^.\s*\[\]]+$", examples=["chat"])
    countries: Countries | None = Field(default=None, examples=[["US", "DE"]])
    compliance: Names = ()
    accelerators: Pick | None = None


class Serve(WorkloadBase):
    """An online inference service.

    `profile` names rows of the catalogue's table user_rates: requests/s per accelerator or offer and request size, as the user
    measured them within the latency limits. They are then the only rates, and `model` is just a name.
    """

    kind: Literal["serve"]
    model: ModelRef | None = None
    measured: tuple[MeasuredRate, ...] = ()
    profile: str | None = Field(default=None, min_length=1, examples=["chat-on-our-cluster"])
    precision: Annotated[tuple[WeightPrecision, ...], OneOrMore] = Field(default=("bf16", "fp8"), min_length=1)
    kv_precision: KvPrecision = "bf16"
    engine: str = "vllm"
    traffic: Traffic
    context: units.Tokens | None = Field(default=None, gt=0, examples=["8k"])
    slo: Slo = Slo()
    redundancy: Literal["none", "n+1"] = "none"
    interruptible: bool = False

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        yield from _nothing_to_run(given)
        traffic = given.get("traffic")
        if given.get("measured") and "profile" in given:
            yield ("profile",), "give either measured or profile, not both"
        if (given.get("measured") or "profile" in given) and isinstance(traffic, Mapping) and "concurrency" in traffic:
            yield (
                ("traffic", "concurrency"),
                "measured rates are requests/s: give the traffic as rate or users with them",
            )


class TrainingBase(WorkloadBase):
    model: ModelRef
    tokens: units.Tokens = Field(gt=0, examples=["50M"])
    sequence: units.Tokens = Field(default=4096, gt=0)
    deadline: units.Seconds | None = Field(default=None, gt=0, examples=["48h"])
    dataset: units.Bytes | None = Field(default=None, gt=0, examples=["2TB"])
    dataset_in_ram: bool = False
    interruptible: bool = True
    checkpoint_interval: units.Seconds = Field(default=3600.0, gt=0, examples=["1h"])
    network: units.GbPerS | None = Field(default=None, gt=0, examples=["400Gb/s"])

    @model_validator(mode="after")
    def _dataset_known(self) -> Self:
        if self.dataset_in_ram and self.dataset is None:
            raise ValueError("dataset_in_ram needs dataset: SIZE")
        return self


class Pretrain(TrainingBase):
    """Training from scratch: `tokens` in all, once, within `deadline`."""

    kind: Literal["pretrain"]
    precision: Annotated[tuple[Literal["bf16", "fp8"], ...], OneOrMore] = Field(default=("bf16",), min_length=1)
    optimizer: Literal["adamw", "adamw_8bit", "adamw_bf16", "adafactor", "muon"] = "adamw"
    runs: units.Runs = units.ONCE


class Finetune(TrainingBase):
    """Fine-tuning: `tokens` per run (all epochs), `runs` of them, each within `deadline`."""

    kind: Literal["finetune"]
    method: Literal["full", "lora", "qlora"]
    precision: Annotated[tuple[Literal["bf16", "fp8"], ...], OneOrMore] = Field(default=("bf16",), min_length=1)
    optimizer: Literal["adamw", "adamw_8bit", "adamw_bf16", "adafactor", "muon"] = "adamw"
    lora_rank: units.Whole = Field(default=16, ge=1)
    runs: units.Runs = units.ONCE


class Batch(WorkloadBase):
    """Interruptible offline inference: `requests` per run, each within `deadline`."""

    kind: Literal["batch"]
    model: ModelRef | None = None
    measured: tuple[MeasuredRate, ...] = ()
    precision: Annotated[tuple[WeightPrecision, ...], OneOrMore] = Field(default=("bf16", "fp8"), min_length=1)
    kv_precision: KvPrecision = "bf16"
    engine: str = "vllm"
    requests: units.Count = Field(gt=0, examples=["2M"])
    isl: units.Tokens = Field(gt=0)
    osl: units.Tokens = Field(gt=0)
    runs: units.Runs = units.ONCE
    deadline: units.Seconds | None = Field(default=None, gt=0)
    interruptible: bool = True
    checkpoint_interval: units.Seconds = Field(default=600.0, gt=0)

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        yield from _nothing_to_run(given)


class AcceleratorNeed(Strict):
    """Any accelerator with at least so much memory [bytes] and, where given, of these vendors."""

    memory: units.Bytes = Field(gt=0, examples=["16GB"])
    vendor: str | None = None


def _accelerator_form(value: Any) -> str | None:
    if _is_name(value):
        return "<name>"
    if isinstance(value, list | tuple):
        return "<names>"
    return "<need>" if isinstance(value, AcceleratorNeed | dict) else None


AcceleratorChoice = Annotated[
    Annotated[str, Field(min_length=1), Tag("<name>")]
    | Annotated[tuple[str, ...], Field(min_length=1), Tag("<names>")]
    | Annotated[AcceleratorNeed, Tag("<need>")],
    Discriminator(
        _accelerator_form,
        custom_error_type="fault",
        custom_error_message="must be an accelerator, a list of them, or {memory: 16GB}",
    ),
]


class Fixed(WorkloadBase):
    """So many accelerators with so much around them, for so many hours a month."""

    kind: Literal["fixed"]
    accelerator: AcceleratorChoice
    count: units.Whole = Field(default=1, ge=1)
    nodes: units.Whole = Field(default=1, ge=1)
    cpus: units.AtLeastCount | None = Field(default=None, examples=["8+"])
    ram: units.AtLeastBytes | None = Field(default=None, examples=["32GB+"])
    hours: units.HoursPerMonth | None = Field(default=None, gt=0, examples=["60h/mo"])
    spot: bool = False
    checkpoint_interval: units.Seconds = Field(default=3600.0, gt=0)
    regions: Names | None = None
    providers: Names | None = None


Workload = Annotated[Serve | Pretrain | Finetune | Batch | Fixed, Field(discriminator="kind")]


# --- places, limits, policy ----------------------------------------------------------------------------


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
    """What no plan may exceed. `power` [W] is the sum over own sites after PUE."""

    budget: Budget = Budget()
    power: units.Watts | None = Field(default=None, gt=0)
    countries: Countries | None = None
    regions: Pick | None = None
    providers: Pick | None = None
    deployment: Annotated[tuple[Deployment, ...], OneOrMore] | None = None
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
    include_doubtful: bool = False
    rules: dict[RuleName, RuleSetting] = Field(default_factory=dict)


def _all(given: Mapping[str, Any], key: str, part: str) -> list[str]:
    """`part` of every item of the list `key`, as text; unreadable ones get names of their own."""
    items = given.get(key)
    texts: list[str] = []
    for item in items if isinstance(items, list | tuple) else ():
        value = item.get(part) if isinstance(item, dict) else getattr(item, part, None)
        texts.append(value.strip() if isinstance(value, str) else "\0" * bool(part == "name") * (len(texts) + 1))
    return texts


class Problem(Strict):
    """A whole problem file."""

    name: str | None = None
    horizon: units.Months = Field(default=12.0, gt=0, le=240, examples=["12mo"])
    objective: Objective = "cost"
    currency: Currency = "USD"
    gap: units.Ratio = Field(default=0.005, ge=0, le=1)
    time_limit: units.Seconds = Field(default=60.0, gt=0)
    workloads: tuple[Workload, ...] = Field(min_length=1)
    sites: tuple[Site, ...] = ()
    owned: tuple[Owned, ...] = ()
    limits: Limits = Limits()
    policy: Policy = Policy()

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        for key, what in (("workloads", "workload"), ("sites", "site")):
            seen: set[str] = set()
            for index, name in enumerate(_all(given, key, "name")):
                if name in seen:
                    yield (key, index, "name"), f"two {what}s are called {name}"
                seen |= {name}
        sites = _all(given, "sites", "name")
        for index, site in enumerate(_all(given, "owned", "site")):
            if site and site not in sites:
                near = get_close_matches(site, sites, n=1)
                known = f"did you mean {near[0]}?" if near else f"sites: {', '.join(sites) or 'none'}"
                yield ("owned", index, "site"), f"owned machines stand at unknown site {site}; {known}"

    @property
    def billing_modes(self) -> frozenset[Billing]:
        """Billing modes that a plan may use; spot only where asked for, by policy or by a workload."""
        if self.policy.billing is not None:
            return frozenset(self.policy.billing)
        modes: set[Billing] = {"on_demand", "reserved", "subscription", "capacity_block", "purchase", "owned"}
        if any(isinstance(w, Fixed) and w.spot for w in self.workloads):
            modes.add("spot")
        return frozenset(modes)
