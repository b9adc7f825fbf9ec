"""One request alone and in its batch, on the real kernels: what its neighbours do to its bits.

Causal attention with one head in float32. Our own kernel walks a request's row itself, as far as
the request reaches, so no neighbour can reorder it; torch's goes through a block mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.core.flex.batch import STALE_GROUP
from workbench.core.flex.mask import PagedBatch
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex import masks, work
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.engine import engine_attention
from workbench.kernels.paged_flex.settings import BITWISE

Attend = Callable[[Tensor, Tensor, work.PagedBatch], Tensor]
"""(queries, cache, batch) -> output."""


@dataclass(frozen=True, slots=True)
class BitDifference:
    """Two outputs of one request: elements with other bits, and by how much.

    largest_error: against float64, over both outputs.
    """

    elements: int
    different: int
    largest_difference: float
    largest_error: float

    @classmethod
    def between(cls, alone: Tensor, other: Tensor, exact: Tensor) -> BitDifference:
        """Compare two float32 tensors bit by bit, and both with `exact`."""
        return cls(
            alone.numel(),
            int((alone.view(torch.int32) != other.view(torch.int32)).sum()),
            float((alone - other).abs().max()),
            max(float((one.double() - exact).abs().max()) for one in (alone, other)),
        )


def kernel_bits(batch: PagedBatch, request: int, head_size: int = 64) -> BitDifference:
    """Compare a request alone and in its batch under our bitwise kernel."""

    def attend(queries: Tensor, cache: Tensor, paged: work.PagedBatch) -> Tensor:
        return paged_attention(queries, cache, paged, settings=BITWISE)

    return _compared(batch, request, attend, head_size)


def engine_bits(
    batch: PagedBatch, request: int, *, prune: bool, compiled: bool = True
) -> BitDifference:
    """Compare a request alone and in its batch under torch's flex attention.

    Tiles of 16 x 16, batch invariant: the order of the pages is all that a neighbour can change.
    compiled: False computes densely, without any order.
    """

    def attend(queries: Tensor, cache: Tensor, paged: work.PagedBatch) -> Tensor:
        return engine_attention(
            queries,
            cache,
            paged,
            mask=masks.causal(),
            q_block=STALE_GROUP,
            block_m=16,
            block_n=16,
            batch_invariant=True,
            prune=prune,
            compiled=compiled,
        )

    return _compared(batch, request, attend)


def _compared(
    batch: PagedBatch, request: int, attend: Attend, head_size: int = 64
) -> BitDifference:
    device, generator = triton_mode().torch_device, torch.Generator().manual_seed(0)
    shape = (batch.num_blocks, 2, batch.block_size, 1, head_size)
    cache = torch.randn(shape, generator=generator)
    queries = torch.randn(batch.num_tokens, 1, head_size, generator=generator)

    def run(of: PagedBatch, tokens: Tensor) -> Tensor:
        return attend(tokens.to(device), cache.to(device), _paged(of, device)).cpu()

    first = sum(batch.query_lens[:request])
    own = slice(first, first + batch.query_lens[request])
    alone = batch.alone(request)
    exact = _exact(alone, queries[own].double(), cache.double())
    return BitDifference.between(run(alone, queries[own]), run(batch, queries)[own], exact)


def _paged(batch: PagedBatch, device: str) -> work.PagedBatch:
    return work.paged_batch(
        [sum(batch.query_lens[:index]) for index in range(len(batch.query_lens) + 1)],
        batch.seq_lens,
        torch.tensor(batch.rows, dtype=torch.int32, device=device),
        num_blocks=batch.num_blocks,
        entry_tokens=batch.block_size,
    )


def _exact(alone: PagedBatch, queries: Tensor, cache: Tensor) -> Tensor:
    """Compute dense causal attention [tokens, 1, head] over the pages of the only request."""
    length = alone.seq_lens[0]
    pages = cache[list(alone.rows[0][: alone.own_blocks(0)])]
    keys, values = (pages[:, side].flatten(0, 1)[:length, 0] for side in (0, 1))
    scores = queries[:, 0] @ keys.T / queries.shape[-1] ** 0.5
    seen = torch.arange(length) <= torch.tensor(alone.positions)[:, None]
    weights = scores.masked_fill(~seen, -torch.inf).softmax(1)
    return (weights @ values)[:, None]
