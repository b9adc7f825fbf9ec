"""Shared by several commands: a scenario from options, JSON values, and command failure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from workbench.access.files import FileError, FileUse, read_text
from workbench.access.json_text import parse_json
from workbench.core.errors import Refused, WorkbenchError, shown

if TYPE_CHECKING:
    from workbench.core.plan import Plan
    from workbench.scenario import Scenario

SCENARIO_FILE = FileUse("scenario or config.json", 2 * 2**20, "model")


def resolved(model: str | None, settings: Iterable[str], option: str = "--set") -> Plan:
    """Return the plan of a scenario given as `field=value` texts; exit with 2 if there is none."""
    from workbench.resolution import resolve

    try:
        return resolve(scenario_of(model, settings, option))
    except WorkbenchError as error:
        said = f"\nvLLM says: {error.vllm_text}..." if error.vllm_text else ""
        kind = "refused" if isinstance(error, Refused) else "error"
        fail(f"{kind} [{error.code}] {error.message}{said}")


def scenario_of(model: str | None, settings: Iterable[str], option: str = "--set") -> Scenario:
    """Return the scenario given as `field=value` texts. Errors: ScenarioError."""
    from workbench.scenario.scenario import Scenario, value_of

    values = _fields_of(model)
    for item in settings:
        name, equals, text = item.partition("=")
        if not equals:
            fail(f"Invalid {option} {shown(item)}. Expected field=value.")
        values[name] = value_of(name, text)
    return Scenario.from_dict(values)


def _fields_of(model: str | None) -> dict[str, Any]:
    """Return the fields of an argument: a model, or a file with a scenario in it."""
    if model is None:
        return {}
    path = Path(model)
    if path.suffix == ".json" and path.is_file():
        try:
            held = parse_json(read_text(path, SCENARIO_FILE))
        except FileError as error:
            fail(f"error [{error.code}] {error.message}")
        except ValueError:  # read again as a config.json, which says what is wrong with it
            return {"model": model}
        if isinstance(held, dict) and "model" in held and "model_type" not in held:
            return dict(held)
    return {"model": model}


INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""


def fail(message: str) -> NoReturn:
    """Print the message, and exit with 2."""
    typer.echo(message, err=True)
    raise typer.Exit(2)
