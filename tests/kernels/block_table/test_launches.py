"""What a step launches: the programs that live rows need, few loads, no binder the second time."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.block_table.cases import (
    DEVICE,
    CheckedTables,
    TableGroup,
    packed,
    random_blocks,
)
from tests.kernels.compiling import printed_there
from workbench.kernels.block_table import fast_kernel
from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.arena import ROW_ALIGNMENT, row_arena
from workbench.kernels.block_table.path import DeviceBatch
from workbench.kernels.block_table.plan import cuts_of
from workbench.kernels.block_table.ring import StagingRing
from workbench.kernels.block_table.traffic import Access, counted_traffic
from workbench.kernels.mode import triton_mode

interpreted = pytest.mark.skipif(
    triton_mode().mode != "interpreter", reason="only the interpreter sees every access"
)
LONG = TableGroup(16, 16, 65_536)
"""Rows of a million tokens."""


def programs_of(requests, blocks, padded=None):
    """Programs of a gather over two groups of long rows that hold so many blocks."""
    tables = BlockTables([LONG] * 2, max_requests=32, max_tokens=32, num_blocks=70_000, path="fast")
    tables.append_many([*range(requests)], [[[*range(n)] for n in blocks]] * requests)
    starts = [*range(requests + 1)]
    tables.upload([*range(requests)], starts, [0] * requests, padded_requests=padded or requests)
    return tables._path.programs


def test_the_grid_follows_the_live_rows_and_not_the_tables():
    slots = 2
    assert programs_of(1, [1, 1]) == slots + 2
    # 16 rows and 128 columns a tile
    assert programs_of(20, [129, 1]) == slots + 2 * 2 + 2
    assert programs_of(1, [65_536, 1]) == slots + 512 + 1
    # rows of zeros reach as far as rows ever did
    assert programs_of(1, [300, 1], padded=17) == slots + 2 * 3 + 2


@interpreted
def test_a_program_after_every_row_of_its_tile_touches_nothing():
    """Sixteen rows of 128 entries, one tile of columns, next to a row that has two of them."""
    tables = BlockTables([LONG], max_requests=32, max_tokens=32, num_blocks=70_000, path="fast")
    tables.append_many([*range(17)], [[[*range(128)]]] * 16 + [[[*range(256)]]])
    tables.upload([*range(17)], [*range(18)], [0] * 17)
    tables.launch()
    accesses: list[Access] = []
    with counted_traffic(watch=accesses) as traffic:
        tables.launch_gather()
    assert traffic.programs == 2 * 2  # tiles of rows and of columns
    stores = [len(one.addresses) for one in accesses if one.kind == "store"]
    assert len(stores) == 3
    assert all(stores)


@interpreted
def test_slots_and_tables_alone_store_nothing_of_the_other():
    tables = BlockTables([LONG], max_requests=4, max_tokens=4, num_blocks=70_000, path="fast")
    tables.append_many([0], [[[*range(3)]]])
    tables.upload([0], [0, 1], [0])
    tables.launch()
    path = tables._path
    for launch, filled in ((path.launch_slots, path._slots), (path.launch_gather, path._tables)):
        accesses: list[Access] = []
        with counted_traffic(watch=accesses):
            launch()
        first = filled.data_ptr()
        last = first + filled.numel() * filled.element_size()
        stored = [place for one in accesses if one.kind == "store" for place in one.addresses]
        assert stored
        assert all(first <= place < last for place in stored)


def test_slots_and_tables_together_take_the_programs_of_both():
    tables = BlockTables([LONG] * 2, max_requests=32, max_tokens=32, num_blocks=70_000, path="fast")
    tables.append_many([0], [[[*range(300)], [1]]])
    tables.upload([0], [0, 1], [0])
    path = tables._path
    alone = [path._programs(parts) for parts in ((True, False), (False, True))]
    assert alone[0] == 2
    assert path.programs == sum(alone)


def test_programs_share_the_ids_of_a_long_write():
    tables = BlockTables([LONG], max_requests=32, max_tokens=32, num_blocks=70_000, path="fast")
    path = tables._path
    path._most_programs, path.apply_ids = 1000, 4
    tables.append(0, [[*range(3000)]])
    tables.upload([0], [0, 1], [0])
    assert path._apply_programs == 750


@interpreted
def test_a_first_launch_has_programs_for_its_writes_and_ids_as_far_as_there_is_room():
    tables, launched = launching([TableGroup(16, 16, 9 * 512)], 513)
    assert launched() == 1  # nothing is staged
    for ids, programs in ((1, 1), (512, 1), (513, 2), (3 * 512 + 1, 4), (9 * 512, 8)):
        tables.overwrite(0, [[*range(ids)]])
        assert launched() == programs, ids
    tables.append_many([*range(513)], [[[]]] * 513, overwrite=True)
    assert launched() == 1  # one row had ids
    tables.append_many([*range(513)], [[[1]]] * 513)
    launched()
    tables.append_many([*range(513)], [[[]]] * 513, overwrite=True)
    assert launched() == 2  # so many counts change, and no id is written


@interpreted
def test_a_first_launch_that_finds_rows_of_tokens_has_a_program_for_each_request():
    tables, launched = launching([TableGroup(16, 16, 4 * 512)], 20)
    for requests, programs in ((1, 1), (3, 3), (20, 8)):
        assert launched(batch_of(requests)) == programs
    tables.overwrite(0, [[*range(3 * 512)]])
    assert launched(batch_of(2)) == 3
    # and slots alone need them
    tables.upload_on_device(batch_of(5))
    with counted_traffic() as traffic:
        tables.launch_slots()
    assert (traffic.launches, traffic.programs) == (2, 5 + 1)


def launching(groups, requests):
    """Tables, and a function that says how many programs the first launch of a step has."""
    tables = BlockTables(groups, max_requests=requests, max_tokens=32, num_blocks=9999, path="fast")

    def launched(batch=None):
        if batch is None:
            tables.upload([], [0], [], padded_requests=0)
        else:
            tables.upload_on_device(batch)
        with counted_traffic() as traffic:
            tables.launch()
        assert traffic.launches == 2
        return traffic.programs - tables._path.programs

    return tables, launched


def batch_of(requests):
    """A batch on the device of dummy requests without tokens."""
    rows, starts = (
        torch.zeros(n, dtype=torch.int32, device=DEVICE) for n in (requests, requests + 1)
    )
    positions = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    return DeviceBatch(rows - 1, starts, positions, num_tokens=0, padded_requests=requests)


def test_parts_of_the_arenas_begin_on_cache_lines_of_their_own():
    """Of 128 bytes: 32 numbers of 32 bits, or, of slots, two lines."""
    groups = [TableGroup(16, 16, 5)] * 3
    for requests, steps in ((1, 2), (11, 6), (21, 6), (22, 7)):
        tables = BlockTables(groups, max_requests=requests, max_tokens=45, num_blocks=99)
        path = tables._path
        assert path._slots.stride(0) == 64
        assert path._head == 32
        assert path._batch_starts == [32, 64, 128]
        # of a binary search among all writes
        assert path._write_steps == steps


def test_without_a_dummy_only_live_entries_are_written():
    tables = BlockTables([LONG], max_requests=32, max_tokens=32, num_blocks=70_000, path="fast")
    tables.append_many([0, 1], [[[*range(1000)]], [[7]]])
    tables.step([0, 1], [0, 1, 2], [0, 0])
    tables.clear(0)
    slots = 1
    for rows, tiles in (([1], 1), ([1, -1], 8), ([1], 1)):
        tables.upload(rows, [0, *[1] * len(rows)], [0], padded_requests=len(rows))
        assert tables._path.programs == slots + tiles


def test_rows_that_became_shorter_shrink_the_grid_and_leave_zero_rows_zero():
    tables = CheckedTables([TableGroup(16, 16, 700)], "fast", max_requests=20, max_tokens=8)
    tables.append(3, [[*range(700)]])
    tables.append(4, [[7]])
    tables.step([3, 4], [0, 1, 2], [11_199, 0], padded=20)
    wide = tables.tables._path.programs
    tables.clear(3)
    tables.step([4], [0, 1], [0], padded=1)
    assert tables.tables._path.programs < wide
    # row 0 was long, and is a dummy now
    tables.step([-1, 4], [0, 0, 1], [0], padded=20)
    assert tables.tables._path.programs == wide


@pytest.mark.thorough
@interpreted
@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12), given_rows=st.booleans())
def test_a_token_costs_five_loads_however_many_requests_there_are(lengths, given_rows):
    """Its row, position, request, count and block; a binary search would add ten more."""
    tables = BlockTables([LONG], max_requests=1024, max_tokens=512, num_blocks=100, path="fast")
    requests = [*range(len(lengths))]
    tables.append_many(requests, [[[9, 8, 7]]] * len(lengths))
    starts, positions = packed(lengths)
    batch = [torch.tensor(values, dtype=torch.int32) for values in (requests, starts, positions)]
    rows = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).int()
    sizes = (len(positions), len(lengths))
    tables.upload_on_device(DeviceBatch(*batch, *sizes, rows if given_rows else None))
    tables.launch()
    with counted_traffic() as traffic:
        tables.launch_slots()
    # a program reads at most 16 once; the launch before it reads two starts of every request
    found = traffic.loads - (0 if given_rows else 2 * len(lengths) + 3)
    assert found <= 5 * len(positions) + 16
    assert traffic.launches == (1 if given_rows else 2)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_grid_gives_what_the_oracle_gives(data):
    """A captured launch keeps its grid, whatever is uploaded later."""
    groups = [TableGroup(32, 16, 90), TableGroup(48, 48, 70)]
    tables = CheckedTables(groups, "fast", max_requests=5, max_tokens=700)
    path = tables.tables._path
    few = data.draw(st.integers(1, 3))
    path._shared_out = lambda _wanted: few
    path._programs = lambda _parts: few
    lengths = data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=2))
    for row, length in enumerate(lengths):
        tables.fill(row, length)
    tables.step([*range(len(lengths))], *packed(lengths), padded=5)


DRY = """
import json, torch
from workbench.kernels.block_table.calls import ANY_SIZE
from workbench.kernels.block_table import fast_kernel
from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.arena import ROW_ALIGNMENT, row_arena
from workbench.kernels.block_table.path import DeviceBatch
from workbench.kernels.block_table.plan import cuts_of
from workbench.kernels.block_table.ring import StagingRing
from workbench.kernels.inspection.dry_driver import dry_launches
from workbench.kernels.inspection.targets import TARGETS
from workbench.kernels.language import triton

