"""The `tco:` block of a problem file: short forms, and every wrong entry refused at its place with what to write."""

from __future__ import annotations

import pytest

from problems.load import ProblemError, load_text
from problems.schema import Problem
from problems.tco import Tco

HEAD = "workloads: [{name: lab, kind: fixed, accelerator: {memory: 16GB}, count: 1}]\ntco: "


def tco(text: str) -> Tco:
    return load_text(HEAD + text + "\n").problem.tco


def test_nothing_given_adds_nothing() -> None:
    plain = load_text(HEAD.partition("tco")[0]).problem
    assert plain.tco == Tco()
    assert plain.tco.depreciation == "cash"
    assert sum(plain.tco.surcharges("aws").values()) == 0


def test_one_value_stands_for_every_class_of_parts() -> None:
    assert tco("{life: 5y}").life.network == 60
    assert tco("{residual: 10%}").residual.storage == pytest.approx(0.1)
    assert tco("{maintenance: {network: 5%}}").maintenance.server is None
    assert tco("{tax: 20%}").tax.rental == pytest.approx(0.2)


def test_a_saved_problem_reads_back_as_the_same() -> None:
    problem = load_text(
        HEAD
        + "{life: {server: 4y}, spares: {parts: 3%, nodes: 1, node_share: 5%}, financing: {upfront: 30%, rate: 6%},"
        " staff: {salary: $120k/yr, persons: 0.25}, providers: {any: {support: 10%, fee: $1k/mo}}}\n"
    ).problem
    assert Problem.model_validate_json(problem.model_dump_json()) == problem


def test_surcharges_stand_on_one_another() -> None:
    # 1 / 0.96 = 1.041667; 10 % of it is 0.104167; 5 % of 1.145833 is 0.057292.
    terms = tco("{providers: {AWS: {goodput: 96%, support: 10%}, any: {support: 1%}}, tax: {rental: 5%}}")
    assert terms.surcharges("aws") == pytest.approx(
        {"goodput": 0.041667, "support": 0.104167, "tax": 0.057292}, abs=1e-6
    )
    assert terms.surcharges("gcp") == pytest.approx({"goodput": 0.0, "support": 0.01, "tax": 0.0505})


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("{depreciation: linear}", "tco.depreciation", "allowed: cash, straight_line, annuity"),
        ("{life: 5}", "tco.life", "has no unit"),
        ("{life: {servers: 5y}}", "tco.life.servers", "did you mean"),
        ("{residual: 120%}", "tco.residual", "at most"),
        ("{spares: {nodes: -1}}", "tco.spares.nodes", "0"),
        ("{staff: {salary: $120k/yr}}", "tco.staff", "persons, per_node or both"),
        ("{staff: {salary: $10k/mo, persons: 1}}", "tco.staff.salary", "/yr"),
        ("{providers: {aws: {goodput: 0%}}}", "tco.providers.aws.goodput", "greater than 0"),
        ("{financing: {rate: 6%}}", "tco.financing.upfront", "missing required key"),
        ("{tax: {purchases: 8%}}", "tco.tax.purchases", "did you mean"),
    ],
)
def test_a_wrong_entry_is_refused_where_it_stands(text: str, field: str, said: str) -> None:
    with pytest.raises(ProblemError) as caught:
        tco(text)
    message = str(caught.value)
    assert field in message
    assert said in message
