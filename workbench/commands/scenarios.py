"""The scenario of a command: a model, a file or a text, and settings."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from workbench.access.files import FileUse, read_text
from workbench.access.json_text import parse_json
from workbench.commands.options import fail, named_values
from workbench.core import errors

if TYPE_CHECKING:
    from workbench.core.plan import Plan
    from workbench.core.problems import Problem
    from workbench.interop.understood import Understood
    from workbench.scenario import Scenario

SCENARIO_FILE = FileUse("scenario or config.json", 2 * 2**20, "model")


def resolved(model: str | None, settings: Iterable[str] | None, option: str = "--set") -> Plan:
    """Return the plan of a scenario given as `field=value` texts. Errors: WorkbenchError."""
    from workbench.scenario.resolution import resolve

    fields, problems = _given_by(model)
    plan = resolve(_scenario(fields, settings, option))
    return replace(plan, problems=(*problems, *plan.problems)) if problems else plan


def scenario_of(
    model: str | None, settings: Iterable[str] | None = None, option: str = "--set"
) -> Scenario:
    """Return the scenario given as `field=value` texts. Errors: ScenarioError."""
    return _scenario(_given_by(model)[0], settings, option)


def _scenario(fields: dict[str, Any], settings: Iterable[str] | None, option: str) -> Scenario:
    from workbench.scenario.scenario import Scenario, value_of

    texts = named_values(settings, option, "field")
    explicit = {name: value_of(name, text) for name, text in texts.items()}
    return Scenario.from_dict({**fields, **explicit})


def _given_by(model: str | None) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """Return the fields of an argument, and what stops vLLM before it has them."""
    from workbench.scenario.links import LINK, read_link
    from workbench.scenario.start import is_words

    if model is None:
        return {}, ()
    if LINK in model:
        return read_link(model), ()
    return _given_by_text(model) if is_words(model) else (_fields_of(model), ())


def _fields_of(model: str) -> dict[str, Any]:
    """Return the fields of a model, or of a file with a scenario in it."""
    path = Path(model)
    if path.suffix == ".json" and path.is_file():
        text = read_text(path, SCENARIO_FILE)
        try:
            held = parse_json(text)
        except ValueError:  # read again as a config.json, which says what is wrong with it
            return {"model": model}
        if isinstance(held, dict) and "model" in held and "model_type" not in held:
            return dict(held)
    elif _is_other_file(model):
        fail(
            f"{errors.shown(model)} is a file, and not a model. Expected a config.json or a design "
            "or scenario file (.json), a catalog name or a hub id; a file with one scenario per "
            "line is read by `workbench resolve --batch FILE`."
        )
    return {"model": model}


def _is_other_file(text: str) -> bool:
    """Return whether a name that is not a model's is that of a file; a path is read as one."""
    from workbench.models.catalog import catalog_name

    is_path = text.startswith((".", "/", "~")) or text.endswith(".json")
    return not is_path and catalog_name(text) is None and os.path.isfile(text)  # noqa: PTH113  (Path's raises for long names)


@lru_cache(maxsize=1)
def _understood(text: str) -> Understood | None:
    """Return what a text says; None for one that may be the name of a model. Errors: as there."""
    from workbench.interop.omnibox import understand
    from workbench.scenario.scenario import Scenario

    try:
        return understand(text, Scenario())
    except errors.ScenarioError as error:
        if error.code != "log_not_recognised":
            raise
        return None


def length_said(model: str | None) -> int | None:
    """Return the tokens of a request that a text speaks of; None for any other argument."""
    from workbench.scenario.start import is_words

    found = _understood(model) if model is not None and is_words(model) else None
    return None if found is None else found.load.length_tokens


def _given_by_text(text: str) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """Return what a command or a description gives, and print what has no field."""
    found = _understood(text)
    if found is None:
        return {"model": text}, ()
    if found.scenario is None or found.log is not None:
        fail("A log is read by `workbench explain-log FILE`.")
    of_default = found.kind not in {"model", "config"} and "model" not in found.said
    notes = [found.message] * (of_default or bool(found.compared)) + [*found.notes]
    if found.compared:
        notes.append("The last one is resolved. `workbench diff A B` compares two.")
    elif found.question is not None:
        notes.append("The plan that the question is about; `workbench app` answers it in words.")
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    return found.scenario.stated(), found.problems
