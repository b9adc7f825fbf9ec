"""Turn per-layer words into layers."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.model import FULL, SSM, Layer
from workbench.models.fields import Fields

BOTH = "both"
NEITHER = "neither"


def to_layers(kinds: Sequence[str]) -> tuple[Layer, ...]:
    """Return one entry per cache-keeping part; BOTH gives attention first, NEITHER none."""
    layers: list[Layer] = []
    for index, kind in enumerate(kinds):
        if kind == NEITHER:
            continue
        if kind == BOTH:
            layers += [Layer(index, FULL), Layer(index, SSM)]
        else:
            layers.append(Layer(index, kind))
    return tuple(layers)


def ssm_everywhere(fields: Fields) -> tuple[Layer, ...]:
    """Return the layers of a pure state-space model."""
    return to_layers([SSM] * fields.layer_count())


def check_length(fields: Fields, key: str, kinds: Sequence[str]) -> None:
    """Check that a per-layer list has `num_hidden_layers` entries if that field is present."""
    if fields.has("num_hidden_layers") and fields.layer_count() != len(kinds):
        raise fields.contradiction(
            key, f"{len(kinds)} entries for num_hidden_layers = {fields.layer_count()}"
        )


def first_list(
    fields: Fields, keys: Sequence[str], allowed: dict[object, str]
) -> tuple[str, ...] | None:
    """Return the kinds in the first of `keys` that is present, checked for its length."""
    for key in keys:
        kinds = fields.layer_list(key, allowed)
        if kinds is not None:
            check_length(fields, key, kinds)
            return kinds
    return None
