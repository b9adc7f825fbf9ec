"""What several commands share: a scenario from options, JSON values, and how a command fails."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from workbench.core.errors import Refused, WorkbenchError

if TYPE_CHECKING:
    from workbench.plan import Plan


def resolved(model: str | None, settings: Iterable[str], option: str = "--set") -> Plan:
    """The plan of a scenario given as `field=value` texts; exits with 2 where there is none."""
    from workbench.plan import resolve
    from workbench.scenario import RANGES, SHARES, Scenario

    values: dict[str, Any] = {} if model is None else {"model": model}
    for item in settings:
        name, equals, text = item.partition("=")
        if not equals:
            fail(f"{option} takes field=value; got {item!r}.")
        given = value(text)
        # "0.23" and "9.0" are names; only the fields with a range are numbers.
        is_name = isinstance(given, int | float) and name not in (*RANGES, *SHARES)
        values[name] = text if is_name and not isinstance(given, bool) else given
    try:
        return resolve(Scenario.from_dict(values))
    except WorkbenchError as error:
        said = f"\nvLLM says: {error.vllm_text}..." if error.vllm_text else ""
        kind = "refused" if isinstance(error, Refused) else "error"
        fail(f"{kind} [{error.code}] {error.message}{said}")


def value(text: str) -> Any:
    """JSON where it is JSON ("4", "true", "null"), the bare word otherwise."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def fail(message: str) -> NoReturn:
    """Say why, and exit with 2."""
    typer.echo(message, err=True)
    raise typer.Exit(2)
