# ruff: noqa: ARG001 - torch names the batch and the head, which one mask covers
"""The engine's path: torch's flex_attention over the whole cache, through a physical mask.

Rules: vLLM 0.23's FlexAttention backend (#41252 for the sizes). Keys and values are the cache as
one long sequence of slots; an inverse table leads from a slot back to a request's position.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex.heads import PAIRS
from workbench.kernels.paged_flex.lookup_tables import check_tables
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.shapes import checked_shapes
from workbench.kernels.paged_flex.slots import (
    NULL_BLOCK,
    Slots,
    direct_block_lists,
    first_occurrences,
    physical_to_logical,
    slots_of,
)
from workbench.kernels.paged_flex.work import PagedBatch

LARGEST_TILE = 64
"""Rows or keys of a kernel tile that nothing else is said about."""


def physical_mask_mod(slots: Slots, mask: Mask) -> Callable[..., torch.Tensor]:
    """Return the mask_mod over packed queries and physical slots, as vLLM's `final_mask_mod`."""

    def mask_mod(b: Any, h: Any, query: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
        request, position, key, valid = slots.places(query, slot)
        return valid & mask.torch_mask_mod(request, h, position, key)

    return mask_mod


def physical_score_mod(slots: Slots, score: Score) -> Callable[..., torch.Tensor]:
    """Return the score_mod over packed queries and slots; -inf for slots of other requests."""

    def score_mod(
        value: torch.Tensor, b: Any, h: Any, query: torch.Tensor, slot: torch.Tensor
    ) -> torch.Tensor:
        request, position, key, valid = slots.places(query, slot)
        # positions of the request, not slots: a mod knows nothing of pages
        changed = score.torch_score_mod(value, request, h, position, key)
        return torch.where(valid, changed, -float("inf"))

    return score_mod


def direct_mask(
    slots: Slots, mask: Mask, q_block: int, *, window: int = 0, prune: bool = False
) -> BlockMask:
    """Build a BlockMask from the block table, kv block = cache block; every tile is masked."""
    lists = direct_block_lists(slots, q_block, window=window, prune=prune)
    total = slots.num_blocks * slots.block_size
    # no block is marked as full: its tail may belong to another request, so every tile is masked
    return BlockMask.from_kv_blocks(
        (lists >= 0).sum(1).to(torch.int32)[None, None],
        lists.to(torch.int32)[None, None].contiguous(),
        BLOCK_SIZE=(q_block, slots.block_size),
        mask_mod=physical_mask_mod(slots, mask),
        seq_lengths=(len(slots.request), total),
        compute_q_blocks=False,
    )


def generic_mask(slots: Slots, mask: Mask, q_block: int, kv_block: int) -> BlockMask:
    """Build a BlockMask by evaluating every query and slot: for kv blocks of another size."""
    total = slots.num_blocks * slots.block_size
    return create_block_mask(
        physical_mask_mod(slots, mask),
        None,
        None,
        len(slots.request),
        total,
        device=slots.request.device,
        BLOCK_SIZE=(q_block, kv_block),
    )


def engine_attention(*arguments: Any, **options: Any) -> torch.Tensor:
    """Return attention [tokens, heads, dim] as vLLM's FlexAttention backend computes it.

    Arguments as in `prepare_engine`.
    """
    return prepare_engine(*arguments, **options).run()


def tile_of(block: int) -> int:
    """Return the rows or keys of a kernel tile for a mask block: the largest power of two in it.

    At most 64, of which several make up a larger block.
    """
    return min(block & -block, LARGEST_TILE)


@dataclass(frozen=True, slots=True)
class EngineCall:
    """A call whose mask is built: `run` may be called again and again, on new numbers too."""

    query: torch.Tensor
    kv_cache: torch.Tensor
    num_tokens: int
    slots: Slots
    block_mask: BlockMask
    arguments: dict[str, Any]
    compiled: bool

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the inverse table, which grows with the cache, and block lists."""
        tensors = [self.slots.inverse, self.slots.request]
        tensors += [
            tensor
            for tensor in self.block_mask.as_tuple(flatten=True)
            if isinstance(tensor, torch.Tensor)
        ]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def attend(self) -> torch.Tensor:
        """Return the output of flex_attention, [heads, tokens, dim]."""
        # all slots of the cache as one sequence
        keys, values = (self.kv_cache[:, kv].flatten(0, 1).transpose(0, 1)[None] for kv in (0, 1))
        attend = _compiled_flex() if self.compiled else flex_attention
        query = self.query[: self.num_tokens].transpose(0, 1)[None]
        return attend(query, keys, values, block_mask=self.block_mask, **self.arguments)[0]

    def run(self) -> torch.Tensor:
        """Return the result [tokens, heads, dim], with zeros after the batch."""
        # queries after the batch are padding, and stay zero
        out = torch.zeros_like(self.query, memory_format=torch.contiguous_format)
        out[: self.num_tokens] = self.attend().transpose(0, 1)
        return out


def prepare_engine(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    *,
    mask: Mask,
    score: Score | None = None,
    scale: float | None = None,
    q_block: int = 16,
    kv_block: int | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
    batch_invariant: bool = False,
    prune: bool = False,
    compiled: bool = False,
    window: int = 0,
) -> EngineCall:
    """Prepare `engine_attention` without computing.

    Arguments as in `paged_attention`; window: as in `direct_block_lists`.

    q_block, kv_block: mask block sizes. kv_block None or the cache block builds the mask from the
    table; another one evaluates the mask_mod everywhere. block_m, block_n: kernel tiles; None:
    `tile_of` the mask's blocks on a GPU, where torch's own choice takes blocks of 128 and more;
    batch_invariant also disables the variant for divisible lengths. compiled: on a
    CPU it needs g++. Without it everything is computed densely, and every slot of the cache must be
    finite: zero times NaN is NaN, and this path multiplies.
    """
    shapes, _ = checked_shapes(query, kv_cache, batch, out=None, scale=scale)
    if kv_cache.dim() != 5:
        raise PagedFlexError(
            f"vLLM's FlexAttention takes a cache {PAIRS}; got {list(kv_cache.shape)}. For keys and "
            "values of different sizes: paged_attention.",
            field="kv_cache",
            given=tuple(kv_cache.shape),
        )
    if not batch.num_tokens:
        raise PagedFlexError(
            "the batch has no query, and torch no mask without one. For empty batches: "
            "paged_attention.",
            field="batch",
        )
    check_tables(mask, score, batch, heads=shapes.query_heads)
    mask = mask.on(query.device)
    slots = slots_of(batch, shapes.block_size, shapes.num_blocks, query.device)
    # one mask block for each cache block: the table itself is the list
    if kv_block in {None, shapes.block_size}:
        block_mask = direct_mask(slots, mask, q_block, window=window, prune=prune)
    else:
        assert kv_block is not None
        block_mask = generic_mask(slots, mask, q_block, kv_block)
    # for few queries torch would take its decode kernel, which has other tiles
    options: dict[str, Any] = {"FORCE_USE_FLEX_ATTENTION": True}
    keys = kv_block or shapes.block_size
    for name, tile, block in (("BLOCK_M", block_m, q_block), ("BLOCK_N", block_n, keys)):
        if tile is not None and block % tile:
            raise PagedFlexError(
                f"{name} {tile} must divide the mask block of {block}",
                field=name.lower(),
                given=tile,
                limit=block,
            )
        if tile is not None or query.is_cuda:
            options[name] = tile or tile_of(block)
    if batch_invariant:
        # one variant of the kernel for every length, as vLLM does
        options["IS_DIVISIBLE"] = False
    arguments = {
        "score_mod": physical_score_mod(slots, score) if score else None,
        "scale": scale,
        "enable_gqa": shapes.group > 1,
        "kernel_options": options if compiled else None,
    }
    return EngineCall(
        query=query,
        kv_cache=kv_cache,
        num_tokens=batch.num_tokens,
        slots=slots,
        block_mask=block_mask,
        arguments=arguments,
        compiled=compiled,
    )


@cache
def _compiled_flex() -> Callable[..., Any]:
    return torch.compile(flex_attention)


__all__ = ["NULL_BLOCK", "EngineCall", "Slots", "direct_block_lists", "direct_mask"]
__all__ += ["engine_attention", "first_occurrences", "generic_mask", "physical_mask_mod"]
__all__ += ["physical_score_mod", "physical_to_logical", "prepare_engine", "slots_of"]
