"""A scenario as Python code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.core.settings import Settings

DEFAULTS = Settings()


def scenario_code(values: Mapping[str, Any]) -> str:
    """Code that builds the scenario with these fields and resolves it; defaults are left out."""
    given = {
        name: value
        for name, value in values.items()
        if name == "model" or value != getattr(DEFAULTS, name)
    }
    arguments = "".join(f"    {name}={value!r},\n" for name, value in given.items())
    return (
        "import workbench as wb\n\n"
        f"scenario = wb.Scenario(\n{arguments})\n"
        "plan = wb.resolve(scenario)\n"
        "plan\n"
    )
