"""Bugs that vLLM and others have had with block tables; each test fails if one returns."""

from collections import deque

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.block_table.cases import (
    DEVICE,
    PAD_SLOT,
    PATHS,
    CheckedTables,
    ContextParallel,
    TableGroup,
    packed,
)
from tests.kernels.block_table.far_rows import ROW, STRIDE, far_table, spread_rows
from tests.kernels.block_table.planted_kernel import apply_32_bit_kernel
from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.faithful_kernel import apply_group_kernel
from workbench.kernels.block_table.groups import table_groups
from workbench.kernels.block_table.ring import StagingRing
from workbench.kernels.block_table.traffic import OutOfBounds, counted_traffic
from workbench.kernels.errors import BlockTableError

both_paths = pytest.mark.parametrize("path", PATHS)


@both_paths
def test_bug_4_a_generator_is_refused_and_results_can_be_read_twice(path):
    groups = table_groups([32, 48], [16, 16], [4, 4])
    tables = BlockTables(groups, max_requests=2, max_tokens=4, num_blocks=50, path=path)
    for ids in ((i for i in [[1], [2]]), [(i for i in [1]), [2]], iter([[1], [2]])):
        with pytest.raises(BlockTableError, match=r"cannot be read more than once.*list\("):
            tables.append(0, ids)
        with pytest.raises(BlockTableError, match=r"cannot be read more than once.*list\("):
            tables.append_many([0, 1], (rows for rows in [[[1], [2]], [[3], [4]]]))
    with pytest.raises(BlockTableError, match="more than once"):
        table_groups((size for size in [32, 48]), [16, 16], [4, 4])
    assert len(tables.staged) == 0
    for result in (
        groups,
        tables.groups,
        tables.block_table,
        tables.source_table,
        tables.row(0, 0),
    ):
        assert isinstance(result, tuple)


@both_paths
def test_bug_5_widths_1_and_125_and_8250_in_one_step(path):
    groups = [TableGroup(1056, 1056, 1), TableGroup(16, 16, 125), TableGroup(1056, 16, 125)]
    assert [group.max_kernel_blocks for group in groups] == [1, 125, 8250]
    tables = CheckedTables(groups, path, max_requests=2, max_tokens=10)
    tables.append(1, [[4999], list(range(125)), list(range(200, 75, -1))])
    tables.append(0, [[3], [1], [2]])
    tables.step([1, 0], [0, 5, 10], [0, 15, 16, 1054, 1055, *range(5)])


@both_paths
def test_bug_7_row_offsets_beyond_32_bits(path):
    """Rows pretended to be 2**30 entries apart: row 3 begins beyond 2**31, in small memory."""
    tables = CheckedTables([TableGroup(32, 16, 4)], path, max_requests=4, max_tokens=3)
    if path == "faithful":  # its apply takes no address, and is tested below
        tables.append(ROW, [[7, 9]])
        tables.apply()
        spread_rows(tables.tables._path)
    else:
        spread_rows(tables.tables._path)
        tables.append(ROW, [[7, 9]])
    tables.step([0, 1, 2, ROW], [0, 0, 0, 0, 2], [0, 63])
    assert tables.tables.block_table[0][ROW, :4].tolist() == [14, 15, 18, 19]
    assert tables.tables.slot_mapping[0].tolist() == [14 * 16, 19 * 16 + 15, PAD_SLOT]


@pytest.mark.skipif(DEVICE != "cpu", reason="pretends to have memory")
def test_bug_7_apply_and_its_planted_32_bit_twin():
    requests, starts, offsets, ids = (
        torch.tensor(values, dtype=torch.int32) for values in ([ROW], [1], [0, 2], [7, 9])
    )
    table, row = far_table(4)
    allowed = [row, requests, starts, offsets, ids]
    with counted_traffic(allowed):
        apply_group_kernel[(1,)](table, STRIDE, requests, starts, offsets, ids, BLOCK=4)
    assert row.tolist() == [0, 7, 9, 0]
    with pytest.raises(OutOfBounds, match="a store goes"), counted_traffic(allowed):
        apply_32_bit_kernel[(1,)](table, STRIDE, requests, starts, offsets, ids, BLOCK=4)


