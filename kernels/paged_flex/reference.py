"""Attention in dense torch: what the kernels must compute, and how near they can be to it.

Keys and values are gathered token by token; scores, mask and softmax are whole matrices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from workbench.kernels.paged_flex.heads import Views, cache_views
from workbench.kernels.paged_flex.lookup_tables import check_tables
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.work import DUMMY_REQUEST, PagedBatch


def gathered(views: Views, batch: PagedBatch, request: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Gather keys and values of one request, each [seq_len, kv_heads, dims]."""
    block_size, device = views.keys.shape[1], views.keys.device
    ratio = batch.entry_tokens // block_size
    token = torch.arange(int(batch.seq_lens[request]))
    row = torch.as_tensor(batch.block_table)[int(batch.rows[request])].cpu().long()
    part = token // block_size
    # the table holds manager blocks, the cache kernel blocks
    block = row[part // ratio] * ratio + part % ratio
    block, place = block.to(device), (token % block_size).to(device)
    return views.keys[block, place], views.values[block, place]


def dense_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    mask: Mask,
    score: Score | None = None,
    *,
    scale: float | None = None,
    low_precision: bool = False,
    tokens: Sequence[int] | None = None,
    sinks: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    value_dim: int | None = None,
) -> torch.Tensor:
    """Return attention [tokens, heads, value_dim] in float64; zeros for tokens that see nothing.

    A value that is not finite makes the tokens that see it NaN, and nothing else. low_precision:
    float32 instead, with weights and result rounded to query's dtype, as a kernel must. tokens:
    these queries alone, places in the packed batch; the others' rows are zeros. sinks, lse,
    value_dim: as in `paged_attention`, lse in any dtype. Errors: PagedFlexError for tables that do
    not fit the batch, as `paged_attention`.
    """
    check_tables(mask, score, batch, heads=query.shape[1])
    dtype = torch.float32 if low_precision else torch.float64
    scale = query.shape[2] ** -0.5 if scale is None else scale
    views, dims = cache_views(kv_cache, query.shape[2], value_dim)
    result = torch.zeros((*query.shape[:2], dims.value), dtype=dtype, device=query.device)
    group = query.shape[1] // views.keys.shape[2]
    for i, row in enumerate(batch.rows):
        start, end = (int(p) for p in batch.query_start_loc[i : i + 2])
        wanted = range(start, end) if tokens is None else [t for t in tokens if start <= t < end]
        if row == DUMMY_REQUEST or not wanted:
            continue
        keys, values = (x.to(dtype) for x in gathered(views, batch, i))
        length = len(keys)
        # only the wanted queries: one head of a long request is a matrix of gigabytes else
        own = torch.tensor(wanted, device=query.device)
        q_at = (own - end + length)[:, None]
        k_at = torch.arange(length, device=query.device)[None, :]
        for head in range(query.shape[1]):
            k, v = keys[:, head // group], values[:, head // group]
            s = query[own, head].to(dtype) @ k.T * scale
            if score is not None:
                s = score.torch_score_mod(s, i, head, q_at, k_at)
            visible = mask.torch_mask_mod(i, head, q_at, k_at).expand(s.shape)
            s = s.masked_fill(~visible, float("-inf"))
            # the largest score is subtracted before exp, which would overflow
            top = s.amax(1, keepdim=True)
            if sinks is not None:
                top = top.maximum(sinks[head].to(dtype))
            top = top.masked_fill(top == float("-inf"), 0.0)
            weight = torch.exp(s - top)
            total = weight.sum(1, keepdim=True)
            if sinks is not None:
                total += torch.exp(sinks[head].to(dtype) - top)
            if lse is not None:
                lse[own, head] = (top + total.log()).to(lse.dtype)[:, 0]
            if low_precision:
                # a kernel multiplies weights in the dtype of the values
                weight = weight.to(query.dtype).to(dtype)
            # zero times NaN is NaN: a value that is not seen must not take part at all
            odd = ~v.isfinite()
            out = weight @ v.masked_fill(odd, 0.0) / total.masked_fill(total == 0, 1.0)
            sees_odd = (visible & odd.any(1)).any(1)
            result[own, head] = out.masked_fill(sees_odd[:, None], float("nan"))
    return result.to(query.dtype) if low_precision else result


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a result is from float64: max_error, and tolerance, the most that is allowed.

    The tolerance is twice the error of an independent computation in the same precision, plus
    the rounding of the largest result to query's dtype.
    """

    max_error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Return whether the result is as near as its precision allows."""
        return self.max_error <= self.tolerance


SCORE_ROUNDINGS = 16
"""A score is a float32 sum of head_size products, which errs by about sqrt(head_size) roundings (16
for 256), and its weight has that error relatively, in any implementation with another summation
order."""


def agreement(
    result: torch.Tensor,
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    mask: Mask,
    score: Score | None = None,
    *,
    scale: float | None = None,
    tokens: Sequence[int] | None = None,
    sinks: torch.Tensor | None = None,
    value_dim: int | None = None,
) -> Agreement:
    """Compare a result with dense float64; NaN must be exactly where the reference has it.

    A misplaced NaN is an infinite error. tokens: compare these queries alone.
    """
    same = partial(dense_attention, query, kv_cache, batch, mask, score, scale=scale)
    dense = partial(same, tokens=tokens, sinks=sinks, value_dim=value_dim)
    compared = list(range(batch.num_tokens) if tokens is None else tokens)
    exact, rough = dense(low_precision=False), dense(low_precision=True)
    exact, rough, given = (x[compared].double() for x in (exact, rough, result))
    return agreement_of(given, exact, rough, query.dtype)


def agreement_of(
    given: torch.Tensor, exact: torch.Tensor, rough: torch.Tensor, dtype: torch.dtype
) -> Agreement:
    """Compare float64 tensors: the exact result, and another computation in `dtype`."""
    # a NaN in the wrong place is wrong however close the rest is
    if not bool((exact.isnan() == given.isnan()).all()):
        return Agreement(float("inf"), 0.0)
    largest = _largest(exact)
    # how far apart two right computations of this precision are
    own = _largest(rough - exact)
    eps = torch.finfo(dtype).eps + SCORE_ROUNDINGS * torch.finfo(torch.float32).eps
    # tiny: results near zero are rounded absolutely
    band = eps * largest + torch.finfo(dtype).tiny
    return Agreement(_largest(given - exact), 2 * (own + band))


def _largest(values: torch.Tensor) -> float:
    values = values.nan_to_num(0.0).abs()
    return float(values.max()) if values.numel() else 0.0