def step(offset):
    tables.overwrite(0, [[7]] * 2)
    rows, starts = (torch.tensor(values, dtype=torch.int32) for values in ([0], [0, 1]))
    positions = torch.zeros(20, dtype=torch.int64)[offset:]
    tables.upload_on_device(DeviceBatch(rows, starts, positions, 1, 1))
    tables.launch()

bound = []
with dry_launches(TARGETS["sm_90"]) as launches:
    tables = BlockTables(ANY_SIZE, max_requests=4, max_tokens=64, num_blocks=99)
    right = triton.runtime.jit.JITFunction.run
    def counted(*given, **named):
        bound.append(0)
        return right(*given, **named)
    triton.runtime.jit.JITFunction.run = counted
    counts = []
    for offset in (0, 0, 1, 0, 1):
        step(offset)
        counts.append((len(bound), len(launches)))
    heard = []
    triton.knobs.runtime.launch_enter_hook.add(heard.append)
    step(0)
    counts.append((len(bound), len(launches)))
assert all(one.binary.name in one.binary["ptx"] for one in launches)
seen = [[one.binary.name, hash(one.binary.code), one.grid, one.constants] for one in launches]
print(json.dumps([counts, seen]))
"""


def test_a_launch_goes_through_the_binder_once_for_each_specialisation():
    """Launched dry, which checks arguments: the second one needs no binder, and has its grid."""
    counts, found = printed_there("-c", DRY)
    # the third step's positions, which the second launch alone reads, are not aligned; a profiler's
    # hook is shown every launch
    assert counts == [[2, 2], [2, 4], [3, 6], [3, 8], [3, 10], [5, 12]]
    assert found == found[0:2] * 6
    # numbers that the kernels were compiled for
    assert [constants.get("GROUPS") for *_, constants in found[:2]] == [None, 2]


def test_a_batch_from_the_device_may_bring_the_row_of_every_token():
    tables = CheckedTables([TableGroup(16, 16, 4)], "fast", max_requests=3, max_tokens=40)
    for row, length in enumerate((20, 3)):
        tables.append(row, random_blocks(tables.groups, length, seed=row))
    starts, positions = packed([20, 3])
    numbers = ([1, 0], [0, 3, 23], positions[20:] + positions[:20], [0] * 3 + [1] * 20)
    rows, begin, places, owners = (
        torch.tensor(v, dtype=torch.int32, device=DEVICE) for v in numbers
    )
    tables.tables.upload_on_device(DeviceBatch(rows, begin, places, 23, 3, owners))
    tables.tables.launch()
    tables.model.apply()
    tables.assert_right([1, 0], [0, 3, 23], places.tolist())
    assert starts == [0, 20, 23]


def test_kernels_are_promised_of_rows_what_an_arena_keeps():
    """A wrong promise is a wrong kernel on a GPU, and nothing to the interpreter."""
    text = Path(fast_kernel.__file__).read_text(encoding="utf-8")
    promised = re.findall(r"multiple_of\(.+\), (\d+)\)", text)
    assert set(promised) == {str(ROW_ALIGNMENT)}
    assert len(promised) == text.count("multiple_of(")


def test_many_tiles_of_two_groups_find_their_group():
    groups = [TableGroup(16, 16, 9000), TableGroup(16, 16, 4)]
    tables = CheckedTables(groups, "fast", max_requests=1, max_tokens=8, num_blocks=10_000)
    tables.append(0, [[*range(70 * 128)], [7, 8]])
    tables.step([0], [0, 1], [16])
    assert tables.tables._path.programs > 70


@pytest.mark.parametrize(
    ("widths", "requests", "cuts"),
    [
        ([64], 100, (64, 32)),
        ([65], 100, (16, 128)),
        ([5, 65], 100, (16, 128)),
        ([5, 64], 33, (64, 32)),
        ([5], 32, (32, 32)),
        ([500], 5, (8, 128)),
        ([500], 1, (1, 128)),
    ],
)
def test_tiles_are_narrow_where_all_rows_are_short(widths, requests, cuts):
    """Of at most two cache lines; no tile has more rows than the batch can have."""
    found = cuts_of(row_arena(widths, requests), max_requests=requests)
    assert (found.rows, found.columns, found.tokens) == (*cuts, 512)


def test_transfers_of_similar_sizes_are_one():
    """The first four bits of a size count; what is copied beyond it is read by nothing."""
    copied = []
    ring = StagingRing(
        torch.zeros(5000, dtype=torch.int32),
        copy=lambda: lambda target, source: copied.append(len(source)) or (lambda: None),
    )
    sizes = {1: 1, 15: 15, 16: 17, 17: 17, 100: 103, 1000: 1023, 1024: 1151, 4999: 5000}
    for end in sizes:
        ring.buffer()
        ring.send(end)
    assert dict(zip(sizes, copied, strict=True)) == sizes
    ring.send(100, 40)
    assert copied[-1] == 63


@pytest.mark.parametrize("group", [0, 1])
def test_a_row_that_was_the_longest_of_one_group_shrinks_its_grid(group):
    tables = BlockTables([LONG] * 2, max_requests=4, max_tokens=32, num_blocks=70_000, path="fast")
    longer, shorter = [[1], [*range(1000)]], [[1, 2], [3, 4]]
    tables.append_many([0, 1], [longer if group else longer[::-1], shorter])
    tables.step([0, 1], [0, 1, 2], [0, 0])
    tables.clear(0)
    assert tables._host.widest == (2, 2)
    tables.step([1], [0, 1], [0], padded_requests=1)
    assert tables._path.programs == 2 + 2
