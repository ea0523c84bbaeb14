"""A first problem file for `kitout init`: four questions, and a commented file made of the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from problems import units
from problems.countries import parse_country
from problems.load import ProblemError, load_text
from problems.scan import UnitError, shown
from problems.tree import resolve

__all__ = ["QUESTIONS", "Question", "Task", "TemplateError", "check_answer", "write_template"]

Task = Literal["serve", "finetune", "pretrain", "batch", "fixed"]
TASKS: tuple[Task, ...] = get_args(Task)
_OTHER_NAMES: Mapping[str, Task] = {
    "inference": "serve",
    "chat": "serve",
    "lora": "finetune",
    "fine-tune": "finetune",
    "train": "pretrain",
    "experiments": "fixed",
    "notebook": "fixed",
}


class TemplateError(ValueError):
    """Answers that make no problem; `errors` maps the name of an answer to what is wrong with it."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("\n".join(f"{name}: {what}" for name, what in errors.items()))
        self.errors = dict(errors)


@dataclass(frozen=True)
class Question:
    """One thing that `kitout init` asks.

    `key` is the argument of `write_template`; `topic` the question of the four it belongs to; `default` (by task,
    ``""`` for all others) what an empty answer means, None where it means nothing given; `choices` closed answers.
    """

    key: str
    topic: Literal["what", "how big", "how long", "how sensitive"]
    text: Mapping[str, str]
    default: Mapping[str, str | None]
    choices: tuple[str, ...] = ()

    def ask(self, task: str = "") -> str:
        """Wording for a task."""
        return self.text.get(task, self.text[""])

    def default_for(self, task: str = "") -> str | None:
        """Answer taken when nothing is typed."""
        return self.default.get(task, self.default.get(""))


QUESTIONS: tuple[Question, ...] = (
    Question("task", "what", {"": "What is the work?"}, {"": "serve"}, TASKS),
    Question(
        "model",
        "what",
        {"": "Which model? (a name, or a size such as 70B)", "fixed": "How much GPU memory at least, or which GPU?"},
        {
            "": "llama-3-8b",
            "serve": "llama-3-70b",
            "finetune": "llama-3-70b",
            "pretrain": "7B",
            "fixed": "16GB",
        },
    ),
    Question(
        "rate",
        "how big",
        {
            "": "How many requests? (5 req/s, 1M/day, or 100 for so many at once)",
            "finetune": "How many runs? (4/mo, or 3 in all)",
            "pretrain": "How many tokens? (300B)",
            "batch": "How many requests a month? (2M/mo)",
            "fixed": "How many hours? (60h/mo, 8h/day, always)",
        },
        {"": "5 req/s", "finetune": "4/mo", "pretrain": "140B", "batch": "1M/mo", "fixed": "60h/mo"},
    ),
    Question("months", "how long", {"": "For how long? (12mo, 3y)"}, {"": "12mo", "pretrain": "3mo"}),
    Question("budget", "how long", {"": "Is there a budget? ($300k in all, $20k/mo)"}, {"": None}),
    Question("region", "how sensitive", {"": "Must it stay in a country? (US, DE, CN)"}, {"": None}),
    Question("compliance", "how sensitive", {"": "Which certificates? (soc2, hipaa, gb-mlps3)"}, {"": None}),
)
"""What is asked: what, how big, how long, how sensitive."""


def check_answer(key: str, answer: str, task: str = "serve") -> None:
    """Check one answer on its own.

    Raises
    ------
    UnitError
        With what is wrong and what is allowed.
    """
    text = answer.strip()
    if any(not c.isprintable() for c in text) or len(text) > 200:
        raise UnitError("must be one short line of text")
    if key == "task":
        _task(text)
    elif key == "model" and not text:
        raise UnitError("must be a model, e.g. llama-3-70b, or a size, e.g. 70B")
    elif key == "rate":
        _load(task, text)
    elif key == "months" and units.parse_months(_months(text)) <= 0:
        raise UnitError("must be greater than 0", units.MONTHS.help)
    elif key == "budget":
        _budget(text)
    elif key == "region":
        _region(text)
    elif key == "compliance" and not _names(text):
        raise UnitError("must be names of certificates, e.g. soc2, hipaa")


