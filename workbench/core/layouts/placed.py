"""Positions of pages in the one allocation of 0.33, for every kind of layer.

Block b of layer l starts at offset + l * layer_stride + b * block_stride.
"""

from dataclasses import dataclass
from math import prod

from workbench.core.errors import unknown_name_message
from workbench.core.layouts.error import layout_error
from workbench.core.layouts.shapes import DIMENSIONS, NUM_BLOCKS, Order
from workbench.core.layouts.view import View

LAYER, BLOCK = DIMENSIONS.index("L"), DIMENSIONS.index("B")
COMPACT = "LBNHC"
"""What vLLM names as a way out: every layer by itself, every page one run of bytes."""


@dataclass(frozen=True, slots=True)
class PagePlacement:
    """Where the pages of some layers are in the allocation, in bytes."""

    name: str
    num_blocks: int
    layers: int
    offset: int
    layer_stride: int
    block_stride: int
    page_bytes: int
    allocation_bytes: int
    """Size of the whole allocation."""
    pieces: int
    """Parts of a page: as many as heads where these are not side by side, `piece_stride` apart."""
    piece_stride: int

    @property
    def piece_bytes(self) -> int:
        """Return the bytes of one piece."""
        return self.page_bytes // self.pieces

    def address(self, layer: int, block: int, page_byte: int = 0) -> int:
        """Return the byte of the allocation that holds this byte of a layer's page."""
        piece, inside = divmod(page_byte, self.piece_bytes)
        start = self.offset + layer * self.layer_stride + block * self.block_stride
        return start + piece * self.piece_stride + inside

    def locate(self, byte: int) -> tuple[int, int, int] | None:
        """Return (layer, block, byte of the page) at a byte, or None; undoes `address`."""
        size = self.piece_bytes
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
        """Return the bytes of one page, in the allocation; one range per piece."""
        size = self.piece_bytes
        starts = (self.address(layer, block, piece * size) for piece in range(self.pieces))
        return tuple(range(first, first + size) for first in starts)

    @property
    def is_block_outermost(self) -> bool:
        """Return whether all layers of a block are together."""
        return self.name.startswith("B")

    @property
    def block_step(self) -> tuple[int, int]:
        """Return (start, bytes): block b of layer 0 belongs in [start + b * bytes, + bytes)."""
        # Where all layers of a block are together, anywhere in the block.
        return (0, self.block_stride) if self.is_block_outermost else (self.offset, self.page_bytes)


def packed_order(name: str) -> Order:
    """Return the order in memory of (layer, block, head, token, content). Errors: LayoutError."""
    if sorted(name) != sorted(DIMENSIONS):
        message = unknown_name_message("layout", name, (COMPACT, "LBHNC", "BLNHC", "BLHNC"))
        raise layout_error("unknown_layout", message=message)
    return tuple(DIMENSIONS.index(letter) for letter in name)


def packed_strides(
    name: str,
    shape: tuple[int, ...],
    *,
    layer_stride: int | None = None,
    block_stride: int | None = None,
) -> tuple[int, ...]:
    """Return the strides of (layer, block, head, token, content) in the unit of the content.

    shape: sizes in the same order. A stride that is given holds, and what is outside follows it.
    """
    # compute_layout_strides in v1/kv_cache_interface.py.
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
) -> PagePlacement:
    """Return where `layers` layers are whose pages have `shape` (heads, tokens, content in bytes).

    page_bytes: padding included; block_bytes: of one block over all layers of the largest group.
    Errors: LayoutError (vLLM: AssertionError) for a padded page whose heads are not together.
    """
    blocks_outside, sizes = name.startswith("B"), (layers, num_blocks, *shape)
    heads = 1 if set(name[:2]) == {"L", "B"} else shape[0]
    if heads > 1 and page_bytes != prod(shape):
        # Padding is at the end of a page, and a page in pieces has no one end.
        raise layout_error(
            "padded_page_in_pieces",
            operands={"shape": sizes, "page_size_padded": page_bytes},
            name=name,
            compact=COMPACT,
        )
    whole = page_bytes if heads == 1 else None
    strides = packed_strides(
        name,
        sizes,
        layer_stride=whole if blocks_outside or whole is None else whole * num_blocks,
        # A block is as long as that of the largest group: the groups share its bytes.
        block_stride=block_bytes if blocks_outside else whole,
    )
    return PagePlacement(
        name=name,
        num_blocks=num_blocks,
        layers=layers,
        offset=offset,
        layer_stride=strides[LAYER],
        block_stride=strides[BLOCK],
        page_bytes=page_bytes,
        allocation_bytes=block_bytes * num_blocks,
        pieces=heads,
        piece_stride=strides[2] if heads > 1 else 0,
    )
