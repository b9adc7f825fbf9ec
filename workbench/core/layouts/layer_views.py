"""The views that a layer gets of its raw tensor: keys and values, or states (0.23).

Source: `_reshape_kv_cache_tensors` of the V1 runner and `_reshape_kv_cache` of the V2 runner.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.layouts.error import LayoutError, require_positive
from workbench.core.layouts.shapes import NUM_BLOCKS, CacheGeometry, CacheLayout
from workbench.core.layouts.view import ITEM_BYTES, View, contiguous_strides, placed

V1, V2 = "v1", "v2"
RUNNERS = (V1, V2)
TORCH_NAMES = {"bfloat16": "BFloat16", "float16": "Half", "float32": "Float"}


@dataclass(frozen=True, slots=True)
class AttentionPages:
    """What an attention layer requests, per rank.

    geometry: of one *manager* block. dtype: of stored elements. page_size_bytes: of one manager
    block, unpadded; page_size_padded: what it was padded to, None without padding.
    compress_ratio: tokens that share one stored entry.
    """

    geometry: CacheGeometry
    dtype: str
    page_size_bytes: int
    page_size_padded: int | None = None
    compress_ratio: int = 1

    @property
    def page_bytes(self) -> int:
        """Return the bytes from one manager block to the next."""
        return self.page_size_bytes if self.page_size_padded is None else self.page_size_padded


@dataclass(frozen=True, slots=True)
class StatePages:
    """What an SSM layer requests, per rank: states of one request and the page they are in."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    page_bytes: int
    names: tuple[str, ...] = ()


STORED_AS = {"int8_per_token_head": "int8", "fp8_inc": "float8_e4m3fn"}
"""KV-cache dtypes that are stored neither as a float of the model nor as plain bytes."""


def stored_dtype(kv_cache_dtype: str, model_dtype: str) -> str:
    """Return the element type of the cache tensor; packed and fp8 types are stored as bytes."""
    if kv_cache_dtype == "auto":
        return model_dtype
    if kv_cache_dtype in FLOAT_BYTES:
        return kv_cache_dtype
    return STORED_AS.get(kv_cache_dtype, "uint8")


def blocks_in(raw_bytes: int, page_bytes: int, what: str) -> int:
    """Return the manager blocks of a tensor.

    Errors: LayoutError (vLLM: AssertionError without text).
    """
    require_positive(page_bytes, "page_size_bytes", "byte")
    if raw_bytes % page_bytes:
        raise LayoutError(
            "tensor_not_whole_pages",
            f"The tensor of {raw_bytes:,} bytes does not divide evenly into {what} pages of "
            f"{page_bytes:,} bytes: {raw_bytes % page_bytes:,} bytes are left over. Layers that "
            "share a tensor need equal pages.",
            field="page_size_bytes",
            operands={"raw_bytes": raw_bytes, "page_bytes": page_bytes},
            vllm_exception="AssertionError",
            vllm_text="",
        )
    return raw_bytes // page_bytes


