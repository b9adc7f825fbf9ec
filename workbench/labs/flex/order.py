"""What the order of KV tiles does to the bits of a request, alone and in its batch.

Causal attention with one head in float32, three ways: summed tile by tile on the CPU, so that the
two orders are all that differs; by our own kernel, which walks a request's row itself, as far as
the request reaches, so no neighbour can reorder it; by torch's, which goes through a block mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from workbench.kernels.paged_flex.engine import engine_attention
from workbench.kernels.paged_flex.settings import BITWISE
from workbench.labs.jobs import Job

HEAD_SIZE = 64
DIRECT, PRUNED = "in the batch, direct build of 0.23", "in the batch, pruned as in 0.33"
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


def order_bits(batch: PagedBatch, found: OrderInversion) -> BitDifference:
    """Count the output elements that differ between the orders "alone" and "batched"."""
    generator = torch.Generator().manual_seed(0)
    shapes = (batch.num_tokens, batch.total_slots, batch.total_slots)
    data = [torch.randn(rows, HEAD_SIZE, generator=generator) for rows in shapes]

    def summed(order: Sequence[int], numbers: Sequence[Tensor] = data) -> Tensor:
        return accumulate(batch, MaskRule(), found.request, order, numbers)

    exact = summed(found.alone, [tensor.double() for tensor in data])
    return BitDifference.between(summed(found.alone), summed(found.batched), exact)


def kernel_bits(batch: PagedBatch, request: int, head_size: int = HEAD_SIZE) -> BitDifference:
    """Compare a request alone and in its batch under our bitwise kernel."""
    return _compared(batch, request, partial(paged_attention, settings=BITWISE), head_size)


def engine_bits(
    batch: PagedBatch, request: int, *, prune: bool, compiled: bool = True
) -> BitDifference:
    """Compare a request alone and in its batch under torch's flex attention.

    Tiles of 16 x 16, batch invariant: the order of the pages is all that a neighbour can change.
    compiled: False computes densely, without any order.
    """
    attend = partial(
        engine_attention,
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
    batch: PagedBatch, request: int, attend: Attend, head_size: int = HEAD_SIZE
) -> BitDifference:
    device, generator = triton_mode().torch_device, torch.Generator().manual_seed(0)
    shape = (batch.num_blocks, 2, batch.block_size, 1, head_size)
    cache = torch.randn(shape, generator=generator)
    queries = torch.randn(batch.num_tokens, 1, head_size, generator=generator)

    def run(of: PagedBatch, tokens: Tensor) -> Tensor:
        starts = [sum(of.query_lens[:index]) for index in range(len(of.query_lens) + 1)]
        rows = torch.tensor(of.rows, dtype=torch.int32, device=device)
        paged = work.paged_batch(
            starts, of.seq_lens, rows, num_blocks=of.num_blocks, entry_tokens=of.block_size
        )
        return attend(tokens.to(device), cache.to(device), paged).cpu()

    first = sum(batch.query_lens[:request])
    own = slice(first, first + batch.query_lens[request])
    alone = batch.alone(request)
    exact = _exact(alone, queries[own].double(), cache.double())
    return BitDifference.between(run(alone, queries[own]), run(batch, queries)[own], exact)


def _exact(alone: PagedBatch, queries: Tensor, cache: Tensor) -> Tensor:
    """Compute dense causal attention [tokens, 1, head] over the pages of the only request."""
    length = alone.seq_lens[0]
    pages = cache[list(alone.rows[0][: alone.own_blocks(0)])]
    keys, values = (pages[:, side].flatten(0, 1)[:length, 0] for side in (0, 1))
    scores = queries[:, 0] @ keys.T / queries.shape[-1] ** 0.5
    seen = torch.arange(length) <= torch.tensor(alone.positions)[:, None]
    weights = scores.masked_fill(~seen, -torch.inf).softmax(1)
    return (weights @ values)[:, None]


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
    own, where = kernel_bits(batch, STALE_REQUEST), f"our kernel, {triton_mode().mode}"
    rows.append(_row("in the batch, our kernel: its own row only", where, found.alone, own))
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
        if requested and triton_mode().mode == "gpu":
            bits = engine_bits(batch, found.request, prune=how == PRUNED)
            yield _row(how, "torch flex, compiled, gpu", order, bits)
        else:
            where = f"torch flex, compiled: {why}"
            yield OrderRow(how=how, where=where, predicted=order, elements=0, differing=None)