def write_template(
    task: str = "serve",
    *,
    model: str | None = None,
    rate: str | None = None,
    months: str | float | None = None,
    budget: str | None = None,
    region: str | None = None,
    compliance: str | Sequence[str] | None = None,
) -> str:
    """Write a commented problem file in YAML that loads as it is.

    Parameters
    ----------
    task
        ``serve``, ``finetune``, ``pretrain``, ``batch``, ``fixed``, or a usual other name (``experiments``).
    model
        A model's name, a size (``70B``), a path to a config.json; for ``fixed`` memory (``16GB``) or a GPU.
    rate
        How big: requests (serve: ``5 req/s`` or ``100`` at once; batch: ``2M/mo``), runs (finetune: ``4/mo``),
        tokens (pretrain: ``300B``), hours (fixed: ``60h/mo``).
    months
        How long; a bare number is months.
    budget
        ``$300k`` in all, ``$20k/mo`` each month.
    region
        Countries (``US, DE``) or regions of providers (``us-east-1``).
    compliance
        Tags, as a list or separated by commas.

    Raises
    ------
    TemplateError
        With what is wrong with each argument.
    """
    try:
        kind = _task(task)
    except UnitError as error:
        raise TemplateError({"task": f"{error.message}; {error.help}"}) from None
    joined = compliance if isinstance(compliance, str | None) else ", ".join(compliance)
    given = {
        "model": model,
        "rate": rate,
        "months": None if months is None else f"{months}",
        "budget": budget,
        "region": region,
        "compliance": joined,
    }
    answers: dict[str, str] = {}
    errors: dict[str, str] = {}
    for question in QUESTIONS[1:]:
        answer = given[question.key]
        answer = question.default_for(kind) if answer is None or not answer.strip() else answer.strip()
        if answer is None:
            continue
        answers[question.key] = answer
        try:
            check_answer(question.key, answer, kind)
        except UnitError as error:
            errors[question.key] = error.message + (f"; {error.help}" if error.help else "")
    if errors:
        raise TemplateError(errors)
    text = _page(kind, answers)
    try:
        load_text(text, "template")
    except ProblemError as error:
        raise TemplateError({i.field or "template": i.message for i in error.issues}) from None
    return text


# --- reading answers -------------------------------------------------------------------------------------


def _task(text: str) -> Task:
    name = text.strip().lower()
    if name in TASKS:
        return name
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    raise UnitError(f"unknown task {shown(text)}", f"tasks: {', '.join(TASKS)}")


def _months(text: str) -> str:
    return f"{text}mo" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else text


def _load(task: str, text: str) -> tuple[str, str]:
    """Keys and value that say how big the work is."""
    number = resolve(text)
    if task == "serve":
        if isinstance(number, int | float) and not isinstance(number, bool):
            if units.parse_number(number) <= 0:
                raise UnitError("must be greater than 0", units.RATE.help)
            return "concurrency", text
        if units.parse_rate(text) <= 0:
            raise UnitError("must be greater than 0", units.RATE.help)
        return "rate", text
    if task == "finetune":
        units.parse_runs(number if isinstance(number, int) else text)
        return "runs", text
    if task == "pretrain":
        if units.parse_tokens(number if isinstance(number, int) else text) <= 0:
            raise UnitError("must be greater than 0", units.TOKENS.help)
        return "tokens", text
    if task == "batch":
        amount, per, month = text.partition("/")
        if per and month.strip() not in ("mo", "month", "月"):
            raise UnitError(f"{shown(text)} is not per month", "forms allowed: 2M/mo, or 2M in all")
        if units.parse_count(amount) <= 0:
            raise UnitError("must be greater than 0", units.COUNT.help)
        return "requests", text
    if units.parse_hours_per_month(text) <= 0:
        raise UnitError("must be greater than 0", units.HOURS.help)
    return "hours", text


