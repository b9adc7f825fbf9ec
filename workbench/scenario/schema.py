"""The published JSON schema of scenarios and plans."""

from typing import Any, TypedDict

from workbench.core.capacity.cache_plan import (
    PublishedGroup,
    PublishedPlacement,
    PublishedStage,
    PublishedTensor,
)
from workbench.core.plan import Plan
from workbench.core.problems import PublishedProblem
from workbench.core.published import closed, definition
from workbench.core.trace import PublishedStep
from workbench.scenario.fields import FIELDS

PARTS_OF_A_PLAN = (
    PublishedStep,
    PublishedGroup,
    PublishedTensor,
    PublishedStage,
    PublishedPlacement,
    PublishedProblem,
)


class PublishedError(TypedDict):
    """A scenario that is refused, or that cannot be read."""

    code: str
    message: str
    field: str | None


def scenario_schema() -> dict[str, Any]:
    """Return the schema of one scenario: every field but `model` is optional."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["model"],
        "properties": {name: field.schema() for name, field in FIELDS.items()},
    }


def published_schema() -> dict[str, Any]:
    """Return one document with `scenario`, `plan` and `error` under `$defs`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hybrid KV Workbench: scenarios and plans, one JSON object per line",
        "$defs": {
            "scenario": scenario_schema(),
            "plan": closed({entry.name: entry.schema for entry in Plan.entries()}),
            **dict(map(definition, PARTS_OF_A_PLAN)),
            "error": closed({"error": definition(PublishedError)[1]}),
        },
        "anyOf": [{"$ref": "#/$defs/plan"}, {"$ref": "#/$defs/error"}],
    }
