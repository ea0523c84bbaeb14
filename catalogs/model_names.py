"""Names of models as people write them -> names of the catalogue."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from catalogs.embedded import HasRows
from catalogs.errors import UnknownName

#: Words of a published name that do not change the architecture.
NOISE = frozenset(
    [
        "meta",
        "instruct",
        "instruction",
        "chat",
        "it",
        "hf",
        "base",
        "pt",
        "preview",
        "thinking",
        "reasoning",
        "fp8",
        "bf16",
        "fp16",
        "fp4",
        "nvfp4",
        "mxfp4",
        "int4",
        "int8",
        "awq",
        "gptq",
        "gguf",
        "w4a16",
        "w8a8",
        "w8a16",
        "quantized",
        "dynamic",
        "bnb",
        "4bit",
        "8bit",
        "marlin",
        "block",
        "original",
        "unsloth",
        "latest",
        "model",
        "llm",
        "ft",
        "c4ai",
        "mlx",
        "text",
    ]
)
TUNING = frozenset(["instruct", "instruction", "chat", "it", "hf", "base"])
SIZE = re.compile(r"(\d)\.(\d+)(?=[bmt](?:[^a-z0-9]|$))")
DATE = re.compile(r"^(\d{4}|\d{6}|\d{8})$")
VERSION_ONE = re.compile(r"^v0?\.?1(\.\d+)?$|^v01$")
# Context of the architecture made up for a bare size [tokens].
STAND_IN_CONTEXT = 8192


def is_config(text: str) -> bool:
    """Whether a reference is the path of a config.json and not a name."""
    return text.endswith(".json") or text.startswith((".", "/", "~"))


def fold(name: str) -> str:
    """Fold a name: publisher, case and punctuation gone; the point of a size stays (1.3B is not 13B)."""
    sized = SIZE.sub(r"\1point\2", name.split("/")[-1].lower())
    return re.sub(r"[^a-z0-9]+", "", sized)


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\s_\-:/,()]+|\.(?=[a-z])", name.split("/")[-1].lower()) if word]


def foldings(name: str) -> Iterator[str]:
    """Give ever looser foldings of a name: as it is, then without tuning words, dates, and a version of one."""
    yield fold(name)
    words = _words(name)
    levels: tuple[Callable[[str], bool], ...] = (
        lambda word: word in TUNING,
        lambda word: word in NOISE,
        lambda word: word in NOISE or bool(DATE.match(word)),
        lambda word: word in NOISE or bool(DATE.match(word)) or bool(VERSION_ONE.match(word)),
    )
    for drop in levels:
        kept = [word for word in words if not drop(word)]
        if kept:
            yield fold("-".join(kept))


def _known_names(catalog: HasRows) -> Mapping[str, str]:
    """Names by folding: exact ones, then looser ones that only one model answers to."""
    aliases = catalog.rows("model_aliases", "alias", "model")
    return _by_folding((*((model, model) for (model,) in catalog.rows("models", "model")), *aliases))


@lru_cache(maxsize=4)
def _by_folding(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    exact: dict[str, str] = {}
    loose: dict[str, set[str]] = {}
    for name, model in pairs:
        first, *rest = foldings(name)
        exact.setdefault(first, model)
        for folded in rest:
            loose.setdefault(folded, set()).add(model)
    single = {folded: next(iter(models)) for folded, models in loose.items() if len(models) == 1}
    return {**single, **exact}


def match_model(catalog: HasRows, name: str) -> str:
    """Give the catalogue name of a model.

    Raises
    ------
    UnknownName
        No model of this name; suggestions are the nearest ones.
    """
    known = _known_names(catalog)
    for folded in foldings(name):
        if folded in known:
            return known[folded]
    *_, loosest = foldings(name)
    near = difflib.get_close_matches(loosest, known, n=12, cutoff=0.6)
    suggestions = list(dict.fromkeys(known[match] for match in near))[:3]
    hint = "(or give {params: 70B} or a config.json)"
    raise UnknownName(name, "model", suggestions, hint)
