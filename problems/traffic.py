"""Load of a service: how many requests of which size, when, how it grows, and how fast they must be answered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator

from problems import units
from problems.base import Fault, Strict
from problems.calendars import CalendarChoice, CsvCalendar
from problems.terms import Percentile


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


class LoadStage(Strict):
    """From month `from` of the horizon on the load is `scale` times what the traffic says."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    start: units.Months = Field(ge=0, alias="from", examples=["6mo"])
    scale: units.Ratio = Field(ge=0, examples=["150%"])


class Traffic(Strict):
    """Load of a service in its busiest hour at the start; the calendar scales it down elsewhere, growth or stages over time.

    With a CSV calendar the load may be left out: it is that of the busiest hour of the file. `growth` compounds each month.
    """

    concurrency: units.Number | None = Field(default=None, gt=0, examples=[100])
    rate: units.RequestRate | None = Field(default=None, gt=0, examples=["12 req/s"])
    users: Users | None = None
    isl: units.Tokens | None = Field(default=None, gt=0, examples=[1000])
    osl: units.Tokens | None = Field(default=None, gt=0, examples=[300])
    sizes: tuple[SizeBucket, ...] | None = Field(default=None, min_length=1)
    calendar: CalendarChoice = "flat"
    growth: units.Growth = Field(default=0.0, examples=["3%/mo"])
    stages: tuple[LoadStage, ...] | None = Field(default=None, min_length=1)

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        loads = [name for name in ("concurrency", "rate", "users") if name in given]
        calendar = given.get("calendar")
        measured = isinstance(calendar, CsvCalendar) or (isinstance(calendar, Mapping) and "csv" in calendar)
        if len(loads) != 1 and not (measured and not loads):
            yield (), f"give exactly one of concurrency, rate, users (given: {', '.join(loads) or 'none'})"
        if given.get("growth") not in (None, 0, 0.0, "0", "0%", "0%/mo") and "stages" in given:
            yield ("stages",), "give either growth or stages, not both"
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

    @model_validator(mode="after")
    def _stages_in_order(self) -> Self:
        if self.stages is not None:
            starts = [stage.start for stage in self.stages]
            if starts[0] != 0 or any(b <= a for a, b in pairwise(starts)):
                raise ValueError(
                    "stages begin at 0mo and follow one another, e.g. [{from: 0mo, scale: 100%}, {from: 6mo, scale: 150%}]"
                )
            if not any(stage.scale for stage in self.stages):
                raise ValueError("the load is 0 in every stage")
        return self

    @property
    def load(self) -> float:
        """Load in the busiest hour of the first month [requests/s, or requests in flight for a concurrency].

        Raises
        ------
        ValueError
            Where a CSV file says the load and it has not been read.
        """
        if self.concurrency is not None:
            return self.concurrency
        if self.rate is not None:
            return self.rate
        if self.users is not None:
            return self.users.rate_per_s
        return max(self.measured_load) / 3600

    @property
    def measured_load(self) -> tuple[float, ...]:
        """Requests in every hour of the CSV calendar; those of the mean size where the file counts tokens."""
        assert isinstance(self.calendar, CsvCalendar)
        return self.calendar.measured.load(sum((b.isl + b.osl) * b.share for b in self.buckets))

    def highest(self, start: float, end: float) -> float:
        """Largest load between two months of the horizon, relative to `load` [1]."""
        if self.stages is None:
            return float(max((1 + self.growth) ** month for month in (math.floor(start), math.ceil(end - 1e-9) - 1)))
        ends = [*(s.start for s in self.stages[1:]), math.inf]
        return max(s.scale for s, till in zip(self.stages, ends, strict=True) if s.start < end and till > start)

    def mean(self, start: float, end: float) -> float:
        """Mean load between two months of the horizon, relative to `load` [1]."""
        if self.stages is None:
            months = range(math.floor(start), math.ceil(end - 1e-9))
            parts = [(max(start, m), min(end, m + 1), (1 + self.growth) ** m) for m in months]
        else:
            ends = [*(s.start for s in self.stages[1:]), math.inf]
            parts = [(max(start, s.start), min(end, till), s.scale) for s, till in zip(self.stages, ends, strict=True)]
        return float(sum(max(0.0, b - a) * x for a, b, x in parts)) / (end - start)

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
