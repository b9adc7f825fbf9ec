"""Small hybrid caches: attention and states whose pages are equal."""

from dataclasses import replace
from math import prod

from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import AttentionPages, LayoutName, StatePages, cache_views
from workbench.core.layouts.view import ITEM_BYTES
from workbench.core.versions.v0_23.backends import BACKENDS

ATTENTION_BACKENDS = [name for name, backend in BACKENDS.items() if backend.is_selectable]
STATES = (((2, 2), (2, 1, 2)), ("float16", "float32"))
SMALL = CacheGeometry(16, 2, 2)


def attention_pages(layout, kernel, ratio, dtype="bfloat16", padding=0, value_head_size=None):
    """Pages of `ratio` kernel blocks that hold what the backend stores, and no more."""
    geometry = replace(kernel, value_head_size=value_head_size)
    page = ratio * prod(layout.shape(1, geometry)) * ITEM_BYTES[dtype]
    whole = replace(geometry, block_size=geometry.block_size * ratio)
    return AttentionPages(whole, dtype, page, page + padding if padding else None)


def hybrid(layout, blocks, ratio=1, kernel=SMALL, name="NHD", padding=0, **options):
    """Views of attention and states whose pages are equal."""
    pages = attention_pages(layout, kernel, ratio, padding=padding)
    return cache_views(
        layout,
        pages,
        StatePages(*STATES, pages.page_bytes),
        num_blocks=blocks,
        kernel_block_size=kernel.block_size,
        name=LayoutName(name),
        **options,
    )
