"""The axes of a sweep: the default ones, and checked against what scenarios may have."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from workbench.core.capacity.blocks import measured_bytes, rank_bytes
from workbench.core.errors import ScenarioError, WorkbenchError, cut, shown
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.kinds import Kind
from workbench.scenario.resolution import resolve

DEFAULT_AXES = {name: field.sweep for name, field in FIELDS.items() if field.sweep}
FIRST_FIELDS = ("tensor_parallel", "kv_cache_dtype")
"""What a first, small sweep varies: more GPUs or fewer bits."""
ASSUMED_MEMORY = "20 GiB"
PLACE = ("rules", "platform", "device")


def default_axes(
    scenario: Scenario, fields: Collection[str] = tuple(DEFAULT_AXES)
) -> dict[str, tuple[Any, ...]]:
    """Return the default values of these fields, with a memory size if the scenario has none."""
    axes = {name: values for name, values in DEFAULT_AXES.items() if name in fields}
    if _memory_is_known(scenario):
        return axes
    return {**axes, "kv_cache_memory_bytes": (ASSUMED_MEMORY,)}


def _memory_is_known(scenario: Scenario) -> bool:
    """Return whether the memory of the cache is given, or estimated from a device."""
    if measured_bytes(scenario) is not None or scenario.num_gpu_blocks_override is not None:
        return True
    try:
        plan = resolve(scenario)
    except WorkbenchError:
        return False
    return plan.cache is not None and bool(rank_bytes(plan, plan.cache))


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
        kind = FIELDS[name].kind
        known = {FIELDS[name].default, *kind.all_words()}
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
