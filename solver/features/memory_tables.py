"""The catalogue tables that the memory features read, as one frozen bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import polars as pl


class HasMemoryTables(Protocol):
    """Anything with the tables as attributes: the Catalog."""

    @property
    def engines(self) -> pl.DataFrame: ...
    @property
    def quantisation(self) -> pl.DataFrame: ...
    @property
    def kv_precisions(self) -> pl.DataFrame: ...
    @property
    def optimisers(self) -> pl.DataFrame: ...
    @property
    def memory_constants(self) -> pl.DataFrame: ...


@dataclass(frozen=True)
class MemoryTables:
    """Tables `engines`, `quantisation`, `kv_precisions`, `optimisers` and the constants by key."""

    engines: pl.DataFrame
    quantisation: pl.DataFrame
    kv_precisions: pl.DataFrame
    optimisers: pl.DataFrame
    constants: dict[str, float]

    @classmethod
    def of(cls, catalog: HasMemoryTables) -> MemoryTables:
        """Take the tables out of a catalogue."""
        constants = catalog.memory_constants
        return cls(
            engines=catalog.engines,
            quantisation=catalog.quantisation,
            kv_precisions=catalog.kv_precisions,
            optimisers=catalog.optimisers,
            constants=dict(zip(constants["key"], constants["value"].cast(pl.Float64), strict=True)),
        )

    def constant(self, key: str) -> pl.Expr:
        """Give a constant as an expression."""
        return pl.lit(self.constants[key])


def with_looked_up(
    frame: pl.LazyFrame, table: pl.DataFrame, key: pl.Expr, on: pl.Series, columns: dict[str, str]
) -> pl.LazyFrame:
    """Copy columns of a small table to each row, by a key; null where the table lacks the key.

    A gather by row number costs a fraction of a join and keeps the order of the rows. `on` holds the table's keys,
    `columns` maps the table's names to those of the result.
    """
    row = "_table_row"
    number = key.replace_strict(on.to_list(), list(range(table.height)), default=None, return_dtype=pl.UInt32)
    copies = [pl.lit(table[old]).gather(pl.col(row)).alias(new) for old, new in columns.items()]
    return frame.with_columns(number.alias(row)).with_columns(copies).drop(row)
