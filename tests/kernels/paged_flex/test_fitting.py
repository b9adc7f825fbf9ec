"""Which tiles a device is given: those that were measured, and of others the largest that fit."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.inspection import TARGETS
from workbench.kernels.paged_flex import fitting
from workbench.kernels.paged_flex.fitting import Limits, fitted
from workbench.kernels.paged_flex.settings import SMALLEST_TILE, SPLIT_BY_BATCH, Tile, shipped

HEADS = {
    "128": {"head_dim": 128, "group": 8},
    "256": {"head_dim": 256, "group": 4},
    "512": {"head_dim": 512, "group": 4},
    "MLA": {"head_dim": 576, "value_dim": 512, "group": 128},
}
TILES = {
    ("sm_86", "128", "float16"): ("128x32/8w3, 16x64/4w3", "64x32/8w3, 64x32/8w3"),
    ("sm_86", "256", "float16"): ("64x16/8w3, 16x32/4w3", "32x32/8w3, 32x32/8w3"),
    ("sm_86", "512", "float16"): ("16x16/8w3, 16x16/8w3", "16x16/8w3, 16x16/8w3"),
    ("sm_86", "MLA", "float16"): ("16x16/8w3, 16x16/8w3", "16x16/8w3, 16x16/8w3"),
    ("sm_80", "128", "float16"): ("128x32/8w3, 16x64/4w3", "64x32/8w3, 64x32/8w3"),
    ("sm_80", "256", "float16"): ("64x32/8w3, 16x32/4w3", "32x32/8w3, 32x32/8w3"),
    ("sm_80", "512", "float16"): ("32x16/8w3, 16x32/8w3", "32x16/8w3, 32x16/8w3"),
    ("sm_80", "MLA", "float16"): ("32x16/8w3, 32x16/8w3", "32x16/8w3, 32x16/8w3"),
    ("sm_90", "128", "float16"): ("128x64/8w4, 16x64/4w4, 128x128/8w3", "128x64/8w4, 64x64/4w3"),
    ("sm_90", "256", "float16"): ("128x32/8w4, 16x32/4w4, 128x32/8w3", "64x32/4w4, 64x32/4w4"),
    ("sm_90", "512", "float16"): ("32x32/8w3, 16x32/8w4, 32x32/8w3", "32x16/8w4, 32x16/8w4"),
    ("sm_90", "MLA", "float16"): ("32x32/8w3, 32x32/8w3, 32x32/8w3", "32x16/8w4, 32x16/8w4"),
    ("sm_100", "128", "float16"): ("128x64/8w4, 16x64/4w4, 128x128/8w3", "64x32/8w3, 64x32/8w3"),
    ("sm_100", "256", "float16"): ("128x32/8w4, 16x32/4w4, 128x32/8w3", "64x32/8w3, 64x32/8w3"),
    ("sm_100", "512", "float16"): ("32x32/8w3, 16x32/8w4, 32x32/8w3", "32x16/8w3, 32x16/8w3"),
    ("sm_100", "MLA", "float16"): ("32x32/8w3, 32x32/8w3, 32x32/8w3", "32x16/8w3, 32x16/8w3"),
    ("AMD", "128", "float16"): ("128x32/8w3, 16x64/4w3", "64x32/8w3, 64x32/8w3"),
    ("AMD", "256", "float16"): ("64x32/8w3, 16x32/4w3", "32x32/8w3, 32x32/8w3"),
    ("AMD", "512", "float16"): ("32x32/8w3, 16x32/8w3", "32x16/8w3, 32x16/8w3"),
    ("AMD", "MLA", "float16"): ("32x32/8w3, 32x32/8w3", "32x16/8w3, 32x16/8w3"),
    ("sm_80", "128", "float32"): ("32x16/8w3, 16x16/8w3", "32x16/8w3, 32x16/8w3"),
    ("sm_80", "512", "float32"): ("16x16/8w2, 16x16/8w2", "16x16/8w2, 16x16/8w2"),
    ("sm_90", "128", "float32"): ("32x16/8w4, 16x16/8w4, 32x16/8w3", "32x16/8w4, 32x16/8w4"),
    ("sm_90", "512", "float32"): ("32x16/8w3, 16x16/8w3, 32x16/8w3", "32x16/8w3, 32x16/8w3"),
}
"""Device, head, dtype -> tiles of the fast and the bitwise mode: rows x keys / warps, stages.

