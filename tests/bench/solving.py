"""How long plans and proofs take: `python -m tests.bench.solving -o docs/bench.md` writes the table kept in the docs.

Every instance runs in a process of its own, so that peak memory is its own. HiGHS gets the same integers, time limit and threads;
exit code 1 where its proof or bound contradicts ours. In parts: `--rows FILE --kinds mixes --new` as often as need be, then
`--rows FILE --kinds -o docs/bench.md`.
Instances: the examples, GPU mixes (generated ones; reference files too where KITOUT_SHARED or ../shared has them), portfolios, and
problems on every offer of the shared price lists where they are at hand.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from solver.instance import Instance
from tests.bench.apart import GRACE_S, ROOT, apart, highs_apart, say_highs
from tests.bench.clouds import CLOUDS, choices, compiled, price_lists, shared
from tests.bench.page import agreement, disagreements, page, read_rows, row_line

PORTFOLIOS = {
    "4x3x150": (4, 3, 150, 10),
    "5x12x150": (5, 12, 150, 60),
    "5x6x500": (5, 6, 500, 30),
    "8x12x2000": (8, 12, 2000, 120),
}
MIXES = {"mix 4 types x 20 sizes": (4, 20), "mix 12 types x 40 sizes": (12, 40), "mix 40 types x 60 sizes": (40, 60)}
KINDS = ["examples", "mixes", "portfolios", "clouds"]
CHOICES = "single choices"


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
    from solver.least import least
    from solver.search_state import How

    log: list[tuple[float, float | None, float | None]] = []
    started, cpu = time.monotonic(), time.process_time()

    def note(best: float | None, bound: float | None) -> None:
        log.append((time.monotonic() - started, best, bound))

    # As a user's search goes: CP-SAT alone has the workers that the machine's cores call for.
    mixed = has_mixes(inst) and linear(inst) is not None
    found = least(inst, How(limit, 0.0, threads if mixed else 0, 1, on_progress=note), patience=1.0).found
    wall = time.monotonic() - started
    bound = found.bound
    near = [t for t, best, _ in log if best is not None and bound is not None and best <= bound * 1.01]
    five = [t for t, best, low in log if best is not None and low is not None and best - low <= 0.05 * abs(best)]
    return {
        "size": f"{len(inst.pools)} pools, {len(inst.replicas)} kinds, {len(inst.periods)} periods",
        "status": str(found.status),
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


def measured(name: str, limit: float, threads: int, highs: bool, grace: float) -> dict[str, Any]:
    """An instance searched, and given to HiGHS, each in a process of its own."""
    load = os.getloadavg()[0]
    arguments = ("tests.bench.solving", "--one", name, "--limit", str(limit), "--threads", str(threads))
    ours = apart(*arguments, limit=limit)
    other = highs_apart(*arguments, "--highs", limit=limit, grace=grace) if highs else None
    about = {"day": f"{date.today():%Y-%m-%d}", "cores": os.cpu_count(), "threads": threads, "load": load}
    return {"name": name, "limit": limit, "ours": ours, "highs": other, **about}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, help="write the page there, with all rows of --rows")
    parser.add_argument("--rows", type=Path, help="file of JSON lines that rows are added to (default: a new one)")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS, help="none: only write the page")
    parser.add_argument("--only", help="part of the names to run")
    parser.add_argument("--new", action="store_true", help="leave out what has a row already")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-highs", action="store_true")
    parser.add_argument("--grace", type=float, default=GRACE_S, help="HiGHS is stopped so long after its limit [s]")
    parser.add_argument("--one")
    parser.add_argument("--limit", type=float, help="of each instance [s] (default: its own)")
    parser.add_argument("--highs", action="store_true")
    asked = parser.parse_args()
    if asked.one:
        if asked.highs:
            say_highs(instance(asked.one), asked.limit, asked.threads)
        else:
            print(json.dumps(run_one(asked.one, asked.limit, asked.threads)))
        return 0
    kept = asked.rows or Path(tempfile.mkdtemp()) / "rows.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)

    def keep(row: dict[str, Any]) -> None:
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    for name, limit in names(asked.kinds):
        if (asked.only and asked.only not in name) or (asked.new and name in read_rows(kept)):
            continue
        row = measured(name, asked.limit or limit, asked.threads, not asked.no_highs, asked.grace)
        keep(row)
        print(row_line(row), file=sys.stderr, flush=True)
    if "clouds" in asked.kinds and not asked.only and not (asked.new and CHOICES in read_rows(kept)):
        found = choices()
        if found is not None:
            keep({"name": CHOICES, **found})
    rows = read_rows(kept)
    single = rows.pop(CHOICES, None)
    # In the order of the page; rows of instances that are not at hand here stand last.
    order = {name: at for at, (name, _) in enumerate(names(KINDS))}
    listed = sorted(rows.values(), key=lambda row: order.get(row["name"], len(order)))
    if asked.output:
        asked.output.write_text(page(listed, single), encoding="utf-8")
    wrong = [f"{r['name']}: {said}" for r in listed for said in disagreements(r["ours"], r["highs"])]
    failed = [f"{r['name']}: failed" for r in listed if r["ours"] is None]
    print("\n".join([agreement(listed), *wrong, *failed]), file=sys.stderr, flush=True)
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
