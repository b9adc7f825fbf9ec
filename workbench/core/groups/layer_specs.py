"""The KV-cache spec of every layer: what the layer requests that the engine keep for it."""

from math import prod
from typing import NamedTuple

from workbench.core.block_sizes import BlockSize, largest_block_within
from workbench.core.dtypes import FLOAT_BYTES, FP8_DTYPES, TURBOQUANT_BITS
from workbench.core.groups.built_layers import (
    cache_classes,
    cache_layers,
    chooser,
    unquantized_layers,
    window_of,
)
from workbench.core.groups.cache_spec import (
    ATTENTION_SPECS,
    HIDDEN_SPEC,
    MAMBA_SPEC,
    MLA_SPEC,
    RING_SPEC,
    TURBOQUANT_SPEC,
    CacheSpec,
)
from workbench.core.groups.compressed_specs import compressed_spec, without_positions
from workbench.core.groups.index_keys import index_keys
from workbench.core.groups.layer_classes import (
    AS_THE_MODEL,
    INDEXER,
    LayerClasses,
    LayerVariant,
    counted_dtype,
    joined_classes,
    layer_classes,
)
from workbench.core.groups.strides import fixed_kernel_block, stride_bytes
from workbench.core.layouts.shapes import KV, CacheGeometry
from workbench.core.model import FULL, SLIDING, SSM, Attention, Layer
from workbench.core.packing import RECORD_DTYPES
from workbench.core.plan import Plan
from workbench.core.runner import keeps_drafts_whole
from workbench.core.states import State


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
        # Construction follows the layers, attention before mamba in a layer that has both.
        specs = (self.of_kinds[kind] for kind in self.classes.kind_of_layer)
        return {**dict(zip(self.classes.names, specs, strict=True)), **dict(self.hidden)}


def layer_specs(plan: Plan) -> LayerSpecs:
    """Return the spec of everything that every layer keeps in the cache, of all stages."""
    if any(stage.own is not None for stage in plan.stages):
        return _joined(plan)
    return _of_rank(plan)


def _joined(plan: Plan) -> LayerSpecs:
    """Return the specs of pipeline stages that size some layers otherwise than the others."""
    found = []
    for stage in plan.stages:
        own = plan if stage.own is None else stage.own
        layers = tuple(layer for layer in cache_layers(plan) if layer.number in stage.layers)
        found.append(_of_rank(own, layers))
    classes = joined_classes(tuple(one.classes for one in found))
    of_kinds = tuple(spec for one in found for spec in one.of_kinds)
    return LayerSpecs(classes, of_kinds, found[-1].hidden)


def _of_rank(plan: Plan, layers: tuple[Layer, ...] | None = None) -> LayerSpecs:
    plain = unquantized_layers(plan)
    classes = cache_classes(plan, plain) if layers is None else layer_classes(layers, plain)
    return LayerSpecs(
        classes,
        tuple(
            _spread(plan, _spec(plan, layer, _part(plan, layer, unquantized=unquantized)), layer)
            for layer, unquantized in classes.kinds
        ),
        (_hidden_states(plan),) if plan.settings.hidden_state_layers else (),
    )


def _spread(plan: Plan, spec: CacheSpec, layer: Layer) -> CacheSpec:
    """Return the spec with the ranks that share the tokens of its blocks."""
    # dcp_sharded of the specs, 0.33: a state, the tail of a compressed group and what a runner
    # serves without context parallelism are whole on every rank. 0.23 refuses such layers.
    ranks = plan.settings.decode_context_parallel
    whole = spec.is_mamba or spec.kind == RING_SPEC or (layer.drafted and keeps_drafts_whole(plan))
    return spec if ranks == 1 or whole else spec._replace(context_ranks=ranks)


class _Part(NamedTuple):
    """What the layers of one part of a plan have in common: its own, the plain, the drafted ones.

    sizes: the kernel blocks of its backend. reader: that, or what takes its place; empty for none.
    """

    attention: Attention
    dtype: str
    backend: str | None
    sizes: tuple[BlockSize, ...]
    reader: str


def cache_dtype(plan: Plan, layer: Layer) -> str:
    """Return the KV-cache dtype of a layer that no list names."""
    return (plan.draft_kv_cache_dtype if layer.drafted else None) or plan.kv_cache_dtype


