"""Fences find a kernel that writes outside; the interpreter counts what a kernel moves."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.block_table.cases import DEVICE, PATHS, CheckedTables, TableGroup, random_blocks
from tests.kernels.block_table.guards import GuardedMemory, GuardError
from tests.kernels.block_table.planted_kernel import apply_one_too_many_kernel
from workbench.kernels.block_table.faithful_kernel import apply_group_kernel
from workbench.kernels.block_table.traffic import OutOfBounds, counted_traffic
from workbench.kernels.mode import triton_mode

interpreted = pytest.mark.skipif(
    triton_mode().mode != "interpreter", reason="only the interpreter sees every access"
)


def one_write(memory):
    """Arguments of an apply that fills the last row of a small table to its end."""
    table = memory.allocate((3, 5), torch.int32)
    lists = ([2], [2], [0, 3], [7, 8, 9])
    arrays = [torch.tensor(values, dtype=torch.int32, device=DEVICE) for values in lists]
    return table, (table, table.stride(0), *arrays)


def test_a_planted_off_by_one_is_caught_by_the_fence():
    memory = GuardedMemory(DEVICE)
    table, arguments = one_write(memory)
    apply_group_kernel[(1,)](*arguments, BLOCK=4)
    memory.check()
    assert table[2, 2:].tolist() == [7, 8, 9]
    apply_one_too_many_kernel[(1,)](*arguments, BLOCK=4)
    with pytest.raises(GuardError, match=r"buffer 0 was written \+1 entries") as caught:
        memory.check()
    assert (caught.value.buffer, caught.value.offset) == (0, 1)


def test_a_write_before_the_start_is_caught_by_the_fence():
    memory = GuardedMemory(DEVICE)
    memory.allocate((4,), torch.int64)
    table, arguments = one_write(memory)
    apply_group_kernel[(1,)](table, -5, *arguments[2:], BLOCK=4)
    with pytest.raises(GuardError) as caught:
        memory.check()
    assert (caught.value.buffer, caught.value.offset) == (1, -6)


@interpreted
def test_the_checked_interpreter_stops_the_off_by_one_before_it_happens():
    memory = GuardedMemory(DEVICE)
    _, arguments = one_write(memory)
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    with counted_traffic(allowed=tensors):
        apply_group_kernel[(1,)](*arguments, BLOCK=4)
    with pytest.raises(OutOfBounds) as caught, counted_traffic(allowed=tensors):
        apply_one_too_many_kernel[(1,)](*arguments, BLOCK=4)
    assert (caught.value.access, caught.value.offset_bytes) == ("store", 1)
    memory.check()


@interpreted
def test_traffic_is_counted_by_element():
    _, arguments = one_write(GuardedMemory(DEVICE))
    with counted_traffic() as traffic:
        apply_group_kernel[(1,)](*arguments, BLOCK=1024)
    # the row, its start and two offsets, then three ids
    assert (traffic.loads, traffic.loaded_bytes) == (4 + 3, 4 * 7)
    assert (traffic.stores, traffic.stored_bytes, traffic.bytes) == (3, 12, 40)
    assert (traffic.launches, traffic.programs) == (1, 1)


@interpreted
def test_a_step_takes_two_launches_on_the_fast_path_and_groups_plus_two_on_the_other():
    launches = {}
    for path in PATHS:
        groups = [TableGroup(32, 16, 4), TableGroup(48, 16, 4), TableGroup(16, 16, 8)]
        tables = CheckedTables(groups, path, max_requests=4, max_tokens=8).tables
        tables.append(1, random_blocks(groups, 20))
        with counted_traffic() as traffic:
            tables.step([1], [0, 2], [18, 19])
        launches[path] = traffic.launches
        assert traffic.stores > 0
    assert launches == {"faithful": 3 + 2, "fast": 2}


@pytest.mark.skipif(triton_mode().mode == "interpreter", reason="needs a GPU")
def test_nothing_is_counted_on_a_gpu():
    with pytest.raises(RuntimeError, match="interpreter only"), counted_traffic():
        pass


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
def test_the_fast_step_can_be_captured_in_a_cuda_graph():
    groups = [TableGroup(32, 16, 9), TableGroup(48, 16, 5)]
    tables = CheckedTables(groups, "fast", max_requests=4, max_tokens=300)
    tables.fill(0, 40)
    tables.step([0], [0, 1], [3])  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tables.tables.launch()
    for length in (1, 150, 7):
        tables.overwrite(2, random_blocks(tables.groups, length, seed=length))
        tables.tables.upload([2, 0], [0, length, length + 1], [*range(length), 39])
        graph.replay()
        tables.model.apply()
        tables.assert_rows()
        tables.assert_gathered([2, 0])
        tables.assert_slots([2, 0], [0, length, length + 1], [*range(length), 39])
        tables.memory.check()
