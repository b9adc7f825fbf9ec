"""Which backend reads the cache of a layer: not all layers of a model have the same one."""

from workbench.core.block_sizes import BlockSize
from workbench.core.groups.cache_spec import HIDDEN_SPEC, SLIDING_MLA_SPEC, CacheSpec
from workbench.core.groups.layer_classes import AS_THE_MODEL, LayerVariant
from workbench.core.groups.layer_specs import backend_of
from workbench.core.model import FLOAT32_STATE, INDEX_KEY, SLIDING
from workbench.core.plan import Plan

CACHE_ONLY = "CACHE_ONLY_ATTN"
"""What keeps hidden states; it reads blocks of any size."""


def is_plain(plan: Plan, spec: CacheSpec) -> bool:
    """Return whether some attention layer keeps the model's dtype alongside a quantized cache."""
    return spec.stored == AS_THE_MODEL != plan.kv_cache_dtype


def layer_backend(plan: Plan, spec: CacheSpec) -> str | None:
    """Return the name of the backend that reads layers with this spec; None where there is none."""
    # Attention.__init__: a layer asks get_attn_backend with the dtype of its own cache.
    if spec.is_mamba:
        return None if plan.model.state is None else plan.model.state.backend
    if spec.kind == HIDDEN_SPEC:
        return CACHE_ONLY
    if spec.is_indexer:
        assert plan.model.attention is not None
        return plan.rules.companions(plan.model.attention).get(INDEX_KEY)
    if spec.kind == SLIDING_MLA_SPEC:
        # Windows of compressed attention, and the states from which it is compressed.
        assert plan.model.attention is not None
        kind = FLOAT32_STATE if spec.stored == FLOAT32_STATE else SLIDING
        return plan.rules.companions(plan.model.attention)[kind]
    return backend_of(plan, LayerVariant.of_spec(plan, spec))[0]


def read_blocks(plan: Plan, specs: tuple[CacheSpec, ...]) -> tuple[tuple[BlockSize, ...], ...]:
    """Return the kernel block sizes of each backend that reads attention layers of these specs."""
    attention = plan.model.attention
    if not plan.layer_backends and (attention is None or not plan.rules.companions(attention)):
        return (plan.supported_kernel_block_sizes,)
    read = {}
    for spec in specs:
        if spec.is_mamba or spec.kind == HIDDEN_SPEC:
            continue
        name, sizes = layer_backend(plan, spec), plan.supported_kernel_block_sizes
        if spec.is_indexer or spec.kind == SLIDING_MLA_SPEC:
            # The blocks of an indexer depend on the platform alone.
            assert name is not None
            sizes = plan.rules.backends[name].supported_for(platform=plan.platform.name)
        else:
            sizes = backend_of(plan, LayerVariant.of_spec(plan, spec))[1]
        read[name, sizes] = sizes
    return tuple(read.values())
