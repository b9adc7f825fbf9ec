"""What the order of KV tiles does to the bits: the same request, added up in two orders.

Online softmax in float32, tile by tile, as an attention kernel adds up; on the CPU, so the two
orders are all that differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.core.flex_batch import OrderInversion
from workbench.core.flex_mask import MaskRule, PagedBatch, sees


@dataclass(frozen=True, slots=True)
class OrderBits:
    """Output elements of a request whose bits depend on the order, and by how much."""

    elements: int
    different: int
    largest_difference: float
    largest_error: float


def accumulate(
    batch: PagedBatch, rule: MaskRule, request: int, order: Sequence[int], data: Sequence[Tensor]
) -> Tensor:
    """Attention of a request's new tokens over `order`, one KV block after the other.

    data: queries [tokens, head], keys and values [slots, head]. Returns [tokens, head] in the
    dtype of the data; a token that sees nothing gets zeros.
    """
    queries, keys, values = data
    tokens = [token for token, owner in enumerate(batch.owners) if owner == request]
    q = queries[tokens]
    highest = torch.full((len(tokens), 1), -torch.inf, dtype=q.dtype)
    total, output = torch.zeros_like(highest), torch.zeros_like(q)
    for block in order:
        slots = list(range(block * batch.block_size, (block + 1) * batch.block_size))
        pairs = [[sees(batch, rule, token, slot) for slot in slots] for token in tokens]
        seen = torch.tensor(pairs)
        scores = (q @ keys[slots].T) / q.shape[1] ** 0.5
        scores = scores.masked_fill(~seen, -torch.inf)
        new = torch.maximum(highest, scores.amax(1, keepdim=True))
        safe = new.masked_fill(new == -torch.inf, 0)
        weights, shrink = torch.exp(scores - safe), torch.exp(highest - safe)
        total = total * shrink + weights.sum(1, keepdim=True)
        output = output * shrink + weights @ values[slots]
        highest = new
    return output / total.masked_fill(total == 0, 1)


def order_bits(
    batch: PagedBatch, found: OrderInversion, head_size: int = 64, seed: int = 0
) -> OrderBits:
    """Count the output elements that differ between the orders "alone" and "batched"."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch.num_tokens, batch.total_slots, batch.total_slots)
    data = [torch.randn(rows, head_size, generator=generator) for rows in shapes]
    rule, request = MaskRule(), found.request
    alone, batched = (
        accumulate(batch, rule, request, order, data) for order in (found.alone, found.batched)
    )
    exact = accumulate(batch, rule, request, found.alone, [tensor.double() for tensor in data])
    return OrderBits(
        alone.numel(),
        int((alone != batched).sum()),
        float((alone - batched).abs().max()),
        float((alone.double() - exact).abs().max()),
    )
