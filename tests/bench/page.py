"""The page of results, docs/bench.md, from the rows that runs have left in a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SAME = 2e-6
"""Bounds of HiGHS are floating-point numbers, within its tolerances."""
MARKS = ("first_s", "percent_s", "proof_s")
HEAD = (
    "Instance", "Size", "Limit s", "First plan s", "To 1 % s", "To proof s", "Cost", "Bound", "Gap", "CPU s", "Peak MiB",
    "HiGHS cost", "HiGHS gap", "HiGHS s", "HiGHS",
)  # fmt: skip
LISTS_HEAD = (
    "Instance", "Offers", "Import s", "Compile s", "Pools left", "First plan s", "To proof s", "Compile to proof s",
)  # fmt: skip
GROWTH = [
    "",
    "## Growth",
    "",
    "Measured by the same search with 10 s for each point; the figures are in [growth.csv](growth.csv).",
    "",
    "![Time and memory against offers, workloads and load periods](growth.svg)",
]


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Rows by the name of their instance, the newest of each."""
    if not path.exists():
        return {}
    rows = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return {row["name"]: row for row in rows}


def disagreements(ours: dict[str, Any] | None, highs: dict[str, Any] | None) -> list[str]:
    """What cannot be true of both answers: a proof of another cost, or a bound above a plan of the other."""
    if not ours or not highs:
        return []
    cost, exact, bound = ours["objective"], highs["exact"], highs["bound"]
    proved, none_here = ours["status"] == "optimal", ours["status"] == "infeasible"
    no_plan = highs["proved"] and highs["objective"] is None
    said = []
    if proved and highs["proved"] and exact is not None and cost != exact:
        said.append(f"both prove an optimum: {cost} here, {exact} by HiGHS")
    if cost is not None and no_plan:
        said.append(f"HiGHS proves that there is no plan, where one costs {cost}")
    if none_here and exact is not None:
        said.append(f"no plan is said to exist, where HiGHS has one of {exact}")
    if cost is not None and bound is not None and bound > cost + SAME * abs(cost):
        said.append(f"HiGHS's bound of {bound} is above a plan of {cost}")
    if exact is not None and ours["bound"] is not None and ours["bound"] > exact:
        said.append(f"the bound of {ours['bound']} is above HiGHS's plan of {exact}")
    return said


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else "0" if value < 5e-7 else f"{value:.3%}"


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _said(highs: dict[str, Any] | None, faults: list[str]) -> str:
    """How HiGHS ended, in a few words."""
    if faults:
        return "DISAGREES: " + "; ".join(faults)
    if not highs:
        return "not run"
    if highs["note"]:
        return str(highs["note"])
    if not highs["proved"]:
        return "no plan" if highs["objective"] is None else "no proof"
    if highs["objective"] is None:
        return "proves there is no plan"
    # Its optimum within tolerances need not keep every row once counts are whole numbers.
    return "proved" if highs["exact"] is not None else "proved within its tolerances only"


def row_line(row: dict[str, Any]) -> str:
    """An instance in the table."""
    o, h = row["ours"] or {}, row["highs"] or {}
    cells = [row["name"], o.get("size", "failed"), _seconds(row["limit"]), *(_seconds(o.get(m)) for m in MARKS)]
    cells += [_amount(o.get("objective")), _amount(o.get("bound")), _share(o.get("gap")), _seconds(o.get("cpu_s"))]
    cells += [_amount(o.get("peak_mib")), _amount(h.get("objective")), _share(h.get("gap")), _seconds(h.get("wall_s"))]
    cells.append(_said(row["highs"], disagreements(row["ours"], row["highs"])))
    return "| " + " | ".join(cells) + " |"


