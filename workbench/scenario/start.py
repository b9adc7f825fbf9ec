"""The scenario that a caller means by a scenario, a plan or a model."""

from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from workbench.core.errors import ScenarioError, a_kind
from workbench.core.plan import Plan
from workbench.scenario.scenario import Scenario

Start: TypeAlias = Scenario | Plan | str | PathLike[str] | dict[str, Any] | None
"""A scenario, a plan's, or a model with defaults: its name, path, hub id or config object."""


def scenario_from(start: Start, **fields: Any) -> Scenario:
    """Return the scenario that is meant, with some fields changed; without one, the default.

    Errors: ScenarioError for an invalid field, or a value that is none of these.
    """
    if isinstance(start, Plan):
        start = start.scenario
    if isinstance(start, PathLike):
        start = fspath(start)
    if isinstance(start, str | dict):
        return Scenario(**{"model": start, **fields})
    if start is None:
        return Scenario(**fields)
    if not isinstance(start, Scenario):
        raise ScenarioError(
            "not_a_scenario",
            "Expected a scenario, a plan, or a model (catalog name, path of a config.json, hub id "
            f"or config object); got {a_kind(start)}.",
        )
    return start.replace(**fields) if fields else start


def is_words(text: str) -> bool:
    """Return whether a text has several words and is not a path: a command, a description, a log.

    Other texts name a model.
    """
    if len(text.split()) < 2:
        return False
    with suppress(OSError):  # a command may be longer than any name
        return not Path(text).exists()
    return True
