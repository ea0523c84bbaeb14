"""The command called from tests, and a sound problem for it."""

from __future__ import annotations

from click.testing import CliRunner
from click.testing import Result as Run

import cli

SOUND = """\
horizon: 12mo
workloads:
  - name: lab
    kind: fixed
    accelerator: {memory: 16GB}
    hours: 60h/mo
"""


def kitout(*arguments: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Run:
    return CliRunner().invoke(cli.main, list(arguments), input=stdin, env=env)