def agreement(rows: Iterable[dict[str, Any]]) -> str:
    """How many claims HiGHS confirms, and what it does not."""
    rows = list(rows)
    ran = [row for row in rows if row["ours"] and row["highs"]]
    mine = [row for row in ran if row["ours"]["status"] in ("optimal", "infeasible")]
    theirs = [row for row in ran if row["highs"]["proved"]]
    both = [row for row in mine if row["highs"]["proved"] and row["highs"]["exact"] is not None]
    wrong = [row["name"] for row in rows if disagreements(row["ours"], row["highs"])]
    text = (
        f"HiGHS ran on {len(ran)} of {len(rows)} instances and proves {len(theirs)} within its limit; kitout proves "
        f"{len(mine)} of them. Where both prove an optimum ({len(both)}) "
    )
    text += f"NOT ALL AGREE: {', '.join(wrong)}." if wrong else "the costs are equal to the last unit."
    return text + " No bound of one is above a plan of the other." * (not wrong)


def _compile_line(row: dict[str, Any]) -> str:
    """Times of a problem on the whole price lists."""
    o = row["ours"]
    whole = None if o["proof_s"] is None else o["compile_s"] + o["proof_s"]
    times = [_seconds(o["import_s"]), _seconds(o["compile_s"]), str(o["pools"])]
    cells = [row["name"], _amount(o["offers"]), *times, _seconds(o["first_s"]), _seconds(o["proof_s"]), _seconds(whole)]
    return "| " + " | ".join(cells) + " |"


def _lists_part(rows: list[dict[str, Any]], found: dict[str, Any] | None) -> list[str]:
    """The part on whole price lists: compilation, and single choices against a plain query."""
    compiled = [_compile_line(row) for row in rows if row["ours"] and "compile_s" in row["ours"]]
    lines = []
    if compiled:
        head = ["", "## Whole price lists", "", "| " + " | ".join(LISTS_HEAD) + " |", "|" + " --- |" * len(LISTS_HEAD)]
        lines += head + compiled
    if found is None:
        return lines
    (median, most), (plain_median, plain_most) = found["ours_s"], found["plain_s"]
    return [
        *lines,
        "",
        f"Single choices: the cheapest of {found['offers']:,} offers for {found['requests']} requests, each proved. "
        f"{found['same']} of {found['requests']} cost exactly what an exhaustive polars query over all machines finds, "
        f"and what is on record. A request takes {median:.2f} s (median; at most {most:.2f} s) once the lists are "
        f"imported ({found['import_s']:.1f} s); the plain query takes {plain_median:.3f} s (at most {plain_most:.3f} s) "
        f"once the lists are read and joined ({found['read_s']:.1f} s).",
    ]


def page(rows: list[dict[str, Any]], choices: dict[str, Any] | None) -> str:
    """The whole page; dates, cores and threads are those that the rows say."""
    days = sorted({row["day"] for row in rows})
    cores = sorted({row["cores"] for row in rows})
    threads = sorted({row["threads"] for row in rows})
    busy = max((row["load"] for row in rows), default=0.0)
    when = days[0] if len(days) < 2 else f"{days[0]} to {days[-1]}"
    lines = [
        "# Solve speed and proof",
        "",
        f"Written by `make bench` on {when}: {'/'.join(map(str, cores))} cores, {'/'.join(map(str, threads))} threads each "
        f"(searches by CP-SAT as a user's: workers as the cores call for); load before an instance at most {busy:.1f}. Costs in the "
        "model's own integers (cents, watts, ..). CPU s is that of kitout alone; on a busy machine it says more than the clock. Gap: "
        "(cost - bound) / cost; bounds are those of the full model.",
        "",
        "HiGHS gets the same integers, threads and time limit in a process of its own, at its own tolerances; its clock begins when its "
        "program is made. It may overrun the limit, since it looks at the clock only between steps; a while after it, it is stopped, "
        "and what it had by then stands here.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + " --- |" * len(HEAD),
        *(row_line(row) for row in rows),
        "",
        agreement(rows),
        *_lists_part(rows, choices),
        *GROWTH,
    ]
    return "\n".join(lines) + "\n"
