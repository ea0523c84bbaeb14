"""What the serving model says of measured cases: the same step-time terms, read in the way each case was run."""

from __future__ import annotations

from typing import Final

import polars as pl

from solver.features.throughput_serving import (
    TAIL,
    Z,
    batch_limit,
    first_pass_s,
    in_flight,
    largest_batch,
    step_s,
    tpot_s,
)

LITTLE_ITERATIONS: Final = 25
SHORT_BATCH: Final = 1.0


def predict_cases(frame: pl.DataFrame, *, servers: bool = True) -> pl.DataFrame:
    """Add predicted output_tokens_per_s, tpot_ms and ttft_ms of cases that carry the step-time terms.

    Parameters
    ----------
    frame
        Cases (`serving_cases`) with model, accelerator, memory, constants and step-time columns.
    servers
        Also solve the server scenarios for their largest batch (slower; calibration leaves them out).

    Returns
    -------
    pl.DataFrame
        The frame with `predicted_output_tokens_per_s` (all replicas), `predicted_tpot_ms`, `predicted_ttft_ms`
        (null where the case's mode does not fix them) and `cap`, the most sequences that memory and engine hold.
    """
    mode = pl.col("mode")
    # A given concurrency is what the engine was set to: only the cache limits it further.
    engine = pl.when(mode == "batch").then(None).otherwise(pl.col("max_batch"))
    frame = frame.with_columns(max_batch=engine).with_columns(cap=batch_limit())
    frame = frame.with_columns(
        n=pl.when(mode == "batch")
        .then(pl.min_horizontal("concurrency", "cap"))
        .when(mode == "offline")
        .then("cap")
        .when(mode.is_in(["generate", "prompt", "arrivals"]))
        .then(1.0)
    )
    frame = _arrivals(frame)
    if servers:
        frame = _servers(frame)
    n = pl.col("n").clip(SHORT_BATCH)
    schedule = pl.when(mode.is_in(["offline", "server"])).then("cal_e_schedule").otherwise(1.0)
    rho = (n * pl.col("_prefill") / (pl.col("osl") * tpot_s(n))).clip(0.0, 0.98)
    arrivals_wait = rho * pl.col("_prefill") / (2.0 * (1.0 - rho)) + 1.5 * step_s(n)
    # Requests offered together: their prompts are read one after another, those beyond the cache wait for places.
    beyond = (pl.col("concurrency") - n).clip(0.0)
    burst_wait = (n - 1.0) / 2.0 * pl.col("_prefill") + beyond**2 / (2.0 * pl.col("concurrency")) * pl.col(
        "osl"
    ) * tpot_s(n) / n
    wait = pl.when(mode == "arrivals").then(arrivals_wait).otherwise(burst_wait)
    # All requests of a run in flight at once: nothing arrives after them, so that each sees, on average, half of the
    # others' prompts after its own first token; in a steady state prompts keep coming at the pace of the answers.
    once = (n >= pl.col("requests")).fill_null(False)
    per_token = pl.when(once).then(step_s(n) + (tpot_s(n) - step_s(n)) / 2.0).otherwise(tpot_s(n))
    return frame.with_columns(
        predicted_output_tokens_per_s=pl.when(mode.is_in(["batch", "offline", "server", "generate"])).then(
            schedule * n / tpot_s(n) * pl.col("replicas")
        ),
        predicted_tpot_ms=pl.when(mode.is_in(["batch", "arrivals", "generate", "server"])).then(per_token * 1e3),
        predicted_ttft_ms=pl.when(mode == "prompt")
        .then(first_pass_s() * 1e3)
        .when(mode.is_in(["arrivals", "batch"]))
        .then((first_pass_s() + wait) * 1e3),
    )


def _arrivals(frame: pl.DataFrame) -> pl.DataFrame:
    """Solve n = arrivals x osl x TPOT(n), Little's law, from below; the offered load is what was served."""
    load = pl.col("output_tokens_per_s_total") / pl.col("replicas")
    arrivals = pl.col("mode") == "arrivals"
    if not frame.select(arrivals.any()).item():
        return frame
    narrow = frame.with_row_index("_case").filter(arrivals)
    for _ in range(LITTLE_ITERATIONS):
        narrow = narrow.with_columns(
            n=pl.min_horizontal(load * tpot_s(pl.col("n")), "cap", "requests").clip(SHORT_BATCH)
        )
    solved = narrow.select("_case", _n="n")
    return (
        frame.with_row_index("_case")
        .join(solved, on="_case", how="left", maintain_order="left")
        .with_columns(n=pl.coalesce("_n", "n"))
        .drop("_case", "_n")
    )


def _servers(frame: pl.DataFrame) -> pl.DataFrame:
    """Solve the largest batch within the limits of a server scenario and the mean number in flight it allows."""
    server = pl.col("mode") == "server"
    if not frame.select(server.any()).item():
        return frame
    frame = frame.with_row_index("_row").with_columns(
        _z=pl.col("percentile").replace_strict(Z, default=0.0, return_dtype=pl.Float64),
        _tail=pl.col("percentile").replace_strict(TAIL, default=0.5, return_dtype=pl.Float64),
    )
    solved = largest_batch(frame.filter(server & pl.col("kv_tokens").is_not_null())).select(
        "_row", _n=in_flight(pl.col("_batch"))
    )
    return (
        frame.join(solved, on="_row", how="left", maintain_order="left")
        .with_columns(n=pl.coalesce("_n", "n"))
        .drop("_row", "_n", "_z", "_tail")
    )
