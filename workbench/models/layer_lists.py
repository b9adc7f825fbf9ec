"""Turn per-layer words into layers."""

from collections.abc import Callable, Mapping, Sequence

from workbench.core.model import FULL, SSM, Layer
from workbench.models.fields import Fields

BOTH = "both"
NEITHER = "neither"
Words = dict[object, str]
"""Entry of a per-layer list -> kind of layer."""


def to_layers(kinds: Sequence[str]) -> tuple[Layer, ...]:
    """Return one entry per cache-keeping part; BOTH gives attention first, NEITHER none."""
    parts = {BOTH: (FULL, SSM), NEITHER: ()}
    return tuple(
        Layer(number=index, kind=part)
        for index, kind in enumerate(kinds)
        for part in parts.get(kind, (kind,))
    )


def check_length(fields: Fields, key: str, kinds: Sequence[str]) -> None:
    """Check that a per-layer list has `num_hidden_layers` entries if that field is present."""
    if fields.has("num_hidden_layers") and fields.layer_count() != len(kinds):
        raise fields.contradiction(
            key, f"{len(kinds)} entries for num_hidden_layers = {fields.layer_count()}"
        )


def first_list(fields: Fields, lists: Mapping[str, Words]) -> tuple[str, ...] | None:
    """Return the kinds in the first of the lists that is present, checked for its length."""
    for key, words in lists.items():
        kinds = fields.layer_list(key, words)
        if kinds is not None:
            check_length(fields, key, kinds)
            return kinds
    return None


def listed(
    lists: Mapping[str, Words], otherwise: Callable[[Fields], Sequence[str]] | None = None
) -> Callable[[Fields], tuple[Layer, ...]]:
    """Return a reader of the first list that is present; the last is required by default.

    otherwise: the kinds of the layers where no list is present.
    """

    def read(fields: Fields) -> tuple[Layer, ...]:
        kinds = first_list(fields, lists)
        if kinds is not None:
            return to_layers(kinds)
        if otherwise is None:
            raise fields.missing(list(lists)[-1], "the kinds of layers")
        return to_layers(otherwise(fields))

    return read
