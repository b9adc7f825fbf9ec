"""The views that a layer gets of its raw tensor: keys and values (0.23), or states."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.layouts.error import layout_error, require_positive
from workbench.core.layouts.placed import PagePlacement
from workbench.core.layouts.shapes import NUM_BLOCKS, CacheGeometry, CacheLayout
from workbench.core.layouts.view import ITEM_BYTES, View, contiguous_strides

V1, V2 = RUNNERS = ("v1", "v2")
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

    def stored(self, tokens: int) -> CacheGeometry:
        """Return the geometry of a block of so many tokens, counted in stored entries."""
        return replace(self.geometry, block_size=tokens // self.compress_ratio)

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
    """Return the manager blocks of a tensor. Errors: LayoutError (vLLM: AssertionError)."""
    # Each layer divides by its own page, so an SSM page that was left unpadded ends here.
    require_positive(page_bytes, "page_size_bytes", "byte")
    if raw_bytes % page_bytes:
        raise layout_error(
            "tensor_not_whole_pages",
            operands={"raw_bytes": raw_bytes, "page_bytes": page_bytes},
            what=what,
            left=raw_bytes % page_bytes,
        )
    return raw_bytes // page_bytes


def kernel_blocks_in(block_size: int, kernel_block_size: int) -> int:
    """Return the kernel blocks of one manager block. Errors: LayoutError where some are cut."""
    require_positive(kernel_block_size, "kernel_block_size", "token")
    if block_size % kernel_block_size:
        raise layout_error(
            "kernel_block_does_not_divide",
            operands={"block_size": block_size, "kernel_block_size": kernel_block_size},
        )
    return block_size // kernel_block_size


def attention_view(
    layout: CacheLayout,
    pages: AttentionPages,
    *,
    raw_bytes: int,
    kernel_block_size: int,
    layout_name: str,
    runner: str = V1,
) -> View:
    """Return the view of an attention layer, before any hybrid rewrite. Errors: LayoutError."""
    # _reshape_kv_cache_tensors of the V1 runner, _reshape_kv_cache of the V2 runner.
    num_blocks = blocks_in(raw_bytes, pages.page_bytes, "attention")
    ratio = kernel_blocks_in(pages.geometry.block_size, kernel_block_size)
    stored = kernel_block_size
    if pages.compress_ratio > 1:
        # Compressed blocks are never cut; only the V2 runner counts them so.
        stored = pages.geometry.block_size // pages.compress_ratio
        ratio = 1 if runner == V2 else ratio
    shape = layout.shape(num_blocks * ratio, replace(pages.geometry, block_size=stored))
    order = layout.memory_order(layout_name)
    in_memory = tuple(shape[axis] for axis in order)
    dense = contiguous_strides(in_memory)
    strides = [dense[order.index(axis)] for axis in range(len(shape))]
    _check_item_size(raw_bytes, pages.dtype)
    elements = raw_bytes // ITEM_BYTES[pages.dtype]
    if pages.page_size_padded is not None:
        # Padding moves logical dimension 0 alone, whatever that dimension counts: of a cache with
        # K and V outermost the rewrite then drops it, and blocks meet.
        strides[0] = pages.page_size_padded // ITEM_BYTES[pages.dtype]
    elif prod(shape) != elements:
        raise layout_error(
            "shape_does_not_fit",
            operands={"shape": in_memory, "elements": elements},
            variant="attention_view",
            count=prod(shape),
            listed=list(in_memory),
        )
    return View(layout.axes, shape, tuple(strides), 0, pages.dtype).inside(raw_bytes, order)


def state_views(pages: StatePages, *, raw_bytes: int) -> tuple[View, ...]:
    """Return one view per state of a tensor of pages. Errors: LayoutError."""

    def check(start: int, dtype: str) -> None:
        _check_item_size(raw_bytes, dtype)
        if start % (itemsize := ITEM_BYTES[dtype]):
            raise layout_error(
                "state_not_aligned",
                operands={"offset_bytes": start, "itemsize": itemsize},
                dtype=dtype,
            )

    blocks = blocks_in(raw_bytes, pages.page_bytes, "mamba")
    return _states(pages, blocks, pages.page_bytes, raw_bytes, check)


def packed_states(pages: StatePages, where: PagePlacement, *, layer: int) -> tuple[View, ...]:
    """Return one view per state of an SSM layer in the one allocation (0.33)."""
    start, step_bytes = where.offset + layer * where.layer_stride, where.block_stride

    def check(start: int, dtype: str) -> None:
        check_elements(start, (step_bytes,), dtype)

    return _states(pages, where.num_blocks, step_bytes, where.allocation_bytes, check, start)


def _states(
    pages: StatePages,
    num_blocks: int,
    step_bytes: int,
    raw_bytes: int,
    check: Callable[[int, str], None],
    start: int = 0,
) -> tuple[View, ...]:
    """Return states one after the other, dense, from the start of each page, a step to the next."""
    views = []
    for shape, dtype in zip(pages.shapes, pages.dtypes, strict=True):
        check(start, dtype)
        dense, itemsize = contiguous_strides((num_blocks, *shape)), ITEM_BYTES[dtype]
        axes = (NUM_BLOCKS, *(f"state_{axis}" for axis in range(len(shape))))
        strides = (step_bytes // itemsize, *dense[1:])
        view = View(axes, (num_blocks, *shape), strides, start // itemsize, dtype)
        views.append(view.inside(raw_bytes))
        start += dense[0] * itemsize
    return tuple(views)


def _check_item_size(raw_bytes: int, dtype: str) -> None:
    itemsize = ITEM_BYTES[dtype]
    if raw_bytes % itemsize:
        raise layout_error(
            "tensor_not_whole_elements",
            operands={"raw_bytes": raw_bytes, "dtype": dtype},
            variant="check_item_size",
            itemsize=itemsize,
            torch_name=TORCH_NAMES[dtype],
        )


def check_elements(start: int, strides: tuple[int, ...], dtype: str) -> None:
    """Raise LayoutError unless bytes are whole elements: start and strides of a view (0.33)."""
    itemsize = ITEM_BYTES[dtype]
    if any(size % itemsize for size in (start, *strides)):
        raise layout_error(
            "tensor_not_whole_elements",
            operands={"offset_bytes": start, "strides_bytes": strides},
            variant="check_elements",
            dtype=dtype,
            itemsize=itemsize,
        )
