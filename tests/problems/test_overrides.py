"""Overrides by path, and noise of every kind: nothing but ProblemError ever comes out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.load import ProblemError, load_text
from problems.schema import Batch, Finetune, Fixed, Problem, Serve
from tests.problems.files import EXAMPLES, GOOD, only, swap

# --- overrides -------------------------------------------------------------------------------------------


def test_overrides_by_name() -> None:
    plain = load_text(GOOD, "p.yaml")
    loaded = load_text(
        GOOD,
        "p.yaml",
        [
            "limits.power=35kW",
            "sites.room.power = 40kW",
            "workloads.chat.traffic.rate=3 req/s",
            "workloads.*.traffic.isl=2k",
            "limits.countries=[US, DE]",
            "limits.budget.monthly=null",
            "policy.rules.cores_per_gpu=4",
            "name='y: z'",
        ],
    )
    problem = loaded.problem
    assert isinstance(problem.workloads[0], Serve)
    assert problem.limits.power == 35_000
    assert problem.sites[0].power == 40_000
    assert (problem.workloads[0].traffic.rate, problem.workloads[0].traffic.isl) == (3.0, 2000)
    assert problem.limits.countries == ("US", "DE")
    assert problem.limits.budget.monthly is None
    assert problem.policy.rules["cores_per_gpu"].value == 4
    assert problem.name == "y: z"
    assert loaded.where("limits.power") == "--set limits.power=35kW"
    assert loaded.where("limits.budget.capex") == "p.yaml:12:19"
    assert loaded.sha256 != plain.sha256


def test_override_replaces_the_other_measure_of_traffic() -> None:
    loaded = load_text(GOOD, "p.yaml", ["workloads.chat.traffic.concurrency=100"])
    assert isinstance(loaded.problem.workloads[0], Serve)
    traffic = loaded.problem.workloads[0].traffic
    assert (traffic.concurrency, traffic.rate) == (100, None)
    both = ["workloads.chat.traffic.concurrency=100", "workloads.chat.traffic.rate=1/s"]
    assert "exactly one of" in only(GOOD, *both).message


def test_star_skips_what_has_no_such_part() -> None:
    text = swap("sites:", "  - {name: lab, kind: fixed, accelerator: T4}\nsites:")
    loaded = load_text(text, "p.yaml", ["workloads.*.traffic.osl=50"])
    assert isinstance(loaded.problem.workloads[0], Serve)
    assert loaded.problem.workloads[0].traffic.osl == 50


def test_overrides_alone_make_a_problem() -> None:
    loaded = load_text("", "p.yaml", ["workloads=[{name: a, kind: fixed, accelerator: T4}]"])
    assert loaded.problem.workloads[0].name == "a"


@pytest.mark.parametrize(
    ("override", "field", "words"),
    [
        ("limits.power=30", "limits.power", "30 has no unit"),
        ("limits.pwer=30kW", "limits.pwer", "did you mean power?"),
        ("sites.rom.power=30kW", "sites.rom", 'no item "rom"'),
        ("workloads.*.trafic.rate=1/s", "workloads.*.trafic.rate", "nothing in the problem"),
        ("name.x=1", "name.x", "is a single value"),
        ("limits.power", "", "must be path=value"),
        ("limits.power=", "", "must be path=value"),
        ("=3", "", "must be path=value"),
        ("limits.countries=[US", "", "invalid YAML"),
        ("limits.countries=[US, XX]", "limits.countries[1]", 'unknown country "XX"'),
        ("workloads[7].name=a", "workloads.7", 'no item "7"'),
        ("", "", "must be path=value"),
    ],
)
def test_faults_of_overrides_name_the_override(override: str, field: str, words: str) -> None:
    issue = only(GOOD, override)
    assert words in issue.message
    assert (issue.path, issue.line, issue.field) == (f"--set {override}", None, field)
    assert issue.render().startswith(f"--set {override}")


# --- nothing but ProblemError ever comes out -------------------------------------------------------------

yamlish = st.text(alphabet="abkw:- {}[],&*#!|>'\"%@\n\t0159.~?<=é机：", max_size=60)


def loads_or_refuses(text: str, *overrides: str) -> None:
    try:
        loaded = load_text(text, "p.yaml", overrides)
    except ProblemError as error:
        found, shown = error.issues, error.render()
    else:
        found, shown = (), loaded.where("limits.power")
    assert shown
    for issue in found:
        assert issue.message
        assert "\n" not in issue.message
        assert issue.line is None or issue.line >= 1


@given(text=st.one_of(yamlish, st.text(max_size=60)))
@settings(max_examples=300, deadline=None)
def test_random_text(text: str) -> None:
    loads_or_refuses(text)


@given(
    base=st.sampled_from([path.read_text(encoding="utf-8") for path in EXAMPLES] + [GOOD]),
    cut=st.floats(0, 1),
    drop=st.integers(0, 12),
    insert=st.one_of(yamlish, st.sampled_from(["null", "[]", "{}", "-1", "true", ".nan", "1e999", "&a *a", "\n"])),
)
@settings(max_examples=300, deadline=None)
def test_mutated_files(base: str, cut: float, drop: int, insert: str) -> None:
    at = int(cut * len(base))
    loads_or_refuses(base[:at] + insert + base[at + drop :])


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["serve", "fixed", "3kW", "$5", "5/s", "a", "80GB", "int4", "H100"]),
)
KEYS = sorted(
    {"kind", "name", "model", "config", "memory", "allow"}
    | {field for model in (Problem, Serve, Fixed, Batch, Finetune) for field in model.model_fields}
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)),
    max_leaves=15,
)


@given(tree=st.dictionaries(st.sampled_from(KEYS), trees, max_size=5))
@settings(max_examples=300, deadline=None)
def test_right_keys_with_wrong_values(tree: dict[str, object]) -> None:
    loads_or_refuses(json.dumps(tree))
    good = json.loads(json.dumps(load_text(GOOD).tree.plain()))
    loads_or_refuses(json.dumps({**good, **tree}))
    good["workloads"][0].update(tree)
    loads_or_refuses(json.dumps(good))


@given(
    path=st.one_of(st.text(max_size=20), st.lists(st.sampled_from([*KEYS, "*", "chat", "room", "0"])).map(".".join)),
    value=st.one_of(yamlish, st.text(max_size=20)),
)
@settings(max_examples=300, deadline=None)
def test_random_overrides(path: str, value: str) -> None:
    loads_or_refuses(GOOD, f"{path}={value}")
