"""Names of models as people write them -> one row with the columns of the models table.

A reference is a catalogue name or alias (publisher, case, punctuation and tuning suffixes do not matter), the path of
a Hugging Face ``config.json`` (or a folder with one), or a bare size, for which a stand-in dense architecture is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from catalogs import architecture
from catalogs.embedded import HasRows
from catalogs.errors import UnknownName
from catalogs.model_config import ConfigError, checkpoint_bytes, read_config
from catalogs.model_names import STAND_IN_CONTEXT, is_config
from catalogs.model_names import match_model as match_model
from problems.schema import BareModel, ConfigModel

GIB = 2.0**30
BILLION = 1e9
PROVENANCE = ("source", "as_of", "confidence", "notes")


class HasModels(HasRows, Protocol):
    """Anything with the tables `models` and `model_aliases`: the Catalog."""

    @property
    def models(self) -> pl.DataFrame: ...


@dataclass(frozen=True)
class ModelRow:
    """One model: the columns of the models table, what to call it, and where it comes from.

    `stand_in` marks an architecture made up for a bare size. `checkpoint_gib` is the size of the checkpoint on disk
    [GiB] where an index file states it. `notes` are remarks for the report.
    """

    label: str
    columns: Mapping[str, Any]
    stand_in: bool = False
    checkpoint_gib: float | None = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, column: str) -> Any:
        if column == "label":
            return self.label
        if column == "stand_in":
            return self.stand_in
        return self.columns[column]

    @property
    def params_total_b(self) -> float:
        """Parameters in all [billions]."""
        return float(self.columns["params_total_b"])

    @property
    def params_active_b(self) -> float:
        """Parameters one token passes through [billions]."""
        return float(self.columns["params_active_b"])

    def as_dict(self) -> dict[str, Any]:
        """Give the columns with `label` and `stand_in`, as one flat dictionary."""
        return {**self.columns, "label": self.label, "stand_in": self.stand_in}


def model_columns(catalog: HasModels) -> dict[str, pl.DataType]:
    """Give the architecture columns of the models table with their types (provenance left out)."""
    return {name: dtype for name, dtype in catalog.models.schema.items() if name not in PROVENANCE}


def models_frame(catalog: HasModels, rows: Sequence[ModelRow]) -> pl.DataFrame:
    """Give a frame with one row per model: the architecture columns, `label` and `stand_in`."""
    schema = {**model_columns(catalog), "label": pl.String(), "stand_in": pl.Boolean()}
    return pl.DataFrame([{name: row.as_dict().get(name) for name in schema} for row in rows], schema=schema)


# --- rows ------------------------------------------------------------------------------------------------------------


def _named(catalog: HasModels, name: str) -> ModelRow:
    model = match_model(catalog, name)
    row = catalog.models.filter(pl.col("model") == model).row(0, named=True)
    columns = {key: row[key] for key in model_columns(catalog)}
    return ModelRow(label=model, columns=columns)


def count_parameters(columns: Mapping[str, Any], schema: Mapping[str, pl.DataType]) -> tuple[float, float]:
    """Count total and active parameters [billions] of an architecture."""
    frame = pl.DataFrame([{name: columns.get(name) for name in schema}], schema=dict(schema))
    total, active = frame.select(architecture.counted(), architecture.counted_active().alias("active")).row(0)
    return float(total) / BILLION, float(active) / BILLION


def _from_config(catalog: HasModels, path: Path, label: str) -> ModelRow:
    columns = read_config(path)
    schema = model_columns(catalog)
    columns["model"] = label
    total, active = count_parameters({**columns, "params_total_b": 1.0, "params_active_b": 1.0}, schema)
    notes = []
    size = checkpoint_bytes(path)
    precision = columns.get("native_precision")
    if size is not None and precision is None:
        # A 16-bit checkpoint says how many parameters there are, norms, biases and towers included.
        true = size / 2.0 / BILLION
        active, total = active + max(true - total, 0.0), true
    columns.update(params_total_b=total, params_active_b=min(active, total))
    if precision is not None:
        notes.append(f"the checkpoint is quantised ({precision})")
    if size is not None:
        notes.append(f"checkpoint of {size / GIB:.2f} GiB")
    full = {name: columns.get(name) for name in schema}
    return ModelRow(label, full, checkpoint_gib=None if size is None else size / GIB, notes=tuple(notes))


def stand_in(catalog: HasModels, params: float) -> ModelRow:
    """Make up a dense architecture for a bare number of parameters.

    Shape as in GPT-3 and its successors: heads of 128 (64 below 3B), about one layer per 128 of hidden size, a
    feed-forward block that brings a layer to 12 hidden^2 parameters, 128,000 words (32,000 below 1B), context 8,192. Queries share
    8 key and value heads, as open models since 2023 do; GPT-3 itself had one per query head and a KV cache 12 times
    as large. The row is marked `stand_in`.
    """
    vocab, context = (128_000 if params >= 1e9 else 32_000), STAND_IN_CONTEXT
    head_dim, unit = (128, 1024) if params >= 3e9 else (64, 512)
    hidden = unit * max(1, round((params * 128 / 12.0) ** (1.0 / 3.0) / unit))
    heads = hidden // head_dim
    kv_heads = 8
    per_layer = 2.0 * hidden * hidden + 2.0 * hidden * kv_heads * head_dim
    ends = 2.0 * vocab * hidden
    tied = ends > 0.3 * params
    body = max(params - (ends / 2.0 if tied else ends), 0.1 * params)
    layers = max(1, round(body / (12.0 * hidden * hidden)))
    width = (body / layers - per_layer) / (3.0 * hidden)
    size = params / BILLION
    values = {
        "model": f"{size:g}B",
        "family": "llama",
        "layers": layers,
        "hidden": hidden,
        "intermediate": max(hidden, 64 * round(width / 64)),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "vocab": vocab,
        "params_total_b": size,
        "params_active_b": size,
        "max_context": context,
        "tie_embeddings": tied,
    }
    columns = {name: values.get(name) for name in model_columns(catalog)}
    note = f"stand-in dense architecture: {layers} layers, hidden {hidden}, {heads} heads, {kv_heads} KV heads"
    return ModelRow(f"{size:g}B", columns, stand_in=True, notes=(note,))


def resolve_model(
    catalog: HasModels, ref: str | BareModel | ConfigModel | ModelRow, base_dir: Path | str | None = None
) -> ModelRow:
    """Give the architecture behind a model reference.

    Parameters
    ----------
    ref
        Name or alias, path of a ``config.json`` (ends in .json, or starts with ``.``, ``/``, ``~``), or the model
        forms of a problem file.
    base_dir
        Folder that relative paths start from; the working directory when None.

    Raises
    ------
    UnknownName
        No model of this name.
    catalogs.model_config.ConfigError
        The config file cannot be read as a decoder.
    """
    if isinstance(ref, ModelRow):
        return ref
    if isinstance(ref, BareModel):
        return stand_in(catalog, float(ref.params))
    text = ref.config if isinstance(ref, ConfigModel) else ref
    if isinstance(ref, ConfigModel) or is_config(text):
        path = Path(base_dir or ".") / Path(text).expanduser()
        name = path.name if path.suffix != ".json" or path.name != "config.json" else path.resolve().parent.name
        return _from_config(catalog, path, name)
    return _named(catalog, text)


def resolve_models(
    catalog: HasModels, refs: Iterable[str | BareModel | ConfigModel], base_dir: Path | str | None = None
) -> tuple[list[ModelRow], list[str]]:
    """Resolve many references; give the rows and the messages of those that failed."""
    rows, errors = [], []
    for ref in refs:
        try:
            rows.append(resolve_model(catalog, ref, base_dir))
        except (UnknownName, ConfigError) as error:
            errors.append(str(error))
    return rows, errors
