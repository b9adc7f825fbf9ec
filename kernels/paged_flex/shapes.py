"""Shapes and dtypes of a call, checked before anything is launched; and caches to start with."""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.errors import PagedFlexError
from workbench.kernels.paged_flex.settings import SMALLEST_TILE, WIDEST_HEAD
from workbench.kernels.paged_flex.work import PagedBatch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
Layout = Literal["NHD", "HND", "planes"]
"""What is contiguous in a cache's memory: a token's heads, a head's tokens, or all keys and
then all values (each token's heads together)."""

_ORDERS: dict[str, tuple[str, ...]] = {
    "NHD": ("blocks", "kv", "tokens", "heads"),
    "HND": ("blocks", "kv", "heads", "tokens"),
    "planes": ("kv", "blocks", "tokens", "heads"),
}


@dataclass(frozen=True, slots=True)
class Shapes:
    """The sizes of a call's tensors. group: query heads of one KV head."""

    query_heads: int
    kv_heads: int
    head_dim: int
    num_blocks: int
    block_size: int

    @property
    def group(self) -> int:
        """Return the number of query heads that share a KV head."""
        return self.query_heads // self.kv_heads


def padded_head_dim(head_dim: int) -> int:
    """Return the power of two that holds a tile's dims; the rest is masked."""
    return max(SMALLEST_TILE, 1 << (head_dim - 1).bit_length())


def empty_cache(
    num_blocks: int,
    block_size: int,
    kv_heads: int,
    head_dim: int,
    *,
    dtype: torch.dtype,
    layout: Layout = "NHD",
    device: str | torch.device | None = None,
    fill: float = 0.0,
) -> torch.Tensor:
    """Allocate a cache [num_blocks, 2, block, kv_heads, head_dim] in the given memory layout."""
    device = triton_mode().torch_device if device is None else device
    sizes = {"blocks": num_blocks, "kv": 2, "tokens": block_size, "heads": kv_heads}
    order = _ORDERS[layout]
    memory = torch.full(
        (*(sizes[axis] for axis in order), head_dim), fill, dtype=dtype, device=device
    )
    # a view: the axes of a call over memory in another order
    return memory.permute(*(order.index(axis) for axis in sizes), 4)


def checked_shapes(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    *,
    out: torch.Tensor | None,
    scale: float | None,
) -> Shapes:
    """Return the sizes of a call's tensors; PagedFlexError if they do not match."""
    _check_tensors(query, kv_cache)
    tokens, query_heads, head_dim = query.shape
    num_blocks, _, block_size, kv_heads, _ = kv_cache.shape
    _check_sizes(query, kv_cache)
    # the table may hold manager blocks over a cache of kernel blocks
    ratio, rest = divmod(batch.entry_tokens, block_size)
    if rest:
        raise PagedFlexError(
            f"an entry of the block table covers {batch.entry_tokens} tokens, which blocks of "
            f"{block_size} do not divide. Give paged_batch entry_tokens={block_size}, or the "
            "manager block that these blocks divide.",
            field="entry_tokens",
            given=batch.entry_tokens,
            limit=block_size,
        )
    if batch.num_blocks * ratio > num_blocks:
        raise PagedFlexError(
            f"the batch was checked for {batch.num_blocks} blocks of {ratio} kernel blocks, but "
            f"kv_cache has {num_blocks} kernel blocks",
            field="num_blocks",
            given=batch.num_blocks,
            limit=num_blocks // ratio,
        )
    if tokens < batch.num_tokens:
        raise PagedFlexError(
            f"query has {tokens} tokens, but query_start_loc ends at {batch.num_tokens}",
            field="query",
            given=tokens,
            limit=batch.num_tokens,
        )
    if out is not None and (
        out.shape != query.shape or out.dtype != query.dtype or out.stride(2) != 1
    ):
        raise PagedFlexError(
            f"out must be like query, {query.dtype} {list(query.shape)} with contiguous dims; got "
            f"{out.dtype} {list(out.shape)}",
            field="out",
            given=tuple(out.shape),
        )
    if scale is not None and not (math.isfinite(scale) and scale > 0):
        raise PagedFlexError(
            f"scale must be finite and above 0; got {scale}", field="scale", given=scale
        )
    return Shapes(query_heads, kv_heads, head_dim, num_blocks, block_size)


