"""The workloads are the ones that the goals speak of, and their inputs can be run again."""

import dataclasses
import itertools

import numpy as np
import pytest

pytest.importorskip("torch")

from workbench.kernels.bench.block_table import CASES
from workbench.kernels.bench.gpu_clock import Limits
from workbench.kernels.bench.inputs import SETS, step_input
from workbench.kernels.bench.run import chosen
from workbench.kernels.bench.workloads import (
    LONG_ROWS,
    WORKLOADS,
    Part,
    Workload,
    tokens_of,
)
from workbench.kernels.block_table.groups import TableGroup

SHAPES = {
    # requests, groups, expansion of the first, its width, writes, new ids, tokens, max tokens
    "W1": (256, 1, 1, 512, 16, 16, 256, 8192),
    "W2": (1024, 9, 66, 125, 64 * 9, 64 * 9, 1024, 8192),
    "W3": (8192, 9, 1, 64, 512 * 9, 512 * 9, 8192, 8192),
    "W4": (32, 1, 1, 512, 32, 32 * 512, 32 * 256, 8192),
    "W5": (32, 1, 66, 125, 32, 32 * 125, 32 * 256, 8192),
    "W6": (256, 1, 1, 512, 17, 512 + 16, 8192 + 255, 8448),
    "W7": (64, 1, 1, 512, 4, 4, 64, 65536),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_has_its_shape(name):
    workload = WORKLOADS[name]
    first = workload.groups[0]
    assert (
        workload.requests,
        len(workload.groups),
        first.ratio,
        first.max_blocks,
        workload.writes,
        workload.new_ids,
        workload.tokens,
        workload.max_tokens,
    ) == SHAPES[name]


def test_tables_have_rows_for_more_requests_than_some_batches():
    rows = {name: workload.max_requests for name, workload in WORKLOADS.items()}
    assert rows == {**dict.fromkeys(WORKLOADS, 256), "W2": 1024, "W3": 8192}


def test_the_hybrid_has_one_attention_group_and_eight_states():
    groups = WORKLOADS["W2"].groups
    assert [(group.ratio, group.max_blocks) for group in groups] == [(66, 125), *[(1, 1)] * 8]


def test_live_rows_are_full_where_the_goals_say_so():
    assert WORKLOADS["W1"].live_kernel_blocks(0) == 256 * 512
    assert WORKLOADS["W3"].live_kernel_blocks(8) == 8192 * 64
    assert WORKLOADS["W5"].live_kernel_blocks(0) == 32 * 125 * 66
    assert LONG_ROWS.live_kernel_blocks(0) == 1024 * 8192


@pytest.mark.parametrize("name", WORKLOADS)
def test_inputs_fit_and_repeat(name):
    workload = WORKLOADS[name].reduced()
    given, again = step_input(workload, 0), step_input(workload, 0)
    assert given.held == again.held
    assert given.new == again.new
    np.testing.assert_array_equal(given.positions, again.positions)
    assert len(set(given.rows)) == workload.requests
    assert max(given.rows) < workload.max_requests
    assert given.query_start_loc[-1] == len(given.positions) == workload.tokens
    for g, group in enumerate(workload.groups):
        ids = [b for lists in (*given.held, *given.new) for b in lists[g]]
        assert len(set(ids)) == len(ids) == workload.live_blocks(g)
        assert max(ids) < workload.num_blocks
        for i in range(workload.requests):
            own = given.positions[given.query_start_loc[i] : given.query_start_loc[i + 1]]
            assert (np.diff(own) == 1).all()
            blocks = len(given.held[i][g]) + len(given.new[i][g])
            assert own[0] >= 0
            assert own[-1] < blocks * group.block_size


@pytest.mark.parametrize("name", WORKLOADS)
def test_some_requests_end_at_the_last_slot_of_a_block(name):
    size = min(group.block_size for group in WORKLOADS[name].groups)
    given = [step_input(WORKLOADS[name].reduced(), turn) for turn in range(50)]
    ends = np.concatenate([one.positions[one.query_start_loc[1:] - 1] + 1 for one in given])
    is_last = ends % size == 0
    assert is_last.any()
    assert not is_last.all()


def test_sets_differ():
    workload = WORKLOADS["W1"].reduced()
    rows = [step_input(workload, turn) for turn in range(SETS)]
    assert SETS >= 3
    assert all(a.held != b.held for a, b in itertools.combinations(rows, 2))


def test_reduced_keeps_what_makes_a_workload():
    for workload in WORKLOADS.values():
        small = workload.reduced()
        assert [g.ratio for g in small.groups] == [g.ratio for g in workload.groups]
        assert len(small.parts) == len(workload.parts)
        pairs = zip(small.parts, workload.parts, strict=True)
        assert all(any(p.new) == any(q.new) for p, q in pairs)
        assert small.tokens < 200
        # rows and slots of others, which stay as they are
        assert small.requests < small.max_requests
        assert small.tokens < small.max_tokens


def test_a_batch_that_does_not_fit_is_refused():
    group = TableGroup(16, 16, 4)
    fits = Workload("X", "", (group,), (Part(2, (3,), (1,)),), 100, 2, 2)
    with pytest.raises(ValueError, match="more blocks than group 0 holds"):
        dataclasses.replace(fits, parts=(Part(2, (4,), (1,)),))
    with pytest.raises(ValueError, match="larger than its maxima"):
        dataclasses.replace(fits, max_tokens=1)


def test_a_token_count_is_what_every_group_holds():
    groups = (TableGroup(16, 16, 9), TableGroup(64, 64, 9))
    part = Part(1, (2, 1), (3, 0))
    workload = Workload("X", "", groups, (part,), 100, 1, 1)
    assert tokens_of(workload, part) == min(5 * 16, 1 * 64)


def test_names_choose():
    assert [w.name for w in chosen("workload", CASES, ["W3", "W1"])] == ["W3", "W1"]
    assert len(chosen("workload", CASES, [])) == 7
    with pytest.raises(ValueError, match=r"Invalid workload 'W8'.*W1, W2"):
        chosen("workload", CASES, ["W1", "W8"])


def test_bytes_of_a_step_by_hand():
    groups = (TableGroup(32, 16, 8), TableGroup(16, 16, 8))
    parts = (Part(2, (1, 3), (2, 0)), Part(1, (4, 4), (0, 0)))
    workload = Workload("X", "", groups, parts, 100, 4, 10)
    apply = 2 * 16 + 4 * 4 + 4 * 4
    gather = 4 * (10 + 20) + 4 * (10 + 10)
    slots = 2 * (3 * 20 + 7 * 8)
    assert workload.moved_bytes("gather") == gather
    assert workload.moved_bytes("slots") == slots
    assert workload.moved_bytes() == apply + gather + slots


def test_the_floor_is_bytes_or_launches():
    limits = Limits(copy_bytes_per_s=1e9, launch_s=2e-6)
    assert limits.floor_s(100, launches=2) == pytest.approx(4e-6)
    assert limits.floor_s(100, launches=1) == pytest.approx(2e-6)
    assert limits.floor_s(1_000_000, launches=2) == pytest.approx(1e-3)
