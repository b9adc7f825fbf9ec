"""The axes of a sweep: the default ones, and checked against what scenarios may have."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from workbench.core.capacity.blocks import measured_bytes
from workbench.core.errors import ScenarioError, cut, shown
from workbench.core.versions import RULE_SETS
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.kinds import Kind

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
            if _is_free_text(field, value):
                kept.append(value)
                continue
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
    """Return the combinations of the fields that decide which values of other fields are legal.

    Errors: ScenarioError for the first value that is wrong everywhere.
    """
    axes: dict[str, list[Any]] = {"rules": [start.rules]}
    for name in filter(requested.__contains__, PLACE):
        _check_field(start, name, requested[name])
        kind, known = FIELDS[name].kind, {FIELDS[name].default}
        for rules in RULE_SETS:
            known.update(kind.candidates(rules))
        axes[name] = []
        for value in requested[name]:
            word = kind.clean(name, value)
            if word is not None and not (isinstance(word, str) and word in known):
                start.replace(**{name: value})  # raises
            if word not in axes[name]:
                axes[name].append(word)
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _is_free_text(field: str, value: Any) -> bool:
    """Return whether a scenario takes this value whatever its other fields are."""
    kind = FIELDS[field].kind
    takes_text = "string" in kind.json["type"] and type(kind).check is Kind.check
    return takes_text and isinstance(value, str) and kind.clean(field, value) == value


def _check_field(start: Scenario, field: str, values: object) -> None:
    """Check that the field exists and has several values. Errors: ScenarioError."""
    if field not in FIELDS:
        start.replace(**{field: None})  # raises, and lists the fields
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ScenarioError(
            "wrong_type",
            f"Invalid values {shown(values)} for {cut(field)}. Expected several values such as "
            "(1, 2).",
            field=field,
        )
