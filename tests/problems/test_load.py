"""Loading problem files: every fault has one clear message at its place, all at once, and never a traceback."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from problems.load import load_problem, load_text
from problems.schema import Batch, Finetune, Fixed, Pretrain, Problem, Serve
from problems.units import Money, Runs
from tests.problems.files import EXAMPLES, GOOD, HERE, issues_of, only, swap

# --- what loads ------------------------------------------------------------------------------------------


def test_good_file() -> None:
    loaded = load_text(GOOD, "p.yaml")
    chat = loaded.problem.workloads[0]
    assert isinstance(chat, Serve)
    assert chat.traffic.rate == 12.0
    assert chat.slo.ttft == 0.5
    assert loaded.problem.sites[0].power == 30_000
    assert loaded.problem.limits.budget.capex == Money.parse("$300k")
    assert loaded.problem.horizon == 12.0
    assert len(loaded.sha256) == 64


def test_positions_of_fields() -> None:
    loaded = load_text(GOOD, "p.yaml")
    assert loaded.where("limits.budget.capex") == "p.yaml:12:19"
    assert loaded.where("workloads.chat.traffic.rate") == "p.yaml:7:21"
    assert loaded.where("workloads[0].traffic.rate") == "p.yaml:7:21"
    assert loaded.where("workloads.0.traffic.rate") == "p.yaml:7:21"
    assert loaded.where("workloads.chat.traffic") == "p.yaml:7:5"
    assert loaded.where("workloads.chat.model") == "p.yaml:6:12"
    assert loaded.where("sites.room.power") == "p.yaml:10:25"
    assert loaded.where("limits.power") == "p.yaml:11:1"  # not given: its parent
    assert loaded.where("policy.billing") == "p.yaml"
    assert loaded.given("limits.budget")
    assert not loaded.given("limits.power")


def test_issue_for_later_checks_points_at_the_value() -> None:
    issue = load_text(GOOD, "p.yaml").issue("workloads.chat.model", 'unknown model "llama-3-70b"', "see catalog")
    assert issue.where == "p.yaml:6:12"
    assert issue.render().splitlines() == [
        "p.yaml:6:12  workloads.chat.model",
        "   6 |     model: llama-3-70b",
        '     |            ^^^^^^^^^^^ unknown model "llama-3-70b"',
        "   help: see catalog",
    ]


def test_json_with_tabs_and_escapes() -> None:
    data = {"workloads": [{"name": "\U0001f600", "kind": "fixed", "accelerator": "A/B", "hours": "always"}]}
    text = json.dumps(data, indent="\t").replace("/", "\\/")
    loaded = load_text(text, "p.json")
    work = loaded.problem.workloads[0]
    assert isinstance(work, Fixed)
    assert work.name == "\U0001f600"
    assert work.accelerator == "A/B"
    assert work.hours == 730
    assert loaded.where("workloads[0].kind") == "p.json:5:12"


def test_yaml_1_2_and_short_forms() -> None:
    text = """\
    workloads:
      - {name: a, kind: serve, model: 7, precision: int4, countries: NO, traffic: {rate: 1/s, isl: 1_000, osl: 1e2}}
      - {name: b, kind: pretrain, model: {params: 7B}, tokens: 1T, precision: fp8, runs: 2}
      - {name: c, kind: finetune, method: lora, model: {config: ./config.json}, tokens: 50M, runs: 4/mo}
      - {name: d, kind: batch, model: m, requests: 2M, isl: 8k, osl: 100}
      - {name: e, kind: fixed, accelerator: [L4, T4], cpus: 8+, ram: 32GB+, spot: yes}
    limits: {accelerators: L4, providers: [aws], vendors: {deny: intel}, countries: us}
    policy: {billing: spot, rules: {cores_per_gpu: 4, training_nvme_tb: warn}}
    """
    problem = load_text(text).problem
    a, b, c, d, e = problem.workloads
    assert isinstance(a, Serve)
    assert isinstance(b, Pretrain)
    assert isinstance(c, Finetune)
    assert isinstance(d, Batch)
    assert isinstance(e, Fixed)
    assert (a.model, a.precision, a.countries) == ("7", ("int4",), ("NO",))
    assert (a.traffic.isl, a.traffic.osl) == (1000, 100)
    assert b.runs == Runs(2.0, False)
    assert c.runs == Runs(4.0, True)
    assert (d.requests, d.isl) == (2_000_000, 8000)
    assert (e.accelerator, e.cpus, e.ram, e.spot) == (("L4", "T4"), 8, 32 * 10**9, True)
    assert problem.limits.accelerators is not None
    assert problem.limits.accelerators.allow == ("L4",)
    assert problem.limits.vendors is not None
    assert problem.limits.vendors.deny == ("intel",)
    assert problem.limits.countries == ("US",)
    assert problem.policy.billing == ("spot",)
    assert problem.policy.rules["cores_per_gpu"].value == 4
    assert problem.policy.rules["training_nvme_tb"].bought == "warn"


def test_anchors_and_merge_keys() -> None:
    text = swap("slo: {ttft: 500ms}", "slo: &fast {ttft: 500ms}") + ("owned: []\npolicy: {}\n")
    text = text.replace(
        "sites:\n",
        "  - name: more\n    kind: serve\n    model: m\n    traffic: {rate: 1/s, isl: 1, osl: 1}\n"
        "    slo: {<<: *fast, tpot: 50ms, ttft: 1s}\nsites:\n",
    )
    loaded = load_text(text, "p.yaml")
    more = loaded.problem.workloads[1]
    assert isinstance(more, Serve)
    assert (more.slo.ttft, more.slo.tpot) == (1.0, 0.05)


def test_empty_keys_are_not_given() -> None:
    loaded = load_text(swap("slo: {ttft: 500ms}", "slo:") + "policy:\nowned:\n")
    assert loaded.problem.policy == Problem.model_fields["policy"].default
    assert isinstance(loaded.problem.workloads[0], Serve)
    assert loaded.problem.workloads[0].slo.ttft is None


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    loaded = load_problem("-")
    assert loaded.where("limits.budget.capex") == "<stdin>:12:19"
    assert loaded.base_dir == Path()


def test_file_and_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "聊天.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    loaded = load_problem(file)
    assert loaded.where("limits.budget.capex") == f"{file}:12:19"
    assert loaded.base_dir == tmp_path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_load_and_survive_saving(path: Path) -> None:
    problem = load_problem(path).problem
    assert problem.name == path.stem
    assert Problem.model_validate_json(problem.model_dump_json()) == problem
    assert load_text(problem.model_dump_json(), "saved.json").problem == problem


def test_all_seven_examples_are_there() -> None:
    assert {p.stem for p in EXAMPLES} >= {
        "lora-70b",
        "pretrain-175b",
        "chat-70b-int4",
        "small-office",
        "experiments",
        "sovereign-cn",
        "power-capped-room",
    }


# --- one message for each fault, at its place ------------------------------------------------------------

FAULTS: list[tuple[str, str, str, str, str]] = [
    # old, new, place, field, words
    ("slo:", "solo:", "8:5", "workloads.chat.solo", "did you mean slo?"),
    ("12 req/s", "12", "7:21", "workloads.chat.traffic.rate", "12 has no unit"),
    ("12 req/s", "-12 req/s", "7:21", "workloads.chat.traffic.rate", "must not be negative"),
    ("12 req/s", "0 req/s", "7:21", "workloads.chat.traffic.rate", "must be greater than 0"),
    ("500ms", "-5ms", "8:17", "workloads.chat.slo.ttft", "must not be negative"),
    ("$300k", "300k CHF", "12:19", "limits.budget.capex", 'unknown currency "CHF"'),
    ("$300k", "300", "12:19", "limits.budget.capex", "has no currency"),
    ("name: x", "currency: USB", "1:11", "currency", 'unknown currency "USB"; did you mean USD?'),
    ("name: x", "objective: cheap", "1:12", "objective", 'unknown objective "cheap"'),
    ("horizon", "name", "2:1", "", 'duplicate key "name"'),
    ("isl: 1000", "isl: 1000, isl: 5", "7:42", "", 'duplicate key "isl"'),
    ("    model", "\tmodel", "6:1", "", "a tab where YAML needs spaces"),
    ("kind: serve", "kind: server", "5:11", "workloads.chat.kind", 'unknown kind "server"; did you mean serve?'),
    ("kind: serve", "kind: [serve]", "5:5", "workloads.chat.kind", "a single word"),
    ("    kind: serve\n", "", "4:5", "workloads.chat", 'missing required key "kind"'),
    ("    kind: serve\n", "    kind:\n", "5:5", "workloads.chat", "kind"),
    ("rate: 12 req/s", "rate: 1/s, concurrency: 5", "7:5", "workloads.chat.traffic", "exactly one of"),
    ("rate: 12 req/s, ", "", "7:5", "workloads.chat.traffic", "given: none"),
    ("isl: 1000, ", "", "7:5", "workloads.chat.traffic", "give both isl and osl"),
    ("isl: 1000, osl: 300", "sizes: [{isl: 1, osl: 1, share: 50%}]", "7:5", "workloads.chat.traffic", "50%"),
    ("    model: llama-3-70b\n", "", "4:5", "workloads.chat", "give a model"),
    ("llama-3-70b", "{params: -3}", "6:21", "workloads.chat.model.params", "must not be negative"),
    ("llama-3-70b", "{size: 7B}", "6:5", "workloads.chat.model", "{params: 175B}"),
    ("llama-3-70b", "[a]", "6:5", "workloads.chat.model", "must be the name of a model"),
    ("    model", "    isl: 5\n    model", "6:5", "workloads.chat.isl", 'unknown key "isl" here'),
    ("    model", "    precision: int5\n    model", "6:16", "workloads.chat.precision", "did you mean int8?"),
    ("500ms", "yes", "8:17", "workloads.chat.slo.ttft", "cannot read"),
    ("30kW", "30", "10:25", "sites.room.power", "30 has no unit"),
    ("30kW", ".nan", "10:25", "sites.room.power", "finite"),
    ("power: 30kW", "pue: 0.5", "10:23", "sites.room.pue", "must be at least 1"),
    ("power: 30kW", "pue: true", "10:23", "sites.room.pue", "not true"),
    ("power: 30kW", "country: USA", "10:27", "sites.room.country", "did you mean US?"),
    ("power: 30kW", "country: EU", "10:27", "sites.room.country", "EU is no country"),
    ("name: room", "name: ro.om", "10:12", "sites[0].name", "without spaces, dots"),
    ("name: room", "name: ''", "10:12", "sites[0].name", "must not be empty"),
    ("name: x", "gap: 5", "1:6", "gap", "must be at most 1"),
    ("name: x", "time_limit: 60", "1:13", "time_limit", "has no unit"),
    ("name: x", "policy: {billing: spots}", "1:19", "policy.billing", "did you mean spot?"),
    ("name: x", "policy: {rules: {foo: 1}}", "1:18", "policy.rules.foo", 'unknown key "foo"'),
    ("name: x", "policy: {rules: {cores_per_gpu: maybe}}", "1:33", "policy.rules.cores_per_gpu", "hard, warn, off"),
    ("name: x", "policy: 5", "1:9", "policy", "must be a mapping"),
    ("name: x", "owned: {}", "1:1", "owned", "must be a list"),
    ("name: x", "owned: [{accelerator: A, count: 1, site: rom}]", "1:42", "owned[0].site", "unknown site rom"),
    (
        "  - {name: room, power: 30kW}",
        "  - {name: r}\n  - {name: r}",
        "11:12",
        "sites.r.name",
        "two sites are called r",
    ),
    ("llama-3-70b", "!foo bar", "6:12", "", 'YAML tag "!foo"'),
    ("llama-3-70b", "*nope", "6:12", "", "no anchor of this name"),
    ("llama-3-70b", "&a [*a]", "6:16", "", "an alias inside"),
    ("name: x", "name: 'x", "1:7", "", "the text ends inside quotes"),
    ("name: x", "{{ name }}: x", "1:1", "", "a key must be a name"),
    ("name: x", "name: x\x07", "1:8", "", "U+0007"),
    ("name: x", "name: @x", "1:7", "", "cannot start with this character"),
    ("name: x", "name: a: b", "1:8", "", "unexpected ':'"),
    ("limits:", "---\nlimits:", "11:1", "", "second YAML document"),
    ("isl: 1000, osl: 300}", "isl: 1000, osl: 300", "8:8", "", "the { is not closed"),
]


@pytest.mark.parametrize(("old", "new", "place", "field", "words"), FAULTS, ids=lambda v: str(v)[:24])
def test_one_message_at_its_place(old: str, new: str, place: str, field: str, words: str) -> None:
    issue = only(swap(old, new))
    assert words in issue.message
    assert (issue.where, issue.field) == (f"p.yaml:{place}", field)
    shown = issue.render()
    assert words in shown
    assert "^" in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("  \n\n", "is empty"),
        ("# a comment\n", "only comments"),
        ("---\n...\n", "only comments"),
        ("- a\n- b\n", "a list at the top"),
        ("hello", "a single value at the top"),
        ("workloads: []\n", "at least 1 item"),
        ("workloads:\n", "is empty"),
        ("workloads: {a: 1}\n", "must be a list"),
        ("name: x\n", 'missing required key "workloads"'),
        ("[" * 100_000, "nested more than"),
        ("{a: " * 5_000, "nested more than"),
        ("a: &a [b, c]\n" * 2, "duplicate key"),
        ("kind：serve\nb: 2\n", "invalid YAML"),
    ],
    ids=lambda v: v[:20],
)
def test_whole_files(text: str, words: str) -> None:
    assert any(words in i.message for i in issues_of(text))


def test_full_width_colon_is_named() -> None:
    assert "'：'" in only("kind：serve\nb: 2\n").help


def test_alias_bomb_is_refused() -> None:
    levels = "abcdefghij"
    text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in itertools.pairwise(levels)
    )
    assert "aliases counted in full" in only(text).message


def test_all_errors_at_once_in_order_of_the_file() -> None:
    text = (
        GOOD.replace("12 req/s", "12")
        .replace("slo:", "solo:")
        .replace("30kW", "30")
        .replace("$300k", "300")
        .replace("horizon", "name")
        .replace("isl: 1000, ", "")
    )
    found = issues_of(text)
    assert [(i.line, i.field) for i in found] == [
        (2, ""),
        (7, "workloads.chat.traffic"),
        (7, "workloads.chat.traffic.rate"),
        (8, "workloads.chat.solo"),
        (10, "sites.room.power"),
        (12, "limits.budget.capex"),
    ]


def test_missing_key_gives_an_example() -> None:
    issue = only("workloads:\n  - {name: a, kind: pretrain, model: m}\n")
    assert (issue.where, issue.field) == ("p.yaml:2:5", "workloads.a.tokens")
    assert "tokens: 50M" in issue.help


def test_many_errors_are_cut() -> None:
    found = issues_of("".join(f"k{i}: 1\n" for i in range(3000)))
    assert len(found) == 101
    assert "2,901 more errors" in found[-1].message


def test_caret_stands_under_wide_characters_and_long_lines() -> None:
    lines = only(swap("name: room, power: 30kW", "name: 机房, power: 30")).render().splitlines()
    assert lines[1] == "  10 |   - {name: 机房, power: 30}"
    assert lines[2].index("^") == lines[1].index("30}") + 2  # two characters that take two columns each
    long = only(swap("name: room", f"name: {'r' * 300}, pou: 1"))
    assert all(len(line) < 200 for line in long.render().splitlines()[1:3])
    assert "pou" in long.render().splitlines()[1]


def test_loading_stays_light() -> None:
    code = (
        "import sys, problems.load, problems.template\n"
        "heavy = {'polars', 'ortools', 'dataframely', 'numpy', 'pandas'} & {m.split('.')[0] for m in sys.modules}\n"
        "assert not heavy, heavy\n"
    )
    root = HERE.parent.parent
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})


def test_defaults_made_without_validation_are_sound() -> None:
    seen, todo = set(), [Problem, Serve, Batch, Finetune, Pretrain, Fixed]
    while todo:
        model = todo.pop()
        for name, field in model.model_fields.items():
            if isinstance(field.default, BaseModel) and (model, name) not in seen:
                seen.add((model, name))
                todo.append(type(field.default))
                assert field.default == type(field.default)()
    assert {(Problem, "limits"), (Problem, "policy"), (Serve, "slo")} <= seen
