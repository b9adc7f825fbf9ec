"""The command `workbench explain-log`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from workbench.commands.options import fail
from workbench.core.errors import WorkbenchError


def explain_log(
    log: Annotated[str, typer.Argument(help="A vLLM start-up log; - for stdin.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Explain a vLLM start-up log: every known line, its rule, and what to change.

    Exit status: 0 for an explanation, also of a failed start; 2 if there is nothing to explain.
    """
    from workbench.exchange import explain_log as explain
    from workbench.interop.logs.text import MAX_LOG_BYTES
    from workbench.views.logs.table import log_text

    try:
        given = sys.stdin.buffer.read(MAX_LOG_BYTES + 1) if log == "-" else Path(log)
        report = explain(given).to_dict()
    except WorkbenchError as error:
        fail(f"error [{error.code}] {error.message}")
    typer.echo(json.dumps(report, indent=2) if as_json else log_text(report))
