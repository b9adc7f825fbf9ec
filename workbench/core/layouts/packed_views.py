"""The view [block, head, token, content] of an attention layer in the one allocation of 0.33."""

from math import prod

from workbench.core.layouts.error import LayoutError, layout_error
from workbench.core.layouts.layer_views import AttentionPages, check_elements, kernel_blocks_in
from workbench.core.layouts.placed import COMPACT, PagePlacement, packed_strides
from workbench.core.layouts.shapes import CacheLayout
from workbench.core.layouts.view import ITEM_BYTES, View


def page_shape(layout: CacheLayout, pages: AttentionPages) -> tuple[int, int, int]:
    """Return (heads, tokens, content in bytes) of one manager block. Errors: LayoutError."""
    # compute_layer_kv_cache_shape_bytes in v1/kv_cache_interface.py.
    _blocks, heads, tokens, elements = layout.shape(1, pages.stored(pages.geometry.block_size))
    return heads, tokens, elements * ITEM_BYTES[pages.dtype]


def packed_view(
    layout: CacheLayout,
    pages: AttentionPages,
    where: PagePlacement,
    *,
    kernel_block_size: int,
    layer: int = 0,
) -> View:
    """Return the view of one attention layer; blocks are kernel blocks. Errors: LayoutError."""
    # create_kv_cache_views in the same file, and map_kv_cache_to_kernel_blocks of AttentionGroup in
    # v1/worker/utils.py for the cut into kernel blocks.
    geometry = pages.geometry
    ratio = kernel_blocks_in(geometry.block_size, kernel_block_size)
    whole, itemsize = page_shape(layout, pages), ITEM_BYTES[pages.dtype]
    if prod(whole) != pages.page_size_bytes:
        raise layout_error(
            "shape_does_not_fit",
            operands={"shape": whole, "page_size_bytes": pages.page_size_bytes},
            variant="packed_view",
            kept_bytes=prod(whole),
        )
    if ratio > 1 and where.block_stride != pages.page_size_bytes:
        raise _block_not_dense(where, pages, kernel_block_size, ratio)
    shape = layout.shape(where.num_blocks * ratio, pages.stored(kernel_block_size))
    strides = packed_strides(
        where.name,
        (where.layers, *shape[:-1], shape[-1] * itemsize),
        layer_stride=where.layer_stride,
        block_stride=where.block_stride // ratio,
    )
    start = where.offset + layer * where.layer_stride
    check_elements(start, strides[1:-1], pages.dtype)
    inside = (*(stride // itemsize for stride in strides[1:-1]), 1)
    view = View(layout.axes, shape, inside, start // itemsize, pages.dtype)
    return view.inside(where.allocation_bytes)


def _block_not_dense(
    where: PagePlacement, pages: AttentionPages, kernel: int, ratio: int
) -> LayoutError:
    # Kernel block b * r + j starts j / r into block b, so the next block has to follow the page.
    stride, page = where.block_stride, pages.page_size_bytes
    return layout_error(
        "block_not_dense",
        operands={"block_stride": stride, "page_size_bytes": page, "kernel_block_size": kernel},
        where=where,
        pages=pages,
        ratio=ratio,
        compact=COMPACT,
    )


def check_group_split(name: str, backend: str, block_size: int, kernel_block_size: int) -> None:
    """Raise LayoutError (vLLM: ValueError) unless a kernel block is the whole manager block."""
    # vLLM raises while it binds the cache to the layers: pages side by side are never cut.
    if kernel_block_size == block_size:
        return
    raise layout_error(
        "packed_block_not_split",
        operands={"block_size": block_size, "kernel_block_size": kernel_block_size},
        variant="of_layout",
        backend=backend,
        name=name,
        compact=COMPACT,
    )
