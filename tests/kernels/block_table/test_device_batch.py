"""Batches whose tensors are already on the device, as in an engine."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
from torch._subclasses import FakeTensorMode

from tests.kernels.block_table.cases import (
    DEVICE,
    PAD_SLOT,
    PATHS,
    CheckedTables,
    TableGroup,
    not_one_gpu,
)
from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.path import DeviceBatch
from workbench.kernels.errors import BlockTableError

both_paths = pytest.mark.parametrize("path", PATHS)


@both_paths
@pytest.mark.parametrize("position_type", [torch.int32, torch.int64])
def test_a_batch_on_the_device(path, position_type):
    groups = [TableGroup(32, 16, 4), TableGroup(48, 48, 2)]
    tables = CheckedTables(groups, path, max_requests=4, max_tokens=60)
    tables.fill(3, 33)
    tables.fill(1, 5)
    batch = ([1, -1, 3], [0, 5, 6, 39], [*range(5), 0, *range(33)])
    tables.tables.upload_on_device(on_device(*batch, position_type))
    tables.tables.launch()
    tables.model.apply()
    tables.assert_right(*batch)
    tables.step([3], [0, 1], [32])  # back to a batch from the host
    tables.memory.check()


def test_a_dummy_is_zero_as_far_as_any_row_was_written():
    """Unless it is promised that there is none, which saves programs."""
    tables = CheckedTables([TableGroup(16, 16, 300)], "fast", max_requests=2, max_tokens=8)
    tables.fill(0, 290 * 16)
    tables.step([0], [0, 1], [290 * 16 - 1])
    tables.clear(0)
    tables.fill(1, 33)
    batch = ([-1, 1], [0, 0, 1], [32])
    tables.tables.upload_on_device(on_device(*batch))
    tables.tables.launch()
    tables.model.apply()
    tables.assert_right(*batch)
    assert not tables.tables.block_table[0][0].any()
    tables.memory.check()


def test_the_rows_of_tokens_end_where_the_batch_ends():
    """The fast path writes them itself, where a batch has none."""
    tables = CheckedTables([TableGroup(32, 16, 4)], "fast", max_requests=4, max_tokens=60)
    rows = tables.tables._path._token_rows.fill_(-7)
    tables.tables.upload_on_device(on_device([1, 2, 3], [0, 5, 6, 39], [0] * 39))
    tables.tables.launch()
    assert rows.tolist() == [0] * 5 + [1] + [2] * 33 + [-7] * (len(rows) - 39)


@pytest.mark.parametrize("path", [*PATHS, "faithful-0.33"])
def test_a_token_without_a_block_has_no_slot(path):
    """Only a batch on the device can contain one; vLLM uses whatever id is there."""
    groups = [TableGroup(32, 16, 4), TableGroup(48, 48, 2)]
    tables = CheckedTables(groups, path, max_requests=2, max_tokens=6)
    tables.fill(1, 33)
    batch = ([1, 0], [0, 4, 6], [47, 48, 63, 64, 0, 1])
    tables.tables.upload_on_device(on_device(*batch))
    tables.tables.launch()
    tables.model.apply()
    tables.assert_right(*batch)
    missing = [[False, False, False, True, True, True], [False, True, True, True, True, True]]
    assert (tables.tables.slot_mapping == PAD_SLOT).tolist() == missing


def on_device(idx_mapping, query_start_loc, positions, position_type=torch.int64):
    def tensor(values, dtype):
        return torch.tensor(values, dtype=dtype, device=DEVICE)

    return DeviceBatch(
        tensor(idx_mapping, torch.int32),
        tensor(query_start_loc, torch.int32),
        tensor(positions, position_type),
        num_tokens=len(positions),
        padded_requests=2 if len(idx_mapping) == 2 else 4,
    )


@both_paths
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("positions", torch.zeros(2, dtype=torch.float32)),
        ("positions", torch.zeros(1, dtype=torch.int64)),
        ("idx_mapping", torch.zeros(1, dtype=torch.int64)),
        ("idx_mapping", torch.zeros((1, 1), dtype=torch.int32)),
        ("query_start_loc", torch.zeros(1, dtype=torch.int32)),
        ("query_start_loc", torch.zeros(4, dtype=torch.int32, device=DEVICE)[::2]),
        ("padded_requests", 0),
        ("padded_requests", 5),
        ("num_tokens", -1),
    ],
)
def test_tensors_that_the_kernels_cannot_use_are_refused(path, field, value):
    tables = CheckedTables([TableGroup(32, 16, 4)], path, max_requests=4, max_tokens=2).tables
    value = value.to(DEVICE) if isinstance(value, torch.Tensor) else value
    with pytest.raises(BlockTableError, match=field) as refused:
        tables.upload_on_device(replace(on_device([0], [0, 2], [0, 1]), **{field: value}))
    assert refused.value.field == field


@both_paths
def test_a_batch_fills_rows_and_tokens_and_no_more(path):
    tables = CheckedTables([TableGroup(32, 16, 4)], path, max_requests=4, max_tokens=2).tables
    full = on_device([0], [0, 2], [0, 1])
    assert full.padded_requests == 4
    tables.upload_on_device(full)
    with pytest.raises(BlockTableError, match=r"num_tokens must be in 0\.\.2; got 3"):
        tables.upload_on_device(on_device([0], [0, 3], [0, 1, 2]))


@not_one_gpu
@pytest.mark.parametrize(("place", "allowed"), [(0, True), (1, False)])
def test_a_batch_on_another_gpu_is_refused(place, allowed):
    """Tensors of GPUs that need not be there: the index of a device counts as its type does."""
    with FakeTensorMode():
        batch = DeviceBatch(
            torch.empty(1, dtype=torch.int32, device="cuda:0"),
            torch.empty(2, dtype=torch.int32, device="cuda:0"),
            torch.empty(3, dtype=torch.int64, device=f"cuda:{place}"),
            num_tokens=3,
            padded_requests=1,
        )
        sizes = {"max_requests": 4, "max_tokens": 9}
        if allowed:
            batch.check(torch.device("cuda:0"), **sizes)
            return
        with pytest.raises(BlockTableError, match=r"on cuda:0, .*on cuda:1") as refused:
            batch.check(torch.device("cuda:0"), **sizes)
    assert refused.value.field == "positions"


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@both_paths
def test_tables_of_the_second_gpu_while_the_first_is_current(path):
    tables = BlockTables(
        [TableGroup(32, 16, 4)],
        max_requests=2,
        max_tokens=3,
        num_blocks=9,
        path=path,
        device="cuda:1",
    )
    tables.append(0, [[5]])
    tables.step([0], [0, 1], [17])
    assert tables.slot_mapping.tolist() == [[177, PAD_SLOT, PAD_SLOT]]
