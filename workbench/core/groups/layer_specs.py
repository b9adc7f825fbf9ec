"""The KV-cache spec of every layer: what the layer requests that the engine keep for it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from workbench.core.block_sizes import largest_block_within
from workbench.core.dtypes import FLOAT_BYTES, TURBOQUANT_BITS, ULTRAQUANT
from workbench.core.groups.cache_spec import (
    ATTENTION_SPECS,
    HIDDEN_SPEC,
    INDEX_KEYS,
    MAMBA_SPEC,
    MLA_SPEC,
    TURBOQUANT_SPEC,
    CacheSpec,
)
from workbench.core.groups.layer_classes import INDEXER, LayerClasses, layer_classes, with_indexers
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.model import FULL, SLIDING, SSM, Attention, Layer
from workbench.core.sized import Sized, backend_name, drafter_layers

__all__ = ["ATTENTION_SPECS", "CacheSpec", "LayerSpecs", "layer_specs", "unquantized_layers"]

AS_THE_MODEL = "auto"
WINDOWS = "sliding_window"
"""What names all sliding layers at once."""
UNQUANTIZED_ENDS = 2
"""Layers at either end that TurboQuant leaves in the model's dtype."""
INDEX_SCALE_ELEMENTS, INDEX_SCALE_BYTES = 128, 4
"""An indexer's key has a float32 scale for so many elements of a byte each."""


class LayerSpecs(NamedTuple):
    """The spec of every layer, stored once for every class of identical layers.

    classes: which layers those are; of_kinds: the spec of each kind of them, in the same order.
    hidden: (name, spec) of the layer that keeps hidden states, which is built last.
    """

    classes: LayerClasses
    of_kinds: tuple[CacheSpec, ...]
    hidden: tuple[tuple[str, CacheSpec], ...] = ()

    @property
    def different(self) -> tuple[CacheSpec, ...]:
        """Return one spec of each kind."""
        return (*self.of_kinds, *(spec for _name, spec in self.hidden))

    def by_name(self) -> dict[str, CacheSpec]:
        """Return layer name -> spec, in the order of construction (attention before mamba)."""
        specs = (self.of_kinds[kind] for kind in self.classes.kind_of_layer)
        return {**dict(zip(self.classes.names, specs, strict=True)), **dict(self.hidden)}


def layer_specs(sized: Sized) -> LayerSpecs:
    """Return the spec of everything that every layer keeps in the cache."""
    classes = layer_classes(cache_layers(sized), unquantized_layers(sized))
    return LayerSpecs(
        classes,
        tuple(
            _spec(sized, layer, AS_THE_MODEL if unquantized else sized.kv_cache_dtype)
            for layer, unquantized in classes.kinds
        ),
        (_hidden_states(sized),) if sized.settings.hidden_state_layers else (),
    )


def cache_layers(sized: Sized) -> tuple[Layer, ...]:
    """Return everything that keeps a cache, in the order of construction: the drafter comes last.

    An indexer is built before the attention that it serves; a drafter's layer always has its own.
    Source: `DeepseekV2MLAAttention`, `DeepseekV32Attention`, 0.23 and 0.33.
    """
    layers = (*sized.model.layers, *drafter_layers(sized))
    attention = sized.model.attention
    if attention is None or attention.indexer is None:
        return layers
    shares = sized.rules.groups.shares_indexers
    return with_indexers(layers, attention.indexer.followers if shares else frozenset())


