"""The path of vLLM 0.33 writes what vLLM 0.33 wrote, entry by entry, and knows what others do not.

tests/data/block_tables_0_33.json says where its answers come from.
"""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.block_table.cases import CheckedTables, ContextParallel, TableGroup, packed
from workbench.kernels.block_table.api import NEWER, BlockTables
from workbench.kernels.block_table.pointer_path import BLOCK
from workbench.kernels.block_table.traffic import counted_traffic
from workbench.kernels.errors import BlockTableError
from workbench.kernels.mode import triton_mode

DATA = Path(__file__).parents[2] / "data" / "block_tables_0_33.json"
RECORDED = json.loads(DATA.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["name"])
def test_every_entry_is_that_of_vllm(case):
    """Also in rows that a larger batch left, and in entries after a row's last block."""
    tables = BlockTables(
        [TableGroup(**group) for group in case["groups"]],
        max_requests=RECORDED["rows"],
        max_tokens=RECORDED["tokens"],
        num_blocks=RECORDED["num_blocks"],
        path=NEWER,
        parallel=ContextParallel(*case["parallel"]),
    )
    for step in case["steps"]:
        for row, begins, ids in step["writes"]:
            (tables.overwrite if begins else tables.append)(row, ids)
        batch = (step["idx_mapping"], step["query_start_loc"], step["positions"])
        tables.step(*batch, padded_requests=step["padded"])
        assert [table.tolist() for table in tables._path.gathered] == step["gathered"]
        for table, right in zip(tables.block_table, step["kernel_tables"], strict=True):
            assert table[: step["padded"]].tolist() == right
        assert tables.slot_mapping.tolist() == step["slots"]


@pytest.mark.parametrize(
    "parallel", [ContextParallel(), ContextParallel(2, 1, 4)], ids=["alone", "sharded"]
)
def test_every_switch_gives_what_the_oracle_gives(parallel):
    groups = [
        TableGroup(32, 16, 30, window_reach=45, kernel_block_stride=5),
        TableGroup(48, 48, 30, has_slots=False),
        TableGroup(16, 16, 60, is_sharded=False),
    ]
    tables = CheckedTables(groups, NEWER, max_requests=6, max_tokens=400, parallel=parallel)
    for row in range(3):
        first = row * 60 + 1  # block 0 is the null block
        ids = [[*range(first + g, first + g + 29)] for g in range(2)]
        tables.append(row, [*ids, [*range(first, first + 59)]])
    tables.step([2, 0, 1], *packed([77, 150, 31], [60, 100, 0]), padded=5)
    tables.step([-1, 1], *packed([3, 31], [0, 20]), padded=3)
    tables.step([2], [0, 0], [], padded=1)


def test_a_window_hides_no_block_before_it_is_full():
    """Blocks of one token: the first token of all is in a block of its own."""
    groups = [TableGroup(1, 1, 40, window_reach=5)]
    tables = CheckedTables(groups, NEWER, max_requests=3, max_tokens=80)
    for row in range(3):
        tables.append(row, [[*range(row * 30 + 1, row * 30 + 31)]])
    tables.step([1, 0, 2], *packed([30, 30, 30], [0, 5, 6]))
    assert [int(table[0]) for table in tables.tables.block_table[0]] == [31, 1, 0]


def test_a_write_may_be_longer_than_what_a_program_copies():
    blocks = BLOCK + 5
    tables = CheckedTables([TableGroup(16, 16, blocks)], NEWER, max_requests=2, max_tokens=8)
    tables.append(1, [[*range(1, blocks + 1)]])
    tables.step([1], [0, 1], [blocks * 16 - 1])


def test_a_step_takes_one_write_launch_for_any_number_of_groups():
    if triton_mode().mode != "interpreter":
        pytest.skip("only the interpreter counts launches")
    groups = [TableGroup(16, 16, 4)] * 3
    tables = BlockTables(groups, max_requests=4, max_tokens=8, num_blocks=99, path=NEWER)
    tables.append(1, [[5, 6], [7, 8], [9, 10]])
    with counted_traffic() as traffic:
        tables.step([1], [0, 2], [18, 19])
    assert traffic.launches == 3


@pytest.mark.parametrize("path", ["fast", "faithful"])
@pytest.mark.parametrize(
    "field",
    [
        *({"window_reach": tokens} for tokens in (1, 9)),
        *({"kernel_block_stride": blocks} for blocks in (1, 3)),
        {"has_slots": False},
        {"is_sharded": False},
    ],
)
def test_other_paths_refuse_what_they_do_not_know(path, field):
    (name,) = field
    with pytest.raises(BlockTableError, match=f"path '{path}' has no {name}") as caught:
        BlockTables(
            [TableGroup(16, 16, 4), TableGroup(16, 16, 4, **field)],
            max_requests=1,
            max_tokens=1,
            num_blocks=9,
            path=path,
        )
    assert (caught.value.field, caught.value.group) == (name, 1)


@pytest.mark.parametrize("field", ["window_reach", "kernel_block_stride"])
@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_a_group_refuses_a_number_that_is_none(field, value):
    with pytest.raises(BlockTableError) as caught:
        TableGroup(16, 16, 4, **{field: value})
    assert caught.value.field == field
