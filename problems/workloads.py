"""Workloads: models to serve, train or run in batch, and fixed numbers of accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from problems import units
from problems.base import Countries, Fault, Names, OneOrMore, Strict
from problems.data import DataClass, data_faults
from problems.picks import Pick, is_name
from problems.terms import Apart, KvPrecision, WeightPrecision
from problems.traffic import MeasuredRate, Slo, Traffic
from problems.windows import Windows


class BareModel(Strict):
    """A model known by its size; a stand-in dense architecture is used and starred. `params` [parameters]."""

    params: units.Count = Field(gt=0, examples=["175B"])


class ConfigModel(Strict):
    """A model described by a Hugging Face ``config.json`` on disk (path relative to the problem file)."""

    config: str = Field(min_length=1, examples=["./config.json"])


def _model_form(value: Any) -> str | None:
    if is_name(value):
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


def _nothing_to_run(given: Mapping[str, Any]) -> Iterator[Fault]:
    if "model" not in given and not given.get("measured") and "profile" not in given:
        yield (), "give a model, or measured: [{accelerator, accelerators, rate}] for other work"


class WorkloadBase(Strict):
    """What every workload has.

    `priority` (1 comes first), `value` (of a month in which all of it is served) and `min_share` (least part of its load
    worth serving) say what to do where not everything can be had; see `Problem.weighed`.
    """

    name: str = Field(min_length=1, pattern=r"^[^.\s*\[\]]+$", examples=["chat"])
    priority: units.Whole | None = Field(default=None, ge=1, examples=[1])
    value: units.MoneyPerMonth | None = Field(default=None, examples=["$20k/mo"])
    min_share: units.Ratio | None = Field(default=None, gt=0, le=1, examples=["50%"])
    countries: Countries | None = Field(default=None, examples=[["US", "DE"]])
    compliance: Names = ()
    accelerators: Pick | None = None
    data: tuple[DataClass, ...] = ()

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        yield from data_faults(given)


def _nodes_to_lose(value: Any) -> Any:
    """none, n+1, n+2 ... up to n+9."""
    if isinstance(value, str) and not re.fullmatch(r"none|n\+[1-9]", value.strip()):
        raise ValueError("must be none, n+1, n+2 ... up to n+9: nodes that may be lost while demand is still served")
    return value


Redundancy = Annotated[str, BeforeValidator(_nodes_to_lose)]


class Serve(WorkloadBase):
    """An online inference service.

    `profile` names rows of the catalogue's table user_rates: requests/s per accelerator or offer and request size, as the user
    measured them within the latency limits. They are then the only rates, and `model` is just a name.
    All demand is still served after the loss of any `redundancy` nodes, in a share `availability` of the time, and after
    the loss of any one zone, region, provider or site (`spread`).
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
    slo: Slo = Slo.model_construct()
    redundancy: Redundancy = "none"
    availability: units.Ratio | None = Field(default=None, gt=0, lt=1, examples=["99.9%"])
    spread: Annotated[tuple[Apart, ...], OneOrMore] = Field(default=(), examples=["region"])
    interruptible: bool = False

    @property
    def nodes_to_lose(self) -> int:
        """Nodes that `redundancy` lets go."""
        return 0 if self.redundancy == "none" else int(self.redundancy.removeprefix("n+"))

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        yield from super()._faults(given)
        yield from _nothing_to_run(given)
        traffic = given.get("traffic")
        if given.get("measured") and "profile" in given:
            yield ("profile",), "give either measured or profile, not both"
        if (given.get("measured") or "profile" in given) and isinstance(traffic, Mapping) and "concurrency" in traffic:
            yield (
                ("traffic", "concurrency"),
                "measured rates are requests/s: give the traffic as rate or users with them",
            )


class Scheduled(WorkloadBase):
    """A job that may be told when to run: within `window`, and after each of the jobs of `after` (its run of that week)."""

    window: Windows | None = Field(default=None, examples=["nights"])
    after: Annotated[Names, OneOrMore] = ()


class TrainingBase(Scheduled):
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


class Batch(Scheduled):
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
        yield from super()._faults(given)
        yield from _nothing_to_run(given)


class AcceleratorNeed(Strict):
    """Any accelerator with at least so much memory [bytes] and, where given, of these vendors."""

    memory: units.Bytes = Field(gt=0, examples=["16GB"])
    vendor: str | None = None


def _accelerator_form(value: Any) -> str | None:
    if is_name(value):
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
