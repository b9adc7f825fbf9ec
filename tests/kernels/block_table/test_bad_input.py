"""What is refused, with the place and the limit, before anything is launched."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.block_table.cases import PATHS, CheckedTables, ContextParallel, TableGroup
from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.batch import checked_batch
from workbench.kernels.block_table.groups import table_groups
from workbench.kernels.errors import BlockTableError, RowOverflow

both_paths = pytest.mark.parametrize("path", PATHS)
GROUPS = (TableGroup(32, 16, 3), TableGroup(48, 16, 5))


def small(path, **changes):
    return CheckedTables(GROUPS, path, max_requests=4, max_tokens=9, num_blocks=100, **changes)


def refused(match, call, *arguments, **expected):
    with pytest.raises(BlockTableError, match=match) as caught:
        call(*arguments)
    for field, value in expected.items():
        assert getattr(caught.value, field) == value, field


@both_paths
@pytest.mark.parametrize("bad", [-1, 100, 2**31, -(2**40), 2**62])
def test_a_block_id_outside_of_the_pool(path, bad):
    tables = small(path).tables
    expected = {
        "field": "block_ids",
        "given": bad,
        "limit": 100,
        "index": 2,
        "group": 1,
        "request": 3,
    }
    refused(r"ids are 0\.\.99", tables.append, 3, [[5], [0, 99, bad, 1]], **expected)
    refused(r"ids are", tables.overwrite, 3, [np.array([5]), np.array([0, 99, bad])], **expected)
    assert len(tables.staged) == 0


@both_paths
@pytest.mark.parametrize(
    "ids", [[np.array([3, 3]), [[]]], [[[]], []], [[3], np.zeros((2, 0), int)], [[()], [3]]]
)
def test_an_empty_list_in_the_place_of_an_id(path, ids):
    tables = small(path).tables
    refused("flat list", tables.append, 3, ids, field="block_ids")
    refused("flat list", tables.append_many, [3], [ids], field="block_ids")
    refused("flat list", tables.overwrite, 3, ids, field="block_ids")
    assert len(tables.staged) == 0


@both_paths
@pytest.mark.parametrize("bad", [-1, 4, 10**10])
def test_a_request_beyond_the_table(path, bad):
    tables = small(path).tables
    ids = [[1], [2]]
    expected = {"field": "request", "given": bad, "limit": 4}
    refused(r"rows are 0\.\.3", tables.append, bad, ids, **expected)
    refused("rows are", tables.clear, bad, **expected)
    refused("rows are", tables.move, 0, bad, index=1, **expected)
    refused("rows are", tables.append_many, [2, bad], [ids, ids], index=1, **expected)
    refused("twice", tables.append_many, [2, 0, 2], [ids] * 3, index=2)
    refused("not a list", tables.clear, [], field="request")
    refused("not a list", tables.clear, [1], field="request")
    refused("not a list", tables.append, [], ids, field="request")
    if bad != -1:  # a dummy request
        refused("rows 0..3", tables.gather, [0, bad], field="idx_mapping", index=1, limit=4)


@pytest.mark.parametrize(("kernel", "near"), [(5, 4), (24, 16), (64, 32), (31, 32)])
def test_a_kernel_block_that_does_not_divide(kernel, near):
    expected = {"field": "kernel_block_size", "given": kernel, "limit": near}
    refused("does not divide", TableGroup, 32, kernel, 3, **expected)
    refused("does not divide", table_groups, [16, 32], [16, kernel], [3, 3], **expected)


@pytest.mark.parametrize("bad", [0, -16, 1.5, "16", True, float("nan")])
def test_invalid_sizes(bad):
    refused("integer of at least 1", TableGroup, bad, 1, 1, field="block_size")
    refused("integer", TableGroup, 16, bad, 1, field="kernel_block_size")
    refused("integer", TableGroup, 16, 16, bad, field="max_blocks")


@both_paths
def test_lists_of_different_lengths(path):
    tables = small(path).tables
    expected = {"field": "block_ids", "given": 3, "limit": 2, "request": 1}
    refused("3 lists, but there are 2 groups", tables.append, 1, [[1], [2], [3]], **expected)
    refused("1 entries for 2 requests", tables.append_many, [1, 2], [[[1], [2]]], limit=2)
    refused(
        "one of each", table_groups, [16, 16], [16], [3, 3], field="kernel_block_sizes", limit=2
    )
    refused("one of each", table_groups, [16, 16], [16, 16], [3], field="max_blocks", given=1)
    slots = tables.slot_mappings
    refused("need 3", slots, [1, 2], [0, 1], [0], field="query_start_loc", given=2, limit=3)
    refused("ends at 2", slots, [1], [0, 2], [0], field="positions", given=1, limit=2)


@both_paths
@pytest.mark.parametrize(
    "bad", [[1.0], ["1"], [None], [True], [[1]], "1", 3, None, {1}, [2**64]], ids=str
)
def test_ids_that_are_not_a_list_of_integers(path, bad):
    tables = small(path).tables
    refused("block_ids must be", tables.append, 0, [[1], bad], field="block_ids")
    assert len(tables.staged) == 0


@both_paths
def test_tensors_are_refused_for_what_they_are(path):
    """Not for what cannot be read twice: a tensor can, and each time waits for its device."""
    tables, ids = small(path).tables, torch.tensor([0])
    match = r"is a tensor.*cpu\(\)\.numpy\(\)"
    refused(match, tables.append, 0, [[1], ids], field="block_ids", given="Tensor")
    refused(match, tables.gather, ids, field="idx_mapping", given="Tensor")
    refused(match, tables.slot_mappings, [0], [0, 1], ids, field="positions", given="Tensor")
    assert len(tables.staged) == 0


@both_paths
def test_a_row_that_would_overflow(path):
    tables = small(path)
    tables.append(2, [[1, 2], [3]])
    tables.apply()
    full = {"request": 2, "group": 0, "need": 5, "capacity": 3}
    refused("would need 5 manager blocks", tables.tables.append, 2, [[4, 5, 6], [7]], **full)
    with pytest.raises(RowOverflow, match="room for 5"):
        tables.tables.overwrite(2, [[1], [1] * 6])
    assert len(tables.tables.staged) == 0
    tables.append(2, [[9], [8]])
    tables.step([2], [0, 1], [95])


@both_paths
def test_batches_that_cannot_be(path):
    tables = small(path)
    tables.append(1, [[1, 2], [3]])
    tables.apply()
    slots = tables.tables.slot_mappings
    starts = {"field": "query_start_loc"}
    refused("begin with 0", slots, [1], [1, 2], [0], index=0, **starts)
    refused("never fall", slots, [1, 1], [0, 2, 1], [0], index=2, **starts)
    refused("room for 9", slots, [1], [0, 10], range(10), given=10, limit=9, **starts)
    slots([1], [0, 9], range(9))
    place = {"field": "positions", "index": 1, "group": 1, "request": 1, "limit": 48}
    refused(r"room for positions 0\.\.47", slots, [1], [0, 2], [47, 48], **place)
    refused("room for", slots, [1], [0, 2], [0, -1], field="positions", given=-1, index=1)
    refused("no blocks|0 blocks", slots, [0], [0, 1], [0], field="positions", request=0)
    for padded in (0, 5):
        with pytest.raises(BlockTableError, match="between the 1 requests"):
            tables.tables.gather([1], padded_requests=padded)


def test_a_batch_without_tokens_ends_every_request_where_it_begins():
    counts, sizes = np.zeros((2, 4), dtype=np.int64), {"padded_requests": None, "max_tokens": 9}
    batch = checked_batch(GROUPS, counts, [3, -1, 1], parallel=ContextParallel(), **sizes)
    assert batch.query_start_loc.tolist() == [0] * 4
    assert (batch.num_tokens, batch.token_rows.tolist(), batch.padded_requests) == (0, [], 4)


@both_paths
def test_tables_that_cannot_be(path):
    def make(groups=GROUPS, parallel=None, **sizes):
        sizes = {"max_requests": 4, "max_tokens": 9, "num_blocks": 100, **sizes}
        return BlockTables(groups, path=path, parallel=parallel, **sizes)

    for field in ("max_requests", "max_tokens", "num_blocks"):
        with pytest.raises(BlockTableError, match=field):
            make(**{field: 0})
    with pytest.raises(BlockTableError, match="at least one group"):
        make(groups=())
    for groups in ([(32, 16, 4)], GROUPS[0], 3, [*GROUPS, None]):
        with pytest.raises(BlockTableError, match=r"Invalid groups.*TableGroup") as caught:
            make(groups=groups)
        assert caught.value.field == "groups"
    for count in (1.5, "9", True):
        with pytest.raises(BlockTableError, match="num_blocks must be an integer"):
            make(num_blocks=count)
    with pytest.raises(BlockTableError, match="Invalid parallel 2"):
        make(parallel=2)
    with pytest.raises(BlockTableError, match="32 bits at 2"):
        make(groups=GROUPS[:1], num_blocks=2**30)
    assert make(groups=GROUPS[:1], num_blocks=2**30 - 1)
    assert make(num_blocks=1)
    with pytest.raises(BlockTableError, match="nearest that does is 8"):
        make(parallel=ContextParallel(2, 0, 12), groups=[TableGroup(32, 8, 1)])
    assert make(
        parallel=ContextParallel(1, 0, 12), groups=[TableGroup(32, 8, 1)]
    )  # runs of no other
    with pytest.raises(BlockTableError, match="32-bit position"):
        make(groups=[TableGroup(2**20, 16, 600)], parallel=ContextParallel(4))
    most = TableGroup(1, 1, 2**31 - 1)
    ContextParallel().check_groups([most])
    with pytest.raises(BlockTableError, match="2147483647 blocks do"):
        ContextParallel().check_groups([most, TableGroup(1, 1, 2**31)])
    for bad in ({"size": 0}, {"size": 2, "rank": 2}, {"rank": -1}, {"interleave": 0}):
        with pytest.raises(BlockTableError):
            ContextParallel(**bad)
    with pytest.raises(BlockTableError, match=r"Allowed: faithful, faithful-0\.33, fast"):
        BlockTables(GROUPS, max_requests=1, max_tokens=1, num_blocks=1, path="quick")


@both_paths
@pytest.mark.parametrize("failing", ["upload_writes", "launch_apply", "launch_gather_and_slots"])
def test_nothing_is_staged_after_a_failed_step(path, failing):
    """The rows are then the device's: a move afterwards copies what the device holds."""
    tables = small(path)
    tables.append(1, [[11, 12], [13]])
    tables.apply()
    inner = tables.tables._path
    working = getattr(inner, failing)

    def fail(*arguments):
        raise RuntimeError("no launch")

    setattr(inner, failing, fail)
    tables.tables.overwrite(1, [[21], [23]])
    tables.tables.append(0, [[31], [33]])
    with pytest.raises(RuntimeError, match="no launch"):
        tables.tables.step([1], [0, 1], [0])
    assert len(tables.tables.staged) == 0
    setattr(inner, failing, working)
    if failing != "launch_gather_and_slots":  # then the device has the writes
        tables.move(1, 2)
        tables.step([1, 2], [0, 1, 2], [47, 40], padded=3)


