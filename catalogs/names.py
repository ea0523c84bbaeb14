"""Names of accelerators as people write them -> names of the catalogue.

A label is read as a family (H100, A10G, RTX 4090, RTX 6000 Ada) with qualifiers (memory, form factor,
memory type). The family must be the same as a catalogue name's, never a part of it: A10, A10G and A100 are
three families. Qualifiers that are stated must agree; those that are not leave the choice open. What does
not follow this reading (cloud names, Chinese names) stands in the table `accelerator_aliases`.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from catalogs.embedded import HasRows
from catalogs.errors import UnknownName

# Words that say nothing about which card it is.
# fmt: off
MAKERS = frozenset((
    "nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon", "intel", "habana", "huawei",
    "google", "aws", "amazon", "groq", "cerebras", "gpu", "gpus", "accelerator", "graphics", "card",
    "edition", "core", "tensor", "generation",
))
# fmt: on
CHINESE = {
    "昇腾": "ascend ",
    "英伟达": "nvidia ",
    "华为": "huawei ",
    "显卡": " ",
    "卡": " ",
    "专业版": " pro ",
}
FORM_FACTORS = ("sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "pcie", "oam", "nvl")
MEMORY_TYPES = ("hbm", "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "gddr6x", "gddr7")
VARIANTS = ("server", "workstation")
MEMORY = re.compile(r"\d+(?:\.\d+)?gb")
GEFORCE = re.compile(r"[345]0[5-9]0(ti|super|d)?")
# Tokens of catalogue names that people leave out.
OPTIONAL = ("blackwell",)


@dataclass(frozen=True)
class Reading:
    """A label taken apart: family (words run together), memory [GB], form factor, memory type, variant."""

    family: str = ""
    memory: str | None = None
    form: str | None = None
    memory_type: str | None = None
    variant: str | None = None


@dataclass(frozen=True)
class Card:
    """What names are matched against, for one row of `accelerators`."""

    name: str
    reading: Reading
    memory_gb: float


def plain_label(label: str) -> str:
    """Fold a label: width, case and punctuation gone, Chinese words translated, remarks in brackets dropped.

    Brackets that hold nothing but qualifiers are kept: "H100 (PCIe)".
    """
    text = unicodedata.normalize("NFKC", label).lower()
    for word, meaning in CHINESE.items():
        text = text.replace(word, meaning)
    return _folded(re.sub(r"\(([^)]*)\)", _kept_remark, text))


def _kept_remark(match: re.Match[str]) -> str:
    words = _folded(match[1])
    return f" {words} " if all(_is_qualifier(word) for word in words.split()) else " "


def _folded(text: str) -> str:
    text = re.sub(r"[^a-z0-9.]+", " ", text)
    # 80 gb, 80gib, 80g -> 80gb
    text = re.sub(r"\b(\d+(?:\.\d+)?)\s*(?:gib|gb|g)\b", r"\1gb", text)
    return " ".join(text.split())


def _is_qualifier(token: str) -> bool:
    return token in FORM_FACTORS or token in MEMORY_TYPES or token in VARIANTS or bool(MEMORY.fullmatch(token))


def read_label(label: str) -> Reading:
    """Take a label apart into family and qualifiers."""
    reading = Reading()
    family: list[str] = []
    for token in plain_label(label).split():
        if MEMORY.fullmatch(token):
            reading = replace(reading, memory=token[:-2])
        elif token in FORM_FACTORS:
            reading = replace(reading, form=token)
        elif token in MEMORY_TYPES:
            reading = replace(reading, memory_type=token)
        elif token in VARIANTS:
            reading = replace(reading, variant=token)
        elif token not in MAKERS and token not in OPTIONAL:
            family.append(token)
    joined = "".join(family)
    # A bare GeForce number is its RTX card.
    return replace(reading, family=f"rtx{joined}" if GEFORCE.fullmatch(joined) else joined)


def match_accelerators(catalog: HasRows, label: str) -> tuple[str, ...]:
    """Find every accelerator that `label` may mean, in the catalogue's order; empty if there is none."""
    index = _index(catalog)
    folded = plain_label(label)
    if folded in index.exact:
        return (index.exact[folded],)
    if folded in index.aliases:
        return index.aliases[folded]
    asked = read_label(label)
    if not asked.family:
        return ()
    return tuple(card.name for card in index.cards if _agrees(asked, card))


