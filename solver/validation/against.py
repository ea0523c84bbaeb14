"""`kitout calibrate --against RESULT FILE`: a running plan beside what was measured of it, and the likely bottleneck."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from solver.validation.validate_memory import ValidationError

EXPECTED_UTILISATION: Final = 0.70
"""GPU utilisation that a well fed machine should pass."""
BUSY: Final = 0.70
"""Share of a link's or store's rate from which on it is taken for the limit."""
WAITING: Final = 0.10
"""Share of time waiting for data from which on storage is suspected."""

Bottleneck = Literal["compute", "storage", "network", "unclear", "none"]


@dataclass(frozen=True)
class Finding:
    """One workload of a plan: rates planned and measured, utilisation, and what holds it back."""

    workload: str
    planned_rate: float | None
    measured_rate: float | None
    ratio: float | None
    gpu_utilisation: float | None
    bottleneck: Bottleneck
    why: str
    planned_hours: float | None = None
    measured_hours: float | None = None
    planned_cost: float | None = None
    measured_cost: float | None = None


def compare_plan(result: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> tuple[Finding, ...]:
    """Compare a plan with measurements of it.

    Parameters
    ----------
    result
        A JSON result of `kitout solve` (its `workloads` with `placements` that carry `rate`).
    rows
        One per workload: workload, rate (in the plan's unit: requests/s or tokens/s), and where known gpu_utilisation
        [0..1 or %], data_wait_share, network_utilisation, hours, cost.

    Raises
    ------
    ValidationError
        A row names a workload that the plan does not have; all of them are named.
    """
    planned = {w["name"]: w for w in result.get("workloads", [])}
    lost = sorted({str(r.get("workload")) for r in rows} - set(planned))
    if lost:
        raise ValidationError(f"not in the plan: {', '.join(lost)} (it has: {', '.join(planned) or 'nothing'})")
    return tuple(_finding(planned[str(r["workload"])], r) for r in rows)


def read_plan_rows(path: Path) -> list[dict[str, str]]:
    """Read measurements of a running plan: a CSV with the columns workload and rate, others where known.

    Raises
    ------
    ValidationError
        The file cannot be read, lacks a column or holds no row.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValidationError(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise ValidationError(f"{path}: cannot be read ({error.strerror})") from None
    reader = csv.DictReader(io.StringIO(text))
    lacks = [name for name in ("workload", "rate") if name not in (reader.fieldnames or [])]
    if lacks:
        raise ValidationError(f"{path}: columns {', '.join(lacks)} are missing")
    rows = [{name: (value or "").strip() for name, value in row.items() if name} for row in reader]
    if not rows:
        raise ValidationError(f"{path}: holds no row")
    return rows


def _finding(workload: Mapping[str, Any], row: Mapping[str, str]) -> Finding:
    planned = _planned_rate(workload)
    measured = _number(row.get("rate"))
    ratio = measured / planned if planned and measured is not None else None
    used = _share(row.get("gpu_utilisation"))
    bottleneck, why = _bottleneck(
        ratio, used, _share(row.get("data_wait_share")), _share(row.get("network_utilisation"))
    )
    hours = max((p.get("duration_h") or 0.0 for p in workload.get("placements", [])), default=0.0)
    return Finding(
        workload=str(workload["name"]),
        planned_rate=planned,
        measured_rate=measured,
        ratio=ratio,
        gpu_utilisation=used,
        bottleneck=bottleneck,
        why=why,
        planned_hours=hours or None,
        measured_hours=_number(row.get("hours")),
        planned_cost=_number(workload.get("cost")),
        measured_cost=_number(row.get("cost")),
    )


def _planned_rate(workload: Mapping[str, Any]) -> float | None:
    """The rate of all placements in their busiest period: replicas times the rate of one."""
    total = 0.0
    for placement in workload.get("placements", []):
        rate, replicas = placement.get("rate"), placement.get("replicas_by_period") or [1]
        most = max(replicas.values()) if isinstance(replicas, Mapping) else max(replicas)
        if rate is not None:
            total += float(rate) * float(most)
    return total or None


def _bottleneck(
    ratio: float | None, used: float | None, waiting: float | None, network: float | None
) -> tuple[Bottleneck, str]:
    if waiting is not None and waiting >= WAITING:
        return "storage", f"{waiting:.0%} of the time is spent waiting for data"
    if network is not None and network >= BUSY:
        return "network", f"the network carries {network:.0%} of its rate"
    if ratio is not None and ratio >= 1.0 and (used is None or used >= EXPECTED_UTILISATION):
        return "none", "the plan's rate is reached"
    if used is None:
        return "unclear", "GPU utilisation was not measured"
    if used >= EXPECTED_UTILISATION:
        return (
            "compute",
            f"GPUs are {used:.0%} busy: the plan's rate is above what this stack reaches; calibrate with it",
        )
    # Utilisation as drivers report it reads high even when communication waits; low means the cards are not fed.
    return "unclear", f"GPUs are {used:.0%} busy, under {EXPECTED_UTILISATION:.0%}: measure data waits and the network"


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text not in (None, "") else None
    except ValueError:
        return None


def _share(text: str | None) -> float | None:
    """A fraction, from 0.8, 80 or "80%"."""
    if text is None:
        return None
    value = _number(text.strip().removesuffix("%"))
    if value is None:
        return None
    return value / 100.0 if text.strip().endswith("%") or value > 1.0 else value