def _check_tensors(query: torch.Tensor, kv_cache: torch.Tensor) -> None:
    _check_tensor("query", query, "[tokens, query_heads, head_dim]", 3)
    _check_tensor("kv_cache", kv_cache, "[num_blocks, 2, block, kv_heads, head_dim]", 5)
    if kv_cache.shape[1] != 2:
        raise PagedFlexError(
            f"kv_cache must be [num_blocks, 2, block, kv_heads, head_dim]; its second size is "
            f"{kv_cache.shape[1]}. A cache that begins with 2: give cache.transpose(0, 1).",
            field="kv_cache",
            given=tuple(kv_cache.shape),
            limit=2,
        )
    if kv_cache.dtype != query.dtype:
        raise PagedFlexError(
            f"kv_cache is {kv_cache.dtype}, query is {query.dtype}: give both the same",
            field="kv_cache",
            given=str(kv_cache.dtype),
            limit=str(query.dtype),
        )
    if kv_cache.device != query.device:
        raise PagedFlexError(
            f"kv_cache is on {kv_cache.device}, query on {query.device}",
            field="kv_cache",
            given=str(kv_cache.device),
            limit=str(query.device),
        )


def _check_sizes(query: torch.Tensor, kv_cache: torch.Tensor) -> None:
    _, query_heads, head_dim = query.shape
    num_blocks, _, block_size, kv_heads, cache_dim = kv_cache.shape
    if cache_dim != head_dim:
        raise PagedFlexError(
            f"query has head_dim {head_dim}, kv_cache {cache_dim}",
            field="kv_cache",
            given=cache_dim,
            limit=head_dim,
        )
    if not 1 <= head_dim <= WIDEST_HEAD:
        raise PagedFlexError(
            f"head_dim must be in 1..{WIDEST_HEAD}; got {head_dim}",
            field="query",
            given=head_dim,
            limit=WIDEST_HEAD,
        )
    if kv_heads < 1 or query_heads < 1 or query_heads % kv_heads:
        near = max((n for n in range(1, kv_heads + 1) if query_heads % n == 0), default=1)
        raise PagedFlexError(
            f"{query_heads} query heads cannot share {kv_heads} KV heads evenly; nearest number of "
            f"KV heads: {near}",
            field="query",
            given=query_heads,
            limit=kv_heads,
        )
    if block_size < 1 or num_blocks < 1:
        raise PagedFlexError(
            f"kv_cache needs at least one block of one token; got {tuple(kv_cache.shape)}",
            field="kv_cache",
            given=tuple(kv_cache.shape),
            limit=1,
        )


def _check_tensor(name: str, tensor: torch.Tensor, axes: str, dims: int) -> None:
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != dims:
        found = list(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise PagedFlexError(
            f"{name} must be a tensor {axes}; got {found}", field=name, given=found, limit=dims
        )
    if tensor.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise PagedFlexError(
            f"{name} is {tensor.dtype}; allowed: {names}", field=name, given=str(tensor.dtype)
        )
    if tensor.dtype == torch.bfloat16 and triton_mode().mode == "interpreter":
        raise PagedFlexError(
            f"{name} is bfloat16: Triton's interpreter silently computes wrong bfloat16 results. "
            "Use float16 or float32 here, or a GPU.",
            field=name,
            given="bfloat16",
        )
    if tensor.stride(-1) != 1:
        raise PagedFlexError(
            f"{name}'s last stride is {tensor.stride(-1)}; dims of a head must be contiguous: "
            "call .contiguous()",
            field=name,
            given=tensor.stride(-1),
            limit=1,
        )