def _part(plan: Plan, layer: Layer, *, unquantized: bool) -> _Part | None:
    attention = plan.drafter.attention if layer.drafted and plan.drafter else plan.model.attention
    if attention is None:
        return None
    dtype = AS_THE_MODEL if unquantized and not layer.cache else cache_dtype(plan, layer)
    backend, sizes = plan.backend, plan.supported_kernel_block_sizes
    if layer.drafted:
        backend, sizes = plan.draft_backend or backend, plan.draft_supported or sizes
    elif layer.kind != SSM:
        is_plain = dtype != plan.kv_cache_dtype
        backend, sizes = backend_of(plan, LayerVariant.of(plan, layer, is_plain=is_plain))
    reader = chooser(plan, layer.number, attention) or backend or ""
    if layer.makes_spec and reader:
        # One byte per element and nothing else, which is read as fp8 (MiniMaxM3SparseAttention and
        # InklingAttention, 0.33).
        kept = {AS_THE_MODEL, *FLOAT_BYTES, *FP8_DTYPES, *plan.rules.backends[reader].packs}
        dtype = dtype if dtype in kept else FP8_DTYPES[0]
    return _Part(attention, dtype, backend, sizes, reader)


def _state_spec(plan: Plan, layer: Layer) -> CacheSpec:
    assert plan.mamba_block_size is not None
    own, stored = plan.layer_state_bytes, ""
    if layer.drafted and plan.draft_states is not None:
        own, stored = plan.draft_states.size_bytes, plan.draft_states.stored
    if layer.state is not None:
        own, stored = own_state_bytes(plan, layer.state), layer.state.kind
    assert own is not None
    state = plan.mamba_page_size_padded or own
    return CacheSpec(
        kind=MAMBA_SPEC,
        block_size=plan.mamba_block_size,
        page_size_bytes=state,
        padding_bytes=max(0, state - own),
        stored=stored,
    )


def _spec(plan: Plan, layer: Layer, part: _Part | None) -> CacheSpec:
    if layer.kind == SSM:
        return _state_spec(plan, layer)
    assert part is not None
    whole, dtype = part.attention, part.dtype
    if layer.cache is not None:
        for_text = plan.settings.language_model_only and not layer.drafted
        cache = without_positions(layer.cache) if for_text else layer.cache
        return compressed_spec(plan, cache, dtype)
    if layer.kind == INDEXER:
        return index_keys(plan, whole)
    attention = whole.of_layer(layer)
    kv_heads = attention.kv_heads_per_rank(plan.settings.tensor_parallel)
    name = part.backend if dtype == cache_dtype(plan, layer) else None
    counted = counted_dtype(plan.rules, layer.kind, dtype)
    token = plan.rules.layer_token_bytes(attention, kv_heads, counted, plan.model_dtype, name)[0]
    page = plan.block_size * token
    windows = layer.kind == SLIDING and plan.rules.groups.windows_choose_blocks
    windows = windows and not layer.makes_spec
    kind = MLA_SPEC if attention.use_mla and not windows else ATTENTION_SPECS[layer.kind]
    if kind == ATTENTION_SPECS[FULL] and attention.full_spec:
        kind = attention.full_spec
    elif kind == ATTENTION_SPECS[FULL] and dtype in TURBOQUANT_BITS:
        # A class of its own in 0.23 only; 0.33 leaves packing to the backend (customize_spec).
        kind = kind if plan.rules.groups.one_allocation else TURBOQUANT_SPEC
    block = plan.block_size
    # Windows of 0.33 have a block that the backend reads unsplit (Attention.get_kv_cache_spec).
    if windows:
        block = window_block(plan, token, part.sizes)
        page = block * token
    kernel = fixed_kernel_block(plan, part.reader, part.sizes, dtype)
    spec = _with_slots(
        plan,
        part.backend,
        CacheSpec(
            kind=kind,
            block_size=block,
            page_size_bytes=page,
            window_tokens=window_of(plan, layer, attention),
            num_kv_heads=kv_heads,
            head_size=attention.head_size,
            stored=_stored(plan, attention, dtype) if layer.drafted else dtype,
            stride_bytes=stride_bytes(plan, part.reader, dtype, kernel, block, page),
            fixed_kernel_block=kernel,
        ),
    )
    # Alongside a quantized cache the page of a window is the one that was made common to all, and
    # what the layer does not fill is padding (Attention.get_kv_cache_spec, 0.33).
    shared = (windows and plan.skip_page_size_padded) or 0
    return spec if shared < spec.page_size_bytes else spec.padded(shared)._replace(sets_page=True)


