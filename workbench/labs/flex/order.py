"""What the order of KV tiles does to the bits: the same request, added up in two orders.

Online softmax in float32, tile by tile, as an attention kernel adds up; on the CPU, so the two
orders are all that differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from workbench.core.flex.batch import (
    STALE_REQUEST,
    OrderInversion,
    predicted_orders,
    stale_batch,
)
from workbench.core.flex.lab import OrderLab, OrderRow
from workbench.core.flex.mask import MaskRule, PagedBatch, sees
from workbench.core.plan import Plan
from workbench.kernels.mode import triton_mode
from workbench.labs.flex.neighbours import BitDifference, engine_bits, kernel_bits
from workbench.labs.jobs import Job

DIRECT, PRUNED = "in the batch, direct build of 0.23", "in the batch, pruned as in 0.33"


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


def order_bits(batch: PagedBatch, found: OrderInversion, head_size: int = 64) -> BitDifference:
    """Count the output elements that differ between the orders "alone" and "batched"."""
    generator = torch.Generator().manual_seed(0)
    shapes = (batch.num_tokens, batch.total_slots, batch.total_slots)
    data = [torch.randn(rows, head_size, generator=generator) for rows in shapes]

    def summed(order: Sequence[int], numbers: Sequence[Tensor] = data) -> Tensor:
        return accumulate(batch, MaskRule(), found.request, order, numbers)

    exact = summed(found.alone, [tensor.double() for tensor in data])
    return BitDifference.between(summed(found.alone), summed(found.batched), exact)


def order_lab(_plan: Plan, *, compiled: bool = True, job: Job | None = None) -> OrderLab:
    """Return the predicted orders and the bits that are actually computed with them.

    Tile by tile in float32 on the CPU, our kernel wherever it runs here, and on a GPU torch's
    compiled flex_attention through the direct build. compiled: False leaves the latter out, which
    its rows report. The batch is the same for every plan. Errors: Stopped.
    """
    job, batch, found = job or Job(), stale_batch(), predicted_orders()
    summed = order_bits(batch, found)
    job.check()
    pruned = order_bits(batch, replace(found, batched=found.pruned))
    own = kernel_bits(batch, STALE_REQUEST)
    where, ours = "summed tile by tile, float32, CPU", f"our kernel, {triton_mode().mode}"
    rows = (
        OrderRow(
            how="alone",
            where=where,
            predicted=found.alone,
            elements=summed.elements,
            differing=0,
            largest=0.0,
        ),
        _row(DIRECT, where, found.batched, summed),
        _row(PRUNED, where, found.pruned, pruned),
        _row("in the batch, our kernel: its own row only", ours, found.alone, own),
    )
    return OrderLab(found, (*rows, *_compiled_rows(batch, found, job, requested=compiled)))


def _row(how: str, where: str, order: tuple[int, ...], bits: BitDifference) -> OrderRow:
    return OrderRow(
        how=how,
        where=where,
        predicted=order,
        elements=bits.elements,
        differing=bits.different,
        largest=bits.largest_difference,
    )


def _compiled_rows(
    batch: PagedBatch, found: OrderInversion, job: Job, *, requested: bool
) -> Iterator[OrderRow]:
    """Run torch's compiled kernel on the same batch; where it cannot run, the rows say so."""
    why = "needs a GPU" if requested else "not requested"
    for how, order in ((DIRECT, found.batched), (PRUNED, found.pruned)):
        job.check()
        if not requested or triton_mode().mode != "gpu":
            yield OrderRow(
                how=how,
                where=f"torch flex, compiled: {why}",
                predicted=order,
                elements=0,
                differing=None,
            )
        else:
            bits = engine_bits(batch, found.request, prune=how == PRUNED)
            yield _row(how, "torch flex, compiled, gpu", order, bits)
