"""One request computed in many ways: in other batches, on other pages, in other steps."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.bitwise import KINDS, Kind, Trial, compare_bits
from workbench.kernels.paged_flex.layout import PagedInputs, Request, lay_out
from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.settings import Settings

MaskOf = Callable[[Sequence[int]], Mask]
"""The batch's mask, from the contents of its rows: 0 is the request, i its i-th companion."""


def batch_trials(
    request: Request,
    companions: Sequence[Request],
    *,
    settings: Settings,
    block_size: int = 16,
    other_sizes: Sequence[int] = (64, 48),
    mask_of: MaskOf | None = None,
    kinds: Sequence[Kind] = KINDS,
    repeats: int = 1,
    seed: int = 0,
) -> tuple[Trial, ...]:
    """Run `request` alone, then in other ways, `repeats` of each kind.

    "batch": among a random choice of the companions, in random order. "padding": with dummy
    requests around it and padding after it. "pages": on other pages. "page size": in caches of
    other_sizes. "chunks": its queries in two or three steps, which needs a mask that looks back
    only, since a chunk has no later keys.
    """
    mask_of = mask_of or (lambda _: masks.causal())
    random = np.random.default_rng(seed)

    def run(paged: PagedInputs, rows: Sequence[int], place: int) -> torch.Tensor:
        out = paged_attention(
            paged.query, paged.kv_cache, paged.batch, mask=mask_of(rows), settings=settings
        )
        return out[paged.tokens_of(place)]

    alone = run(lay_out([request], block_size, seed=seed), [0], 0)
    found: list[Trial] = []
    for kind in kinds:
        for turn in range(repeats):
            pages = seed + 1 + turn
            if kind == "batch":
                count = int(random.integers(1, len(companions) + 1))
                # 0 is the request; the companions around it come in random number and order
                rows = [0, *(1 + random.permutation(len(companions))[:count]).tolist()]
                rows = [rows[i] for i in random.permutation(len(rows))]
                batch = [request if i == 0 else companions[i - 1] for i in rows]
                other = run(lay_out(batch, block_size, seed=pages), rows, rows.index(0))
                found.append(compare_bits(kind, f"rows {rows}", alone, other))
            elif kind == "padding":
                padding = 1 + turn
                paged = lay_out([request], block_size, seed=pages, dummies=(0, 2), padding=padding)
                other = run(paged, [0, 0, 0], 1)
                found.append(compare_bits(kind, f"2 dummies, {padding} padding", alone, other))
            elif kind == "pages":
                other = run(lay_out([request], block_size, seed=pages, spare=9), [0], 0)
                found.append(compare_bits(kind, f"pages of seed {pages}", alone, other))
            elif kind == "page size":
                size = other_sizes[turn % len(other_sizes)]
                other = run(lay_out([request], size, seed=pages), [0], 0)
                found.append(compare_bits(kind, f"{size} tokens", alone, other))
            else:
                cuts, other = _in_chunks(request, block_size, random, run, pages)
                found.append(compare_bits(kind, f"cut at {cuts}", alone, other))
    return tuple(found)


def _in_chunks(
    request: Request,
    block_size: int,
    random: np.random.Generator,
    run: Callable[[PagedInputs, Sequence[int], int], torch.Tensor],
    seed: int,
) -> tuple[list[int], torch.Tensor]:
    """Compute the request's queries in steps, each over the keys up to its own end."""
    queries, total = len(request.queries), len(request.keys)
    count = min(int(random.integers(1, 3)), queries - 1)
    cuts = sorted((1 + random.permutation(queries - 1)[:count]).tolist())
    parts, start = [], 0
    for end in (*cuts, queries):
        # a step sees keys up to its own end, as while a prompt is prefilled
        reach = total - queries + end
        step = Request(request.keys[:reach], request.values[:reach], request.queries[start:end])
        parts.append(run(lay_out([step], block_size, seed=seed), [0], 0))
        start = end
    return cuts, torch.cat(parts)