def resolve_accelerator(catalog: HasRows, label: str) -> str:
    """Find the one accelerator that `label` means.

    Where several fit, the default is the module on a baseboard (SXM, OAM) before the PCIe card, then the
    larger memory, then the server before the workstation edition.

    Raises
    ------
    UnknownName
        Nothing fits; carries suggestions.
    """
    found = match_accelerators(catalog, label)
    if not found:
        raise UnknownName(label, "accelerator", suggest_accelerators(catalog, label))
    rank = _index(catalog).rank
    return min(found, key=lambda name: rank[name])


def suggest_accelerators(catalog: HasRows, label: str, limit: int = 3) -> tuple[str, ...]:
    """Catalogue names near to `label`, best first."""
    index = _index(catalog)
    known: dict[str, tuple[str, ...]] = {name: (target,) for name, target in index.exact.items()} | index.aliases
    family = read_label(label).family
    # The same family with other qualifiers (H100-96GB -> the H100s that are), then families that contain it
    # or are contained, then whatever is spelt alike.
    names = list(index.families.get(family, ()))
    if len(family) >= 2:
        holds = [f for f in index.families if f.startswith(family) or family.startswith(f)]
        holds += [f for f in index.families if _runs(family) <= _runs(f)]
        names += [n for f in sorted(holds, key=lambda f: abs(len(f) - len(family))) for n in index.families[f]]
    for key in difflib.get_close_matches(family, list(index.families), n=limit, cutoff=0.6):
        names += index.families[key]
    for key in difflib.get_close_matches(plain_label(label), list(known), n=limit, cutoff=0.6):
        names += known[key]
    return tuple(dict.fromkeys(names))[:limit]


def _runs(family: str) -> set[str]:
    """Runs of letters and runs of digits in a family."""
    return set(re.findall(r"[a-z]+|\d+", family))


@dataclass(frozen=True)
class _Index:
    cards: tuple[Card, ...]
    exact: dict[str, str]
    aliases: dict[str, tuple[str, ...]]
    families: dict[str, tuple[str, ...]]
    rank: dict[str, tuple[Any, ...]]


@lru_cache(maxsize=4)
def _index(catalog: HasRows) -> _Index:
    cards: list[Card] = []
    rank: dict[str, tuple[Any, ...]] = {}
    families: dict[str, tuple[str, ...]] = {}
    rows = catalog.rows("accelerators", "accelerator", "form_factor", "memory_gb_nominal", "memory_type")
    for name, form_factor, memory, memory_type in rows:
        reading = read_label(name)
        form = reading.form or form_factor.split(" ")[0].lower()
        kind = (memory_type or "").lower() or None
        reading = replace(reading, form=form, memory_type=kind)
        cards.append(Card(name, reading, memory or 0.0))
        rank[name] = (
            not form.startswith(("sxm", "oam")),
            -(memory or 0.0),
            reading.variant == "workstation",
            name,
        )
        families[reading.family] = (*families.get(reading.family, ()), name)
    aliases: dict[str, tuple[str, ...]] = {}
    for alias, name in catalog.rows("accelerator_aliases", "alias", "accelerator"):
        folded = plain_label(alias)
        aliases[folded] = (*aliases.get(folded, ()), name)
    exact = {plain_label(card.name): card.name for card in cards}
    return _Index(tuple(cards), exact, aliases, families, rank)


def _agrees(asked: Reading, card: Card) -> bool:
    """The family is the same and no stated qualifier contradicts the card."""
    have = card.reading
    if asked.family != have.family:
        return False
    if asked.memory is not None and float(asked.memory) != card.memory_gb:
        return False
    if asked.form is not None and not _same_form(asked.form, have):
        return False
    if asked.memory_type is not None and not (have.memory_type or "").startswith(asked.memory_type.rstrip("e")):
        return False
    return asked.variant is None or asked.variant == have.variant


def _same_form(asked: str, have: Reading) -> bool:
    form = have.form or ""
    if asked == "sxm":
        return form.startswith("sxm")
    if asked == "pcie":
        # An NVL card is a PCIe card, but who writes PCIe means the plain one.
        return form == "pcie"
    return form == asked
