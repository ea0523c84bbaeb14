"""How long plans and proofs take: `python -m tests.bench.solving -o docs/bench.md` writes the table kept in the docs.

Every instance runs in a process of its own, so that peak memory is its own. HiGHS gets the same integers, time limit and threads.
Instances: the examples, GPU mixes (generated ones; reference files too where KITOUT_SHARED or ../shared has them), portfolios, and
problems on every offer of the shared price lists where they are at hand.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from solver.instance import Instance
from tests.bench.clouds import CLOUDS, choices, compiled, price_lists, shared

ROOT = Path(__file__).parents[2]
PORTFOLIOS = {
    "4x3x150": (4, 3, 150, 10),
    "5x12x150": (5, 12, 150, 60),
    "5x6x500": (5, 6, 500, 30),
    "8x12x2000": (8, 12, 2000, 120),
}
MIXES = {"mix 4 types x 20 sizes": (4, 20), "mix 12 types x 40 sizes": (12, 40), "mix 40 types x 60 sizes": (40, 60)}
MARKS = ("first_s", "percent_s", "proof_s")


def mix_limit(case: str) -> float:
    """Time limit of a reference mix [s]: generated ones have many types, the largest as many as a market has."""
    return 15.0 if case.startswith(("synthetic-30g", "synthetic-50g")) else 30.0


def names(kinds: list[str]) -> Iterator[tuple[str, float]]:
    """Instances with their time limits [s]."""
    if "examples" in kinds:
        yield from ((f"example {p.stem}", 30.0) for p in sorted((ROOT / "problems").glob("*.yaml")))
    if "mixes" in kinds:
        yield from ((name, 30.0) for name in MIXES)
        found = shared()
        if found is not None:
            files = sorted((found / "reference" / "melange").glob("*.json"))
            yield from ((f"file {p.stem}", mix_limit(p.stem)) for p in files)
    if "portfolios" in kinds:
        yield from ((f"portfolio {name}", float(limit)) for name, (*_, limit) in PORTFOLIOS.items())
    if "clouds" in kinds and price_lists() is not None:
        yield from ((f"clouds {name}", 30.0) for name in CLOUDS)


def instance(name: str, took: dict[str, Any] | None = None) -> Instance:
    """The integers of an instance by its name; for price lists `took` is told how long import and compilation took."""
    kind, _, what = name.partition(" ")
    if kind == "clouds":
        made, times = compiled(what)
        if took is not None:
            took.update(times)
        return made
    if kind == "portfolio":
        from tests.bench.portfolios import portfolio

        works, periods, offers, _ = PORTFOLIOS[what]
        return portfolio(works, periods, offers)
    if kind == "mix":
        from tests.solver.mixes import random_mix

        types, sizes = MIXES[name]
        return random_mix(1, types=types, sizes=sizes, spread=1.0)
    from catalogs.load import load_catalog
    from problems.load import load_problem
    from solver.candidates import build_candidates, reduced
    from solver.scaling import scale

    if kind == "example":
        path = ROOT / "problems" / f"{what}.yaml"
        catalog, folder = load_catalog(), path.parent
    else:
        path, catalog, folder = _imported(what)
    problem = load_problem(path).problem
    return scale(reduced(build_candidates(problem, catalog, folder), within_watts=True), catalog).instance


def _imported(case: str) -> tuple[Path, Any, Path]:
    """A reference mix as problem and catalogue."""
    import tempfile

    from catalogs.cache import BESIDE, write_overlay
    from catalogs.importers.gpu_mix import read_gpu_mix
    from catalogs.load import load_catalog

    found = shared()
    assert found is not None
    mix = read_gpu_mix(found / "reference" / "melange" / f"{case}.json", load_catalog(), as_of="2026-11")
    out = Path(tempfile.mkdtemp()) / "mix"
    write_overlay(out, mix.tables, steps_aside=(), imported={}, problem=mix.problem)
    return out / BESIDE, load_catalog([out]), out


def run_one(name: str, limit: float, threads: int) -> dict[str, Any]:
    """Compile and search one instance."""
    took: dict[str, Any] = {}
    inst = instance(name, took)
    return searched(inst, limit, threads) | took


def searched(inst: Instance, limit: float, threads: int) -> dict[str, Any]:
    """Search an instance and note when what was known."""
    from solver.blend import has_mixes
    from solver.bounding.linear import linear
    from solver.search_state import How
    from solver.staged import staged

    log: list[tuple[float, float | None, float | None]] = []
    started, cpu = time.monotonic(), time.process_time()

    def note(best: float | None, bound: float | None) -> None:
        log.append((time.monotonic() - started, best, bound))

    mixed = has_mixes(inst) and linear(inst) is not None
    found = staged(inst, How(limit, 0.0, threads, 1, on_progress=note)) if mixed else None
    if found is None:
        from solver.focus import focused
        from solver.model import build_model
        from solver.search import run

        # As a user's search goes: CP-SAT has the workers that the machine's cores call for.
        in_focus = focused(inst, How(limit, 0.0, 0, 1, on_progress=note))
        if in_focus is None:
            built = build_model(inst)
            found = run(built, time_limit_s=limit, gap=0.0, workers=0, seed=1, on_progress=note, patience=1.0)
        else:
            found = in_focus.found
    wall = time.monotonic() - started
    bound = found.bound
    near = [t for t, best, _ in log if best is not None and bound is not None and best <= bound * 1.01]
    five = [t for t, best, low in log if best is not None and low is not None and best - low <= 0.05 * abs(best)]
    return {
        "size": f"{len(inst.pools)} pools, {len(inst.replicas)} kinds, {len(inst.periods)} periods",
        "first_s": found.first_s,
        "bound_s": next((t for t, _, low in log if low is not None), None),
        "five_percent_s": min(five, default=wall if found.gap is not None and found.gap <= 0.05 else None),
        "percent_s": min(near, default=wall if found.gap is not None and found.gap <= 0.01 else None),
        "proof_s": wall if found.status == "optimal" else None,
        "objective": found.objective,
        "bound": bound,
        "gap": found.gap,
        "wall_s": wall,
        "cpu_s": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run_highs(name: str, limit: float, threads: int) -> dict[str, Any]:
    """HiGHS on the same integers."""
    from tests.oracle.highs import timed

    inst = instance(name)
    started, cpu = time.monotonic(), time.process_time()
    objective, bound = timed(inst, limit, threads)
    gap = None if objective is None or bound is None else (objective - bound) / abs(objective) if objective else 0.0
    return {
        "objective": objective,
        "bound": bound,
        "gap": gap,
        "wall_s": time.monotonic() - started,
        "cpu_s": time.process_time() - cpu,
    }


def child(name: str, limit: float, threads: int, highs: bool) -> dict[str, Any] | None:
    """Run an instance in a process of its own; None where it fails or takes far too long."""
    more = ["--threads", str(threads), *(["--highs"] if highs else [])]
    return apart("tests.bench.solving", "--one", name, "--limit", str(limit), *more, limit=limit)


def apart(*arguments: str, limit: float) -> dict[str, Any] | None:
    """What a module prints last as JSON, in a process of its own; None where it fails or takes far too long."""
    command = [sys.executable, "-m", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=dict(os.environ), timeout=5 * limit + 120, check=True
        )
    except (subprocess.SubprocessError, OSError):
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else "0" if value < 5e-7 else f"{value:.3%}"


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def row(name: str, limit: float, ours: dict[str, Any] | None, highs: dict[str, Any] | None) -> str:
    o, h = ours or {}, highs or {}
    cells = [name, o.get("size", "failed"), _seconds(limit), *(_seconds(o.get(m)) for m in MARKS)]
    cells += [_amount(o.get("objective")), _amount(o.get("bound")), _share(o.get("gap")), _seconds(o.get("cpu_s"))]
    cells += [_amount(o.get("peak_mib")), _amount(h.get("objective")), _share(h.get("gap")), _seconds(h.get("wall_s"))]
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "Instance", "Size", "Limit s", "First plan s", "To 1 % s", "To proof s", "Cost", "Bound", "Gap", "CPU s", "Peak MiB",
    "HiGHS cost", "HiGHS gap", "HiGHS s",
)  # fmt: skip


LISTS_HEAD = (
    "Instance",
    "Offers",
    "Import s",
    "Compile s",
    "Pools left",
    "First plan s",
    "To proof s",
    "Compile to proof s",
)
GROWTH = [
    "",
    "## Growth",
    "",
    "Measured by the same search with 10 s for each point; the figures are in [growth.csv](growth.csv).",
    "",
    "![Time and memory against offers, workloads and load periods](growth.svg)",
]


def compile_row(name: str, ours: dict[str, Any]) -> str:
    """Times of a problem on the whole price lists."""
    cells = [name, _amount(ours["offers"]), _seconds(ours["import_s"]), _seconds(ours["compile_s"]), str(ours["pools"])]
    whole = None if ours["proof_s"] is None else ours["compile_s"] + ours["proof_s"]
    cells += [_seconds(ours["first_s"]), _seconds(ours["proof_s"]), _seconds(whole)]
    return "| " + " | ".join(cells) + " |"


def lists_part(rows: list[str], found: dict[str, Any] | None) -> list[str]:
    """The part on whole price lists: compilation, and single choices against a plain query; empty without the lists."""
    if found is None:
        return []
    lines = [
        "",
        "## Whole price lists",
        "",
        "| " + " | ".join(LISTS_HEAD) + " |",
        "|" + " --- |" * len(LISTS_HEAD),
        *rows,
    ]
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--kinds", nargs="+", default=["examples", "mixes", "portfolios", "clouds"])
    parser.add_argument("--only", help="part of the names to run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-highs", action="store_true")
    parser.add_argument("--one")
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--highs", action="store_true")
    asked = parser.parse_args()
    if asked.one:
        made = (run_highs if asked.highs else run_one)(asked.one, asked.limit, asked.threads)
        print(json.dumps(made))
        return
    lines = [
        "# Solve speed and proof",
        "",
        f"Written by `make bench` on {date.today():%Y-%m-%d}: {os.cpu_count()} cores, {asked.threads} threads each, load "
        f"{os.getloadavg()[0]:.1f} at the start. Costs in the model's own integers (cents, watts, ..). CPU s is that of kitout "
        "alone; on a busy machine it says more than the clock. Gap: (cost - bound) / cost; bounds are those of the full model.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + " --- |" * len(HEAD),
    ]
    compile_times: list[str] = []
    for name, limit in names(asked.kinds):
        if asked.only and asked.only not in name:
            continue
        ours = child(name, limit, asked.threads, highs=False)
        highs = None if asked.no_highs else child(name, limit, asked.threads, highs=True)
        lines.append(row(name, limit, ours, highs))
        print(lines[-1], file=sys.stderr, flush=True)
        if ours is not None and "compile_s" in ours:
            compile_times.append(compile_row(name, ours))
        if asked.output:
            asked.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if "clouds" in asked.kinds and not (asked.only and not compile_times):
        lines += lists_part(compile_times, choices())
    lines += GROWTH
    if asked.output:
        asked.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
