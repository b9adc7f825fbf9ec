"""What a backend says of its cache: logical shape, block dimension, order in memory.

Source: `get_kv_cache_shape`, `get_kv_cache_block_dim` and `get_kv_cache_stride_order` of the
backend classes, 0.23 (#37236 for the block dimension); `customize_spec` of them and
`KVCacheLayout`, 0.33. The records are in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from workbench.core.errors import unknown_name_message
from workbench.core.layouts.error import LayoutError, require_positive

NHD, HND = "NHD", "HND"
LAYOUT_NAMES = (NHD, HND)
FORCED_BY_PLATFORM: Final = {"xpu": NHD}
"""Platform -> the layout name that its code sets, whatever was requested (0.23)."""
NUM_BLOCKS, KV, TOKENS, HEADS = "num_blocks", "kv", "block_size", "num_kv_heads"
DIMENSIONS = "LBHNC"
"""Layer, block, head, token, content: every view of 0.33 has these, and a name is their order."""
BLOCK_SENTINEL = 1_234_567
"""A number of blocks that no other dimension has: its place in the shape is the block dimension."""

Order = tuple[int, ...]
Orders = Mapping[str, Order]


@dataclass(frozen=True, slots=True)
class LayoutName:
    """A layout name, and what decided it."""

    name: str
    reason: str = "as given"


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """One kernel block of one layer, per rank.

    block_size in tokens, sizes of heads in elements; value_head_size: of values, where it differs.
    """

    block_size: int
    num_kv_heads: int
    head_size: int
    cache_dtype: str = "auto"
    value_head_size: int | None = None


def plain_head(geometry: CacheGeometry) -> int:
    """Return one head of one token, as it is."""
    return geometry.head_size


def kv_heads(geometry: CacheGeometry) -> int:
    """Return a place for every KV head."""
    return geometry.num_kv_heads


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The cache of one backend, as data."""

    axes: tuple[str, ...]
    """Names of the logical dimensions, outermost first; the last one holds `elements` elements."""
    elements: Callable[[CacheGeometry], int] = plain_head
    orders: Orders | None = None
    """Layout name -> order of the logical dimensions in memory; None: the backend declares none."""
    orders_with_layers: Orders | None = None
    """The same with the layer as dimension 0, where every other moves up."""
    block_multiple: int = 1
    """Kernel blocks must be multiples of this number of tokens."""
    heads: Callable[[CacheGeometry], int] = kv_heads
    """Places in the dimension of heads."""

    def shape(self, num_blocks: int, geometry: CacheGeometry) -> tuple[int, ...]:
        """Return the logical shape for `num_blocks` kernel blocks.

        Errors: LayoutError (vLLM: ValueError) for a block that is not a multiple.
        """
        require_positive(num_blocks, "num_blocks", "block")
        require_positive(geometry.block_size, "block_size", "token")
        require_positive(geometry.num_kv_heads, "num_kv_heads", "head")
        require_positive(geometry.head_size, "head_size", "element")
        multiple = self.block_multiple
        if geometry.block_size % multiple:
            nearest = max(multiple, round(geometry.block_size / multiple) * multiple)
            raise LayoutError(
                "block_size_not_a_multiple",
                f"block_size must be a multiple of {multiple} here; got {geometry.block_size}. "
                f"Nearest valid: {nearest}.",
                field="block_size",
                operands={"block_size": geometry.block_size, "multiple_of": multiple},
                vllm_exception="ValueError",
                vllm_text=f"Block size must be a multiple of {multiple}.",
            )
        sizes = {
            NUM_BLOCKS: num_blocks,
            KV: 2,
            TOKENS: geometry.block_size,
            HEADS: self.heads(geometry),
            self.axes[-1]: self.elements(geometry),
        }
        return tuple(sizes[axis] for axis in self.axes)

    def head_slots(self, geometry: CacheGeometry) -> int:
        """Return the places between blocks and tokens: heads, or one for K and one for V."""
        return 2 if KV in self.axes else self.heads(geometry)

    def block_dim(self, geometry: CacheGeometry) -> int:
        """Return which logical dimension counts blocks, found by asking for a sentinel of them."""
        return self.shape(BLOCK_SENTINEL, geometry).index(BLOCK_SENTINEL)

    def stride_order(self, layout: str, *, with_layers: bool = False) -> Order:
        """Return the declared order in memory. Errors: LayoutError (vLLM: NotImplementedError)."""
        check_layout_name(layout)
        orders = self.orders_with_layers if with_layers else self.orders
        if orders is None:
            raise LayoutError(
                "no_stride_order",
                "This backend declares no order: its cache is in memory in logical order, "
                f"whatever the layout name ({layout}).",
                field="backend",
                operands={"layout": layout, "with_layers": with_layers},
                vllm_exception="NotImplementedError",
                vllm_text="",
            )
        return orders[layout]

    def memory_order(self, layout: str) -> Order:
        """Return the order that is used: the declared one, else the logical one."""
        check_layout_name(layout)
        return tuple(range(len(self.axes))) if self.orders is None else self.orders[layout]


def check_layout_name(layout: str) -> None:
    """Raise LayoutError unless `layout` is NHD or HND."""
    if layout not in LAYOUT_NAMES:
        message = unknown_name_message("layout", layout, LAYOUT_NAMES)
        raise LayoutError(
            "unknown_layout", message, field="layout", operands={"allowed": LAYOUT_NAMES}
        )
