"""What is swept: settings, and the fields that vary."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from workbench.core.errors import ScenarioError, nearest_names
from workbench.core.model import Model
from workbench.scenario.fields import Settings, changed

FIELDS = tuple(field.name for field in dataclasses.fields(Settings))
MODEL = "model"
MAX_POINTS = 20_000_000


@dataclass(frozen=True)
class Space:
    """Every combination of the values of some fields, the other fields as in `settings`.

    models: name -> model; several of them are an axis too, the outermost. axes: field -> values.
    illegal: settings that no scenario may have, as (fields and values, code).
    Errors: ScenarioError for an unknown field, an axis without values, or too many points.
    """

    models: Mapping[str, Model]
    settings: Settings
    axes: Mapping[str, Sequence[Any]]
    illegal: tuple[tuple[Mapping[str, Any], str], ...] = ()

    def __post_init__(self) -> None:
        """Check the axes; keep each value once, and plain settings."""
        if not self.models:
            raise ScenarioError("missing_field", "A sweep needs a model.", field=MODEL)
        for field, values in self.axes.items():
            if field not in FIELDS:
                near = ", ".join(nearest_names(field, FIELDS)) or ", ".join(FIELDS)
                message = f"A sweep has no axis {field[:80]!r}. Nearest: {near}."
                raise ScenarioError("unknown_field", message, field=field[:80])
            if not values:
                message = f"The axis {field} has no values: give at least one."
                raise ScenarioError("missing_field", message, field=field)
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
        """Return the number of models, then of values on every axis."""
        return (len(self.models), *(len(values) for values in self.axes.values()))

    @property
    def size(self) -> int:
        """Return how many points there are."""
        return prod(self.shape)

    def changes(self, index: int) -> dict[str, Any]:
        """Return what a point sets: the model's name and the fields that vary."""
        places = (int(place) for place in np.unravel_index(index, self.shape))
        every = (tuple(self.models), *self.axes.values())
        values = (axis[place] for axis, place in zip(every, places, strict=True))
        return dict(zip((MODEL, *self.axes), values, strict=True))

    def points(self, start: int, stop: int) -> Iterator[tuple[Model, Settings]]:
        """Yield the model and the settings of consecutive points."""
        places = np.unravel_index(np.arange(start, stop), self.shape)
        every = (tuple(self.models.values()), *self.axes.values())
        columns = [
            [axis[place] for place in along.tolist()]
            for axis, along in zip(every, places, strict=True)
        ]
        fields = tuple(self.axes)
        for model, *values in zip(*columns, strict=True):
            yield model, changed(self.settings, zip(fields, values, strict=True))

    def illegal_code(self, settings: Settings) -> str | None:
        """Return the code of what no scenario may have, if these settings have it."""
        for fields, codes in self._codes.items():
            code = codes.get(tuple(getattr(settings, field) for field in fields))
            if code is not None:
                return code
        return None

    @cached_property
    def _codes(self) -> dict[tuple[str, ...], dict[tuple[Any, ...], str]]:
        """Return fields -> their values -> the code: an axis can have thousands of illegal ones."""
        found: dict[tuple[str, ...], dict[tuple[Any, ...], str]] = {}
        for values, code in self.illegal:
            found.setdefault(tuple(values), {}).setdefault(tuple(values.values()), code)
        return found
