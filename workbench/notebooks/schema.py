"""JSON Schemas of the results of a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")


def results_schema(fields: Mapping[str, str | Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a notebook's results: every name is required, no other allowed.

    A field is a JSON Schema, or short: "integer", "integer|null". Raises ValueError for one that
    is neither.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    schema = {
        "type": "object",
        "properties": {name: _field(name, written) for name, written in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(str(part) for part in error.path)
        raise ValueError(f"{where}: {error.message}") from error
    return schema


def _field(name: str, written: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(written, str):
        return written
    types = written.split("|")
    unknown = [each for each in types if each not in TYPES]
    if unknown:
        allowed = ", ".join(TYPES)
        raise ValueError(f"Invalid type {unknown[0]!r} of {name}. Expected {allowed}, joined by |.")
    return {"type": types if len(types) > 1 else types[0]}


def schema_errors(value: object, schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (place, reason) of everything that breaks the schema, in order."""
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(schema).iter_errors(value)
    found = ((".".join(map(str, each.absolute_path)) or "the top", each.message) for each in errors)
    return tuple((place, why[:300]) for place, why in sorted(found))
