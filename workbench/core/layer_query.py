"""The question about a backend that an attention layer of a resolved model brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.backends import LayerQuery
from workbench.core.plan import Plan

if TYPE_CHECKING:
    pass


def layer_query(plan: Plan) -> LayerQuery:
    """Return what an attention layer requires of a backend.

    Only an explicit block size is part of it.
    """
    attention, settings = plan.model.attention, plan.settings
    assert attention is not None
    return LayerQuery(
        platform=settings.platform,
        capability=plan.capability,
        attention=attention,
        heads_per_rank=attention.num_heads // settings.tensor_parallel,
        model_dtype=plan.model_dtype,
        kv_cache_dtype=plan.kv_cache_dtype,
        block_size=settings.block_size,
        batch_invariant=settings.batch_invariant,
        trtllm_kernels=settings.trtllm_kernels and not settings.batch_invariant,
    )
