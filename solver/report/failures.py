"""What went wrong, as one message and the exit code that stands for it. The codes are documented; none is reused."""

from __future__ import annotations

import os
import tempfile
import traceback

from catalogs.errors import CatalogError, UnknownName
from catalogs.model_config import ConfigError
from problems.load import ProblemError
from problems.template import TemplateError
from solver.plan import Result, Status, StopReason
from solver.report.answer import NoAnswer
from solver.report.export import NotAResult
from solver.validation.validate_memory import ValidationError
from solver.whatif.vary import BadRequest

OK, INTERNAL, USAGE, INFEASIBLE, GAP_OPEN, NOTHING_FOUND, CATALOG, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


def exit_code(result: Result, gap: float) -> int:
    """Exit code that stands for a result; `gap` is the one asked for [ratio]."""
    if result.stop_reason is StopReason.INTERRUPTED:
        return INTERRUPTED
    if result.status is Status.FEASIBLE:
        return OK if result.gap is not None and result.gap <= gap else GAP_OPEN
    return {Status.OPTIMAL: OK, Status.INFEASIBLE: INFEASIBLE, Status.UNKNOWN: NOTHING_FOUND}[result.status]


def explain(error: Exception) -> tuple[int, str]:
    """Exit code and message for an error: the user's to mend, the catalogue's, or a bug of ours."""
    if isinstance(error, CatalogError):
        # A table that cannot be read is input like a problem file; CATALOG is for what the catalogue checks find.
        return USAGE, str(error)
    if isinstance(
        error, ProblemError | UnknownName | ConfigError | NotAResult | NoAnswer | ValidationError | BadRequest
    ):
        return USAGE, str(error)
    if isinstance(error, TemplateError):
        return USAGE, "\n".join(f"--{name}: {what}" for name, what in error.errors.items())
    said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return INTERNAL, f"kitout: internal error, please report it: {said} (trace saved in {save_trace(error)})"


def save_trace(error: Exception) -> str:
    """Save the trace of an error to a file of its own; give its name."""
    handle, name = tempfile.mkstemp(prefix="kitout-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        traceback.print_exception(error, file=out)
    return name
