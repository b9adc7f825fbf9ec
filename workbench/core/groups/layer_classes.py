"""Classes of identical layers: a resolution sizes one layer of each class."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.dtypes import FP8_DTYPES, TURBOQUANT_BITS
from workbench.core.model import CROSS, ENCODER_DECODER, FULL, SSM, Layer

if TYPE_CHECKING:
    from workbench.core.groups.cache_spec import CacheSpec
    from workbench.core.plan import Plan
    from workbench.core.rule_set import RuleSet

AS_THE_MODEL = "auto"
"""The KV-cache dtype of a layer that keeps the model's."""

INDEXER = "indexer"
"""Kind of the cache that a sparse attention layer keeps for its indexer."""


class LayerVariant(NamedTuple):
    """What the backend of a layer depends on, as both the layer and its spec show it."""

    num_kv_heads: int
    """Of one rank."""
    head_size: int
    slides: bool
    is_plain: bool
    """It keeps the model's dtype alongside a quantized cache."""
    reads_encoder: bool
    """It is cross attention."""

    @classmethod
    def of(cls, plan: Plan, layer: Layer, *, is_plain: bool) -> LayerVariant:
        """Return the variant of an attention layer."""
        assert plan.model.attention is not None
        own = plan.model.attention.of_layer(layer)
        ranks = plan.settings.tensor_parallel
        return cls(
            num_kv_heads=own.kv_heads_per_rank(ranks),
            head_size=own.head_size,
            slides=layer.kind not in {FULL, CROSS},
            is_plain=is_plain,
            reads_encoder=own.type == ENCODER_DECODER,
        )

    @classmethod
    def of_spec(cls, plan: Plan, spec: CacheSpec) -> LayerVariant:
        """Return the variant of the layers with this spec."""
        slides = bool(spec.window_tokens or spec.computed_window_tokens)
        return cls(
            num_kv_heads=spec.num_kv_heads,
            head_size=spec.head_size,
            slides=slides,
            is_plain=spec.stored == AS_THE_MODEL != plan.kv_cache_dtype,
            reads_encoder=spec.reads_encoder,
        )


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
    # Without its number a layer equals all others of its kind.
    like = [
        (layer._replace(number=0), layer.number in unquantized and layer.kind != INDEXER)
        for layer in layers
    ]
    examples: dict[tuple[Layer, bool], tuple[Layer, bool]] = {}
    for key, layer in zip(like, layers, strict=True):
        examples.setdefault(key, (layer, key[1]))
    places = {key: place for place, key in enumerate(examples)}
    return LayerClasses(
        _names(layers), tuple(places[key] for key in like), tuple(examples.values())
    )


@lru_cache(maxsize=1024)
def joined_classes(parts: tuple[LayerClasses, ...]) -> LayerClasses:
    """Return the classes of the layers of several parts, one after the other."""
    kinds: list[tuple[Layer, bool]] = []
    places: list[int] = []
    for part in parts:
        places += [len(kinds) + place for place in part.kind_of_layer]
        kinds += part.kinds
    names = tuple(name for part in parts for name in part.names)
    return LayerClasses(names, tuple(places), tuple(kinds))


def _names(layers: tuple[Layer, ...]) -> tuple[str, ...]:
    names = tuple(map(layer_name, layers))
    if len(set(names)) == len(names):
        return names
    # a block with two equal layers: `model.layers.3.attn`, `model.layers.3.attn.1`
    counts: Counter[str] = Counter()
    found = []
    for name in names:
        found.append(f"{name}.{counts[name]}" if counts[name] else name)
        counts[name] += 1
    return tuple(found)


def layer_name(layer: Layer) -> str:
    """Return the name that vLLM's tables would show, such as `model.layers.3.mixer`."""
    if layer.cache is not None:
        return f"model.layers.{layer.number}.attn{layer.cache.part}"
    part = {SSM: "mixer", INDEXER: INDEXER, CROSS: "cross_attn"}.get(layer.kind, "attn")
    if layer.state is not None:
        part = layer.state.kind
    return f"{layer.drafted or 'model'}.layers.{layer.number}.{part}"


def with_indexers(layers: tuple[Layer, ...], followers: frozenset[int]) -> tuple[Layer, ...]:
    """Return the layers, each after its indexer unless it has none of its own."""
    found: list[Layer] = []
    for layer in layers:
        if layer.number not in followers and layer.cache is None:
            found.append(Layer(number=layer.number, kind=INDEXER, drafted=layer.drafted))
        found.append(layer)
    return tuple(found)


def layer_number(name: str) -> int:
    """Return the number in a layer's name."""
    return int(name.split(".")[2])


def counted_dtype(rules: RuleSet, kind: str, dtype: str) -> str:
    """Return the dtype whose bytes the spec of a layer of this kind counts."""
    # SlidingWindowSpec and ChunkedLocalAttentionSpec of 0.23 know no slots of TurboQuant: they
    # count one byte for each element (Attention.get_kv_cache_spec).
    is_packed = kind == FULL or rules.groups.one_allocation or dtype not in TURBOQUANT_BITS
    return dtype if is_packed else FP8_DTYPES[0]
