"""`paged_attention`: queries of a mixed batch over the pages of its requests."""

import torch

from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.plan import AttentionPlan, plan_attention
from workbench.kernels.paged_flex.settings import Settings
from workbench.kernels.paged_flex.work import PagedBatch, paged_batch


def paged_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    *,
    mask: Mask | None = None,
    score: Score | None = None,
    scale: float | None = None,
    settings: Settings | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
    value_dim: int | None = None,
) -> torch.Tensor:
    """Return attention [tokens, heads, value_dim] of query [tokens, heads, head_dim] over kv_cache.

    kv_cache: [num_blocks, 2, block, kv_heads, head_dim], keys then values; or [num_blocks, block,
    kv_heads, row], where a row of head_dim + value_dim numbers is a key, then a value, and one of
    head_dim numbers a key alone whose first value_dim numbers are the value (MLA). head_dim is at
    most 576, value_dim 512. Any strides whose last is 1; a block of any length, which divides the
    batch's entry_tokens: manager blocks in the table over a cache of kernel blocks are expanded
    while the kernel walks. float32, float16, bfloat16, as query; or float8_e4m3fn or int8, with
    key_scale and value_scale, float32 tensors [kv_heads] or of one number. mask: causal if None.
    scale: of the scores, 1/sqrt(head_dim) if None. settings: the fastest for the device if None.
    Tokens of dummy requests, tokens that see nothing and tokens after the batch get zeros.

    sinks: [heads], a learned score of each head that is in the sum of its softmax and has no value.
    lse: [tokens, heads] float32, takes the natural logarithm of that sum; -inf where it is empty.

    A key or value that a token does not see never reaches its result, NaN included; a token that
    sees a value which is not finite becomes NaN. PagedFlexError before anything is launched.
    A model with many layers plans once per step: `plan_attention`.
    """
    planned = plan_attention(
        batch,
        query,
        kv_cache,
        mask=mask,
        score=score,
        scale=scale,
        settings=settings,
        value_dim=value_dim,
    )
    return planned.run(
        query,
        kv_cache,
        out,
        lse=lse,
        sinks=sinks,
        key_scale=key_scale,
        value_scale=value_scale,
    )


__all__ = ["AttentionPlan", "PagedBatch", "paged_attention", "paged_batch", "plan_attention"]
