"""The scenario: the user's settings, checked at the boundary; and random ones."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any, Self

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from workbench.access.json_text import json_or_word, parse_json
from workbench.core.devices import Device, device_named
from workbench.core.errors import ScenarioError, a_kind, nearest_names, shown
from workbench.core.versions import RULE_SETS, RuleSet
from workbench.scenario.engine_fields import DEFAULT_MODEL, MODEL
from workbench.scenario.fields import FIELDS, Settings
from workbench.scenario.kinds import Kind
from workbench.scenario.numbers import Integer

LISTED = 18
"""Fields in the error for a name that no field is like: those of the first section."""
NAMES = {
    **{other: name for name, field in FIELDS.items() for other in field.other_names},
    **{re.sub(r"\W+", "_", field.label.casefold()): name for name, field in FIELDS.items()},
    **{name: name for name in FIELDS},
}
"""What people may call a field -> its name. Only the name itself is accepted."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class _StrictFields(Settings):
    """The fields with their types, strictly checked: no "16", no 16.0, no True for a number."""

    model: str | dict[str, Any] = DEFAULT_MODEL


class Scenario(_StrictFields):
    """One configuration to resolve: a model, and the settings for it.

    model: a catalog name, a path of a config.json, a hub id, or the config object itself.
    None (JSON null) means "the engine chooses". Sizes are in tokens. `compute_capability` is read
    on CUDA only. `device` sets platform, capability and memory. Frozen; `replace` gives a changed
    copy; `to_json` and `from_json` round-trip.
    Errors: ScenarioError with the field, the value, what is allowed and the nearest valid value.

    >>> wb.Scenario("bamba-9b").replace(tensor_parallel=2).tensor_parallel
    2
    """

    def __init__(self, model: str | dict[str, Any] | None = None, /, **values: Any) -> None:
        if model is not None:
            values = dict(model=model, **values)
        if unknown := [name for name in values if name not in FIELDS]:
            raise unknown_field(unknown[0])
        cleaned = {name: FIELDS[name].kind.clean(name, value) for name, value in values.items()}
        if device := device_named(cleaned.get("device")):
            cleaned.setdefault("platform", device.platform)
        try:
            super().__init__(**cleaned)
        except ValidationError as error:
            raise _wrong_type_error(error) from None
        for name, field in FIELDS.items():
            if name in cleaned and cleaned[name] != field.default:
                field.check(self)
        if device:
            _check_device(self, device)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, checked again; a device sets the platform."""
        values = {**self.to_dict(), **changes}
        if changes.get("device") is not None and "platform" not in changes:
            del values["platform"]
        return type(self)(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return every field by name."""
        return {name: getattr(self, name) for name in FIELDS}

    def stated(self) -> dict[str, Any]:
        """Return the model, and the fields that do not have their defaults."""
        values = self.to_dict()
        return {
            name: values[name]
            for name, field in FIELDS.items()
            if field is MODEL or values[name] != field.default
        }

    def to_json(self) -> str:
        """Return one line of JSON, as `workbench resolve --batch` reads it."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the scenario with these fields; ScenarioError if it is not an object."""
        if not isinstance(values, Mapping):
            given = "null" if values is None else a_kind(values)
            message = f"Invalid scenario. Expected an object with named fields; got {given}."
            raise ScenarioError("scenario_not_object", message)
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


def _check_device(scenario: Scenario, device: Device) -> None:
    """Refuse what contradicts the device; an explicit memory does not, it is finer."""
    facts = {"platform": device.platform}
    if device.platform == "cuda" and scenario.compute_capability is not None:
        facts["compute_capability"] = device.architecture
    for name, fact in facts.items():
        given = getattr(scenario, name)
        if given != fact:
            raise ScenarioError(
                "contradicts_device",
                f"Invalid {name} {shown(given)}: the device {device.name} has {fact}. Omit {name}, "
                f"or set device to null. Nearest valid value: {fact}.",
                field=name,
                operands={"device": device.name, name: given},
            )


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these fields; a field given twice is an error."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            message = f"{shown(name)} is given twice."
            raise ScenarioError("duplicate_field", message, field=name[:80])
        values[name] = value
    return values


def unknown_field(given: str) -> ScenarioError:
    """Return the error for a name that no field has, with the nearest fields and flags."""
    name = given[:80]
    near = dict.fromkeys(NAMES[one] for one in nearest_names(name, NAMES))
    hint = f"Nearest: {', '.join(near)}."
    if not near:
        hint = f"Fields: {', '.join(islice(FIELDS, LISTED))} and {len(FIELDS) - LISTED} more."
    return ScenarioError(
        "unknown_field", f"A scenario has no field {shown(given)}. {hint}", field=name
    )


def _wrong_type_error(error: ValidationError) -> ScenarioError:
    first = error.errors()[0]
    name, *inside = first["loc"]
    kind = FIELDS[str(name)].kind
    is_item = bool(inside) and isinstance(inside[-1], int)
    expected, given = kind.item if is_item else kind.expected, first["input"]
    hint = "" if is_item else kind.hint(given)
    message = f"Invalid {name} {shown(given)} ({type(given).__name__}). Expected {expected}.{hint}"
    return ScenarioError("wrong_type", message, field=str(name))


def value_of(name: str, text: str) -> Any:
    """Return a value written as text: JSON where it is JSON, else the bare word.

    Only a field of numbers takes a number: "0.23" and "9.0" are names, and "32k" is 32,000.
    """
    value = json_or_word(text)
    kind = FIELDS[name].kind if name in FIELDS else Kind()
    if isinstance(kind, Integer):
        return kind.read(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text if is_number and kind.json["type"] != "number" else value


def random_scenarios(
    count: int, seed: int, rules: str, models: Sequence[str | dict[str, Any]] = ()
) -> tuple[Scenario, ...]:
    """Return `count` scenarios over the platforms and the backends of `rules`.

    models: names, paths or objects to choose from; those of the catalog by default. A backend is of
    the model's kind (MLA or not) and of the platform, a drafter of the method; the rest is free, so
    some scenarios are refused, which is an answer too. Scenarios differ in how much they set.
    """
    random = Random(seed)  # noqa: S311  (a choice of examples, not of secrets)
    return tuple(_random_scenario(random, RULE_SETS[rules], models) for _ in range(count))


def _random_scenario(
    random: Random, rules: RuleSet, models: Sequence[str | dict[str, Any]]
) -> Scenario:
    chosen: dict[str, Any] = {}
    # Few settings reach the groups and the sizes; many reach the refusals.
    share = random.uniform(0.2, 0.9)
    for name, field in FIELDS.items():
        given = models if field is MODEL else ()
        values = given or field.example_values(chosen, rules)
        # Values without the default are needed: the checkpoint of a method that drafts with one.
        needed = field is MODEL or field.default not in values
        is_set = values and (needed or random.random() < share)
        chosen[name] = random.choice(values) if is_set else field.default
    return Scenario(**chosen | {"rules": rules.name})
