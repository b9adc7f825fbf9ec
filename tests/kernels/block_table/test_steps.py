"""Append, apply, gather, map slots: both paths against the Python reference."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.block_table.cases import (
    PAD_SLOT,
    PATHS,
    CheckedTables,
    ContextParallel,
    TableGroup,
    packed,
    random_blocks,
)
from workbench.kernels.block_table.reference import expand_ids
from workbench.kernels.errors import BlockTableError

both_paths = pytest.mark.parametrize("path", PATHS)
# (manager, kernel): every ratio of 1, 2, 17, 33, 66, 131
SIZES = ((16, 16), (528, 528), (32, 16), (784, 16), (544, 32), (528, 16), (1056, 16), (2096, 16))


@both_paths
def test_two_blocks_of_two_kernel_blocks_each(path):
    tables = CheckedTables([TableGroup(32, 16, 3)], path, max_requests=2, max_tokens=9)
    tables.append(1, [[4, 2]])
    tables.step([1], [0, 6], [0, 15, 16, 31, 32, 63])
    assert tables.tables.row(0, 1) == (8, 9, 4, 5)
    slots = tables.tables.slot_mapping[0].tolist()
    assert slots == [128, 143, 144, 159, 64, 95, PAD_SLOT, PAD_SLOT, PAD_SLOT]


N = PAD_SLOT
GOLDEN = {
    (1, 0): [32, N, 33, N, 34, N, 35, N, 36, N, 37, N, 38, N, 39, N, 16, N, 17, N],
    (1, 1): [N, 32, N, 33, N, 34, N, 35, N, 36, N, 37, N, 38, N, 39, N, 16, N, 17],
    (4, 0): [32, 33, 34, 35, N, N, N, N, 36, 37, 38, 39, N, N, N, N, 16, 17, 18, 19],
    (4, 1): [N, N, N, N, 32, 33, 34, 35, N, N, N, N, 36, 37, 38, 39, N, N, N, N],
}


@both_paths
@pytest.mark.parametrize(("interleave", "rank"), GOLDEN)
def test_context_parallel_slots_are_vllms(path, interleave, rank):
    parallel = ContextParallel(2, rank, interleave)
    tables = CheckedTables(
        [TableGroup(8, 8, 4)], path, max_requests=1, max_tokens=20, parallel=parallel
    )
    tables.append(0, [[4, 2, 7]])
    tables.step([0], [0, 20], range(20))
    assert tables.tables.slot_mapping[0].tolist() == GOLDEN[interleave, rank]


@both_paths
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}over{size[1]}")
def test_every_ratio(path, size):
    group = TableGroup(*size, max_blocks=5)
    tables = CheckedTables([group], path, max_requests=3, max_tokens=70)
    length = 2 * size[0] + 5
    tables.fill(0, length)
    tables.fill(2, 63)
    starts, positions = packed([length, 63], [length - 7, 0])
    tables.step([0, 2], starts, positions)


@both_paths
@pytest.mark.parametrize("requests", [0, 1, 5])
@pytest.mark.parametrize("tokens", [0, 1, 63])
def test_sizes_that_are_not_powers_of_two(path, requests, tokens):
    groups = [TableGroup(48, 16, 5), TableGroup(7, 7, 11)]
    tables = CheckedTables(groups, path, max_requests=7, max_tokens=5 * 63 + 1)
    for request in range(requests):
        tables.fill(request, tokens)
    order = list(range(requests))[::-1]
    tables.step(order, *packed([tokens] * requests))


@both_paths
@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_one_to_nine_groups_of_different_widths(path, count):
    sizes = (*SIZES, (1, 1), (80, 16))
    groups = [TableGroup(*sizes[g], max_blocks=1 + 3 * g) for g in range(count)]
    tables = CheckedTables(groups, path, max_requests=3, max_tokens=20)
    length = min(13, *(g.max_blocks * g.block_size for g in groups))
    tables.fill(2, length)
    tables.fill(1, 3)
    tables.step([1, 2], *packed([3, length]), padded=2)


@both_paths
@pytest.mark.parametrize("max_requests", [1, 2, 63])
@pytest.mark.parametrize("groups", [[(16, 16, 4)], [(16, 16, 4), (32, 8, 41)]], ids=["even", "odd"])
def test_shapes_at_the_edges_of_a_tile(path, max_requests, groups):
    groups = [TableGroup(*group) for group in groups]
    tables = CheckedTables(groups, path, max_requests=max_requests, max_tokens=513)
    last = max_requests - 1
    tables.fill(last, 64)
    tables.fill(0, 10) if last else None
    tables.step([last] * min(8, max_requests), *packed([64] * min(8, max_requests)))


@both_paths
def test_powers_of_two_and_other_sizes_use_both_divisions(path):
    for sizes in ([(64, 16), (16, 16)], [(64, 16), (48, 16)]):
        groups = [TableGroup(*size, max_blocks=40) for size in sizes]
        tables = CheckedTables(groups, path, max_requests=2, max_tokens=640)
        tables.fill(1, 600)
        tables.step([1], *packed([600]))


@both_paths
def test_several_writes_of_one_row_before_one_apply(path):
    tables = CheckedTables(
        [TableGroup(32, 16, 8), TableGroup(3, 3, 9)], path, max_requests=3, max_tokens=9
    )
    tables.append(0, [[1, 2, 3], [4]])
    tables.apply()
    tables.append(0, [[5], [6, 7]])
    tables.overwrite(0, [[8, 9], []])
    tables.append(0, [[10], [11]])
    tables.move(0, 2)
    tables.append(2, [[12], [13]])
    tables.clear(0)
    tables.append(0, [[14], [15]])
    tables.step([2, 0], [0, 1, 2], [0, 1])
    assert tables.tables.row(0, 2) == expand_ids([8, 9, 10, 12], 2)


@both_paths
def test_groups_are_independent(path):
    groups = [TableGroup(32, 16, 6), TableGroup(48, 16, 4), TableGroup(16, 16, 9)]
    blocks = random_blocks(groups, 96, seed=3)
    together = CheckedTables(groups, path, max_requests=2, max_tokens=96)
    together.append(1, blocks)
    together.step([1], *packed([96]))
    for g, group in enumerate(groups):
        alone = CheckedTables([group], path, max_requests=2, max_tokens=96)
        alone.append(1, [blocks[g]])
        alone.step([1], *packed([96]))
        width = len(alone.model.row(0, 1))
        mine, theirs = alone.tables.block_table[0], together.tables.block_table[g]
        assert mine[0, :width].tolist() == theirs[0, :width].tolist()
        assert alone.tables.slot_mapping[0].tolist() == together.tables.slot_mapping[g].tolist()


@both_paths
def test_apply_gather_and_slots_work_one_by_one(path):
    tables = CheckedTables([TableGroup(32, 16, 4)], path, max_requests=4, max_tokens=40)
    tables.fill(3, 33)
    tables.apply()
    tables.assert_rows()
    tables.tables.gather([3], padded_requests=2)
    tables.assert_gathered([3], padded=2)
    tables.tables.slot_mappings([3], [0, 33], range(33))
    tables.assert_slots([3], [0, 33], range(33))
    tables.memory.check()


@both_paths
def test_uploading_and_launching_apart_is_a_step(path):
    tables = CheckedTables([TableGroup(32, 16, 4)], path, max_requests=4, max_tokens=40)
    for length in (5, 33):
        tables.overwrite(3, random_blocks(tables.groups, length, seed=length))
        tables.tables.upload([3], [0, length], range(length))
        tables.tables.launch()
        tables.model.apply()
        tables.assert_gathered([3])
        tables.assert_slots([3], [0, length], range(length))


@both_paths
def test_a_dummy_request_has_a_row_of_zeros_and_no_slots(path):
    tables = CheckedTables([TableGroup(32, 16, 4)], path, max_requests=4, max_tokens=12)
    tables.fill(3, 33)
    tables.step([-1, 3, -1], [0, 4, 8, 9], [0, 1, 2, 3, 29, 30, 31, 32, 0])
    assert tables.tables.block_table[0][0].tolist() == [0] * 8
    assert tables.tables.slot_mapping[0, [0, 3, 8]].tolist() == [PAD_SLOT] * 3


@both_paths
def test_ids_may_come_as_arrays(path):
    tables = CheckedTables(
        [TableGroup(32, 16, 4), TableGroup(16, 16, 4)], path, max_requests=1, max_tokens=2
    )
    tables.append(0, [np.array([3, 1], dtype=np.int32), (np.int64(2),)])
    tables.append(0, (np.array([7], dtype=np.uint64), []))
    tables.step(np.array([0]), np.array([0, 2]), np.array([0, 1], dtype=np.int32))


@both_paths
def test_appending_many_is_appending_each(path):
    groups = [TableGroup(32, 16, 4), TableGroup(16, 16, 4)]
    many = CheckedTables(groups, path, max_requests=4, max_tokens=2)
    ids = [[[3, 1], [2]], [[], [9]], [[4], []]]
    for overwrite in (False, True):
        many.tables.append_many([2, 0, 3], ids, overwrite=overwrite)
        for request, blocks in zip([2, 0, 3], ids, strict=True):
            (many.model.overwrite if overwrite else many.model.append)(request, blocks)
    many.step([2], [0, 2], [0, 1])


@both_paths
@pytest.mark.parametrize(("ratio", "row"), [(1, [4]), (2, [8, 9])])
def test_what_follows_a_row_is_as_declared(path, ratio, row):
    """Untouched on the faithful path; up to the next multiple of 4 it is 0 on the fast one."""
    tables = CheckedTables([TableGroup(16 * ratio, 16, 5)], path, max_requests=2, max_tokens=4)
    garbage = tables.memory.garbage
    tables.tables.block_table[0].fill_(garbage)
    tables.append(0, [[4]])
    tables.step([0], [0, 1], [0], padded=1)
    zeros = 4 - len(row) if path == "fast" else 0
    gathered, unwritten = tables.tables.block_table[0].tolist()
    assert gathered == [*row, *[0] * zeros, *[garbage] * (5 * ratio - len(row) - zeros)]
    assert unwritten == [garbage] * 5 * ratio


@both_paths
def test_flat_appending_is_appending_many(path):
    groups = [TableGroup(32, 16, 400), TableGroup(16, 16, 400)]
    flat = CheckedTables(groups, path, max_requests=4, max_tokens=2)
    for ids in ([[[3, 1], [2]], [[], [9]]], [[[4] * 90, [5]], [list(range(99)), []]]):
        lengths = np.array([[len(row) for row in per_group] for per_group in ids])
        joined = np.array([block for per_group in ids for row in per_group for block in row])
        flat.tables.append_flat([2, 0], lengths, joined.astype(np.int32))
        for request, blocks in zip([2, 0], ids, strict=True):
            flat.model.append(request, blocks)
    flat.step([2], [0, 2], [0, 1])
    for bad in (np.array([[1, 1]]), np.ones((2, 2)), np.array([[1, -1], [2, 0]])):
        with pytest.raises(BlockTableError, match="lengths must be"):
            flat.tables.append_flat([2, 0], bad, [1, 2])
    with pytest.raises(BlockTableError, match="add up to 3"):
        flat.tables.append_flat([2], np.array([[1, 2]]), [1, 2])


@pytest.mark.sampled(1)
@pytest.mark.slow
@both_paths
def test_a_long_row_among_many_short_ones(path):
    groups = [TableGroup(1056, 16, 125), TableGroup(2096, 2096, 1), TableGroup(16, 16, 300)]
    tables = CheckedTables(groups, path, max_requests=63, max_tokens=1100)
    for request in range(62):
        tables.append(request, random_blocks(groups, 1 + request, seed=request))
    tables.append(62, [list(range(1, 126)), [7], list(range(300))])
    lengths = [1 + i for i in range(62)] + [2000]
    first = [n - 1 for n in lengths[:-1]] + [1000]
    order = np.random.default_rng(0).permutation(63)
    starts, positions = packed([lengths[i] for i in order], [first[i] for i in order])
    tables.step(order.tolist(), starts, positions)
