"""Which backend reads the cache of a layer: not all layers of a model have the same one.

Source: `Attention.__init__` (a layer requests with the dtype of its own cache), `get_attn_backend`
of the layers, `CacheOnlyAttentionLayer`; 0.23 and 0.33.
"""

from __future__ import annotations

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
    if spec.is_mamba:
        return None if plan.model.state is None else plan.model.state.backend
    if spec.kind == HIDDEN_SPEC:
        return CACHE_ONLY
    if spec.is_indexer:
        return _indexer_backend(plan)
    plain = plan.plain_backend if is_plain(plan, spec) else None
    return plain or plan.backend


def _indexer_backend(plan: Plan) -> str | None:
    attention = plan.model.attention
    assert attention is not None
    return next(iter(plan.rules.companions(attention)), None)


def _indexer_blocks(plan: Plan) -> tuple[BlockSize, ...]:
    """Return the kernel block sizes of the indexer, which depend on the platform alone."""
    name = _indexer_backend(plan)
    assert name is not None
    record = plan.rules.backends[name]
    return record.supported_for(platform=plan.settings.platform)


def read_blocks(plan: Plan, specs: tuple[CacheSpec, ...]) -> tuple[tuple[BlockSize, ...], ...]:
    """Return the kernel block sizes of each backend that reads attention layers of these specs."""
    attention = plan.model.attention
    if plan.plain_backend is None and (attention is None or attention.indexer is None):
        return (plan.supported_kernel_block_sizes,)
    read = {
        layer_backend(plan, spec): _blocks_of(plan, spec)
        for spec in specs
        if not spec.is_mamba and spec.kind != HIDDEN_SPEC
    }
    return tuple(read.values())


def _blocks_of(plan: Plan, spec: CacheSpec) -> tuple[BlockSize, ...]:
    if spec.is_indexer:
        return _indexer_blocks(plan)
    is_other = is_plain(plan, spec) and plan.plain_supported
    return plan.plain_supported if is_other else plan.supported_kernel_block_sizes
