"""The speed of a launch on this GPU, compared with its matmul and copy rates in the same run."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.core.flex.lab import FlexSpeed
from workbench.kernels.paged_flex.layout import PagedInputs
from workbench.kernels.paged_flex.masks import Mask

MATMUL_SIDE = 8192
COPY_BYTES = 512 * 2**20


def measured_speed(attend: Callable[[], object], paged: PagedInputs, mask: Mask) -> FlexSpeed:
    """Measure median GPU times with a cold L2: the launch, a large product, a large copy."""
    query = paged.query
    pairs = seen_pairs(paged, mask)
    per_pair = 4 * query.shape[1] * query.shape[2]
    tokens = int(paged.batch.seq_lens.sum())
    kv_heads, element = paged.kv_cache.shape[3], query.element_size()
    moved = (2 * query.numel() + 2 * tokens * kv_heads * query.shape[2]) * element
    return FlexSpeed(
        _seconds(attend), pairs * per_pair, moved, _matmul_rate(query.dtype), _copy_rate()
    )


def seen_pairs(paged: PagedInputs, mask: Mask) -> int:
    """Count the pairs of query and key that the mask shows, of one head."""
    device, batch, total = paged.query.device, paged.batch, 0
    for i, (count, length) in enumerate(zip(batch.query_lens, batch.seq_lens, strict=True)):
        queries = torch.arange(int(length - count), int(length), device=device)[:, None]
        keys = torch.arange(int(length), device=device)[None, :]
        seen: Tensor = mask.torch_mask_mod(i, 0, queries, keys)
        total += int(seen.expand(int(count), int(length)).sum())
    return total


def _seconds(work: Callable[[], object]) -> float:
    from triton.testing import do_bench

    milliseconds: float = do_bench(work, return_mode="median")
    return milliseconds / 1e3


def _matmul_rate(dtype: torch.dtype) -> float:
    side = MATMUL_SIDE
    left, right = (torch.randn(side, side, device="cuda").to(dtype) for _ in range(2))
    return 2 * side**3 / _seconds(lambda: left @ right)


def _copy_rate() -> float:
    source = torch.zeros(COPY_BYTES, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / _seconds(lambda: target.copy_(source))
