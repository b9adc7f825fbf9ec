"""Which backend reads the cache of a layer: not all layers of a model have the same one."""

from workbench.core.block_sizes import BlockSize
from workbench.core.groups.cache_spec import HIDDEN_SPEC, CacheSpec
from workbench.core.groups.layer_specs import AS_THE_MODEL
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
        return next(iter(plan.rules.companions(plan.model.attention)), None)
    plain = plan.plain_backend if is_plain(plan, spec) else None
    return plain or plan.backend


def read_blocks(plan: Plan, specs: tuple[CacheSpec, ...]) -> tuple[tuple[BlockSize, ...], ...]:
    """Return the kernel block sizes of each backend that reads attention layers of these specs."""
    attention = plan.model.attention
    if plan.plain_backend is None and (attention is None or attention.indexer is None):
        return (plan.supported_kernel_block_sizes,)
    read = {}
    for spec in specs:
        if spec.is_mamba or spec.kind == HIDDEN_SPEC:
            continue
        name, sizes = layer_backend(plan, spec), plan.supported_kernel_block_sizes
        if spec.is_indexer:
            # The blocks of an indexer depend on the platform alone.
            assert name is not None
            sizes = plan.rules.backends[name].supported_for(platform=plan.platform.name)
        elif is_plain(plan, spec):
            sizes = plan.plain_supported or sizes
        read[name] = sizes
    return tuple(read.values())
