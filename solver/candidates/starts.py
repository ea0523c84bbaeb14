"""When commitments may start, and how long they are held: a reservation in any stage, renewed or not.

A term that is longer than the stage it starts in is bought once and used in the stages that it covers whole; a shorter one as
often as the stage needs. Where that ends inside a stage, the same commitment renewed to the end of the horizon is a second
way. What is bought or owned is held from its start to the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from problems.schema import Problem
from solver.candidates.periods import Stage
from solver.features.cost import discount_months, whole_terms

DAYS_PER_MONTH = 730.0 / 24.0
SLACK = 1e-9


def started(capacity: pl.DataFrame, problem: Problem, stages: Sequence[Stage]) -> pl.DataFrame:
    """Ways to hold nodes, commitments once per stage that they may start in.

    Parameters
    ----------
    capacity : pl.DataFrame
        billing, commit, term_months (null: held to the end), and lead_time_days of the offer where it is known.

    Returns
    -------
    pl.DataFrame
        The frame with start [months], first_stage, until_stage (the first in which it is no longer held), paid_months
        (whole terms, cut at the horizon where commitments are pro-rated), held_months (paid months within the horizon) and
        held_worth (present value of one unit in each of them) [months].
    """
    horizon, rate, last = problem.horizon, problem.policy.discount_rate, len(stages)
    at = pl.DataFrame(
        {
            "first_stage": range(last),
            "start": [s.start for s in stages],
            "stage_months": [s.months for s in stages],
        },
        schema={"first_stage": pl.Int64, "start": pl.Float64, "stage_months": pl.Float64},
    )
    rows = capacity.with_columns(lead=_lead(capacity, problem, last))
    by_hour = rows.filter(~pl.col("commit")).join(at.head(1), how="cross").with_columns(terms=pl.lit(1.0), held=horizon)
    once = rows.filter("commit").join(at, how="cross").filter(pl.col("start") >= pl.col("lead") - SLACK)
    left = horizon - pl.col("start")
    terms = whole_terms(pl.col("term_months"), pl.col("stage_months"))
    renewed = whole_terms(pl.col("term_months"), left)
    once = once.with_columns(terms=terms.fill_null(1.0), held=(terms * pl.col("term_months")).fill_null(left))
    ends = [s.end for s in stages]
    covered = pl.sum_horizontal(
        [pl.lit(0)] + [(pl.col("start") + pl.col("held") >= end - SLACK).cast(pl.Int64) for end in ends]
    )
    once = once.with_columns(until_stage=covered)
    end_of = pl.col("until_stage").replace_strict(range(1, last + 1), ends, return_dtype=pl.Float64)
    wasted = (pl.col("until_stage") < last) & (pl.col("start") + pl.col("held") > end_of + 1e-6)
    again = once.filter(wasted).with_columns(
        terms=renewed, held=renewed * pl.col("term_months"), until_stage=pl.lit(last, pl.Int64)
    )
    out = pl.concat([by_hour.with_columns(until_stage=pl.lit(last, pl.Int64)), once, again], how="diagonal_relaxed")
    out = out.with_columns(held_months=pl.min_horizontal("held", left)).with_columns(
        paid_months=pl.col("held_months") if problem.policy.pro_rate_commitments else pl.col("held")
    )
    till = (out["start"] + out["held_months"]).unique()
    worth = {x: discount_months(x, rate) for x in {*till, *at["start"]}}
    end_worth = (pl.col("start") + pl.col("held_months")).replace_strict(worth, return_dtype=pl.Float64)
    start_worth = pl.col("start").replace_strict(worth, return_dtype=pl.Float64)
    return out.with_columns(held_worth=end_worth - start_worth).drop("lead", "stage_months", "terms", "held")


def _lead(capacity: pl.DataFrame, problem: Problem, stages: int) -> pl.Expr:
    """Months from the order to the first use: the policy's for the billing mode, or the offer's where that is more.

    With one stage there is nothing before an offer's delivery that could be planned for, and only the policy's counts.
    """
    policy = {str(mode): months for mode, months in problem.policy.lead_time.items()}
    own = (
        pl.col("billing").replace_strict(policy, default=0.0, return_dtype=pl.Float64)
        if policy
        else pl.lit(0.0, pl.Float64)
    )
    if stages == 1 or "lead_time_days" not in capacity.columns:
        return own
    return pl.max_horizontal(own, pl.col("lead_time_days").fill_null(0.0) / DAYS_PER_MONTH)
