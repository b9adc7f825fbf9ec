"""A scenario as Python code."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from workbench.scenario import FIELDS


def scenario_code(values: Mapping[str, Any]) -> str:
    """Return code that builds the scenario with these fields and resolves it; omits defaults."""
    given = {
        name: value
        for name, value in values.items()
        if name == "model" or value != FIELDS[name].default
    }
    arguments = "".join(f"    {name}={_literal(value)},\n" for name, value in given.items())
    return (
        "import workbench as wb\n\n"
        f"scenario = wb.Scenario(\n{arguments})\n"
        "plan = wb.resolve(scenario)\n"
        "plan\n"
    )


def _literal(value: Any) -> str:
    """Return a `repr` that can be run: infinities and NaN in real configs have no literal."""
    if isinstance(value, Mapping):
        items = (f"{_literal(key)}: {_literal(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    return repr(value)
