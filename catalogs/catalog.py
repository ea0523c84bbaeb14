"""The catalogue as one frozen object: a polars frame per table and a hash over the content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Catalog:
    """All tables, validated; `prices` with derived commitments, compute units and the buyer's own discounts. Columns, units and meaning: the schemas named in `catalogs.schema.TABLES`.

    `sha256` is a hash over the content of all tables, whatever the order of their rows; of large imported
    tables over their file, which an import sorts.
    """

    accelerators: pl.DataFrame
    accelerator_aliases: pl.DataFrame
    servers: pl.DataFrame
    cpus: pl.DataFrame
    ram: pl.DataFrame
    storage: pl.DataFrame
    storage_terms: pl.DataFrame
    storage_boxes: pl.DataFrame
    storage_systems: pl.DataFrame
    network: pl.DataFrame
    offers: pl.DataFrame
    deployment_modes: pl.DataFrame
    prices: pl.DataFrame
    compute_units: pl.DataFrame
    capacity_blocks: pl.DataFrame
    book: pl.DataFrame
    discounts: pl.DataFrame
    spot_interruption: pl.DataFrame
    terms: pl.DataFrame
    egress: pl.DataFrame
    fx: pl.DataFrame
    regions: pl.DataFrame
    refused: pl.DataFrame
    electricity: pl.DataFrame
    pue: pl.DataFrame
    carbon: pl.DataFrame
    colocation: pl.DataFrame
    maintenance: pl.DataFrame
    trends: pl.DataFrame
    calendars: pl.DataFrame
    assumptions: pl.DataFrame
    rules: pl.DataFrame
    models: pl.DataFrame
    model_aliases: pl.DataFrame
    engines: pl.DataFrame
    quantisation: pl.DataFrame
    kv_precisions: pl.DataFrame
    optimisers: pl.DataFrame
    memory_constants: pl.DataFrame
    speed_classes: pl.DataFrame
    calibration_serving: pl.DataFrame
    calibration_links: pl.DataFrame
    calibration_training: pl.DataFrame
    power_curves: pl.DataFrame
    power_phases: pl.DataFrame
    engine_support: pl.DataFrame
    benchmark_lengths: pl.DataFrame
    measurements_serving: pl.DataFrame
    user_measurements: pl.DataFrame
    user_rates: pl.DataFrame
    sha256: str

    def assumption(self, key: str) -> float:
        """Value of an assumption, in the unit that its row states.

        Raises
        ------
        KeyError
            No such assumption.
        """
        values = self.assumptions.filter(key=key)["value"]
        if values.is_empty():
            raise KeyError(key)
        return float(values[0])

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Give the columns of a table row by row."""
        frame: pl.DataFrame = getattr(self, table)
        return frame.select(columns).iter_rows()

    def distinct(self, table: str, column: str) -> list[Any]:
        """Give the values that stand in a column, each once, in no order."""
        frame: pl.DataFrame = getattr(self, table)
        return frame[column].drop_nulls().unique().to_list()


TABLE_NAMES: tuple[str, ...] = tuple(f.name for f in fields(Catalog) if f.name != "sha256")
"""Tables of a catalogue; the schema of each stands under its name in `catalogs.schema.TABLES`."""
