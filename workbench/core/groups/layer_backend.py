"""Which backend reads the cache of a layer: not all layers of a model have the same one.

Source: `Attention.__init__` (a layer requests with the dtype of its own cache), `get_attn_backend`
of the layers, `CacheOnlyAttentionLayer`; 0.23 and 0.33.
"""

from __future__ import annotations

from workbench.core.block_sizes import BlockSize
from workbench.core.groups.cache_spec import HIDDEN_SPEC, CacheSpec
from workbench.core.groups.layer_specs import AS_THE_MODEL
from workbench.core.sized import Sized, backend_name

CACHE_ONLY = "CACHE_ONLY_ATTN"
"""What keeps hidden states; it reads blocks of any size."""


def is_plain(sized: Sized, spec: CacheSpec) -> bool:
    """Return whether some attention layer keeps the model's dtype alongside a quantized cache."""
    return spec.stored == AS_THE_MODEL != sized.kv_cache_dtype


def layer_backend(sized: Sized, spec: CacheSpec) -> str | None:
    """Return the name of the backend that reads layers with this spec; None where there is none."""
    if spec.is_mamba:
        return None if sized.model.state is None else sized.model.state.backend
    if spec.kind == HIDDEN_SPEC:
        return CACHE_ONLY
    if spec.is_indexer:
        return _indexer_backend(sized)
    plain = sized.plain_backend if is_plain(sized, spec) else None
    return backend_name(plain or sized.backend)


def _indexer_backend(sized: Sized) -> str | None:
    attention = sized.model.attention
    assert attention is not None
    return next(iter(sized.rules.companions(attention)), None)


def _indexer_blocks(sized: Sized) -> tuple[BlockSize, ...]:
    """Return the kernel block sizes of the indexer, which depend on the platform alone."""
    name = _indexer_backend(sized)
    assert name is not None
    record = sized.rules.backends[name]
    return record.supported_for(platform=sized.settings.platform)


def read_blocks(sized: Sized, specs: tuple[CacheSpec, ...]) -> tuple[tuple[BlockSize, ...], ...]:
    """Return the kernel block sizes of each backend that reads attention layers of these specs."""
    if sized.plain_backend is None and not any(spec.is_indexer for spec in specs):
        return (sized.supported,)
    read = {
        layer_backend(sized, spec): _blocks_of(sized, spec)
        for spec in specs
        if not spec.is_mamba and spec.kind != HIDDEN_SPEC
    }
    return tuple(read.values())


def _blocks_of(sized: Sized, spec: CacheSpec) -> tuple[BlockSize, ...]:
    if spec.is_indexer:
        return _indexer_blocks(sized)
    is_other = is_plain(sized, spec) and sized.plain_supported
    return sized.plain_supported if is_other else sized.supported