def unquantized_layers(sized: Sized) -> frozenset[int]:
    """Return the numbers of attention layers in the model's dtype alongside a quantized cache.

    The explicit ones, and the first and the last two of a packed cache (TurboQuant, UltraQuant) of
    models that are not hybrid. Source: `kv_cache_dtype_skip_layers` and
    `TurboQuantConfig.get_boundary_skip_layers`, 0.23 and 0.33.
    """
    model, attention = sized.model, sized.model.attention
    if attention is None or sized.kv_cache_dtype == AS_THE_MODEL:
        return frozenset()
    if attention.use_mla and not sized.rules.groups.skips_mla_layers:
        return frozenset()
    explicit = sized.settings.kv_cache_dtype_skip_layers or ()
    packed = sized.kv_cache_dtype in TURBOQUANT_BITS or sized.kv_cache_dtype == ULTRAQUANT
    if not explicit and not packed:
        return frozenset()
    found = {
        layer.number
        for layer, index in _indexes(sized)
        if layer.kind != SSM
        and (str(index) in explicit or (layer.kind == SLIDING and WINDOWS in explicit))
    }
    if packed and not model.is_hybrid:
        numbers = [layer.number for layer in model.layers]
        ends = min(UNQUANTIZED_ENDS, len(numbers) // 2)
        found.update((*numbers[:ends], *numbers[len(numbers) - ends :]))
    return frozenset(found)


def _indexes(sized: Sized) -> list[tuple[Layer, int]]:
    """Return every layer with the number in vLLM's name; some drafters count from 0 again."""
    own = [(layer, layer.number) for layer in sized.model.layers]
    drafted, mtp = drafter_layers(sized), sized.model.mtp
    if not drafted or mtp is None:
        return own
    shift = mtp.first_index - drafted[0].number
    return [*own, *((layer, layer.number + shift) for layer in drafted)]


def _spec(sized: Sized, layer: Layer, dtype: str) -> CacheSpec:
    if layer.kind == SSM:
        assert sized.mamba_block_size is not None
        own = sized.mamba_page_size_bytes
        page = sized.mamba_page_size_padded or own
        assert page is not None
        assert own is not None
        return CacheSpec(MAMBA_SPEC, sized.mamba_block_size, page, padding_bytes=page - own)
    attention = sized.model.attention
    assert attention is not None
    if layer.kind == INDEXER:
        return _index_keys(sized, attention)
    assert sized.attention_page_size_bytes is not None
    own_geometry = layer.num_kv_heads is not None or layer.head_size is not None
    if own_geometry:
        attention = replace(
            attention,
            num_kv_heads=layer.num_kv_heads or attention.num_kv_heads,
            head_size=layer.head_size or attention.head_size,
        )
    kv_heads = attention.kv_heads_per_rank(sized.settings.tensor_parallel)
    page = sized.attention_page_size_bytes
    if own_geometry or dtype != sized.kv_cache_dtype:
        name = backend_name(sized.backend) if dtype == sized.kv_cache_dtype else None
        token, _formula = sized.rules.layer_token_bytes(
            attention, kv_heads, dtype, sized.model_dtype, name
        )
        page = sized.block_size * token
    if layer.kind == SLIDING and sized.rules.groups.windows_choose_blocks:
        return _window_spec(sized, attention, kv_heads, page // sized.block_size, dtype)
    kind = MLA_SPEC if attention.use_mla else ATTENTION_SPECS[layer.kind]
    if layer.kind == FULL and dtype in TURBOQUANT_BITS and not sized.rules.groups.one_allocation:
        kind = kind if attention.use_mla else TURBOQUANT_SPEC
    window = None if layer.kind == FULL else attention.window_tokens
    return _with_slots(
        sized,
        CacheSpec(kind, sized.block_size, page, window, kv_heads, attention.head_size, dtype),
    )


def _index_keys(sized: Sized, attention: Attention) -> CacheSpec:
    """Return one fp8 key of each token with its scales, the same on every rank.

    Source: `Indexer` and `DeepseekV32IndexerCache`, 0.23 and 0.33.
    """
    assert attention.indexer is not None
    head = attention.indexer.head_dim
    token = head + head // INDEX_SCALE_ELEMENTS * INDEX_SCALE_BYTES
    block = sized.block_size
    return CacheSpec(
        MLA_SPEC, block, block * token, num_kv_heads=1, head_size=token, stored=INDEX_KEYS
    )


def _window_spec(
    sized: Sized, attention: Attention, kv_heads: int, token_bytes: int, dtype: str
) -> CacheSpec:
    """Return a sliding layer whose block is the largest that its backend takes within the page.

    Alongside a quantized cache the page is the one that phase 3 made common, and what the layer
    does not fill is padding. Source: Attention.get_kv_cache_spec, 0.33.
    """
    shared = sized.skip_page_size_padded
    plain = sized.plain_supported if dtype == AS_THE_MODEL != sized.kv_cache_dtype else ()
    budget = shared or token_bytes * sized.block_size
    fitting = largest_block_within(plain or sized.supported, budget // token_bytes)
    block = fitting or sized.block_size
    spec = CacheSpec(
        ATTENTION_SPECS[SLIDING],
        block,
        block * token_bytes,
        attention.window_tokens,
        kv_heads,
        attention.head_size,
        stored=dtype,
    )
    spec = _with_slots(sized, spec)
    return spec if shared is None or shared < spec.page_size_bytes else spec.padded(shared)


def _with_slots(sized: Sized, spec: CacheSpec) -> CacheSpec:
    """Return the spec as its backend changes it: into how many places of heads a page is cut.

    Source: `customize_spec` of the backend classes, 0.33.
    """
    plain = sized.plain_backend if spec.stored == AS_THE_MODEL else None
    backend = plain or sized.backend
    name = backend if isinstance(backend, str | None) else backend.name
    cache = sized.rules.layouts.cache_of(spec.kind, name)
    if cache is None:
        return spec
    slots = cache.head_slots(
        CacheGeometry(spec.block_size, spec.num_kv_heads, spec.head_size, spec.stored)
    )
    return spec if slots == spec.num_heads else spec._replace(num_head_slots=slots)


def stored_as(sized: Sized, spec: CacheSpec) -> str:
    """Return the KV-cache dtype that layers with this spec are kept in; "auto" is the model's."""
    return spec.stored or _unquantized(sized)


def _unquantized(sized: Sized) -> str:
    """Return what is set explicitly where that is a float; hidden states are never quantized."""
    return sized.kv_cache_dtype if sized.kv_cache_dtype in FLOAT_BYTES else AS_THE_MODEL


def _hidden_states(sized: Sized) -> tuple[str, CacheSpec]:
    """Return a layer that stores an unquantized vector per token for each requested layer."""
    layers, size = sized.settings.hidden_state_layers, sized.model.hidden_size
    assert size is not None
    kept = _unquantized(sized)
    token_bytes = layers * size * FLOAT_BYTES[sized.model_dtype if kept == AS_THE_MODEL else kept]
    number = max((layer.number for layer in cache_layers(sized)), default=-1) + 1
    spec = CacheSpec(
        HIDDEN_SPEC,
        sized.block_size,
        sized.block_size * token_bytes,
        num_kv_heads=layers,
        head_size=size,
    )
    return f"model.cache_only_layers.{number}", spec