def _budget(text: str) -> tuple[str, str]:
    """Key of the budget and its value."""
    if re.search(r"/|每|\bper\b", text):
        units.MoneyPerMonth.parse(text)
        return "monthly", text
    units.Money.parse(text)
    return "total", text


def _names(text: str) -> list[str]:
    return [name.strip() for name in re.split(r"[,;，、]", text) if name.strip()]


def _region(text: str) -> tuple[str, list[str]]:
    """Key of the limit and its values: countries by their two letters, else regions of providers."""
    names = _names(text)
    if not names:
        raise UnitError("must be countries, e.g. US, DE, or regions of providers, e.g. us-east-1")
    if any(re.search("[0-9-]", name) for name in names):
        return "regions", names
    return "countries", [parse_country(name) for name in names]


# --- writing ---------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """`text` as a YAML scalar that reads back as the same text, also inside of [] and {}."""
    plain = re.fullmatch(r"[\w.$¥€£][\w.$¥€£/%+ -]*", text) is not None and not text.endswith(" ")
    if plain and resolve(text) == text:
        return text
    return json.dumps(text, ensure_ascii=False)


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(quoted(name) for name in names)}]"


def _model(text: str) -> str:
    """Value of the key ``model``: a name, a size, a path."""
    if text.endswith(".json"):
        return f"{{config: {quoted(text)}}}"
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?\s*[kKMBbT]", text):
        return f"{{params: {quoted(text)}}}"
    return quoted(text)


def _line(key: str, value: str, comment: str = "", indent: int = 4) -> str:
    text = f"{' ' * indent}{key}: {value}"
    return f"{text.ljust(34)} # {comment}" if comment else text


_MODEL_NOTE = "or {params: 70B}, or {config: ./config.json}"


def _serve(a: Mapping[str, str]) -> list[str]:
    key, value = _load("serve", a["rate"])
    other = "or rate: 5 req/s, 1M/day" if key == "concurrency" else "or concurrency: 100 (in flight)"
    return [
        _line("model", _model(a["model"]), _MODEL_NOTE),
        _line("precision", "[bf16, fp8]", "precisions allowed for the weights: int4, int8, ..."),
        "    traffic:",
        _line(key, value if key == "concurrency" else quoted(value), other, 6),
        _line("isl", "1000", "tokens in, per request", 6),
        _line("osl", "300", "tokens out, per request", 6),
        _line("calendar", "flat", "or office_hours, day_night, hourly, {csv: traffic.csv}", 6),
        _line("slo", "{ttft: 1s, tpot: 100ms}", "time to first token, time per output token"),
        _line("redundancy", "none", "or n+1, n+2: still enough after the loss of so many nodes"),
    ]


def _finetune(a: Mapping[str, str]) -> list[str]:
    return [
        _line("method", "lora", "or qlora, full"),
        _line("model", _model(a["model"]), _MODEL_NOTE),
        _line("tokens", "50M", "per run, all epochs"),
        _line("sequence", "4096", "tokens; also 8k"),
        _line("runs", _number_or_text(a["rate"]), "a month (4/mo), or so many in all (3)"),
        _line("deadline", "48h", "each run; also 3d"),
    ]


def _pretrain(a: Mapping[str, str]) -> list[str]:
    months = _months(a["months"])
    return [
        _line("model", _model(a["model"]), "or a name, or {config: ./config.json}"),
        _line("tokens", _number_or_text(a["rate"]), "in all"),
        _line("sequence", "4096", "tokens; also 8k"),
        _line("precision", "bf16", "or fp8, or [bf16, fp8]"),
        _line("deadline", quoted(months), "when it has to be done; also 5wk"),
    ]


def _batch(a: Mapping[str, str]) -> list[str]:
    amount, per, _ = a["rate"].partition("/")
    return [
        _line("model", _model(a["model"]), _MODEL_NOTE),
        _line("requests", _number_or_text(amount.strip()), "per run"),
        _line("isl", "1000", "tokens in, per request"),
        _line("osl", "300", "tokens out, per request"),
        _line("runs", "1/mo" if per else "once", "or 2/wk, 1/day, or so many in all (3)"),
        _line("deadline", "72h", "each run; also 5d"),
    ]