@both_paths
def test_nothing_is_staged_after_a_refused_batch(path):
    tables = small(path)
    tables.tables.append(1, [[11, 12], [13]])
    with pytest.raises(BlockTableError):
        tables.tables.step([9], [0, 1], [0])
    assert len(tables.tables.staged) == 0
    tables.step([], [0], [])


@pytest.mark.parametrize(
    ("group", "request_row", "field"),
    [
        (5, 0, "group"),
        (-1, 0, "group"),
        (0, 99, "request"),
        (0, -1, "request"),
        (0, 1.5, "request"),
    ],
)
def test_a_row_that_does_not_exist_is_not_read(group, request_row, field):
    tables = BlockTables([TableGroup(32, 16, 4)], max_requests=2, max_tokens=8, num_blocks=9)
    with pytest.raises(BlockTableError) as caught:
        tables.row(group, request_row)
    assert caught.value.field == field
    assert caught.value.limit == {"group": 1, "request": 2}[field]


@pytest.mark.parametrize("value", [2.5, "3", True, 0, None])
def test_sizes_are_integers(value):
    with pytest.raises(BlockTableError, match="max_requests must be an integer of at least 1"):
        BlockTables([TableGroup(32, 16, 4)], max_requests=value, max_tokens=8, num_blocks=9)
    with pytest.raises(BlockTableError, match="interleave must be an integer of at least 1"):
        ContextParallel(2, 0, value)
