"""What the order of KV tiles does to the bits: the same request, added up in two orders.

Online softmax in float32, tile by tile, as an attention kernel adds up; on the CPU, so the two
orders are all that differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.core.flex.batch import OrderInversion, order_inversion, stale_batch
from workbench.core.flex.lab import OrderRow
from workbench.core.flex.mask import MaskRule, PagedBatch, sees
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.engine import engine_attention
from workbench.kernels.paged_flex.work import paged_batch
from workbench.run.flex_jobs import StopFlag
from workbench.run.flex_kernel import kernel_bits

STALE_REQUEST, STALE_GROUP = 2, 16
"""The request whose pages a neighbour reorders, and the queries of a group."""


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
    """Compute attention of a request's new tokens over `order`, one KV block at a time.

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


def predicted_orders() -> OrderInversion:
    """Predict the orders of the batch with the stale column from the plain model."""
    return order_inversion(stale_batch(), STALE_REQUEST, STALE_GROUP)


def order_rows(stop: StopFlag | None = None, *, compiled: bool = True) -> tuple[OrderRow, ...]:
    """Return the predicted orders and the bits that are actually computed with them.

    Tile by tile in float32 on the CPU, our kernel wherever it runs here, and on a GPU torch's
    compiled flex_attention through the direct build. compiled: False leaves the latter out, which
    its rows report. Errors: Stopped.
    """
    stop, batch, found = stop or StopFlag(), stale_batch(), predicted_orders()
    summed = order_bits(batch, found)
    stop.check()
    own = kernel_bits(batch, STALE_REQUEST)
    stop.check()
    where = "summed tile by tile, float32, CPU"
    rows = [
        OrderRow("alone", where, found.alone, summed.elements, 0, 0.0),
        OrderRow(
            "in the batch, direct build of 0.23",
            where,
            found.batched,
            summed.elements,
            summed.different,
            summed.largest_difference,
        ),
        _summed_pruned(batch, found, where),
        OrderRow(
            "in the batch, our kernel: its own row only",
            f"our kernel, {own.mode}",
            found.alone,
            own.elements,
            own.different,
        ),
    ]
    return (*rows, *_compiled_rows(batch, found, stop, requested=compiled))


def _summed_pruned(batch: PagedBatch, found: OrderInversion, where: str) -> OrderRow:
    pruned = OrderInversion(found.request, found.alone, found.pruned, found.pruned)
    bits = order_bits(batch, pruned)
    return OrderRow(
        "in the batch, pruned as in 0.33",
        where,
        found.pruned,
        bits.elements,
        bits.different,
        bits.largest_difference,
    )


def _compiled_rows(
    batch: PagedBatch, found: OrderInversion, stop: StopFlag, *, requested: bool
) -> tuple[OrderRow, ...]:
    """Run torch's compiled kernel on the same batch; where it cannot run, the rows say so."""
    rows = []
    why = "needs a GPU" if requested else "not requested"
    for how, order, prune in (
        ("in the batch, direct build of 0.23", found.batched, False),
        ("in the batch, pruned as in 0.33", found.pruned, True),
    ):
        stop.check()
        if not requested or triton_mode().mode != "gpu":
            rows.append(OrderRow(how, f"torch flex, compiled: {why}", order, 0, None))
            continue
        different, elements, largest = engine_bits(batch, found.request, prune=prune)
        rows.append(OrderRow(how, "torch flex, compiled, gpu", order, elements, different, largest))
    return tuple(rows)


def engine_bits(
    batch: PagedBatch, request: int, *, prune: bool, compiled: bool = True, seed: int = 0
) -> tuple[int, int, float]:
    """Return (changed elements, elements, largest difference) of torch's path, alone and batched.

    Tiles of 16 x 16, batch invariant: the order of the pages is all that a neighbour can change.
    compiled: False computes densely, without any order.
    """
    generator = torch.Generator().manual_seed(seed)
    device = triton_mode().torch_device
    shape = (batch.num_blocks, 2, batch.block_size, 1, 64)
    cache = torch.randn(shape, generator=generator).to(device)
    queries = torch.randn(batch.num_tokens, 1, 64, generator=generator).to(device)
    first = sum(batch.query_lens[:request])
    own = slice(first, first + batch.query_lens[request])

    def attend(requests: Sequence[int], tokens: slice) -> Tensor:
        counts = [batch.query_lens[i] for i in requests]
        checked = paged_batch(
            [sum(counts[:i]) for i in range(len(counts) + 1)],
            [batch.seq_lens[i] for i in requests],
            torch.tensor(batch.rows, dtype=torch.int32, device=device),
            num_blocks=batch.num_blocks,
            entry_tokens=batch.block_size,
            idx_mapping=list(requests),
        )
        return engine_attention(
            queries[tokens],
            cache,
            checked,
            mask=masks.causal(),
            q_block=STALE_GROUP,
            block_m=16,
            block_n=16,
            batch_invariant=True,
            prune=prune,
            compiled=compiled,
        )

    alone = attend([request], own).cpu()
    batched = attend(range(len(batch.rows)), slice(None))[own].cpu()
    differs = alone.view(torch.int32) != batched.view(torch.int32)
    largest = float((alone - batched).abs().max())
    return int(differs.sum()), alone.numel(), largest
