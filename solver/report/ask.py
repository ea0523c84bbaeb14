"""The questions of `kitout init`, asked in a terminal; the answers are checked one by one."""

from __future__ import annotations

from collections.abc import Mapping

import click

from catalogs.load import load_catalog
from problems.load import ProblemError, load_text
from problems.template import QUESTIONS, check_answer, write_template
from problems.units import UnitError
from solver.names import unknown_names


def first_problem(given: Mapping[str, str | None], ask: bool) -> str:
    """Write a first problem file from what is given; `ask` for the rest, else defaults are taken.

    Raises
    ------
    TemplateError
        For an answer that cannot be used.
    ProblemError
        For names that the catalogue does not hold: the problem would not solve.
    """
    answers = ask_missing(given) if ask else dict(given)
    text = write_template(answers.pop("task") or "serve", **answers)
    unknown = unknown_names(load_text(text, "new problem"), load_catalog())
    if unknown:
        raise ProblemError(unknown)
    return text


def ask_missing(given: Mapping[str, str | None]) -> dict[str, str | None]:
    """Ask for what is not given, one question at a time, until each answer can be used."""
    answers = dict(given)
    for question in QUESTIONS:
        task = answers.get("task") or "serve"
        while answers[question.key] is None:
            default = question.default_for(task)
            said = click.prompt(question.ask(task), default=default or "", show_default=bool(default), err=True)
            try:
                if said:
                    check_answer(question.key, said, task)
                answers[question.key] = said
            except UnitError as error:
                click.echo(f"  {error.message}; {error.help}", err=True)
    return answers
