"""Data that must be kept somewhere: classes of a workload, and archives and backups that belong to none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field

from problems import units
from problems.base import Country, Fault, Strict

DataKind = Literal["training_data", "checkpoints", "weights", "kv_offload", "archive", "backups"]
Staged = Literal["auto", "yes", "no"]
Raid = Literal["none", "raid10"]

OF_KIND: Mapping[str, tuple[str, ...]] = {
    "pretrain": ("training_data", "checkpoints", "weights", "archive", "backups"),
    "finetune": ("training_data", "checkpoints", "weights", "archive", "backups"),
    "serve": ("weights", "kv_offload", "archive", "backups"),
    "batch": ("weights", "archive", "backups"),
    "fixed": ("training_data", "checkpoints", "weights", "archive", "backups"),
}
"""Classes that a workload of each kind may have."""
STAGEABLE = ("training_data", "weights")
NEEDS_SIZE = ("training_data", "kv_offload", "archive", "backups")


class _Sized(Strict):
    """What any class of data asks of the tier that it lies on.

    `size` [bytes] of all of it; `read`, `write` [GB/s] and `iops` at its busiest; `retention` [months]: how long each part
    is kept.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    size: units.Bytes | None = Field(default=None, gt=0, examples=["200TB"])
    read: units.GBytesPerS | None = Field(default=None, gt=0, examples=["40GB/s"])
    write: units.GBytesPerS | None = Field(default=None, gt=0, examples=["10GB/s"])
    iops: units.Count | None = Field(default=None, gt=0, examples=["100k"])
    retention: units.Months | None = Field(default=None, gt=0, examples=["5y"])


class DataClass(_Sized):
    """One class of data of a workload.

    Where size or speed are left out they follow from the workload: checkpoints and weights from the model, the reading of
    training data from tokens per second.

    `kept` : checkpoints that stay. `within` [s]: time that one checkpoint, one load of the weights or one staging may take.
    `staged` : training data and weights may have a master copy on a cheap tier and a working copy on a fast one. `raid` of a
    copy on the nodes' own drives. `readers` : nodes that load weights at the same time. `token_bytes` [bytes] of a token in
    the training data. `moved` [bytes per month]: what goes between the data and its compute, where they are apart.
    """

    kind: DataKind = Field(alias="class")
    kept: units.Whole | None = Field(default=None, ge=1, examples=[5])
    within: units.Seconds | None = Field(default=None, gt=0, examples=["10min"])
    staged: Staged | None = None
    raid: Raid | None = None
    readers: units.Whole | None = Field(default=None, ge=1)
    token_bytes: units.Bytes | None = Field(default=None, gt=0, examples=["4B"])
    moved: units.Bytes | None = Field(default=None, gt=0, examples=["5TB"])

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        kind = given.get("class")
        if not isinstance(kind, str):
            return
        for key, kinds in _ONLY.items():
            if key in given and kind not in kinds:
                yield (key,), f"{key} is for {', '.join(kinds)}, not for {kind}"
        if kind in NEEDS_SIZE and "size" not in given:
            yield (), f"{kind} needs its size (200TB)"


_ONLY: Mapping[str, tuple[str, ...]] = {
    "kept": ("checkpoints",),
    "within": ("checkpoints", "weights", "training_data"),
    "staged": STAGEABLE,
    "raid": ("training_data", "weights", "kv_offload"),
    "readers": ("weights",),
    "token_bytes": ("training_data",),
}


class KeptData(_Sized):
    """Archive or backups that belong to no workload; `site` (own) or `country` says where they must be."""

    kind: Literal["archive", "backups"] = Field(alias="class")
    name: str | None = Field(default=None, min_length=1)
    site: str | None = None
    country: Country | None = Field(default=None, examples=["US"])

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        if "size" not in given:
            yield (), "give the size (200TB)"
        if "site" in given and "country" in given:
            yield (), "give the site or the country, not both"


def data_faults(given: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with the data of a workload taken as a whole: classes that its kind has not, or two of one class."""
    items = given.get("data")
    allowed = OF_KIND.get(str(given.get("kind")), ())
    seen: set[str] = set()
    for index, item in enumerate(items if isinstance(items, list | tuple) else ()):
        kind = item.get("class") if isinstance(item, Mapping) else getattr(item, "kind", None)
        if not isinstance(kind, str):
            continue
        if kind not in allowed and any(kind in kinds for kinds in OF_KIND.values()):
            yield (
                ("data", index, "class"),
                f"{kind} is no data of a {given.get('kind')} workload; it may have {', '.join(allowed)}",
            )
        if kind in seen:
            yield ("data", index, "class"), f"{kind} is given twice"
        if given.get("kind") == "fixed" and kind in ("checkpoints", "weights") and not _has(item, "size"):
            yield ("data", index), f"{kind} of a fixed workload: give the size, since no model is known"
        seen.add(kind)
    if "training_data" in seen and given.get("dataset") is not None:
        yield ("dataset",), "dataset is the short form of data: [{class: training_data, size}]; give one of the two"
    bare = given.get("model") is None and given.get("kind") in ("serve", "batch")
    for index, item in enumerate(items if bare and isinstance(items, list | tuple) else ()):
        if isinstance(item, Mapping) and item.get("class") == "weights" and not _has(item, "size"):
            yield ("data", index), "weights need their size: no model is given"


def _has(item: Any, key: str) -> bool:
    return (item.get(key) if isinstance(item, Mapping) else getattr(item, key, None)) is not None
