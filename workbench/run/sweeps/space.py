"""What is swept: a scenario's settings, and the fields that vary."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.core.errors import ScenarioError, nearest_names
from workbench.core.model import Model
from workbench.core.settings import Settings
from workbench.run.sweeps.grids import Grid, grids

FIELDS = tuple(field.name for field in dataclasses.fields(Settings))
MODEL = "model"
MAX_POINTS = 20_000_000
Check = Callable[[str, Mapping[str, Any]], str | None]
"""(model name, settings) -> the code of what is wrong with these values, None if nothing is."""


@dataclass(frozen=True)
class Space:
    """Every combination of the values of some fields, the other fields as in `settings`.

    models: name -> model; several of them are an axis too, the outermost. axes: field -> values.
    illegal: settings that no scenario may have, as (fields and values, code).
    Errors: ScenarioError for a field that does not exist, or an axis without values.
    """

    models: Mapping[str, Model]
    settings: Settings
    axes: Mapping[str, Sequence[Any]]
    illegal: tuple[tuple[Mapping[str, Any], str], ...] = ()

    def __post_init__(self) -> None:
        """Plain settings, and axes whose values are told once."""
        if not self.models:
            raise ScenarioError("missing_field", "A sweep needs a model.", field=MODEL)
        for field, values in self.axes.items():
            if field not in FIELDS:
                near = ", ".join(nearest_names(field, FIELDS))
                raise ScenarioError(
                    "unknown_field",
                    f"A sweep has no axis {field[:80]!r}. Nearest: {near or ', '.join(FIELDS)}.",
                    field=field[:80],
                )
            if not values:
                raise ScenarioError(
                    "missing_field",
                    f"The axis {field} has no values: give at least one.",
                    field=field,
                )
        once = {field: tuple(dict.fromkeys(values)) for field, values in self.axes.items()}
        plain = Settings(**{name: getattr(self.settings, name) for name in FIELDS})
        object.__setattr__(self, "axes", once)
        object.__setattr__(self, "settings", plain)
        if self.size > MAX_POINTS:
            raise ScenarioError(
                "out_of_range",
                f"The sweep has {self.size:,} points; at most {MAX_POINTS:,} are held at once. "
                "Take values away from its longest axis, or sweep in parts.",
                field=max(once, key=lambda field: len(once[field])),
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Models first, then the axes."""
        return (len(self.models), *(len(values) for values in self.axes.values()))

    @property
    def size(self) -> int:
        """How many points there are."""
        return prod(self.shape)

    def place(self, index: int) -> tuple[int, ...]:
        """The position of a point on every axis."""
        places = []
        for length in reversed(self.shape):
            index, at = divmod(index, length)
            places.append(at)
        return tuple(reversed(places))

    def changes(self, index: int) -> dict[str, Any]:
        """What a point sets: the model's name and the fields that vary."""
        model, *rest = self.place(index)
        return {
            MODEL: tuple(self.models)[model],
            **{
                field: values[at]
                for (field, values), at in zip(self.axes.items(), rest, strict=True)
            },
        }

    def point(self, index: int) -> tuple[Model, Settings]:
        """The model and the settings of one point."""
        changes = self.changes(index)
        model = self.models[changes.pop(MODEL)]
        return model, dataclasses.replace(self.settings, **changes)

    def grids(self, largest: int) -> Iterator[tuple[Grid, ...]]:
        """What is evaluated by itself, see `workbench.run.sweeps.grids`."""
        return grids(self.models, self.settings, self.axes, largest)
