"""The views of 0.33: one allocation, and a view [block, head, token, content] for every layer.

Block b of layer l starts at offset + l * layer_stride + b * block_stride. Source:
`compute_layer_kv_cache_shape_bytes`, `compute_layout_strides` and `create_kv_cache_views` in
`vllm/v1/kv_cache_interface.py`, `AttentionGroup.map_kv_cache_to_kernel_blocks` in
`vllm/v1/worker/utils.py`, 0.33.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from workbench.core.errors import unknown_name_message
from workbench.core.layouts.error import LayoutError, require_positive
from workbench.core.layouts.layer_views import AttentionPages, StatePages
from workbench.core.layouts.shapes import DIMENSIONS, NUM_BLOCKS, CacheLayout, Order
from workbench.core.layouts.view import ITEM_BYTES, View, contiguous_strides, placed

LAYER, BLOCK = DIMENSIONS.index("L"), DIMENSIONS.index("B")
COMPACT = "LBNHC"
"""What vLLM names as a way out: every layer by itself, every page one run of bytes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the pages of some layers lie in the allocation, in bytes.

    allocation_bytes: all of it. layer: which of the layers a view is for. pieces: of a page, as
    many as heads where these do not lie side by side, `piece_stride` apart.
    """

    name: str
    num_blocks: int
    layers: int
    offset: int
    layer_stride: int
    block_stride: int
    page_bytes: int
    allocation_bytes: int
    pieces: int = 1
    piece_stride: int = 0

    def address(self, layer: int, block: int, page_byte: int = 0) -> int:
        """The byte of the allocation that holds this byte of a layer's page, heads in order."""
        piece, inside = divmod(page_byte, self.page_bytes // self.pieces)
        start = self.offset + layer * self.layer_stride + block * self.block_stride
        return start + piece * self.piece_stride + inside

    def locate(self, byte: int) -> tuple[int, int, int] | None:
        """(layer, block, byte of the page) that lies at a byte of the allocation, or None.

        The inverse of `address`.
        """
        size = self.page_bytes // self.pieces
        view = View(
            ("layer", NUM_BLOCKS, "piece", "byte"),
            (self.layers, self.num_blocks, self.pieces, size),
            (self.layer_stride, self.block_stride, self.piece_stride or size, 1),
            self.offset,
            "uint8",
        )
        if (index := view.index_of(byte)) is None:
            return None
        layer, block, piece, inside = index
        return layer, block, piece * size + inside

    def ranges(self, layer: int, block: int) -> tuple[range, ...]:
        """The bytes of one page, in the allocation; one range a piece."""
        size = self.page_bytes // self.pieces
        starts = (self.address(layer, block, piece * size) for piece in range(self.pieces))
        return tuple(range(first, first + size) for first in starts)

    @property
    def is_block_outermost(self) -> bool:
        """Whether all layers of a block lie together."""
        return self.name.startswith("B")

    @property
    def block_step(self) -> tuple[int, int]:
        """(start, bytes): block b of the first layer is to lie in [start + b * bytes, + bytes).

        Where all layers of a block lie together that is all of the block.
        """
        if self.is_block_outermost:
            return 0, self.block_stride
        return self.offset, self.page_bytes


def packed_order(name: str) -> Order:
    """The order in memory of (layer, block, head, token, content). Errors: LayoutError."""
    if sorted(name) != sorted(DIMENSIONS):
        raise LayoutError(
            "unknown_layout",
            unknown_name_message("layout", name, (COMPACT, "LBHNC", "BLNHC", "BLHNC")),
            field="layout",
        )
    return tuple(DIMENSIONS.index(letter) for letter in name)


def packed_strides(
    name: str,
    shape: tuple[int, ...],
    *,
    layer_stride: int | None = None,
    block_stride: int | None = None,
) -> tuple[int, ...]:
    """Strides of (layer, block, head, token, content) in the unit of the content.

    shape: sizes in the same order. A stride that is given holds, and what lies outside follows it.
    """
    fixed = {LAYER: layer_stride, BLOCK: block_stride}
    strides, step = [0] * len(shape), 1
    for dim in reversed(packed_order(name)):
        given = fixed.get(dim)
        strides[dim] = step if given is None else given
        step = strides[dim] * shape[dim]
    return tuple(strides)


def place(
    name: str,
    shape: tuple[int, ...],
    *,
    layers: int,
    num_blocks: int,
    page_bytes: int,
    block_bytes: int,
    offset: int = 0,
) -> Placed:
    """Where `layers` layers lie whose pages have `shape` (heads, tokens, content in bytes).

    page_bytes: padding included; block_bytes: of one block over all layers of the largest group.
    Errors: LayoutError (vLLM: AssertionError) for a padded page whose heads do not lie together.
    """
    blocks_outside = name.startswith("B")
    heads = 1 if set(name[:2]) == {"L", "B"} else shape[0]
    if heads > 1 and page_bytes != prod(shape):
        _padding_between_heads(name, (layers, num_blocks, *shape), page_bytes)
    whole = page_bytes if heads == 1 else None
    strides = packed_strides(
        name,
        (layers, num_blocks, *shape),
        layer_stride=whole if blocks_outside else None if whole is None else whole * num_blocks,
        block_stride=block_bytes if blocks_outside else whole,
    )
    return Placed(
        name,
        num_blocks,
        layers,
        offset,
        strides[LAYER],
        strides[BLOCK],
        page_bytes,
        block_bytes * num_blocks,
        pieces=heads,
        piece_stride=strides[2] if heads > 1 else 0,
    )


def page_shape(layout: CacheLayout, pages: AttentionPages) -> tuple[int, int, int]:
    """(heads, tokens, content in bytes) of one manager block. Errors: LayoutError."""
    _blocks, heads, tokens, elements = layout.shape(1, pages.geometry)
    return heads, tokens, elements * ITEM_BYTES[pages.dtype]


def packed_view(
    layout: CacheLayout,
    pages: AttentionPages,
    where: Placed,
    *,
    kernel_block_size: int,
    layer: int = 0,
) -> View:
    """The view of one attention layer; blocks are kernel blocks.

    Errors: LayoutError, with vLLM's exception and message where it raises one.
    """
    geometry = pages.geometry
    require_positive(kernel_block_size, "kernel_block_size", "token")
    if geometry.block_size % kernel_block_size:
        raise LayoutError(
            "kernel_block_does_not_divide",
            f"kernel_block_size = {kernel_block_size} does not divide the manager block of "
            f"{geometry.block_size} tokens. Choose one of its divisors.",
            field="kernel_block_size",
            operands={"block_size": geometry.block_size, "kernel_block_size": kernel_block_size},
        )
    whole, itemsize = page_shape(layout, pages), ITEM_BYTES[pages.dtype]
    if prod(whole) != pages.page_size_bytes:
        raise LayoutError(
            "shape_does_not_fit",
            f"The backend keeps {prod(whole):,} bytes in a block, and the layer's page holds "
            f"{pages.page_size_bytes:,}.",
            field="page_size_bytes",
            operands={"shape": whole, "page_size_bytes": pages.page_size_bytes},
        )
    ratio = geometry.block_size // kernel_block_size
    if ratio > 1:
        _check_split(where, pages, kernel_block_size, ratio)
    kernel = replace(geometry, block_size=kernel_block_size)
    shape = layout.shape(where.num_blocks * ratio, kernel)
    strides = packed_strides(
        where.name,
        (where.layers, *shape[:-1], shape[-1] * itemsize),
        layer_stride=where.layer_stride,
        block_stride=where.block_stride // ratio,
    )
    start = where.offset + layer * where.layer_stride
    inside = (*(stride // itemsize for stride in strides[1:-1]), 1)
    _check_elements(start, strides[1:-1], itemsize, pages.dtype)
    return placed(
        layout.axes,
        shape,
        inside,
        dtype=pages.dtype,
        raw_bytes=where.allocation_bytes,
        offset_elements=start // itemsize,
    )


def packed_states(pages: StatePages, where: Placed, *, layer: int = 0) -> tuple[View, ...]:
    """The states of one SSM layer: one after the other at the start of each of its pages."""
    start = where.offset + layer * where.layer_stride
    views = []
    for shape, dtype in zip(pages.shapes, pages.dtypes, strict=True):
        itemsize = ITEM_BYTES[dtype]
        _check_elements(start, (where.block_stride,), itemsize, dtype)
        dense = contiguous_strides((where.num_blocks, *shape))
        views.append(
            placed(
                (NUM_BLOCKS, *(f"state_{axis}" for axis in range(len(shape)))),
                (where.num_blocks, *shape),
                (where.block_stride // itemsize, *dense[1:]),
                dtype=dtype,
                raw_bytes=where.allocation_bytes,
                offset_elements=start // itemsize,
            )
        )
        start += dense[0] * itemsize
    return tuple(views)


def _padding_between_heads(name: str, shape: tuple[int, ...], page_bytes: int) -> None:
    raise LayoutError(
        "padded_page_in_pieces",
        f"A page padded to {page_bytes:,} bytes must be one run of bytes, and in the layout {name} "
        f"the heads of a page lie apart. Nearest valid: {COMPACT}.",
        field="layout",
        operands={"shape": shape, "page_size_padded": page_bytes},
        vllm_exception="AssertionError",
        vllm_text="Page padding requires dimensions outside the page tail to be L, B, or "
        f"singleton; got {name} with shape {shape}.",
    )


def _check_split(where: Placed, pages: AttentionPages, kernel: int, ratio: int) -> None:
    """A block can only be cut where it is one dense page and the next one follows it."""
    stride, page = where.block_stride, pages.page_size_bytes
    if stride == page:
        return
    raise LayoutError(
        "block_not_dense",
        f"In the layout {where.name} blocks lie {stride:,} bytes apart and a page has {page:,}, so "
        f"a manager block of {pages.geometry.block_size:,} tokens cannot be cut into {ratio:,} "
        f"kernel blocks of {kernel:,}. Nearest valid: block_size = {kernel}, or a layout that "
        f"keeps every layer by itself ({COMPACT}).",
        field="block_size",
        operands={"block_stride": stride, "page_size_bytes": page, "kernel_block_size": kernel},
        vllm_exception="ValueError",
        vllm_text=f"The resolved KV cache layout ({where.name}) does not store blocks as dense, "
        f"unpadded pages (block stride {stride} != page {page}), so a manager block cannot be "
        f"split into {ratio} kernel blocks of {kernel} tokens. Reduce --block-size to {kernel} or "
        f"set VLLM_KV_CACHE_LAYOUT to a layer-compact layout (e.g. {COMPACT}).",
    )


def check_group_split(name: str, backend: str, block_size: int, kernel_block_size: int) -> None:
    """Pages side by side in a block are never cut, so the kernel must take the manager block.

    Errors: LayoutError (vLLM: ValueError while the cache is bound to the layers).
    """
    if kernel_block_size == block_size:
        return
    raise LayoutError(
        "packed_block_not_split",
        f"{backend} needs kernel blocks of {kernel_block_size:,} tokens, and in the layout {name} "
        f"blocks of {block_size:,} tokens lie beside other layers' pages: they cannot be cut. "
        f"Nearest valid: a layout that keeps every layer by itself ({COMPACT}). A block of "
        f"{kernel_block_size:,} tokens helps where no SSM layer makes it larger.",
        field="block_size",
        operands={"block_size": block_size, "kernel_block_size": kernel_block_size},
        vllm_exception="ValueError",
        vllm_text=f"{backend} needs {kernel_block_size}-token kernel blocks, which packed "
        f"{block_size}-token KV cache blocks cannot be split into. Reduce --block-size to "
        f"{kernel_block_size} or set VLLM_KV_CACHE_LAYOUT to a layer-compact layout "
        f"(e.g. {COMPACT}).",
    )


def _check_elements(start: int, strides: tuple[int, ...], itemsize: int, dtype: str) -> None:
    if any(size % itemsize for size in (start, *strides)):
        raise LayoutError(
            "tensor_not_whole_elements",
            f"A view of {dtype} starts at byte {start:,} with strides {strides} bytes: no whole "
            f"number of elements of {itemsize} bytes.",
            field="page_size_bytes",
            operands={"offset_bytes": start, "strides_bytes": strides},
            vllm_exception="RuntimeError",
        )