def attention_view(
    layout: CacheLayout,
    pages: AttentionPages,
    *,
    raw_bytes: int,
    kernel_block_size: int,
    layout_name: str,
    runner: str = V1,
) -> View:
    """Return the view of an attention layer before any hybrid rewrite; blocks are kernel blocks.

    A padded page moves the stride of logical dimension 0 alone, whatever that dimension counts.
    Errors: LayoutError.
    """
    num_blocks = blocks_in(raw_bytes, pages.page_bytes, "attention")
    geometry, ratio = _kernel_geometry(pages, kernel_block_size, runner)
    shape = layout.shape(num_blocks * ratio, geometry)
    order = layout.memory_order(layout_name)
    in_memory = tuple(shape[axis] for axis in order)
    dense = contiguous_strides(in_memory)
    strides = [dense[order.index(axis)] for axis in range(len(shape))]
    _check_item_size(raw_bytes, pages.dtype)
    if pages.page_size_padded is not None:
        strides[0] = pages.page_size_padded // ITEM_BYTES[pages.dtype]
    elif prod(shape) * ITEM_BYTES[pages.dtype] != raw_bytes:
        _shape_does_not_fit(in_memory, raw_bytes // ITEM_BYTES[pages.dtype])
    return placed(
        layout.axes, shape, tuple(strides), dtype=pages.dtype, raw_bytes=raw_bytes, order=order
    )


def _kernel_geometry(
    pages: AttentionPages, kernel_block_size: int, runner: str
) -> tuple[CacheGeometry, int]:
    """Return the geometry of one kernel block, and how many of them one manager block holds."""
    require_positive(kernel_block_size, "kernel_block_size", "token")
    whole = pages.geometry
    if whole.block_size % kernel_block_size:
        raise LayoutError(
            "kernel_block_does_not_divide",
            f"kernel_block_size = {kernel_block_size} does not divide the manager block of "
            f"{whole.block_size} tokens. Choose one of its divisors.",
            field="kernel_block_size",
            operands={"block_size": whole.block_size, "kernel_block_size": kernel_block_size},
        )
    ratio = whole.block_size // kernel_block_size
    stored = kernel_block_size
    if pages.compress_ratio > 1:
        stored = whole.block_size // pages.compress_ratio
        ratio = 1 if runner == V2 else ratio
    kernel = CacheGeometry(
        stored, whole.num_kv_heads, whole.head_size, whole.cache_dtype, whole.value_head_size
    )
    return kernel, ratio


def state_views(pages: StatePages, *, raw_bytes: int) -> tuple[View, ...]:
    """Return one view per state, a page from block to block, one dense state after the other.

    Errors: LayoutError.
    """
    num_blocks = blocks_in(raw_bytes, pages.page_bytes, "mamba")
    views: list[View] = []
    offset_bytes = 0
    for shape, dtype in zip(pages.shapes, pages.dtypes, strict=True):
        itemsize = ITEM_BYTES[dtype]
        _check_item_size(raw_bytes, dtype)
        if offset_bytes % itemsize:
            raise LayoutError(
                "state_not_aligned",
                f"The {dtype} state starts at byte {offset_bytes}, which is not a multiple of its "
                f"{itemsize} bytes. Choose state dtypes of one size.",
                field="mamba_ssm_cache_dtype",
                operands={"offset_bytes": offset_bytes, "itemsize": itemsize},
                vllm_exception="AssertionError",
                vllm_text="",
            )
        dense = contiguous_strides((num_blocks, *shape))
        views.append(
            placed(
                (NUM_BLOCKS, *(f"state_{axis}" for axis in range(len(shape)))),
                (num_blocks, *shape),
                (pages.page_bytes // itemsize, *dense[1:]),
                dtype=dtype,
                raw_bytes=raw_bytes,
                offset_elements=offset_bytes // itemsize,
            )
        )
        offset_bytes += dense[0] * itemsize
    return tuple(views)


def _check_item_size(raw_bytes: int, dtype: str) -> None:
    itemsize = ITEM_BYTES[dtype]
    if raw_bytes % itemsize:
        raise LayoutError(
            "tensor_not_whole_elements",
            f"A tensor of {raw_bytes:,} bytes does not divide evenly into {dtype} elements.",
            field="page_size_bytes",
            operands={"raw_bytes": raw_bytes, "dtype": dtype},
            vllm_exception="RuntimeError",
            vllm_text=f"self.size(-1) must be divisible by {itemsize} to view Char as "
            f"{TORCH_NAMES[dtype]} (different element sizes), but got {raw_bytes}",
        )


def _shape_does_not_fit(shape: tuple[int, ...], elements: int) -> None:
    raise LayoutError(
        "shape_does_not_fit",
        f"The backend's shape {shape} has {prod(shape):,} elements, and the tensor {elements:,}: "
        "the page of the layer is not what the backend stores.",
        field="page_size_bytes",
        operands={"shape": shape, "elements": elements},
        vllm_exception="RuntimeError",
        vllm_text=f"shape '{list(shape)}' is invalid for input of size {elements}",
    )
