"""A model in one line: name, architecture, layers by kind, parameters."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

from workbench.core.weights import LATER, MIXING, NARROW, TABLE, Weights

if TYPE_CHECKING:
    from workbench.core.model import Model

BILLION, MILLION = 10**9, 10**6
LEARNED = {"", LATER, NARROW, MIXING}
"""Kinds of parts that hold what a model has learned, each of them once."""


class ModelText:
    """The text of a model, whose fields say everything else; mixed into `Model`."""

    __slots__ = ()

    @property
    def layers_by_kind(self) -> dict[str, int]:
        """Return kind of the layers that keep a cache -> how many; states by their own kind."""
        from workbench.core.model import SSM  # which imports this module

        model, numbers = cast("Model", self), dict[str, set[int]]()
        for layer in model.layers:
            state = layer.state or (model.state if layer.kind == SSM else None)
            kind = layer.kind if state is None else state.kind
            numbers.setdefault(kind.replace("_", " "), set()).add(layer.number)
        return {kind: len(found) for kind, found in numbers.items()}

    def __repr__(self) -> str:
        model = cast("Model", self)
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.layers_by_kind.items())
        layers = f"{model.num_hidden_layers} layers ({kinds or 'none with a cache'})"
        text = parameters_text(parameters(model.weights))
        return f"{model.name}: {model.architecture}, {layers}, {text}"


def parameters(weights: Weights) -> int | None:
    """Return how many numbers a model has learned; None where its parts are not known."""
    # Tables of positions are computed when a model is loaded.
    counts = [
        n * part.experts * (part.inputs + part.bias) * sum(map(prod, part.outputs))
        for part, n in weights.parts
        if part.kind in LEARNED and not part.name.startswith(TABLE)
        if part.stored is None or part.stored.bits  # not the scales of a tied head alone
    ]
    return sum(counts) if counts and not weights.unknown else None


def parameters_text(count: int | None) -> str:
    """Return a count of parameters in millions or billions."""
    if count is None:
        return "parameters not known"
    unit, name = (BILLION, "billion") if count >= BILLION else (MILLION, "million")
    return f"{count / unit:,.1f} {name} parameters"
