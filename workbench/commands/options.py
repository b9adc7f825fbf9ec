"""Shared by several commands: options, a scenario from options, and how a command fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from workbench.access.files import FileUse, read_text
from workbench.access.json_text import parse_json
from workbench.core.errors import Refused, Unusable, WorkbenchError, shown

if TYPE_CHECKING:
    from workbench.core.plan import Plan
    from workbench.scenario import Scenario

SCENARIO_FILE = FileUse("scenario or config.json", 2 * 2**20, "model")
INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""

Model = Annotated[str, typer.Argument(help="Catalog name, path, or hub id.")]
AnyModel = Annotated[str | None, typer.Argument(help="Catalog name, path, or hub id.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", help="A scenario field, e.g. -s tensor_parallel=4, with a JSON value."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def option(meaning: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Return an option, as the default of a parameter; more: see `typer.Option`."""
    return typer.Option(default, *names, help=meaning, **more)


def flag(name: str, meaning: str) -> Any:
    """Return a switch that is off by default and has no other form."""
    return typer.Option(False, name, help=meaning)


def argument(meaning: str, default: Any = None) -> Any:
    """Return an argument; with `...` as default it is required."""
    return typer.Argument(default, help=meaning)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that prints an error in one line, with its code, and exits with 2."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except WorkbenchError as error:
            said = f"\nvLLM says: {error.vllm_text}..." if error.vllm_text else ""
            kind = "refused" if isinstance(error, Refused) else "error"
            fail(f"{kind} [{error.code}] {error.message}{said}")
        except Unusable as error:
            fail(str(error))

    return run


def fail(message: str) -> NoReturn:
    """Print the message, and exit with 2."""
    typer.echo(message, err=True)
    raise typer.Exit(2)


def resolved(model: str | None, settings: Iterable[str] | None, option: str = "--set") -> Plan:
    """Return the plan of a scenario given as `field=value` texts. Errors: WorkbenchError."""
    from workbench.resolution import resolve

    return resolve(scenario_of(model, settings, option))


def scenario_of(
    model: str | None, settings: Iterable[str] | None = None, option: str = "--set"
) -> Scenario:
    """Return the scenario given as `field=value` texts. Errors: ScenarioError."""
    from workbench.scenario.scenario import Scenario, value_of

    texts = named_values(settings, option, "field")
    explicit = {name: value_of(name, text) for name, text in texts.items()}
    return Scenario.from_dict({**_fields_of(model), **explicit})


def named_values(items: Iterable[str] | None, option: str, what: str = "name") -> dict[str, str]:
    """Return name -> text of `name=value` texts; exit with 2 for another form."""
    for item in items or ():
        if "=" not in item:
            fail(f"Invalid {option} {shown(item)}. Expected {what}=value.")
    return {name: text for name, _, text in (item.partition("=") for item in items or ())}


def _fields_of(model: str | None) -> dict[str, Any]:
    """Return the fields of an argument: a model, or a file with a scenario in it."""
    if model is None:
        return {}
    path = Path(model)
    if path.suffix == ".json" and path.is_file():
        text = read_text(path, SCENARIO_FILE)
        try:
            held = parse_json(text)
        except ValueError:  # read again as a config.json, which says what is wrong with it
            return {"model": model}
        if isinstance(held, dict) and "model" in held and "model_type" not in held:
            return dict(held)
    return {"model": model}
