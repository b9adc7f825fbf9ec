"""Shapes and dtypes of a call, checked before anything is launched; and caches to start with."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.heads import PAIRS, ROWS, HeadDims, Views, cache_views
from workbench.kernels.paged_flex.lookup_tables import check_finite
from workbench.kernels.paged_flex.settings import check_integer
from workbench.kernels.paged_flex.work import PagedBatch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHORT_DTYPES = (torch.float8_e4m3fn, torch.int8)
"""Of a cache alone: every number of them is exact in each of DTYPES."""
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
    head: HeadDims
    num_blocks: int = field(compare=False)
    block_size: int

    @property
    def group(self) -> int:
        """Return the number of query heads that share a KV head."""
        return self.query_heads // self.kv_heads


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
    in_rows: bool = False,
) -> torch.Tensor:
    """Allocate a cache [num_blocks, 2, block, kv_heads, head_dim] in the given memory layout.

    in_rows: [num_blocks, block, kv_heads, head_dim], of rows with a key and a value, or a key.
    """
    device = triton_mode().torch_device if device is None else device
    sizes = {"blocks": num_blocks, "kv": 2, "tokens": block_size, "heads": kv_heads}
    order = _ORDERS[layout]
    if in_rows:
        del sizes["kv"]
        order = tuple(axis for axis in order if axis != "kv")
    memory = torch.full(
        (*(sizes[axis] for axis in order), head_dim), fill, dtype=dtype, device=device
    )
    # a view: the axes of a call over memory in another order
    return memory.permute(*(order.index(axis) for axis in sizes), len(sizes))


def checked_shapes(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    *,
    out: torch.Tensor | None,
    scale: float | None,
    value_dim: int | None = None,
) -> tuple[Shapes, Views]:
    """Return the sizes of a call, keys and values; PagedFlexError if its tensors do not match."""
    _check_tensors(query, kv_cache)
    check_kind("batch", batch, PagedBatch, "what `paged_batch` returns")
    tokens, query_heads, head_dim = query.shape
    if value_dim is not None:
        check_integer("value_dim", value_dim, 1)
    views, head = cache_views(kv_cache, head_dim, value_dim)
    num_blocks, block_size, kv_heads, _ = views.keys.shape
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
    # ids were checked against the batch's pool, so the cache must be as large
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
    if out is not None:
        _check_out(out, query, head.value)
    if scale is not None:
        check_finite("scale", scale)
        if scale <= 0:
            raise PagedFlexError(
                f"scale must be finite and above 0; got {scale}", field="scale", given=scale
            )
    return Shapes(query_heads, kv_heads, head, num_blocks, block_size), views


def _check_out(out: torch.Tensor, query: torch.Tensor, value_dim: int) -> None:
    """Refuse an output that a kernel cannot fill, or that two elements of a result would share."""
    shape = (*query.shape[:2], value_dim)
    wanted = f"{query.dtype} {list(shape)} with contiguous dims"
    check_kind("out", out, torch.Tensor, f"a tensor like query, {wanted}")
    if out.shape != shape or out.dtype != query.dtype or out.stride(2) != 1:
        raise PagedFlexError(
            f"out must be like query, {wanted}; got {out.dtype} {list(out.shape)}",
            field="out",
            given=tuple(out.shape),
        )
    if out.device != query.device:
        raise PagedFlexError(
            f"out is on {out.device}, query on {query.device}: the kernel writes where it reads",
            field="out",
            given=str(out.device),
            limit=str(query.device),
        )
    if out.requires_grad:
        raise PagedFlexError(
            "out requires grad, but attention is written into it and cannot be differentiated. "
            "Give out.detach().",
            field="out",
            given="requires_grad",
        )
    reach = 1
    # from the smallest stride on, every step must go past everything within it
    for stride, size in sorted(zip(out.stride(), out.shape, strict=True)):
        if size > 1 and stride < reach:
            raise PagedFlexError(
                f"out of strides {out.stride()} holds several elements in one place, as an "
                "expanded tensor does. Give out.clone().",
                field="out",
                given=out.stride(),
            )
        reach += stride * (size - 1)


def _check_tensors(query: torch.Tensor, kv_cache: torch.Tensor) -> None:
    _check_tensor("query", query, "[tokens, query_heads, head_dim]", 3, DTYPES)
    paired = isinstance(kv_cache, torch.Tensor) and kv_cache.dim() == 5
    axes = PAIRS if paired else f"{PAIRS} or {ROWS}"
    _check_tensor("kv_cache", kv_cache, axes, 5 if paired else 4, (*DTYPES, *SHORT_DTYPES))
    if paired and kv_cache.shape[1] != 2:
        raise PagedFlexError(
            f"kv_cache must be [num_blocks, 2, block, kv_heads, head_dim]; its second size is "
            f"{kv_cache.shape[1]}. A cache that begins with 2: give cache.transpose(0, 1).",
            field="kv_cache",
            given=tuple(kv_cache.shape),
            limit=2,
        )
    if kv_cache.dtype not in {query.dtype, *SHORT_DTYPES}:
        raise PagedFlexError(
            f"kv_cache is {kv_cache.dtype}, query is {query.dtype}: give both the same, or a "
            "cache of float8_e4m3fn or int8",
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
    query_heads, num_blocks = query.shape[1], kv_cache.shape[0]
    block_size, kv_heads = kv_cache.shape[-3:-1]
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


def check_kind(field: str, value: object, kind: type, expected: str) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, kind):
        raise PagedFlexError(
            f"Invalid {field} {value!r}. Expected {expected}.", field=field, given=value
        )


def _check_tensor(
    name: str, tensor: torch.Tensor, axes: str, dims: int, dtypes: tuple[torch.dtype, ...]
) -> None:
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != dims:
        found = list(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise PagedFlexError(
            f"{name} must be a tensor {axes}; got {found}", field=name, given=found, limit=dims
        )
    if tensor.dtype not in dtypes:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise PagedFlexError(
            f"{name} is {tensor.dtype}; allowed: {names}", field=name, given=str(tensor.dtype)
        )
    if tensor.stride(-1) != 1:
        raise PagedFlexError(
            f"{name}'s last stride is {tensor.stride(-1)}; dims of a head must be contiguous: "
            "call .contiguous()",
            field=name,
            given=tensor.stride(-1),
            limit=1,
        )
