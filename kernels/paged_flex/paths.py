"""How a tile's keys and values come out of the pages: by descriptors (TMA) or by pointers.

Decided here alone, from the pages, the tile and the device, never from the batch.
"""

from dataclasses import replace
from typing import NamedTuple

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex.fitting import Limits
from workbench.kernels.paged_flex.heads import Views
from workbench.kernels.paged_flex.settings import Path, Settings, Tile

ALIGNMENT_BYTES = 16
"""Of addresses and distances that a descriptor takes."""
LARGEST_BOX = 256
"""Keys of one copy."""
LARGEST_ROW = 2**31
HOPPER = 9
"""Its major compute capability."""
NARROWEST_BOX = 64
"""Keys below which a matrix instruction of Hopper costs more than the pointers that it saves."""


class Rows(NamedTuple):
    """A head's keys, and its values if one list has both, as a list of rows."""

    total: int
    per_block: int
    """Rows from page to page."""
    to_value: int
    """Rows from a token's key to its value; 0: values have a list of their own."""


def with_paths(settings: Settings, views: Views, limits: Limits | None) -> Settings:
    """Return fitted settings with the path of each tile, and with the prefill's tile of that path.

    PagedFlexError if settings force descriptors where pages or device do not allow them.
    """

    def chosen(tile: Tile, *, in_boxes: bool = False) -> Tile:
        forced = settings.path == "descriptors"
        reason = unfit(tile, views, limits, forced=forced, in_boxes=in_boxes)
        if reason and settings.path == "descriptors":
            raise PagedFlexError(
                f"path is 'descriptors', but {reason}. Give path=None, which takes pointers there.",
                field="path",
                given="descriptors",
            )
        path: Path = "pointers" if reason or settings.path == "pointers" else "descriptors"
        # every batch is planned anew, and a copy is checked as a new tile is
        return tile if tile.path == path else replace(tile, path=path)

    prefill = settings.prefill
    if settings.described and settings.path != "pointers":
        described = chosen(settings.described, in_boxes=True)
        prefill = described if described.path == "descriptors" else prefill
    prefill = prefill if prefill.path == "descriptors" else chosen(prefill)
    decode = settings.decode and chosen(settings.decode)
    if (prefill, decode) == (settings.prefill, settings.decode):
        return settings
    return replace(settings, prefill=prefill, decode=decode)


def unfit(
    tile: Tile,
    views: Views,
    limits: Limits | None = None,
    *,
    forced: bool = False,
    in_boxes: bool = False,
) -> str | None:
    """Return why descriptors cannot copy such tiles of keys and values, None if they can.

    forced: the interpreter and AMD, which have no descriptors of their own, compute them as well.
    in_boxes: a page need not be a multiple of the tile, as long as it has a box; what is left of
    it is copied by pointers.
    """
    keys, values = views
    size, step, block_size = keys.element_size(), keys.stride(1), keys.shape[1]
    distances = (n * size for n in keys.stride()[:3])
    places = (keys.data_ptr(), values.data_ptr(), *distances)
    reasons = {
        f"pages of {block_size} tokens are not a multiple of a tile's {tile.block_n} keys": (
            block_size % tile.block_n and not in_boxes
        ),
        f"pages of {block_size} tokens have no {box_of(tile, block_size)} keys to copy at once": (
            block_size < box_of(tile, block_size)
        ),
        # its second walk has buffers next to those of the first one, more than a B200 has
        "what is left of a page takes shared memory of its own": (
            block_size % box_of(tile, block_size) and limits and limits.capability[0] != HOPPER
        ),
        # an RTX 50 has them, too: its loops would take more instructions, and sum in another order
        "the device multiplies from registers": (
            not forced and not (limits and limits.multiplies_from_shared)
        ),
        f"{keys.dtype} is multiplied without matrix instructions": not forced and size > 2,
        f"{keys.dtype} becomes another dtype on the way": not forced and size == 1,
        f"a copy takes at most {LARGEST_BOX} keys, and the tile has {tile.block_n}": (
            tile.block_n > LARGEST_BOX
        ),
        f"addresses or strides of kv_cache are not multiples of {ALIGNMENT_BYTES} bytes": (
            any(n % ALIGNMENT_BYTES for n in places)
        ),
        "kv_cache is not a list of fewer than 2**31 rows, one for each token": (
            step == 0 or keys.stride(0) % step or rows_of(views).total >= LARGEST_ROW
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def box_of(tile: Tile, block_size: int) -> int:
    """Return the keys of one copy: a tile's, or half of them where less of a page is left."""
    half = tile.block_n // 2
    shorter = half >= NARROWEST_BOX and block_size % half < block_size % tile.block_n
    return half if shorter else tile.block_n


def check_layer(settings: Settings, views: Views) -> None:
    """Refuse a layer's cache that descriptors cannot copy as they copied the planned one."""
    for tile in (settings.prefill, settings.decode):
        if (
            tile
            and tile.path == "descriptors"
            and (reason := unfit(tile, views, forced=True, in_boxes=True))
        ):
            raise PagedFlexError(
                f"the plan copies by descriptors, but {reason}. Plan with this kv_cache, or with "
                "path='pointers'.",
                field="kv_cache",
                given=tuple(views.keys.stride()),
            )


def rows_of(views: Views) -> Rows:
    """Return one head's keys and values [num_blocks, block, kv_heads, dim] as lists of rows."""
    keys, values = views
    num_blocks, block_size = keys.shape[:2]
    step = max(keys.stride(1), 1)
    distance = (values.data_ptr() - keys.data_ptr()) // keys.element_size()
    together = keys.shape[3] == values.shape[3] and distance > 0 and distance % step == 0
    to_value = distance // step if together else 0
    per_block = keys.stride(0) // step
    return Rows((num_blocks - 1) * per_block + block_size + to_value, per_block, to_value)
