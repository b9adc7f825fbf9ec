"""Small groups of every kind of cache, built from layouts without a plan."""

from __future__ import annotations

from dataclasses import replace

from tests.labs.small_views import attention_pages, hybrid
from workbench.core.byte_map.cuts import plain
from workbench.core.byte_map.groups import GroupBytes
from workbench.core.byte_map.parts import attention_parts
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import LayoutName, cache_views
from workbench.core.versions.v0_23 import layouts
from workbench.core.versions.v0_23.backends import BACKENDS

ATTENTION_BACKENDS = [name for name, backend in BACKENDS.items() if backend.is_selectable]
PACKED = {
    "nvfp4": (layouts.FLASHINFER, CacheGeometry(4, 2, 32, "nvfp4")),
    "fp8 scales": (layouts.TRITON_ATTN, CacheGeometry(16, 2, 4, "fp8_per_token_head")),
    "int8 scales": (layouts.TRITON_ATTN, CacheGeometry(16, 1, 6, "int8_per_token_head")),
    "k8v4": (layouts.TURBOQUANT, CacheGeometry(4, 2, 5, "turboquant_k8v4")),
    "odd k8v4": (layouts.TURBOQUANT, CacheGeometry(4, 2, 6, "turboquant_k8v4")),
    "4bit": (layouts.TURBOQUANT, CacheGeometry(4, 2, 8, "turboquant_4bit_nc")),
    "k3v4": (layouts.TURBOQUANT, CacheGeometry(4, 1, 16, "turboquant_k3v4_nc")),
    "3bit": (layouts.TURBOQUANT, CacheGeometry(3, 2, 8, "turboquant_3bit_nc")),
    "fp8_ds_mla": (layouts.PACKED_LATENT, CacheGeometry(2, 1, 576, "fp8_ds_mla")),
}
"""Formats that pack values or scales into bytes."""


def geometry_for(layout, tokens=16, heads=2):
    """The smallest heads that the layout can have."""
    return CacheGeometry(tokens, heads, 8 if layout is layouts.ROCM_ATTN else 2)


def attention_group(views, geometry, rope=None):
    """The attention layers of small views."""
    return GroupBytes(
        0,
        "FullAttentionSpec",
        "model.layers.0.attn",
        attention_parts(views.attention, geometry, rope),
        views.raw_bytes // views.num_blocks,
        views.raw_bytes,
        views.kernel_blocks_per_block,
        views.kernel_block_size,
    )


def state_group(views):
    """The SSM layers of small views."""
    return GroupBytes(
        1,
        "MambaSpec",
        "model.layers.1.mixer",
        tuple(map(plain, ("conv", "recurrent"), views.states)),
        views.raw_bytes // views.num_blocks,
        views.raw_bytes,
    )


def small_group(backend, blocks, ratio=1, name="NHD", padding=0, **options):
    """Attention of a small hybrid cache of this backend."""
    layout = BACKENDS[backend].cache
    kernel = geometry_for(layout)
    views = hybrid(layout, blocks, ratio, kernel, name=name, padding=padding, **options)
    return attention_group(views, kernel, rope=1 if BACKENDS[backend].is_mla else None)


def packed_group(case, blocks=3, ratio=1, name="NHD"):
    """Attention in a packed format."""
    layout, kernel = PACKED[case]
    pages = attention_pages(layout, kernel, ratio, dtype="uint8")
    views = cache_views(
        layout,
        replace(pages, dtype="uint8"),
        None,
        num_blocks=blocks,
        kernel_block_size=kernel.block_size,
        name=LayoutName(name),
    )
    return attention_group(views, kernel)
