"""Rates of `kitout size`: what one replica of each split serves, from which source, with which error to expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import polars as pl

from catalogs.catalog import Catalog
from solver.features.speed_tables import SpeedTables
from solver.features.throughput import with_batch_rate, with_serving_rate
from solver.features.validity import with_validity

RATES = (
    "rate_req_s", "output_tokens_per_s", "input_tokens_per_s", "ttft_s", "tpot_s", "in_flight", "rate_source", "rate_error",
    "rate_warning", "rate_reason",
)  # fmt: skip


@dataclass(frozen=True)
class Requests:
    """Requests to rate a replica with: lengths [tokens], latency limits [s] at a percentile, load [requests/s].

    `offline`: all requests are queued, no latency counts.
    """

    isl: int
    osl: int
    ttft: float | None = None
    tpot: float | None = None
    percentile: str = "p95"
    rate: float | None = None
    offline: bool = False

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Self | None:
        """From the options of the command; None where no lengths are given."""
        if asked.get("isl") is None or asked.get("osl") is None:
            return None
        return cls(**{name: asked[name] for name in cls.__dataclass_fields__ if asked.get(name) is not None})

    @property
    def words(self) -> str:
        """The request in a few words."""
        said = [f"{self.isl:,} tokens in, {self.osl:,} out"]
        said += [f"TTFT {self.ttft * 1000:g} ms"] if self.ttft is not None else []
        said += [f"TPOT {self.tpot * 1000:g} ms"] if self.tpot is not None else []
        said.append("offline" if self.offline else f"at {self.percentile}")
        return ", ".join(said)


def with_rates(rows: pl.DataFrame, catalog: Catalog, asked: Requests) -> pl.DataFrame:
    """Add `RATES` to rows with memory columns, and replicas and all_gpus for the load asked for.

    Rates are null where the model does not fit or no rate can be told; `rate_reason` says why.
    """
    tables = SpeedTables.of(catalog)
    frame = rows.with_columns(
        isl=pl.lit(float(asked.isl)),
        osl=pl.lit(float(asked.osl)),
        ttft_limit_s=pl.lit(asked.ttft, pl.Float64),
        tpot_limit_s=pl.lit(asked.tpot, pl.Float64),
        percentile=pl.lit(asked.percentile),
    )
    rated = with_validity((with_batch_rate if asked.offline else with_serving_rate)(frame, tables), tables)
    load = pl.lit(asked.rate, pl.Float64)
    replicas = (load / pl.col("rate_req_s") - 1e-9).ceil()
    return rated.with_columns(
        input_tokens_per_s=pl.col("rate_req_s") * pl.col("isl"),
        replicas=replicas.cast(pl.Int64),
        all_gpus=(replicas * pl.col("gpus")).cast(pl.Int64),
    )
