"""Positions of the fast path's kernel arguments, known at compile time."""

from workbench.kernels.block_table.reference import PAD_SLOT
from workbench.kernels.language import tl

# Rows of `p_layout`, int64 [groups, LAYOUT_FIELDS]; bases and strides in entries.
SOURCE_BASE = tl.constexpr(0)
SOURCE_STRIDE = tl.constexpr(1)
TABLE_BASE = tl.constexpr(2)
TABLE_STRIDE = tl.constexpr(3)
RATIO = tl.constexpr(4)
RATIO_MULTIPLIER = tl.constexpr(5)
RATIO_SHIFT = tl.constexpr(6)
BLOCK_SIZE = tl.constexpr(7)
SPAN = tl.constexpr(8)  # tokens that one manager block covers over all context-parallel ranks
SPAN_MULTIPLIER = tl.constexpr(9)
SPAN_SHIFT = tl.constexpr(10)
LAYOUT_FIELDS = tl.constexpr(16)

HEADER = tl.constexpr(32)
"""int32 words before the staged writes: a cache line, so that the data starts aligned."""

# Words of a batch's header; after them the first tile of every group's table, and their end.
REQUESTS = tl.constexpr(0)
PADDED = tl.constexpr(1)
TOKENS_OF_BATCH = tl.constexpr(2)
ROW_TILES = tl.constexpr(3)
FIRST_TILES = tl.constexpr(4)

PAD = tl.constexpr(PAD_SLOT)
