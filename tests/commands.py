"""Commands as a terminal runs them, in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from workbench.cli import app


def run(*arguments: object, given: str | bytes | None = None) -> Result:
    """Return how `workbench` ends with these arguments. given: what it reads from stdin."""
    return CliRunner().invoke(app, [str(one) for one in arguments], input=given)


def published(*arguments: object) -> Any:
    """Return the JSON of a command that ends well."""
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)
