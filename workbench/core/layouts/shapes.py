"""What a backend says of its cache: logical shape, block dimension, order in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from workbench.core.layouts.error import layout_error, require_known, require_positive

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


@dataclass(frozen=True, eq=False)
class LayoutRules:
    """Views and block tables of one vLLM version."""

    names: tuple[str, ...] = LAYOUT_NAMES
    """What VLLM_KV_CACHE_LAYOUT may say."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names for the same layouts."""
    one_view: bool = False
    """The view of every backend is [block, head, token, content]; else each has a shape of its own
    (`Backend.cache`)."""
    rewrites_strides: bool = True
    """Whether hybrids may need the rewrite of #37236."""
    tables_hold_manager_blocks: bool = False
    """A block table has the ids that were handed out, and the attention group makes kernel blocks
    of them; else the table has kernel blocks."""
    rounds_rows_by_gcd: bool = False
    """Rows are widened to whole multiples of 128 tokens whatever the block is, and rows of states
    never."""


@dataclass(frozen=True, slots=True)
class LayoutName:
    """A layout name, and what decided it."""

    name: str
    reason: str = "as given"


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """One kernel block of one layer, per rank."""

    block_size: int
    """In tokens, or in vectors where several tokens share one."""
    num_kv_heads: int
    head_size: int
    """In elements."""
    cache_dtype: str = "auto"
    value_head_size: int | None = None
    """Of values, where it differs."""
    record_bytes: int | None = None
    """Of one packed latent vector, None where elements are stored as they are."""


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The cache of one backend, as data."""

    # 0.23: get_kv_cache_shape and get_kv_cache_stride_order of the backend classes; 0.33:
    # customize_spec of the same classes, and KVCacheLayout.
    axes: tuple[str, ...]
    """Names of the logical dimensions, outermost first; the last one holds `elements` elements."""
    elements: Callable[[CacheGeometry], int] = attrgetter("head_size")
    orders: Orders | None = None
    """Layout name -> order of the logical dimensions in memory; None: the backend declares none."""
    orders_with_layers: Orders | None = None
    """The same with the layer as dimension 0, where every other moves up."""
    block_multiple: int = 1
    """Kernel blocks must be multiples of this number of tokens."""
    heads: Callable[[CacheGeometry], int] = attrgetter("num_kv_heads")
    """Places in the dimension of heads."""

    def shape(self, num_blocks: int, geometry: CacheGeometry) -> tuple[int, ...]:
        """Return the shape of these kernel blocks. Errors: LayoutError (vLLM: ValueError)."""
        require_positive(num_blocks, "num_blocks", "block")
        units = {"block_size": "token", "num_kv_heads": "head", "head_size": "element"}
        for name, unit in units.items():
            require_positive(getattr(geometry, name), name, unit)
        multiple = self.block_multiple
        if geometry.block_size % multiple:
            nearest = max(multiple, round(geometry.block_size / multiple) * multiple)
            raise layout_error(
                "block_size_not_a_multiple",
                operands={"block_size": geometry.block_size, "multiple_of": multiple},
                nearest=nearest,
            )
        # K and V are a dimension of two, or are together in the last one.
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
        """Return which logical dimension counts blocks."""
        # As get_kv_cache_block_dim asks (#37236), so a shape that cannot be is an error here, too.
        return self.shape(BLOCK_SENTINEL, geometry).index(BLOCK_SENTINEL)

    def stride_order(self, layout: str, *, with_layers: bool = False) -> Order:
        """Return the declared order in memory. Errors: LayoutError (vLLM: NotImplementedError)."""
        require_known("layout", layout, LAYOUT_NAMES, "layout")
        orders = self.orders_with_layers if with_layers else self.orders
        if orders is None:
            raise layout_error(
                "no_stride_order", operands={"layout": layout, "with_layers": with_layers}
            )
        return orders[layout]

    def memory_order(self, layout: str) -> Order:
        """Return the order that is used: the declared one, else the logical one."""
        if self.orders is not None:
            return self.stride_order(layout)
        require_known("layout", layout, LAYOUT_NAMES, "layout")
        return tuple(range(len(self.axes)))