The second tile is that of decodes, the third one what descriptors copy. Bits and times depend on
them: what changes here has to be measured again on a device.
"""


def text(tile):
    return f"{tile.block_m}x{tile.block_n}/{tile.num_warps}w{tile.num_stages}"


@pytest.mark.parametrize("bitwise", [False, True], ids=["fast", "bitwise"])
@pytest.mark.parametrize("case", TILES, ids=", ".join)
def test_a_device_is_given_the_tiles_that_were_measured(case, bitwise):
    device, head, dtype = case
    capability = TARGETS[device].capability if device in TARGETS else None
    limits = capability and Limits(capability, TARGETS[device].shared_memory_bytes)
    settings = shipped(bitwise=bitwise, capability=capability)
    found = fitted(settings, **HEADS[head], dtype=dtype, limits=limits)
    tiles = (found.prefill, found.decode, found.described)
    assert ", ".join(text(tile) for tile in tiles if tile) == TILES[case][bitwise]
    assert found.split_tokens == 1024
    assert (found.one_path, found.by_batch, found.as_given) == (bitwise, 0, False)
    assert found.fill_programs == 132  # the multiprocessors of an H200


def test_what_is_split_by_its_batch_fills_two_programs_of_each_multiprocessor():
    assert SPLIT_BY_BATCH.by_batch == 2 * SPLIT_BY_BATCH.fill_programs


def smaller(tile, least_rows):
    """What is taken from a tile until it fits, in order."""
    yield tile
    while tile.num_stages > 3:
        tile = replace(tile, num_stages=tile.num_stages - 1)
        yield tile
    while tile.block_n > SMALLEST_TILE:
        tile = replace(tile, block_n=tile.block_n // 2)
        yield tile
    while tile.block_m > least_rows:
        tile = replace(tile, block_m=tile.block_m // 2)
        yield tile
    while tile.num_stages > 1:
        tile = replace(tile, num_stages=tile.num_stages - 1)
        yield tile


def shared_bytes(tile, key_bytes, value_bytes, *, from_shared):
    """Keys and values of each stage, queries, and what the compiler keeps."""
    # what multiplies from registers has read the tile at work, of which there is one at least
    stages = tile.num_stages if from_shared else max(tile.num_stages - 1, 1)
    own = 1024 if from_shared else 7 * 1024
    return stages * tile.block_n * (key_bytes + value_bytes) + tile.block_m * key_bytes + own


@pytest.mark.parametrize(
    ("capability", "tile", "from_shared"),
    [
        ((9, 0), Tile(128, 128, 8, 5), True),
        ((9, 0), Tile(64, 64, 4, 4), True),
        ((9, 0), Tile(32, 64, 4, 4), False),
        ((10, 0), Tile(128, 64, 8, 2), True),
        ((8, 0), Tile(128, 64, 8, 5), False),
        ((8, 6), Tile(16, 32, 4, 3), False),
    ],
    ids=str,
)
@pytest.mark.parametrize("one_token", [4, 32])
@pytest.mark.parametrize(("key_bytes", "value_bytes"), [(256, 256), (384, 256)])
def test_the_first_of_the_smaller_tiles_that_fits_is_taken(
    capability, tile, from_shared, one_token, key_bytes, value_bytes
):
    tries = [*smaller(tile, max(one_token, SMALLEST_TILE))]
    sizes = {"key_bytes": key_bytes, "value_bytes": value_bytes}
    needed = [shared_bytes(one, **sizes, from_shared=from_shared) for one in tries]
    for most in {size + more for size in needed for more in (-1, 0)}:
        limits = Limits(capability, most)
        right = next((one for one, size in zip(tries, needed, strict=True) if size <= most), None)
        if right is None:
            with pytest.raises(fitting.PagedFlexError, match=f"takes {needed[-1]:,} bytes"):
                fitting._in_shared_memory(tile, limits, **sizes, one_token=one_token)
        else:
            found = fitting._in_shared_memory(tile, limits, **sizes, one_token=one_token)
            assert found == right


@pytest.mark.parametrize(
    ("rows", "group", "heads"),
    [(16, 16, 16), (16, 17, 1), (32, 17, 17), (16, 24, 12), (128, 128, 128)],
)
def test_a_tile_has_all_heads_of_a_group_or_the_largest_part_that_its_rows_hold(rows, group, heads):
    assert fitting.heads_per_tile(Tile(rows, 64, 4, 3), group) == heads
