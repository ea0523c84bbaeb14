"""`kitout import gpu-mix`: a problem and its tables from a file of GPU types, request sizes and rates."""

from __future__ import annotations

from pathlib import Path

from solver.report.answer import Answer


def import_gpu_mix(path: Path, out: Path, overlays: tuple[Path, ...], as_of: str, answer: Answer) -> None:
    """Write the overlay folder with the problem in it, and say what was done.

    Raises
    ------
    catalogs.errors.CatalogError
        The file is faulty, or the folder cannot be written.
    """
    from catalogs.cache import BESIDE, write_overlay
    from catalogs.importers.gpu_mix import read_gpu_mix
    from catalogs.load import load_catalog
    from solver.report.export import to_json

    mix = read_gpu_mix(path, load_catalog(overlays), as_of=as_of)
    write_overlay(out, mix.tables, steps_aside=(), imported={"source": f"gpu-mix: {path.name}"}, problem=mix.problem)
    if answer.form == "json":
        said = {"types": mix.types, "sizes": mix.sizes, "rates": mix.rates, "notes": mix.notes, "written": str(out)}
        answer.give(to_json(said))
        return
    lines = [f"{mix.types:,} GPU types, {mix.sizes:,} request sizes, {mix.rates:,} rates"]
    lines += [f"  {note}" for note in mix.notes]
    lines.append(f"written to {out}; kitout solve {out / BESIDE} --catalog {out}")
    answer.give("\n".join(lines) + "\n")
