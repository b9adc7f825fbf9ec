"""The axes of a sweep: the default ones, as text, and checked against what scenarios may have."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from workbench.core.capacity.blocks import measured_bytes
from workbench.core.errors import ScenarioError
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.scenario import value_of

DEFAULT_AXES = {name: field.sweep for name, field in FIELDS.items() if field.sweep}
ASSUMED_MEMORY = "20 GiB"
PLACE = ("rules", "platform", "device")


def default_axes(scenario: Scenario) -> dict[str, tuple[Any, ...]]:
    """Return the default sweep axes, with a memory size if the scenario has none."""
    known = measured_bytes(scenario) is not None or scenario.num_gpu_blocks_override is not None
    return (
        dict(DEFAULT_AXES)
        if known
        else {**DEFAULT_AXES, "kv_cache_memory_bytes": (ASSUMED_MEMORY,)}
    )


def checked_axes(
    start: Scenario, requested: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, tuple[Any, ...]], tuple[tuple[Mapping[str, Any], str], ...]]:
    """Return the values as a scenario holds them, and the combinations that no scenario has.

    A value that is wrong in every rule set, on every platform and device of the sweep is an error.
    """
    defaults = {name: FIELDS[name].default for name in requested if name in FIELDS}
    places = _places(start, requested)
    checked: dict[str, tuple[Any, ...]] = {}
    illegal: list[tuple[Mapping[str, Any], str]] = []
    for field, values in requested.items():
        _check_field(start, field, values)
        kept = []
        for value in values:
            errors = []
            for place in places:
                try:
                    found = start.replace(**{**defaults, **place, field: value})
                    kept.append(getattr(found, field))
                except ScenarioError as error:
                    errors.append((place, error))
            if len(errors) == len(places):
                raise errors[0][1]
            illegal += [({**place, field: kept[-1]}, wrong.code) for place, wrong in errors]
        checked[field] = tuple(dict.fromkeys(kept)) if field != "model" else tuple(kept)
    return checked, tuple(illegal)


def _places(start: Scenario, requested: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the combinations of the fields that decide which values of other fields are legal."""
    axes = {
        name: [FIELDS[name].kind.clean(name, value) for value in requested[name]]
        for name in PLACE
        if name in requested
    }
    axes.setdefault("rules", [start.rules])
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _check_field(start: Scenario, field: str, values: object) -> None:
    """Check that the field exists and has several values. Errors: ScenarioError."""
    if field not in FIELDS:
        start.replace(**{field: None})  # raises, and lists the fields
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ScenarioError(
            "wrong_type",
            f"Invalid values {values!r} for {field}. Expected several values such as (1, 2).",
            field=field,
        )


def parse_axes(text: str) -> dict[str, tuple[Any, ...]]:
    """Return axes from lines `field = value, value`: JSON values, bare words, sizes with units.

    Errors: ScenarioError that quotes the line.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for line in filter(str.strip, text.splitlines()):
        field, equals, values = line.partition("=")
        name = field.strip()
        if not equals or not values.strip():
            raise ScenarioError(
                "wrong_type",
                f"Invalid line {line.strip()[:60]!r}. "
                "Expected `field = value, value`, such as `tensor_parallel = 1, 2`.",
                field=name[:60] or None,
            )
        if name in found:
            raise ScenarioError(
                "duplicate_field", f"{name[:60]!r} is given twice.", field=name[:60]
            )
        found[name] = tuple(
            _value(name, part.strip()) for part in values.split(",") if part.strip()
        )
    return found


def _value(name: str, text: str) -> Any:
    """Return the value of a field in an axis; "none" is the engine's choice if it is not a word."""
    words = FIELDS[name].kind.candidates(FIELDS["rules"].default) if name in FIELDS else ()
    if text in {"none", "null", "None"} and text not in words:
        return None
    value = value_of(name, text)
    return value.strip("\"'") if isinstance(value, str) else value
