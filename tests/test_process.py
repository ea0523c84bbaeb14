"""What only a process of its own shows: signals, pipes, imports, packages that carry our names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cli

ROOT = Path(cli.__file__).parent
KITOUT = Path(sys.executable).with_name("kitout")

# A search that goes on until it is told to stop, and (if stubborn) well beyond.
SEARCH = """
import sys, time
import cli, solver.solve, solver.verify
from solver.plan import StopReason
from tests.golden import sample
def search(loaded, catalog, options, on_event, stop):
    print("ready", file=sys.stderr, flush=True)
    stop.wait(60)
    print("stopping", file=sys.stderr, flush=True)
    time.sleep(60 if {stubborn} else 0)
    return sample.mixed().model_copy(update=dict(stop_reason=StopReason.INTERRUPTED))
solver.solve.solve = search
solver.verify.verify = lambda *_: []
cli.main(["solve", "problems/experiments.yaml", "--no-progress", *sys.argv[1:]])
"""


def searching(stubborn: bool, *arguments: str) -> subprocess.Popen[str]:
    """Start a search in a process of its own and wait until it is under way."""
    code = SEARCH.format(stubborn=stubborn)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    return process


def test_first_interrupt_stops_and_reports_the_best_plan(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    process = searching(False, "-o", str(target))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert '"stop_reason": "interrupted"' in target.read_text()


def test_interrupt_while_the_solver_itself_runs(tmp_path: Path) -> None:
    """The solver must leave the signal to us: a plan found so far is kept, or the search was over already."""
    target = tmp_path / "plan.json"
    command = [KITOUT, "solve", ROOT / "problems" / "lora-70b.yaml", "--gap", "0%", "-o", target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if " best " in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode in (0, 130), err
    assert out == ""
    assert '"total"' in target.read_text()


def test_second_interrupt_aborts() -> None:
    process = searching(True)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline() == "stopping\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert err.strip() == "Aborted."


def test_reader_that_goes_away_is_no_error() -> None:
    command = [KITOUT, "catalog", "list", "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 0


def modules_after(*arguments: str) -> set[str]:
    """Top-level modules that a command has imported by its end."""
    code = (
        "import sys, cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "finally: print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stderr.splitlines()[-1].split())


def test_help_imports_nothing_heavy() -> None:
    assert not modules_after("--help") & {"ortools", "polars", "pydantic", "rich", "ruamel", "dataframely"}


@pytest.mark.parametrize("command", [("check", "problems/experiments.yaml"), ("catalog", "list"), ("schema", "result")])
def test_only_solve_imports_the_solver(command: tuple[str, ...]) -> None:
    assert not modules_after(*command) & {"ortools", "altair", "highspy", "dask"}


@pytest.mark.parametrize("problem", ["lora-70b", "growing-chat", "small-office"])
def test_check_imports_no_frames_and_no_results(problem: str) -> None:
    heavy = {"polars", "dataframely", "ortools", "numpy", "joblib", "rich"}
    assert not modules_after("check", f"problems/{problem}.yaml") & heavy


@pytest.fixture
def decoys(tmp_path: Path) -> Path:
    """A folder whose modules carry the names of ours and fail when imported."""
    for name in ("solver", "catalogs", "problems"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('decoy imported')")
    (tmp_path / "cli.py").write_text("raise SystemExit('decoy imported')")
    (tmp_path / "wanted.yaml").write_text((ROOT / "problems" / "experiments.yaml").read_text())
    return tmp_path


def clean_environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more


def test_runs_in_a_folder_of_decoys(decoys: Path) -> None:
    run = subprocess.run(
        [KITOUT, "check", "wanted.yaml"], cwd=decoys, capture_output=True, text=True, env=clean_environment()
    )
    assert run.returncode == 0, run.stderr
    assert "no faults" in run.stdout


@pytest.mark.parametrize("name", ["solver", "catalogs", "problems"])
def test_shadowed_package_is_named(decoys: Path, name: str) -> None:
    for other in {"solver", "catalogs", "problems"} - {name}:
        (decoys / other / "__init__.py").unlink()
        (decoys / other).rmdir()
    (decoys / "cli.py").unlink()
    run = subprocess.run(
        [KITOUT, "check", "wanted.yaml"],
        cwd=decoys,
        capture_output=True,
        text=True,
        env=clean_environment(PYTHONPATH=str(decoys)),
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert f"{name!r} is shadowed by {decoys / name}" in run.stderr
