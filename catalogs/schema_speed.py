"""Schemas of the tables behind the speed and power models. Fitted constants stand here, not in code."""

from __future__ import annotations

import dataframely as dy
import polars as pl

from catalogs.columns import Sourced, at_least_zero, choice, count, flag, number, positive, share, text

BASES = ("same", "similar", "architecture")
KINDS = ("dense", "moe", "*")
PHASES = ("decode", "prefill", "mixed", "training")
LINKS = ("nvlink", "bridge", "pcie", "node")
PERCENTILES = ("mean", "p50", "p90", "p95", "p99")


class SpeedClasses(Sourced):
    """Which measured class of cards stands for an accelerator, per model, and how near it is.

    `same`: measured itself; `similar`: same architecture and memory class; `architecture`: only the architecture is
    shared, the error is widened. An accelerator without a class is refused with the reason given.
    """

    accelerator = text(key=True)
    serving_class = text(nullable=True)
    serving_basis = choice(BASES, nullable=True)
    reason = text(nullable=True)
    training_class = text(nullable=True)
    training_basis = choice(BASES, nullable=True)
    training_reason = text(nullable=True)
    power_class = text(nullable=True)
    power_basis = choice(BASES, nullable=True)

    @dy.rule()
    def refused_with_reason(cls) -> pl.Expr:  # noqa: N805
        """No class without a reason."""
        return (pl.col("serving_class").is_not_null() | pl.col("reason").is_not_null()) & (
            pl.col("training_class").is_not_null() | pl.col("training_reason").is_not_null()
        )


class CalibrationServing(Sourced):
    """Constants of the serving model, fitted per speed class, engine and kind of model.

    Efficiencies are shares of a physical peak, so none may pass 1. `cv_*`: error on configurations left out of the fit.
    Measured were models of `params_least_b` to `params_most_b` and requests of up to `tokens_most` tokens.
    """

    speed_class = text(key=True)
    engine = text(key=True)
    kind = choice(KINDS, key=True)
    e_weights = share(nullable=False)
    e_kv = share(nullable=False)
    e_compute = share(nullable=False)
    e_prefill = share(nullable=False)
    step_ms = at_least_zero(nullable=False)
    layer_us = at_least_zero(nullable=False)
    seq_us = at_least_zero(nullable=False)
    hop_us = at_least_zero(nullable=False)
    e_schedule = share(nullable=False)
    n = count(minimum=0)
    cv_median_abs_rel = at_least_zero(nullable=False)
    cv_p90_abs_rel = at_least_zero(nullable=False)
    params_least_b = positive()
    params_most_b = positive()
    tokens_most = positive()


class CalibrationLinks(Sourced):
    """Links between cards of one replica: share of one direction's bandwidth reached, latency added per all-reduce."""

    link_class = choice(LINKS, key=True)
    link_efficiency = share(nullable=False)
    link_extra_us = at_least_zero(nullable=False)


class CalibrationTraining(Sourced):
    """Constants of the training model: `base` efficiencies, `best` (95th percentile reached), `factor`s (log), `constant`s."""

    kind = choice(("base", "best", "factor", "constant"), key=True)
    term = text(key=True)
    speed_class = text(key=True)
    precision = text(key=True)
    value = number(nullable=False)
    unit = text()
    n = count(nullable=True, minimum=0)
    cv_median_abs_rel = at_least_zero()
    cv_p90_abs_rel = at_least_zero()


class PowerCurves(Sourced):
    """Measured throughput at a power limit, relative to the rated power, per power class and phase."""

    power_class = text(key=True)
    phase = choice(PHASES, key=True)
    cap_share = share(nullable=False, key=True)
    relative_throughput = share(nullable=False)
    n = count(minimum=0)
    cv_median_abs = at_least_zero(nullable=False)
    cv_p90_abs = at_least_zero(nullable=False)


class PowerPhases(Sourced):
    """Watts of a card by phase as shares of rated power: low + (full - low) x load^gamma; `host` is per card's rating."""

    power_class = text(key=True)
    phase = choice((*PHASES, "idle", "host"), key=True)
    low = share(nullable=False)
    full = share(nullable=False)
    gamma = positive(nullable=False)
    n = count(minimum=0)
    cv_median_abs_rel = at_least_zero(nullable=False)
    cv_p90_abs_rel = at_least_zero(nullable=False)


class EngineSupport(Sourced):
    """Serving engines and the software stacks they run on; `alias` is a name met in measurements.

    `kin` groups engines that stand in for one another where only one was measured: `batching` servers and `local` ones
    for single streams. `version_from`: oldest release that the constants speak for (as in a file's `version`).
    `kv_reserve`: share of a request's output that the cache must hold on average when full.
    """

    alias = text(key=True)
    engine = text()
    software_stack = text(key=True)
    version_from = text()
    kin = choice(("batching", "local"))
    serves = flag()
    max_batch = count()
    kv_reserve = share(nullable=False)


class BenchmarkLengths(Sourced):
    """Request lengths and latency limits that a named benchmark fixes but its logs leave out."""

    benchmark = text(key=True)
    source_contains = text()
    model = text(key=True)
    scenario = text(key=True)
    variant = text(key=True)
    note_contains = text(nullable=True)
    isl = positive()
    osl = positive()
    ttft_limit_s = positive()
    tpot_limit_s = positive()
    percentile = choice(PERCENTILES, nullable=True)


class MeasurementsServing(Sourced):
    """Published serving throughput of one replica (tp x pp cards), best figure of each case; the very case only."""

    accelerator = text(key=True)
    model = text(key=True)
    precision = text(key=True)
    kv_precision = text(key=True)
    engine = text(key=True)
    tp = count(key=True)
    pp = count(key=True)
    isl = count(key=True)
    osl = count(key=True)
    output_tokens_per_s = positive(nullable=False)
    ttft_s = positive()
    tpot_s = positive()
    engine_version = text(nullable=True)


class UserMeasurements(MeasurementsServing):
    """The user's own measurements, laid over the catalogue; they go before everything else.

    `offer`: measured on this offer only; null: on the accelerator wherever it stands. `concurrency`: requests in flight
    of this point of operation, 0 where not stated; several points of one configuration answer for different limits.
    """

    concurrency = count(key=True, minimum=0)
    offer = text(nullable=True)


class UserRates(Sourced):
    """Rates per request size that the user measured, whole work as a black box: no model, no memory reckoning.

    A serve workload names its rows by `profile`. A row says how many requests/s of one size one replica of `accelerators`
    cards sustains within the user's latency limits when it gets nothing else; a size without a row cannot be served there.
    `offer` : offer_id, provider/offer or offer that the row holds for; ``*``: the accelerator wherever it stands. Rows of an
    offer go before those of its accelerator.
    """

    profile = text(key=True)
    accelerator = text(key=True)
    offer = text(key=True)
    accelerators = count(key=True)
    isl = count(key=True)
    osl = count(key=True)
    rate_req_s = positive(nullable=False)
