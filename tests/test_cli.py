"""The command as a user meets it: exit codes, streams, forms of output, bad input. The solver is stood in for here."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import cli
from solver.events import Event, OnEvent, SolveOptions
from solver.plan import Result, Status, StopReason
from tests.commands import SOUND, kitout
from tests.golden import sample


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Result], list[SolveOptions]]:
    """Have the search come back with a given result; gives the options that it was called with."""

    def stand_in(result: Result, faults: tuple[str, ...] = ()) -> list[SolveOptions]:
        calls: list[SolveOptions] = []

        def search(
            loaded: Any, catalog: Any, options: SolveOptions, on_event: OnEvent, stop: threading.Event
        ) -> Result:
            calls.append(options)
            on_event(Event("candidates", 0.0, candidates=7))
            on_event(Event("incumbent", 0.1, best=110.0, bound=100.0, gap=0.09))
            return result

        monkeypatch.setattr("solver.solve.solve", search)
        monkeypatch.setattr("solver.verify.verify", lambda *_: list(faults))
        return calls

    return stand_in


# --- exit codes of solve ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "arguments", "code"),
    [
        ({"status": Status.OPTIMAL, "stop_reason": StopReason.PROVED, "gap": 0.0}, (), 0),
        ({"gap": 0.004, "stop_reason": StopReason.GAP_REACHED}, (), 0),
        ({"gap": 0.008}, ("--gap", "1%"), 0),
        ({"gap": 0.008}, ("--set", "gap=1%"), 0),
        ({"gap": 0.008}, (), 4),
        ({"gap": None, "bound": None}, (), 4),
        ({"stop_reason": StopReason.INTERRUPTED}, (), 130),
    ],
)
def test_exit_code_says_how_good_the_plan_is(
    room: Path, answers: Any, change: dict[str, Any], arguments: tuple[str, ...], code: int
) -> None:
    answers(sample.mixed().model_copy(update=change))
    run = kitout("solve", "wanted.yaml", *arguments)
    assert run.exit_code == code
    assert "TOTAL" in run.stdout


def test_exit_code_of_infeasible_and_unknown(room: Path, answers: Any) -> None:
    answers(sample.infeasible())
    run = kitout("solve", "wanted.yaml")
    assert run.exit_code == 3
    assert "No plan: proved" in run.stdout
    answers(sample.unknown())
    assert kitout("solve", "wanted.yaml").exit_code == 5


def test_interrupted_before_any_plan(room: Path, answers: Any) -> None:
    answers(sample.unknown().model_copy(update={"stop_reason": StopReason.INTERRUPTED}))
    assert kitout("solve", "wanted.yaml").exit_code == 130


def test_plan_that_fails_its_recheck_is_a_bug(room: Path, answers: Any) -> None:
    answers(sample.mixed(), faults=("power exceeded",))
    run = kitout("solve", "wanted.yaml")
    assert run.exit_code == 1
    assert run.stdout == ""
    assert "power exceeded" in run.stderr


def test_bug_leaves_one_line_and_a_trace(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Result:
        raise ZeroDivisionError("of all\nthings")

    monkeypatch.setattr("solver.solve.solve", broken)
    monkeypatch.setenv("TMPDIR", str(room))
    monkeypatch.setattr("tempfile.tempdir", None)
    run = kitout("solve", "wanted.yaml")
    assert run.exit_code == 1
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    trace = Path(run.stderr.rpartition("trace saved in ")[2].strip().rstrip(")"))
    assert trace.parent == room
    assert "in broken" in trace.read_text()


# --- streams and forms ------------------------------------------------------------------------------------


def test_stdout_carries_the_answer_only(room: Path, answers: Any) -> None:
    answers(sample.mixed())
    run = kitout("solve", "wanted.yaml", "--format", "json")
    saved = json.loads(run.stdout)
    assert saved["cost"]["total"] == "1065374.80"
    assert saved["format_version"] == "1.0"
    assert Result.model_validate_json(run.stdout) == sample.mixed()
    assert "best 110" in run.stderr or "$110" in run.stderr


@pytest.mark.parametrize("silent", ["--quiet", "--no-progress"])
def test_progress_can_be_turned_off(room: Path, answers: Any, silent: str) -> None:
    answers(sample.mixed())
    assert "best" not in kitout("solve", "wanted.yaml", silent).stderr


def test_quiet_says_nothing_on_stderr(room: Path, answers: Any) -> None:
    answers(sample.mixed())
    assert kitout("solve", "wanted.yaml", "-q", "-o", "plan.json").stderr == ""


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_have_one_row_per_line_of_the_bill(room: Path, answers: Any, form: str) -> None:
    answers(sample.mixed())
    run = kitout("solve", "wanted.yaml", "-o", f"plan.{form}")
    assert run.exit_code == 4
    assert run.stdout == ""
    read = pl.read_csv if form == "csv" else pl.read_parquet
    frame = read(room / f"plan.{form}")
    assert frame["item"].to_list() == [item.item for item in sample.mixed().items]
    assert frame["total_cost"].cast(pl.Float64).sum() == pytest.approx(1065374.80)


def test_file_says_on_stderr_what_it_holds(room: Path, answers: Any) -> None:
    answers(sample.mixed())
    run = kitout("solve", "wanted.yaml", "-o", "plan.json")
    assert "plan.json: Feasible, at most 0.8% above the optimum" in run.stderr


def test_problem_from_stdin(room: Path, answers: Any) -> None:
    answers(sample.cheapest())
    run = kitout("solve", "-", "-o", "-", stdin=SOUND)
    assert run.exit_code == 0
    assert "Cheapest plan" in run.stdout


def test_options_reach_the_search(room: Path, answers: Any) -> None:
    calls = answers(sample.mixed())
    kitout("solve", "wanted.yaml", "--time-limit", "1min", "--gap", "2%", "--workers", "3", "--seed", "9")
    kitout("solve", "wanted.yaml", env={"KITOUT_SOLVE_TIME_LIMIT": "5s"})
    assert calls[0] == SolveOptions(60.0, 0.02, 3, 9, False, True)
    assert calls[1].time_limit_s == 5.0


def test_verbose_says_which_setting_won(room: Path, answers: Any) -> None:
    answers(sample.mixed())
    run = kitout("solve", "wanted.yaml", "-v", "--gap", "2%", env={"KITOUT_SOLVE_SEED": "4"})
    assert "gap          0.02  (commandline)" in run.stderr
    assert "seed         4  (environment)" in run.stderr
    assert "time_limit   -  (problem file or default)" in run.stderr


def test_language(room: Path, answers: Any) -> None:
    answers(sample.mixed())
    assert "总计" in kitout("solve", "wanted.yaml", "--lang", "zh").stdout
    assert "总计" in kitout("solve", "wanted.yaml", env={"LANG": "zh_CN.UTF-8"}).stdout
    assert "TOTAL" in kitout("solve", "wanted.yaml", "--lang", "en", env={"LANG": "zh_CN.UTF-8"}).stdout
    keys = json.loads(kitout("solve", "wanted.yaml", "--lang", "zh", "--format", "json").stdout)
    assert "total" in keys["cost"]


def test_terminal_without_utf8_gets_ascii(room: Path, answers: Any) -> None:
    answers(sample.mixed())
    run = CliRunner(charset="ascii").invoke(cli.main, ["solve", "wanted.yaml", "--lang", "zh"])
    assert run.stdout.isascii()
    assert "TOTAL" in run.stdout


def test_colour_only_where_asked(room: Path, answers: Any) -> None:
    answers(sample.mixed())
    assert "\x1b[" not in kitout("solve", "wanted.yaml").stdout
    coloured = CliRunner().invoke(cli.main, ["solve", "wanted.yaml", "--color", "always"], color=True)
    assert "\x1b[" in coloured.stdout


# --- output files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plan.docx", "cannot tell the form"),
        ("nowhere/plan.json", "its folder does not exist"),
        ("folder.json", "is a folder"),
    ],
)
def test_wrong_output_is_refused_before_the_search(room: Path, answers: Any, name: str, said: str) -> None:
    calls = answers(sample.mixed())
    (room / "folder.json").mkdir()
    run = kitout("solve", "wanted.yaml", "-o", name)
    assert run.exit_code == 2
    assert said in run.stderr
    assert not calls


def test_file_is_written_whole_or_not_at_all(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from solver.report.export import write_file

    target = room / "plan.json"
    target.write_text("old")
    target.chmod(0o640)
    write_file(target, b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_file(target, b"newer")
    assert target.read_bytes() == b"new"
    assert sorted(path.name for path in room.iterdir()) == ["plan.json", "wanted.yaml"]


def test_output_into_a_pipe_or_device(room: Path) -> None:
    from solver.report.export import write_file

    fifo = room / "pipe"
    os.mkfifo(fifo)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    write_file(fifo, b"answer")
    reader.join()
    assert got == [b"answer"]
    assert fifo.is_fifo()


# --- saved results ----------------------------------------------------------------------------------------


def test_report_shows_a_saved_result_again(room: Path) -> None:
    (room / "plan.json").write_text(sample.mixed().model_dump_json())
    run = kitout("report", "plan.json")
    assert run.exit_code == 0
    assert "$1,065,375" in run.stdout
    again = kitout("report", "-", "--format", "json", stdin=sample.mixed().model_dump_json())
    assert Result.model_validate_json(again.stdout) == sample.mixed()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "not JSON"),
        ("[]", "no format_version"),
        ('{"format_version": "9.0"}', "format 9.0"),
        ('{"format_version": "1.0"}', "Field required"),
    ],
)
def test_file_that_is_no_result(room: Path, text: str, said: str) -> None:
    (room / "plan.json").write_text(text)
    run = kitout("report", "plan.json")
    assert run.exit_code == 2
    assert said in run.stderr
    assert run.stderr.count("\n") == 1


def test_verify_accepts_refuses_and_notes_other_inputs(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (room / "plan.json").write_text(sample.mixed().model_dump_json())
    monkeypatch.setattr("solver.verify.verify", lambda *_: [])
    run = kitout("verify", "plan.json", "--problem", "wanted.yaml")
    assert run.exit_code == 0
    assert "accepted" in run.stdout
    assert "not the one that the result was made from" in run.stdout
    monkeypatch.setattr("solver.verify.verify", lambda *_: ["limits.power: 40 kW of 30 kW"])
    run = kitout("verify", "plan.json", "--problem", "wanted.yaml")
    assert run.exit_code == 3
    assert "refused: limits.power" in run.stdout


# --- bad input --------------------------------------------------------------------------------------------


def bad_files() -> Iterator[tuple[str, str, str]]:
    """Name, text, and what the one message about it must say."""
    yield "unknown key", SOUND.replace("hours:", "hourz:"), "hours"
    yield "missing unit", SOUND.replace("60h/mo", "60"), "60"
    yield "unknown kind", SOUND.replace("kind: fixed", "kind: fix"), "fixed"
    yield "unknown currency", SOUND + "currency: XYZ\n", "USD"
    yield "duplicate key", SOUND + "horizon: 3mo\n", "horizon"
    yield "tab", SOUND.replace("    kind", "\tkind"), "tab"
    yield "broken", "workloads: [\n", "bad.yaml"
    yield "empty", "", "empty"
    rate = SOUND.replace("fixed", "serve").replace("accelerator: {memory: 16GB}", "model: llama-3-70b")
    rate = rate.replace("hours: 60h/mo", "traffic: {rate: -3 req/s, isl: 10, osl: 10}")
    yield "negative rate", rate, "negative"
    yield "unknown model", rate.replace("-3 req", "3 req").replace("llama-3-70b", "lama-3-70b"), "Llama-3-70B"
    yield "unknown accelerator", SOUND.replace("{memory: 16GB}", "H101"), "H100"


@pytest.mark.parametrize("command", ["check", "solve"])
@pytest.mark.parametrize(("name", "text", "said"), [pytest.param(*case, id=case[0]) for case in bad_files()])
def test_bad_problem(room: Path, command: str, name: str, text: str, said: str) -> None:
    (room / "bad.yaml").write_text(text)
    run = kitout(command, "bad.yaml")
    assert run.exit_code == 2
    assert run.stdout == ""
    assert run.stderr.startswith("bad.yaml")
    assert said in run.stderr
    heads = [line for line in run.stderr.splitlines() if line.startswith("bad.yaml")]
    assert len(heads) == 1, run.stderr
    assert "Traceback" not in run.stderr


def test_every_fault_is_shown_with_its_place(room: Path) -> None:
    text = SOUND.replace("60h/mo", "60").replace("kind: fixed", "kind: fixed\n    colour: red") + "gap: much\n"
    (room / "bad.yaml").write_text(text)
    run = kitout("check", "bad.yaml")
    places = [line.split("  ")[0] for line in run.stderr.splitlines() if line.startswith("bad.yaml")]
    assert places == ["bad.yaml:5:5", "bad.yaml:7:12", "bad.yaml:8:6"]


def test_folder_missing_file_and_noise(room: Path) -> None:
    (room / "folder").mkdir()
    (room / "noise.yaml").write_bytes(os.urandom(1 << 20) * 50)
    for name, said in (("folder", "directory"), ("wanted.yml", "wanted.yaml"), ("noise.yaml", "noise.yaml")):
        run = kitout("check", name)
        assert run.exit_code == 2, name
        assert said in run.stderr
        assert len(run.stderr) < 1000


def test_bad_setting(room: Path) -> None:
    run = kitout("check", "wanted.yaml", "--set", "limits.powr=30kW")
    assert run.exit_code == 2
    assert "power" in run.stderr
    assert kitout("check", "wanted.yaml", "--currency", "XYZ").exit_code == 2


def test_broken_catalogue_row_names_file_and_row(room: Path) -> None:
    folder = room / "mine"
    folder.mkdir()
    (folder / "fx.csv").write_text(
        "from_currency,to_currency,rate,source,as_of,confidence\nUSD,CNY,seven,bank,2026-11,listed\n"
    )
    run = kitout("check", "wanted.yaml", "--catalog", "mine")
    assert run.exit_code == 2
    assert "fx.csv:2" in run.stderr
    assert "rate" in run.stderr
    assert kitout("catalog", "list", "--catalog", "nowhere").exit_code == 2
