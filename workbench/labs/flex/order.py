"""What the order of KV tiles does to the bits of a request, alone and in its batch.

Causal attention with one head in float32, three ways: summed tile by tile on the CPU, so that the
two orders are all that differs; by our own kernel, which walks a request's row itself, as far as
the request reaches, so no neighbour can reorder it; by torch's, which goes through a block mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from workbench.core.flex.batch import (
    STALE_GROUP,
    STALE_REQUEST,
    OrderInversion,
    predicted_orders,
    stale_batch,
)
from workbench.core.flex.lab import OrderLab, OrderRow
from workbench.core.flex.mask import MaskRule, PagedBatch, sees
from workbench.core.plan import Plan
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex import masks, work
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.bitwise import Trial, compare_bits
from workbench.kernels.paged_flex.engine import engine_attention
from workbench.kernels.paged_flex.settings import BITWISE
from workbench.labs.jobs import Job

HEAD_SIZE = 64
DIRECT, PRUNED = "in the batch, direct build of 0.23", "in the batch, pruned as in 0.33"
Attend = Callable[[Tensor, Tensor, work.PagedBatch], Tensor]
"""(queries, cache, batch) -> output."""
KERNEL: Attend = partial(paged_attention, settings=BITWISE)


def accumulate(
    batch: PagedBatch, rule: MaskRule, request: int, order: Sequence[int], data: Sequence[Tensor]
) -> Tensor:
    """Compute attention of a request's new tokens over `order`, one KV block at a time.

    Online softmax, as an attention kernel adds up. data: queries [tokens, head], keys and values
    [slots, head]. Returns [tokens, head] in the dtype of the data; a token that sees nothing gets
    zeros.
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


def order_bits(batch: PagedBatch, found: OrderInversion) -> Trial:
    """Count the output elements that differ between the orders "alone" and "batched"."""
    generator = torch.Generator().manual_seed(0)
    shapes = (batch.num_tokens, batch.total_slots, batch.total_slots)
    data = [torch.randn(rows, HEAD_SIZE, generator=generator) for rows in shapes]
    alone, batched = (
        accumulate(batch, MaskRule(), found.request, order, data)
        for order in (found.alone, found.batched)
    )
    return compare_bits("batch", "", alone, batched)


def engine(*, prune: bool, compiled: bool = True) -> Attend:
    """Return torch's flex attention as the engine calls it.

    Tiles of 16 x 16, batch invariant: the order of the pages is all that a neighbour can change.
    compiled: False computes densely, without any order.
    """
    return partial(
        engine_attention,
        mask=masks.causal(),
        q_block=STALE_GROUP,
        block_m=16,
        block_n=16,
        batch_invariant=True,
        prune=prune,
        compiled=compiled,
    )


def _compared(batch: PagedBatch, request: int, attend: Attend) -> Trial:
    return compare_bits("batch", "", *both_outputs(batch, request, attend, *random_layer(batch)))


def random_layer(batch: PagedBatch, head_size: int = HEAD_SIZE) -> tuple[Tensor, Tensor]:
    """Draw queries [tokens, 1, head] and a cache [blocks, 2, tokens, 1, head] in float32."""
    generator = torch.Generator().manual_seed(0)
    shape = (batch.num_blocks, 2, batch.block_size, 1, head_size)
    cache = torch.randn(shape, generator=generator)
    return torch.randn(batch.num_tokens, 1, head_size, generator=generator), cache


def both_outputs(
    batch: PagedBatch, request: int, attend: Attend, queries: Tensor, cache: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the outputs [tokens, 1, head] of a request: alone, and in its batch."""
    device = triton_mode().torch_device

    def run(of: PagedBatch, tokens: Tensor) -> Tensor:
        starts = [sum(of.query_lens[:index]) for index in range(len(of.query_lens) + 1)]
        rows = torch.tensor(of.rows, dtype=torch.int32, device=device)
        paged = work.paged_batch(
            starts, of.seq_lens, rows, num_blocks=of.num_blocks, entry_tokens=of.block_size
        )
        return attend(tokens.to(device), cache.to(device), paged).cpu()

    first = sum(batch.query_lens[:request])
    own = slice(first, first + batch.query_lens[request])
    return run(batch.alone(request), queries[own]), run(batch, queries)[own]


def order_lab(_plan: Plan, *, compiled: bool = True, job: Job | None = None) -> OrderLab:
    """Return the predicted orders and the bits that are actually computed with them.

    Tile by tile in float32 on the CPU, our kernel wherever it runs here, and on a GPU torch's
    compiled flex_attention through the direct build. compiled: False leaves the latter out, which
    its rows report. The batch is the same for every plan. Errors: Stopped.
    """
    job, batch, found = job or Job(), stale_batch(), predicted_orders()
    rows = []
    for how, order in (("alone", found.alone), (DIRECT, found.batched), (PRUNED, found.pruned)):
        bits = order_bits(batch, replace(found, batched=order))
        rows.append(_row(how, "summed tile by tile, float32, CPU", order, bits))
        job.check()
    own, where = _compared(batch, STALE_REQUEST, KERNEL), f"our kernel, {triton_mode().mode}"
    rows.append(_row("in the batch, our kernel: its own row only", where, found.alone, own))
    return OrderLab(found, (*rows, *_compiled_rows(batch, found, job, requested=compiled)))


def _row(how: str, where: str, order: tuple[int, ...], bits: Trial) -> OrderRow:
    return OrderRow(
        how=how,
        where=where,
        predicted=order,
        elements=bits.elements,
        differing=bits.differing,
        largest=bits.largest,
    )


def _compiled_rows(
    batch: PagedBatch, found: OrderInversion, job: Job, *, requested: bool
) -> Iterator[OrderRow]:
    """Run torch's compiled kernel on the same batch; where it cannot run, the rows say so."""
    why = "needs a GPU" if requested else "not requested"
    for how, order in ((DIRECT, found.batched), (PRUNED, found.pruned)):
        job.check()
        if requested and triton_mode().mode == "gpu":
            bits = _compared(batch, found.request, engine(prune=how == PRUNED))
            yield _row(how, "torch flex, compiled, gpu", order, bits)
        else:
            where = f"torch flex, compiled: {why}"
            yield OrderRow(how=how, where=where, predicted=order, elements=0, differing=None)
