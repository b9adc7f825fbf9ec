"""The scenario: the user's settings, checked at the boundary."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from workbench.access.json_text import parse_json
from workbench.core.errors import ScenarioError, nearest_names, shown
from workbench.core.settings import Settings
from workbench.memory_size import parse_bytes
from workbench.scenario_values import BYTES, RANKS, SKIPPED, check_values, nearest_hint

DEFAULT_MODEL = "nemotron-3-nano-30b-a3b"
ALIASES = {
    "tp": "tensor_parallel",
    "tensor_parallel_size": "tensor_parallel",
    "attention_backend": "backend",
    "speculative_tokens": "num_speculative_tokens",
    "vllm": "rules",
}
"""Common other names of a field; suggested in errors, never accepted."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class _StrictFields(Settings):
    """The fields with their types, strictly checked: no "16", no 16.0, no True for a number."""

    model: str | dict[str, Any] = DEFAULT_MODEL


class Scenario(_StrictFields):
    """One configuration to resolve: a model, and the settings for it.

    model: a catalog name, a path of a config.json, a hub id, or the config object itself.
    None (JSON null) means "the engine chooses". Sizes are in tokens. `compute_capability` is read
    on CUDA only. Frozen; `replace` gives a changed copy; `to_json` and `from_json` round-trip.
    Errors: ScenarioError with the field, the value, what is allowed and the nearest valid value.
    """

    def __init__(self, /, **values: Any) -> None:
        if unknown := [name for name in values if name not in FIELDS]:
            raise _unknown_field(unknown[0])
        if isinstance(capability := values.get("compute_capability"), int | float):
            values["compute_capability"] = _capability_text(capability)
        for field in BYTES:
            if isinstance(text := values.get(field), str):
                values[field] = parse_bytes(text, field)
        if isinstance(sizes := values.get(RANKS), list | tuple):
            values[RANKS] = tuple(
                parse_bytes(size, RANKS) if isinstance(size, str) else size for size in sizes
            )
        if isinstance(layers := values.get(SKIPPED), list | tuple):
            values[SKIPPED] = tuple(str(layer) if type(layer) is int else layer for layer in layers)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _wrong_type_error(error) from None
        check_values(self)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, checked again."""
        return type(self)(**{**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Return every field by name."""
        return {name: getattr(self, name) for name in FIELDS}

    def to_json(self) -> str:
        """Return one line of JSON, as `workbench resolve --batch` reads it."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the scenario with these fields; ScenarioError if it is not an object."""
        if not isinstance(values, Mapping):
            raise ScenarioError(
                "scenario_not_object",
                "Invalid scenario. Expected an object with named fields; got a "
                f"{type(values).__name__}.",
            )
        scenario = cls(**{str(name): value for name, value in values.items()})
        if "model" not in values:
            raise ScenarioError(
                "missing_field",
                "The scenario has no model. Expected a catalog name (`workbench models`), the path "
                "of a config.json, a hub id, or the config object itself.",
                field="model",
            )
        return scenario

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the scenario in one JSON object."""
        try:
            values = parse_json(text, pairs=_unique_fields)
        except ScenarioError:
            raise
        except ValueError as error:
            raise ScenarioError("scenario_not_json", f"Not a JSON object: {error}.") from None
        return cls.from_dict(values)


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these fields; a field given twice is an error."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            message = f"{shown(name)} is given twice."
            raise ScenarioError("duplicate_field", message, field=name[:80])
        values[name] = value
    return values


FIELDS: tuple[str, ...] = (
    "model",
    *(field.name for field in dataclasses.fields(Settings)),
)


def _capability_text(value: float) -> str:
    """Return the text of a number; a capability that no device has may be longer."""
    try:
        return f"{value:.1f}"
    except OverflowError:  # an integer that no float holds
        return shown(value)


def _unknown_field(given: str) -> ScenarioError:
    name = given[:80]
    near = (ALIASES[name],) if name in ALIASES else nearest_names(name, FIELDS)
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return ScenarioError(
        "unknown_field",
        f"A scenario has no field {shown(given)}.{hint} Fields: {', '.join(FIELDS)}.",
        field=name,
    )


def _wrong_type_error(error: ValidationError) -> ScenarioError:
    first = error.errors()[0]
    field = str(first["loc"][0]) if first["loc"] else None
    kind = {
        "int_type": "an integer",
        "bool_type": "true or false",
        "float_type": "a number",
        "tuple_type": "a list with one size per rank",
    }.get(first["type"], "a string")
    if field == "model":
        kind = "a name, a path or a config object"
    given = first["input"]
    hint = nearest_hint(field, given) if kind == "an integer" else ""
    return ScenarioError(
        "wrong_type",
        f"Invalid {field} {shown(given)} ({type(given).__name__}). Expected {kind}.{hint}",
        field=field,
    )


def scenarios_along(scenario: Scenario, field: str, values: Iterable[Any]) -> tuple[Scenario, ...]:
    """Return copies of a scenario with `field` set to each of `values`."""
    return tuple(scenario.replace(**{field: value}) for value in values)
