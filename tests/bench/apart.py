"""Instances in processes of their own: peak memory is their own, and whoever overruns is stopped.

HiGHS looks at its clock only between steps, some of which take minutes. It runs in a process that says what it has as it
gets it; the process is stopped a while after the limit, and what was said last is what counts.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from solver.instance import Instance

ROOT = Path(__file__).parents[2]
BUILD_S = 120.0
"""For making the instance and its program [s]; HiGHS is not to blame for that, and its clock begins after it."""
GRACE_S = 30.0
"""How long HiGHS may overrun its limit [s]."""
MEMORY_BYTES = 12 * 2**30
"""A program too large for this is not tried."""


def apart(*arguments: str, limit: float) -> dict[str, Any] | None:
    """What a module prints last as JSON, in a process of its own; None where it fails or takes far too long."""
    command = [sys.executable, "-m", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=dict(os.environ), timeout=5 * limit + 120, check=True
        )
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", None)
        print(f"{' '.join(arguments)}: {said or error}", file=sys.stderr, flush=True)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def highs_apart(*arguments: str, limit: float, build: float = BUILD_S, grace: float = GRACE_S) -> dict[str, Any]:
    """What HiGHS has at the end or when it is stopped; `note` says why nothing more.

    Parameters
    ----------
    arguments
        Module whose process calls `say_highs`, and what it is given.
    limit
        Time limit of HiGHS [s].
    build, grace
        For making the program, and beyond the limit [s].
    """
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as wrong:
        started = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-m", *arguments], stdout=said, stderr=wrong, cwd=ROOT, env=dict(os.environ)
        ) as process:
            until = started + build
            begun: float | None = None
            stopped = False
            while process.poll() is None:
                if begun is None and _lines(said):
                    begun = time.monotonic()
                    until = begun + limit + grace
                if time.monotonic() > until:
                    process.kill()
                    stopped = True
                    break
                time.sleep(0.05)
        lines = _lines(said)
        state: dict[str, Any] = {"objective": None, "bound": None, "exact": None, "proved": False, "note": ""}
        for line in lines:
            state |= line
        if stopped or process.returncode != 0:
            state["wall_s"] = None if begun is None else time.monotonic() - begun
            wrong.seek(0)
            state["note"] = _note(stopped, lines, state, limit, build, grace, wrong.read())
    return state | {"gap": _gap(state["objective"], state["bound"])}


def _note(
    stopped: bool,
    lines: list[dict[str, Any]],
    state: dict[str, Any],
    limit: float,
    build: float,
    grace: float,
    wrong: str,
) -> str:
    """Why HiGHS did not end by itself."""
    if not stopped:
        return "out of memory" if "MemoryError" in wrong else f"failed: {(wrong.strip().splitlines() or ['?'])[-1]}"
    if not lines:
        return f"program not made in {build:.0f} s"
    what = "no plan" if state["objective"] is None else "no proof"
    return f"{what} in {limit:.0f} s, stopped at {limit + grace:.0f} s"


def _gap(objective: float | None, bound: float | None) -> float | None:
    if objective is None or bound is None:
        return None
    return max(0.0, objective - bound) / abs(objective) if objective else 0.0


def _lines(said: Any) -> list[dict[str, Any]]:
    """Whole lines said so far."""
    said.seek(0)
    return [json.loads(line) for line in said.read().split("\n")[:-1]]


def say_highs(inst: Instance, limit: float, threads: int) -> None:
    """Run HiGHS on the integers of an instance and print what it has, a line each time there is more."""
    from tests.oracle.highs import program_of
    from tests.oracle.highs_timed import reached

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, most))
    program = program_of(inst)
    out = os.fdopen(os.dup(1), "w")  # HiGHS's own output is kept away from the first.
    last: tuple[float | None, float | None] | None = None

    def say(**what: Any) -> None:
        print(json.dumps(what), file=out, flush=True)

    def heard(objective: float | None, bound: float | None) -> None:
        nonlocal last
        if (objective, bound) != last:
            last = objective, bound
            say(objective=objective, bound=bound)

    say(columns=len(program.upper), rows=len(program.rows))
    started, cpu = time.monotonic(), time.process_time()
    found = reached(program, limit, threads, heard)
    took = {"wall_s": time.monotonic() - started, "cpu_s": time.process_time() - cpu}
    say(objective=found.objective, bound=found.bound, exact=found.exact, proved=found.proved, **took)
