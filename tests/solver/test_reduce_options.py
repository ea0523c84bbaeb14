"""The reduction of job options that stays quick on large price lists drops what the rule in pairs drops."""

from __future__ import annotations

import random

import polars as pl
import pytest

from solver.candidates.reduce import reduce_options


def kept_in_pairs(options: pl.DataFrame, free: set[str], extra: list[str]) -> list[int]:
    """Rows that no other row beats, by the rule as it is stated, row against row."""
    counted = ["cash", "cost", "monthly", "occupied", *extra]
    # A job that takes held machines all month keeps all hours of the week.
    rows = [
        {**r, "occupied": float("inf") if r["pooled"] and not r["slots"] else r["slots"]} for r in options.to_dicts()
    ]

    def beats(a: dict[str, object], b: dict[str, object]) -> bool:
        if a["row"] == b["row"] or a["work"] != b["work"] or a["pooled"] != b["pooled"]:
            return False
        if any(a[c] > b[c] for c in counted):  # type: ignore[operator]
            return False
        tie_or_better = any(a[c] < b[c] for c in counted) or a["row"] < b["row"]  # type: ignore[operator]
        same_pool = a["pool"] == b["pool"]
        if b["pooled"]:
            fewer = a["gpus"] < b["gpus"]  # type: ignore[operator]
            return same_pool and a["gpus"] <= b["gpus"] and (tie_or_better or fewer)  # type: ignore[operator]
        stands_in = a["pool"] in free or (same_pool and a["nodes"] <= b["nodes"])  # type: ignore[operator]
        return stands_in and tie_or_better

    return [b["row"] for b in rows if not any(beats(a, b) for a in rows)]


def some_options(dice: random.Random) -> tuple[pl.DataFrame, list[str]]:
    height = dice.randrange(1, 30)
    pools = [f"pool {i}" for i in range(dice.randrange(1, 8))]
    columns = {
        "work": [dice.choice("ab") for _ in range(height)],
        "pool": [dice.choice(pools) for _ in range(height)],
        "pooled": [dice.random() < 0.3 for _ in range(height)],
        "row": list(range(height)),
        "nodes": [dice.randrange(1, 4) for _ in range(height)],
        "gpus": [dice.randrange(1, 4) for _ in range(height)],
        "slots": [dice.randrange(3) for _ in range(height)],
    }
    money = ("cash", "cost", "monthly", "duration_h")
    columns |= {name: [float(dice.randrange(4)) for _ in range(height)] for name in money}
    return pl.DataFrame(columns), [p for p in pools if dice.random() < 0.6]


@pytest.mark.parametrize("extra", [[], ["duration_h"]])
def test_same_rows_stay(extra: list[str]) -> None:
    dice = random.Random(7)
    for _ in range(60):
        options, free = some_options(dice)
        kept = reduce_options(options, pl.Series("pool", free, dtype=pl.String), extra)
        assert kept["row"].to_list() == kept_in_pairs(options, set(free), extra)
