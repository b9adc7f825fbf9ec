"""Our own paged kernel on a batch of the mask model, alone and among neighbours.

It walks a request's row itself, as far as the request reaches, so no neighbour can reorder it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.core.flex.mask import PagedBatch
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.settings import BITWISE
from workbench.kernels.paged_flex.work import paged_batch


@dataclass(frozen=True, slots=True)
class KernelBits:
    """One request alone and in its batch. mode: "gpu" or "interpreter".

    different: elements with other bits. largest_error: against float64, over both runs.
    """

    mode: str
    elements: int
    different: int
    largest_error: float


def kernel_bits(batch: PagedBatch, request: int, head_size: int = 64, seed: int = 0) -> KernelBits:
    """Run causal attention with one head in float32, alone and batched, and compare."""
    decided = triton_mode()
    generator = torch.Generator().manual_seed(seed)
    shape = (batch.num_blocks, 2, batch.block_size, 1, head_size)
    cache = torch.randn(shape, generator=generator)
    queries = torch.randn(batch.num_tokens, 1, head_size, generator=generator)
    first = sum(batch.query_lens[:request])
    own = slice(first, first + batch.query_lens[request])
    alone = batch.alone(request)
    batched = _attend(batch, queries, cache, decided.torch_device)[own]
    single = _attend(alone, queries[own], cache, decided.torch_device)
    exact = _exact(alone, queries[own].double(), cache.double())
    errors = [float((result.double() - exact).abs().max()) for result in (batched, single)]
    different = int((batched.view(torch.int32) != single.view(torch.int32)).sum())
    return KernelBits(decided.mode, single.numel(), different, max(errors))


def _attend(batch: PagedBatch, queries: Tensor, cache: Tensor, device: str) -> Tensor:
    starts = [sum(batch.query_lens[:index]) for index in range(len(batch.query_lens) + 1)]
    checked = paged_batch(
        starts,
        batch.seq_lens,
        torch.tensor(batch.rows, dtype=torch.int32, device=device),
        num_blocks=batch.num_blocks,
        entry_tokens=batch.block_size,
    )
    result = paged_attention(queries.to(device), cache.to(device), checked, settings=BITWISE)
    return result.cpu()


def _exact(alone: PagedBatch, queries: Tensor, cache: Tensor) -> Tensor:
    """Compute dense causal attention [tokens, 1, head] over the pages of the only request."""
    length = alone.seq_lens[0]
    pages = cache[list(alone.rows[0][: alone.own_blocks(0)])]
    keys, values = (pages[:, side].flatten(0, 1)[:length, 0] for side in (0, 1))
    scores = queries[:, 0] @ keys.T / queries.shape[-1] ** 0.5
    seen = torch.arange(length) <= torch.tensor(alone.positions)[:, None]
    weights = scores.masked_fill(~seen, -torch.inf).softmax(1)
    return (weights @ values)[:, None]