@both_paths
def test_bug_8_rows_of_a_larger_batch_do_not_stay(path):
    groups = [TableGroup(32, 16, 41), TableGroup(16, 16, 1)]
    tables = CheckedTables(groups, path, max_requests=6, max_tokens=6)
    for request in range(6):
        tables.fill(request, 16)
    tables.step(list(range(6)), *packed([16] * 6, [15] * 6))
    tables.step([4], [0, 1], [3])
    for table in tables.tables.block_table:
        assert not table[1:].any()
    tables.step([], [0], [])
    assert not any(table.any() for table in tables.tables.block_table)


@both_paths
def test_bug_9_ids_after_a_rows_end_are_never_used(path):
    """All memory starts as garbage ids, and a re-used row keeps its old ones."""
    tables = CheckedTables([TableGroup(32, 16, 5)], path, max_requests=2, max_tokens=70)
    garbage = tables.memory.garbage
    assert garbage > 5000 * 2
    tables.append(0, [[1, 2, 3, 4, 5]])
    tables.apply()
    tables.clear(0)
    tables.append(0, [[6]])
    tables.step([0], *packed([32]))
    assert tables.tables.slot_mapping.max() < 7 * 32
    with pytest.raises(BlockTableError, match=r"room for positions 0\.\.31") as refused:
        tables.tables.slot_mappings([0], [0, 1], [32])
    assert refused.value.limit == 32


def test_bug_12_a_staging_buffer_is_not_filled_before_its_copy_is_done():
    """1000 steps whose copies are later than the host: each step's copy carries its own step."""
    assert not late_copies(1000, StagingRing)


def test_bug_12_is_found_without_a_wait():
    class Careless(StagingRing):
        def buffer(self):
            self._waits = [lambda: None for _ in self._waits]
            return super().buffer()

    assert late_copies(200, Careless)


def late_copies(steps, ring_type):
    """Steps that arrived with another step's ids.

    The copies run in order and as late as can be: when the host waits for one, or at the end.
    """
    arrived, started = [], deque()

    def late_copy(target, source):
        number = len(arrived) + len(started)

        def run():
            target.copy_(source)
            arrived.append(target.tolist())

        def wait():
            while len(arrived) <= number:
                started.popleft()()

        started.append(run)
        return wait

    ring = ring_type(torch.zeros(4, dtype=torch.int32), slots=3, copy=lambda: late_copy)
    for step in range(steps):
        ring.buffer()[:] = step
        ring.send(4)
    for run in started:
        run()
    assert len(arrived) == steps
    return [step for step, ids in enumerate(arrived) if ids != [step] * 4]


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU, whose copies are asynchronous")
def test_bug_12_on_the_gpu():
    ring = StagingRing(torch.zeros(4096, dtype=torch.int32, device=DEVICE))
    seen = []
    for step in range(1000):
        torch.cuda._sleep(100_000)  # the copy comes after this in the stream
        ring.buffer()[:] = step
        ring.send(4096)
        seen.append(ring.target.clone())
    for step, copied in enumerate(seen):
        assert bool((copied == step).all())


@both_paths
@pytest.mark.parametrize("interleave", [1, 16, 128])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_bug_13_context_parallel_slots_use_the_kernel_block_size(path, size, interleave):
    parallel = ContextParallel(size, size - 1, interleave)
    group = TableGroup(768, 128, 4)
    tables = CheckedTables([group], path, max_requests=2, max_tokens=400, parallel=parallel)
    tables.fill(1, 1500)
    tables.step([1], *packed([1500], [1110]))
    local = tables.tables.slot_mapping[0]
    kernel_blocks = (local[local >= 0] // 128).unique().tolist()
    assert kernel_blocks
    assert set(kernel_blocks) <= set(tables.model.row(0, 1))


def test_a_write_without_ids_does_not_share_an_address(monkeypatch):
    """Its ids are an empty view of what is staged, which begins where the first column does."""
    tables = BlockTables(
        table_groups([32], [32], [4]),
        max_requests=2,
        max_tokens=4,
        num_blocks=50,
        path="faithful-0.33",
    )
    tables.append(0, [[1, 2]])
    tables.apply()
    tables.clear(0)
    staged = tables.staged
    assert len(staged) == 1
    assert len(staged.ids) == 0
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, _device: tensor)  # as on a CPU
    columns = [tables._path._device(column) for column in (staged.group, staged.ids)]
    group, ids = (column.untyped_storage().data_ptr() for column in columns)
    assert group != ids
