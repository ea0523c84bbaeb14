"""Import of price sources into overlay folders: source name -> importer; the folder is written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from catalogs.cache import MARKET, refuse_place, write_overlay
from catalogs.catalog import Catalog
from catalogs.errors import CatalogError, Issue
from catalogs.importers.gpuhunt import import_gpuhunt
from catalogs.importers.quotes import import_quotes
from catalogs.importers.report import Imported, ImportReport
from catalogs.importers.skypilot import import_skypilot
from catalogs.importers.vantage import import_vantage

SOURCES: Mapping[str, Callable[..., Imported]] = {
    "skypilot": import_skypilot,
    "gpuhunt": import_gpuhunt,
    "vantage": import_vantage,
    "quotes": import_quotes,
}
# Price lists of whole markets: the built-in offers are older rows of the same clouds and step aside for them.
MARKETS = ("skypilot", "gpuhunt", "vantage")


def import_source(
    source: str,
    path: Path,
    out: Path,
    catalog: Catalog,
    *,
    beside: bool = False,
    as_of: str | None = None,
    encoding: str | None = None,
) -> ImportReport:
    """Import `path` into the overlay folder `out`.

    Parameters
    ----------
    beside
        Keep the built-in offers beside those of a price list.
    as_of
        Date of the prices, where the source states none (YYYY-MM or YYYY-MM-DD).
    encoding
        Of the source's text, where it is not UTF-8.

    Raises
    ------
    CatalogError
        The source has a fault, or `out` cannot be written; then nothing is.
    """
    refuse_place(out)
    if path.resolve() == out.resolve():
        raise CatalogError([Issue(str(out), None, None, "is the source itself", "another folder")])
    found = SOURCES[source](path, catalog, as_of=as_of, encoding=encoding)
    aside = MARKET if source in MARKETS and not beside else ()
    write_overlay(out, found.tables, steps_aside=aside, imported=found.report.as_dict())
    return found.report