def _stored(plan: Plan, attention: Attention, dtype: str) -> str:
    """Return the name of what a drafter stores: the target's, where both specs are equal."""
    # AttentionSpec compares the dtype of torch, MLAAttentionSpec the word of the setting as well.
    if attention.use_mla:
        return dtype
    real = {AS_THE_MODEL: plan.model_dtype, **dict.fromkeys(FP8_DTYPES, FP8_DTYPES[0])}
    if real.get(dtype, dtype) == real.get(plan.kv_cache_dtype, plan.kv_cache_dtype):
        return plan.kv_cache_dtype
    return AS_THE_MODEL if dtype == plan.model_dtype else dtype


def own_state_bytes(plan: Plan, state: State) -> int:
    """Return the bytes of a state that every rank keeps whole, drafts included."""
    dtype = plan.model_dtype if plan.mamba_cache_dtype == "auto" else plan.mamba_cache_dtype
    # Divided among one: such a state is the same on all ranks (tp_replicated of MambaSpec, 0.33).
    shapes = state.shapes(1, plan.settings.num_speculative_tokens)
    return sum(prod(shape) for shape in shapes) * FLOAT_BYTES[dtype]


def backend_of(plan: Plan, variant: LayerVariant) -> tuple[str | None, tuple[BlockSize, ...]]:
    """Return the backend and the kernel block sizes of the layers of one variant."""
    for own, name, sizes in plan.layer_backends:
        if own == variant:
            return name, sizes
    return plan.backend, plan.supported_kernel_block_sizes


def window_block(plan: Plan, token_bytes: int, sizes: tuple[BlockSize, ...]) -> int:
    """Return the largest block of a sliding layer that its backend takes within the page (0.33)."""
    budget = plan.skip_page_size_padded or token_bytes * plan.block_size
    return largest_block_within(sizes, budget // token_bytes) or plan.block_size


def _with_slots(plan: Plan, name: str | None, spec: CacheSpec) -> CacheSpec:
    """Return the spec as its backend changes it: into how many places of heads a page is cut."""
    # customize_spec of the backend classes, 0.33.
    cache = None if name is None else plan.rules.backends[name].cache
    if cache is None or not plan.rules.layouts.one_view:
        return spec
    slots = cache.head_slots(cache_geometry(plan, spec, spec.stored))
    # RocmAttentionBackend sets two also where there are two heads: specs differ by that alone
    is_usual = slots == spec.num_heads and KV not in cache.axes
    return spec if is_usual else spec._replace(num_head_slots=slots)


def cache_geometry(plan: Plan, spec: CacheSpec, kept: str) -> CacheGeometry:
    """Return the geometry of one manager block of a layer that is kept in this KV-cache dtype."""
    whole = plan.model.attention
    return CacheGeometry(
        block_size=spec.block_size,
        num_kv_heads=spec.num_kv_heads,
        head_size=spec.head_size,
        cache_dtype=kept,
        value_head_size=None if whole is None or spec.is_indexer else whole.value_head_size,
        record_bytes=spec.view_shape[2] if kept in RECORD_DTYPES else None,
    )


def stored_as(plan: Plan, spec: CacheSpec) -> str:
    """Return the KV-cache dtype that layers with this spec are kept in; "auto" is the model's."""
    return spec.stored or _unquantized(plan)


def _unquantized(plan: Plan) -> str:
    """Return what hidden states are kept in: what is set where that is a float, never quantized."""
    return plan.kv_cache_dtype if plan.kv_cache_dtype in FLOAT_BYTES else AS_THE_MODEL


def _hidden_states(plan: Plan) -> tuple[str, CacheSpec]:
    """Return a layer that stores an unquantized vector per token for each requested layer."""
    # A spec of MLA whose heads are the requested layers, each of the size of a hidden state.
    layers, size = plan.settings.hidden_state_layers, plan.model.hidden_size
    assert size is not None
    kept = _unquantized(plan)
    token_bytes = layers * size * FLOAT_BYTES[plan.model_dtype if kept == AS_THE_MODEL else kept]
    number = max((layer.number for layer in cache_layers(plan)), default=-1) + 1
    spec = CacheSpec(
        kind=HIDDEN_SPEC,
        block_size=plan.block_size,
        page_size_bytes=plan.block_size * token_bytes,
        num_kv_heads=layers,
        head_size=size,
        context_ranks=plan.settings.decode_context_parallel,
    )
    return f"model.cache_only_layers.{number}", spec
