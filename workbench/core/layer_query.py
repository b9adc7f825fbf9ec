"""The question about a backend that an attention layer of a resolved model brings."""

from __future__ import annotations

from workbench.core.backends import LayerQuery
from workbench.core.platforms import PLATFORMS, parse_capability
from workbench.core.settings import Settings
from workbench.core.sized import Sized


def capability_of(settings: Settings) -> tuple[int, int] | None:
    """Return the compute capability, (9, 0) for "9.0"; None on platforms that have none."""
    default = PLATFORMS[settings.platform].default_capability
    return None if default is None else parse_capability(settings.compute_capability or default)


def layer_query(sized: Sized) -> LayerQuery:
    """Return what an attention layer requires of a backend.

    Only an explicit block size is part of it.
    """
    attention, settings = sized.model.attention, sized.settings
    assert attention is not None
    return LayerQuery(
        settings.platform,
        capability_of(settings),
        attention,
        attention.num_heads // settings.tensor_parallel,
        sized.model_dtype,
        sized.kv_cache_dtype,
        settings.block_size,
        settings.batch_invariant,
        settings.trtllm_kernels and not settings.batch_invariant,
    )
