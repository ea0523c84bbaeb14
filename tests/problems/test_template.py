"""`kitout init`: the file it writes loads, says what was asked for, and stays a file that people can edit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.issues import Source
from problems.load import load_text
from problems.schema import AcceleratorNeed, BareModel, Batch, ConfigModel, Finetune, Fixed, Pretrain, Serve
from problems.template import QUESTIONS, TASKS, TemplateError, check_answer, quoted, write_template
from problems.tree import parse_tree
from problems.units import Money, MoneyPerMonth, Runs, UnitError


@pytest.mark.parametrize("task", TASKS)
def test_every_task_loads_without_answers(task: str) -> None:
    text = write_template(task)
    problem = load_text(text).problem
    assert problem.workloads[0].kind == task
    assert text.count("#") > 15


@pytest.mark.parametrize("task", TASKS)
def test_commented_parts_load_when_uncommented(task: str) -> None:
    text = write_template(task)
    head, _, tail = text.partition("workloads:")
    opened = re.sub(r"^( *)# (?! )", r"\1", tail, flags=re.M)
    opened = re.sub(r"^#(?=   )", " ", opened, flags=re.M).replace("An own room,", "# An own room,")
    opened = re.sub(r"^   (?=  )|^   (?=\w|- )", "  ", opened, flags=re.M)
    problem = load_text(head + "workloads:" + opened).problem
    assert problem.sites[0].power == 30_000
    assert problem.limits.power == 30_000
    assert problem.limits.countries == ("US", "DE")
    assert problem.policy.billing == ("on_demand", "reserved")


def test_answers_arrive() -> None:
    text = write_template(
        "serve",
        model="qwen2.5-72b",
        rate="100",
        months=36,
        budget="35万元/月",
        region="cn",
        compliance=["gb-mlps3", "iso27001"],
    )
    problem = load_text(text).problem
    work = problem.workloads[0]
    assert isinstance(work, Serve)
    assert (work.model, work.traffic.concurrency) == ("qwen2.5-72b", 100)
    assert (problem.horizon, problem.currency) == (36, "CNY")
    assert problem.limits.budget.monthly == MoneyPerMonth.parse("35万元/月")
    assert problem.limits.countries == ("CN",)
    assert problem.limits.compliance == ("gb-mlps3", "iso27001")


def test_answers_of_the_other_tasks_arrive() -> None:
    tune = load_text(write_template("finetune", model="./my/config.json", rate="3")).problem.workloads[0]
    assert isinstance(tune, Finetune)
    assert tune.runs == Runs(3, False)
    assert tune.model == ConfigModel(config="./my/config.json")
    train = load_text(write_template("pretrain", model="175B", rate="300B", months="5wk")).problem.workloads[0]
    assert isinstance(train, Pretrain)
    assert train.tokens == 300 * 10**9
    assert train.deadline == 5 * 7 * 24 * 3600
    assert train.model == BareModel.model_validate({"params": "175B"})
    batch = load_text(write_template("batch", rate="2M/mo")).problem.workloads[0]
    assert isinstance(batch, Batch)
    assert (batch.requests, batch.runs) == (2_000_000, Runs(1, True))
    lab = load_text(write_template("experiments", model="24GB", rate="always")).problem.workloads[0]
    assert isinstance(lab, Fixed)
    assert lab.accelerator == AcceleratorNeed.model_validate({"memory": "24GB"})
    assert lab.hours == 730
    cards = load_text(write_template("fixed", model="RTX 4090, L4", budget="$5k", region="us-east-1")).problem
    assert isinstance(cards.workloads[0], Fixed)
    assert cards.workloads[0].accelerator == ("RTX 4090", "L4")
    assert cards.limits.budget.total == Money.parse("$5k")
    assert cards.limits.regions is not None
    assert cards.limits.regions.allow == ("us-east-1",)


def test_all_wrong_answers_are_named_at_once() -> None:
    with pytest.raises(TemplateError) as caught:
        write_template("serve", rate="-5 req/s", months="0", budget="300", region="USA", compliance=",")
    assert set(caught.value.errors) == {"rate", "months", "budget", "region", "compliance"}
    assert "must not be negative" in caught.value.errors["rate"]
    assert "has no currency" in caught.value.errors["budget"]
    assert "did you mean US?" in caught.value.errors["region"]


@pytest.mark.parametrize(
    ("task", "answers", "name"),
    [
        ("dance", {}, "task"),
        ("serve", {"rate": "5"}, None),
        ("serve", {"rate": "0"}, "rate"),
        ("fixed", {"rate": "60"}, "rate"),
        ("batch", {"rate": "3/wk"}, "rate"),
        ("pretrain", {"rate": "0"}, "rate"),
        ("finetune", {"rate": "2.5"}, "rate"),
        ("serve", {"model": "a\nkind: fixed"}, "model"),
        ("serve", {"budget": "300k CHF"}, "budget"),
        ("serve", {"months": "12 parsecs"}, "months"),
    ],
)
def test_single_answers(task: str, answers: dict[str, str], name: str | None) -> None:
    if name is None:
        assert write_template(task, **answers)
        return
    with pytest.raises(TemplateError) as caught:
        write_template(task, **answers)
    assert set(caught.value.errors) == {name}


def test_the_four_questions_and_their_defaults() -> None:
    assert list(dict.fromkeys(q.topic for q in QUESTIONS)) == ["what", "how big", "how long", "how sensitive"]
    for task in TASKS:
        for question in QUESTIONS:
            assert question.ask(task).endswith((")", "?"))
            default = question.default_for(task)
            if default is not None:
                check_answer(question.key, default, task)
        write_template(task, **{q.key: q.default_for(task) for q in QUESTIONS if q.key != "task"})
    with pytest.raises(UnitError):
        check_answer("region", "USA")


names = st.text(min_size=1, max_size=25)


@given(
    text=st.one_of(names, st.sampled_from(["true", "1e5", "~", "- a", "a: b", "#x", "a #b", "*a", "70B", '"', "聊天"]))
)
@settings(max_examples=300, deadline=None)
def test_quoted_text_reads_back(text: str) -> None:
    if not all(c.isprintable() for c in text):
        return
    source = Source("x", (quoted(text),))
    for line in (f"a: {quoted(text)}", f"a: [{quoted(text)}]", f"a: {{b: {quoted(text)}}}"):
        root = parse_tree(line, source, [])
        assert root is not None
        assert root.plain()["a"] in (text, [text], {"b": text})


@given(
    task=st.sampled_from(TASKS),
    model=st.one_of(names, st.sampled_from(["模型 7B", "it's", 'say "hi"', "a: b", "{x", "70B", "x.json", "3GB"])),
    rate=st.one_of(st.none(), names, st.sampled_from(["5 req/s", "4/mo", "300B", "2M/mo", "8h/day"])),
    compliance=st.one_of(st.none(), names, st.lists(names, max_size=2)),
)
@settings(max_examples=200, deadline=None)
def test_what_is_written_loads_or_the_answer_is_refused(
    task: str, model: str, rate: str | None, compliance: str | list[str] | None
) -> None:
    try:
        text = write_template(task, model=model, rate=rate, compliance=compliance)
    except TemplateError as error:
        refused = set(error.errors)
    else:
        refused = set()
        work = load_text(text).problem.workloads[0]
        if isinstance(work, Serve) and isinstance(work.model, str):
            assert work.model == model.strip()
    assert refused <= {"model", "rate", "compliance"}
