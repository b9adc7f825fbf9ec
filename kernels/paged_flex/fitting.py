"""Tiles fitted to heads, groups, dtypes, and to what a device gives one program."""

from dataclasses import dataclass, replace
from functools import cache

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex.heads import HeadDims
from workbench.kernels.paged_flex.settings import SMALLEST_TILE, Settings, Tile

WIDE_HEAD = 128
"""Wider heads take smaller tiles."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device gives one program."""

    capability: tuple[int, int]
    """CUDA's compute capability."""
    shared_bytes: int

    @property
    def multiplies_from_shared(self) -> bool:
        """Return whether matrix instructions read shared memory (Hopper, B200), not registers."""
        return self.capability[0] in {9, 10}


FEWEST_STAGES = 3
"""With two, nothing is on its way while a tile is multiplied."""
OTHER_SHARED_BYTES = 7 * 1024
"""What the compiler keeps there apart from queries, keys and values: reductions, conversions."""
OTHER_BYTES_OF_WGMMA = 1024
"""The same where a whole tile's buffers are free for conversions once it is done."""


def _in_shared_memory(
    tile: Tile, limits: Limits, *, key_bytes: int, value_bytes: int, one_token: int
) -> Tile:
    """Take stages, keys, rows, then the last stages from a tile until its buffers fit."""
    stages, keys, rows = tile.num_stages, tile.block_n, tile.block_m
    # matrix instructions that read shared memory keep the tile at work there, too
    from_shared = limits.multiplies_from_shared and tile.block_m >= 64
    extra, other = (0, OTHER_BYTES_OF_WGMMA) if from_shared else (1, OTHER_SHARED_BYTES)

    def needed() -> int:
        # without a pipeline keys and values are there once all the same
        buffers = max(stages - extra, 1) * keys * (key_bytes + value_bytes)
        return buffers + rows * key_bytes + other

    while stages > FEWEST_STAGES and needed() > limits.shared_bytes:
        stages -= 1
    while keys > SMALLEST_TILE and needed() > limits.shared_bytes:
        keys //= 2
    while rows > max(SMALLEST_TILE, one_token) and needed() > limits.shared_bytes:
        rows //= 2
    while stages > 1 and needed() > limits.shared_bytes:
        stages -= 1
    if needed() > limits.shared_bytes:
        raise PagedFlexError(
            f"a tile of {rows} rows and {keys} keys takes {needed():,} bytes of shared memory with "
            f"{key_bytes} bytes for each row; the device gives {limits.shared_bytes:,}. Give "
            "narrower heads, or float16.",
            field="query",
            given=needed(),
            limit=limits.shared_bytes,
        )
    return replace(tile, block_m=rows, block_n=keys, num_stages=stages)


@cache
def fitted(
    settings: Settings,
    *,
    head_dim: int,
    group: int,
    dtype: str,
    value_dim: int | None = None,
    limits: Limits | None = None,
) -> Settings:
    """Fit the tiles to one token of the group, registers and the shared memory of a device.

    float32, which is multiplied without matrix instructions, takes at most 32 x 16; heads wider
    than 128 take at most 64 rows, 128 where matrix instructions read shared memory, half of them
    in one path, and 32 keys; those wider than 256 at most 32 rows. A group whose heads do not fit
    into the rows is cut, see `heads_per_tile`. A pipeline takes as many stages as its tiles have
    room for. Depends on the model and the device alone, never on the batch.
    PagedFlexError where nothing fits. What is fitted already stays as it is.
    """
    dims = HeadDims(head_dim, head_dim if value_dim is None else value_dim)

    def of_head(tile: Tile) -> Tile:
        rows, keys, warps = tile.block_m, tile.block_n, tile.num_warps
        if not settings.as_given and dims.width > WIDE_HEAD:
            # the accumulator [rows, head_dim] has to stay in registers, two of them with splits
            from_shared = limits is not None and limits.multiplies_from_shared
            most = (128 if from_shared else 64) >> settings.one_path
            rows, keys = min(rows, most), min(keys, 32)
            # a Hopper's four warps multiply 64 rows; eight would share them, and sum in another
            # order in the loop that omits values
            on_hopper = limits is not None and limits.capability[0] == 9
            least = 4 if on_hopper and rows == 64 else 8
            warps = least if rows > SMALLEST_TILE else warps
        if not settings.as_given and dims.width > 2 * WIDE_HEAD:
            rows, keys, warps = min(rows, 32), 16 if settings.one_path else keys, 8
        if not settings.as_given and dtype == "float32":
            # float32 is multiplied without matrix instructions, from registers: twice the warps
            rows, keys, warps = min(rows, 32), min(keys, 16), max(warps, 8)
        return replace(tile, block_m=rows, block_n=keys, num_warps=warps)

    item_bytes = 4 if dtype == "float32" else 2
    key_bytes, value_bytes = (item_bytes * numbers for numbers in dims.buffered)

    def fit(tile: Tile, one_token: int) -> Tile:
        tile = of_head(tile)
        wide = replace(tile, block_m=max(tile.block_m, one_token))
        if settings.as_given or limits is None:
            return wide
        return _in_shared_memory(
            wide, limits, key_bytes=key_bytes, value_bytes=value_bytes, one_token=one_token
        )

    # a group is cut before a pipeline has nothing on its way
    prefill = fit(settings.prefill, SMALLEST_TILE)
    one_token = _power(heads_per_tile(prefill, group))
    decode = fit(settings.decode, one_token) if settings.decode else None
    if settings.one_path and decode and not settings.as_given:
        # one with fewer rows has as many keys as the other, which had less room for them
        fewer = decode.block_m < prefill.block_m
        decode = replace(decode, block_n=prefill.block_n) if fewer else prefill
    described = fit(settings.described, one_token) if settings.described else None
    return replace(settings, prefill=prefill, decode=decode, described=described)


def heads_per_tile(prefill: Tile, group: int) -> int:
    """Return the heads of a group that share a tile: all, or the largest part that its rows hold.

    prefill: of fitted settings; the other tiles hold as many.
    """
    parts = (n for n in range(group, 0, -1) if group % n == 0)
    return next(n for n in parts if _power(n) <= prefill.block_m)


def _power(number: int) -> int:
    """Return the power of two that is at least as large."""
    return 1 << (number - 1).bit_length()
