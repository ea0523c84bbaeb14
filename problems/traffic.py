"""Load of a service: how many requests of which size, when, and how fast they must be answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from problems import units
from problems.base import Fault, Strict
from problems.terms import Calendar, Percentile


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
