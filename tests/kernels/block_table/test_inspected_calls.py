"""A step that an inspector reports on is the one that its name says, and one of an engine."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.block_table import calls
from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.reference import PAD_SLOT
from workbench.kernels.mode import triton_mode

CALLS = {call.name: call for call in calls.INSPECTED}


@pytest.fixture
def made(monkeypatch):
    """The tables of the calls that are run."""
    found = []

    class Kept(BlockTables):
        def __init__(self, groups, **named):
            super().__init__(groups, **named)
            found.append(self)

        def append(self, request, block_ids):
            super().append(request, block_ids)
            self.appended = request, block_ids

    monkeypatch.setattr(calls, "BlockTables", Kept)
    return found


@pytest.mark.skipif(triton_mode().mode == "gpu", reason="its batch is on the CPU")
@pytest.mark.parametrize("name", CALLS)
def test_a_step_is_what_its_name_says(made, name):
    assert len(CALLS) == len(calls.INSPECTED)
    assert CALLS[name].limited
    CALLS[name].run()
    [tables] = made
    sizes = [size for one in tables.groups for size in (one.block_size, one.kernel_block_size)]
    assert all(size & (size - 1) == 0 for size in sizes) == ("powers of two" in name)
    assert (tables.parallel.size > 1) == ("context parallel" in name)
    assert tables.path_name == name.partition(",")[0]
    # Triton compiles other kernels for what is not a multiple of 16
    assert tables.max_requests % 16 == tables.max_tokens % 16 == 0
    row, ids = tables.appended
    for g, group in enumerate(tables.groups):
        [block] = ids[g]
        table, slots = tables.block_table[g].tolist(), tables.slot_mapping[g].tolist()
        # the request is the batch's first and its token the first of its block
        expanded = [block * group.ratio + k for k in range(group.ratio)]
        assert (row, table[0][: group.ratio]) == (0, expanded)
        assert not any(map(any, table[1:]))
        assert slots == [block * group.block_size] + [PAD_SLOT] * (tables.max_tokens - 1)
