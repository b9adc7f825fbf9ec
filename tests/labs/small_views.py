"""Small hybrid caches: attention and states whose pages are equal; real tensors over any cache."""

from dataclasses import dataclass, replace
from math import prod

import torch

from workbench.core.layouts.of_plan import plan_layout
from workbench.core.layouts.packed import layer_places
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


@dataclass(frozen=True)
class TorchViews:
    """Tensors over one raw int8 tensor: `raw` [bytes], attention and states as their views say."""

    raw: torch.Tensor
    attention: torch.Tensor | None
    states: tuple[torch.Tensor, ...]


def torch_view(raw, view):
    """Build `view` over `raw` (int8, [bytes]). Torch's RuntimeError if it exceeds the storage."""
    elements = raw.view(getattr(torch, view.dtype))
    return torch.as_strided(elements, view.shape, view.strides, view.offset_elements)


def torch_views(views, raw=None):
    """The views of the layers over a raw tensor, by default one of zeros."""
    raw = torch.zeros(views.raw_bytes, dtype=torch.int8) if raw is None else raw
    attention = None if views.attention is None else torch_view(raw, views.attention)
    return TorchViews(raw, attention, tuple(torch_view(raw, view) for view in views.states))


def allocation_views(plan, num_blocks, *, layout=None):
    """Layer -> its tensors, all over one allocation of `num_blocks` blocks (0.33)."""
    names = [place.name for place in layer_places(plan, num_blocks, layout=layout)]
    views = {
        name: plan_layout(plan, num_blocks=num_blocks, layout=layout, layer=name) for name in names
    }
    raw = torch.zeros(views[names[0]].raw_bytes, dtype=torch.int8)
    return {name: torch_views(found, raw) for name, found in views.items()}
