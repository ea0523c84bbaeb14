"""What a request calls an accelerator, taken apart, and whether the catalogue knows anything by that name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from catalogs.embedded import HasRows
from catalogs.names import match_accelerators

NONE = "none"
WITH_COUNT = re.compile(r"(?P<name>.+?)\s*:\s*(?P<count>\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Asked:
    """A name taken apart. `count` None: the request does not say it with the name, and the name need not be a label."""

    name: str
    count: float | None = None

    @property
    def nothing(self) -> bool:
        """Machines without accelerators are asked for."""
        return self.name.lower() == NONE


def read_asked(text: str) -> Asked:
    """Take ``A100-80GB:8`` apart."""
    found = WITH_COUNT.fullmatch(text.strip())
    return Asked(found["name"], float(found["count"])) if found else Asked(text.strip())


def is_label(catalog: HasRows, name: str) -> bool:
    """Some price list has offers under this very name."""
    return name.lower() in _labels(catalog)


@lru_cache(maxsize=4)
def _labels(catalog: HasRows) -> frozenset[str]:
    return frozenset(label.lower() for label in catalog.distinct("offers", "label"))


def known(catalog: HasRows, text: str) -> bool:
    """Whether anything in the catalogue goes by this name."""
    asked = read_asked(text)
    return asked.nothing or is_label(catalog, asked.name) or bool(match_accelerators(catalog, asked.name))