def _fixed(a: Mapping[str, str]) -> list[str]:
    what = a["model"]
    try:
        units.parse_bytes(what)
        accelerator, note = f"{{memory: {quoted(what)}}}", "any with at least this, or a name: RTX 4090"
    except UnitError:
        names = _names(what)
        accelerator = quoted(names[0]) if len(names) == 1 else _listed(names)
        note = "or any with at least so much memory: {memory: 16GB}"
    return [
        _line("accelerator", accelerator, note),
        _line("count", "1"),
        _line("hours", quoted(a["rate"]), "or 8h/day, always"),
        _line("spot", "true", "may be taken away and given back"),
        _line("# cpus", "8+", "what has to come with it"),
        _line("# ram", "32GB+"),
    ]


def _number_or_text(text: str) -> str:
    return text if isinstance(resolve(text), int | float) else quoted(text)


_WRITERS = {"serve": _serve, "finetune": _finetune, "pretrain": _pretrain, "batch": _batch, "fixed": _fixed}
_NAMES = {"serve": "service", "finetune": "tuning", "pretrain": "training", "batch": "batch", "fixed": "lab"}


def _page(task: Task, a: Mapping[str, str]) -> str:
    """The whole file."""
    currency = "USD"
    limits: list[str] = []
    if "budget" in a:
        key, value = _budget(a["budget"])
        currency = (units.MoneyPerMonth if key == "monthly" else units.Money).parse(value).currency
        limits.append(_line("budget", f"{{{key}: {quoted(value)}}}", "capex: $300k, monthly: $40k/mo, total", 2))
    if "region" in a:
        key, names = _region(a["region"])
        note = "two letters of ISO 3166" if key == "countries" else "as the provider calls them"
        limits.append(_line(key, _listed(names), note, 2))
    if "compliance" in a:
        limits.append(_line("compliance", _listed(_names(a["compliance"])), "each of them is needed", 2))
    have = {line.strip().split(":")[0] for line in limits}
    for key, value, note in (
        ("budget", "{total: $300k}", "or capex: $300k, monthly: $40k/mo, 35万元/月"),
        ("countries", "[US, DE]", "where it may run"),
        ("compliance", "[soc2]", "certificates that are needed"),
        ("power", "30kW", "all own sites, cooling included"),
        ("accelerators", "{deny: [V100]}", "or a list of those allowed: [H100, L40S]"),
        ("providers", "{allow: [aws, gcp]}", ""),
    ):
        if key not in have and not (key == "countries" and "regions" in have):
            limits.append(_line(f"# {key}", value, note, 2))
    open_limits = any(not line.strip().startswith("#") for line in limits)
    site = [
        "# An own room, if you have one: then kitout looks at buying too.",
        "# sites:",
        "#   - {name: room, power: 30kW, pue: 1.4, electricity: $0.12/kWh, country: US}",
    ]
    return "\n".join(
        [
            "# A problem for kitout: what is wanted, and within which limits.",
            "# kitout check FILE reads it, kitout solve FILE answers it.",
            "",
            _line("horizon", quoted(_months(a["months"])), "also 3y, 90d", 0),
            _line("objective", "cost", "or power, carbon, time, scale", 0),
            _line("currency", currency, ", ".join(units.CURRENCIES), 0),
            "",
            "workloads:",
            f"  - name: {_NAMES[task]}",
            _line("kind", task, ", ".join(TASKS)),
            *_WRITERS[task](a),
            "",
            *site,
            "",
            "limits:" if open_limits else "# limits:",
            *(limits if open_limits else [re.sub(r"^  # ", "#   ", line) for line in limits]),
            "",
            "# policy:",
            "#   billing: [on_demand, reserved]   # how it may be paid: spot, purchase, ...",
            "",
        ]
    )
