"""Classes of identical layers: a resolution sizes one layer of each class."""

from dataclasses import dataclass
from functools import lru_cache

from workbench.core.model import SSM, Layer

INDEXER = "indexer"
"""Kind of the cache that a sparse attention layer keeps for its indexer."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerClasses:
    """The layers of a model by kind. Two models with equal layers have one and the same object.

    names: of all layers, in the order in which they are built; kind_of_layer: the place of each in
    `kinds`. kinds: one layer of each kind, and whether it is among the unquantized ones.
    """

    names: tuple[str, ...]
    kind_of_layer: tuple[int, ...]
    kinds: tuple[tuple[Layer, bool], ...]


@lru_cache(maxsize=1024)
def layer_classes(layers: tuple[Layer, ...], unquantized: frozenset[int]) -> LayerClasses:
    """Return the classes of layers by kind and geometry, with unquantized ones apart."""
    like = [
        (layer._replace(number=0), layer.number in unquantized and layer.kind != INDEXER)
        for layer in layers
    ]
    examples: dict[tuple[Layer, bool], tuple[Layer, bool]] = {}
    for key, layer in zip(like, layers, strict=True):
        examples.setdefault(key, (layer, key[1]))
    places = {key: place for place, key in enumerate(examples)}
    return LayerClasses(
        tuple(map(layer_name, layers)),
        tuple(places[key] for key in like),
        tuple(examples.values()),
    )


def layer_name(layer: Layer) -> str:
    """Return the name that vLLM's tables would show, such as `model.layers.3.mixer`."""
    part = {SSM: "mixer", INDEXER: INDEXER}.get(layer.kind, "attn")
    return f"{layer.drafted or 'model'}.layers.{layer.number}.{part}"


@lru_cache(maxsize=1024)
def with_indexers(layers: tuple[Layer, ...], followers: frozenset[int]) -> tuple[Layer, ...]:
    """Return the layers, each after its indexer unless it has none of its own."""
    found: list[Layer] = []
    for layer in layers:
        if layer.number not in followers:
            found.append(Layer(layer.number, INDEXER, drafted=layer.drafted))
        found.append(layer)
    return tuple(found)


def layer_number(name: str) -> int:
    """Return the number in a layer's name."""
    return int(name.split(".")[2])
