"""Requests come, decode, move and go through real kernels; every step agrees with the oracle."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.core.tables.block_pool import PoolIsEmptyError
from workbench.core.tables.rows import expanded_row
from workbench.kernels.block_table.landings import Place
from workbench.kernels.mode import triton_mode
from workbench.labs.tables.blocks import SAMPLE_BLOCKS
from workbench.labs.tables.mistakes import MISTAKES, make_mistake
from workbench.labs.tables.session import TableSession, TableSessionError

WRONG_SIZE = "slots computed with the manager block size"
SMALL = {"max_model_len": 4096, "max_num_batched_tokens": 2048, "num_gpu_blocks_override": 60}
SCENARIOS = {
    "states, no caching": {"model": "nemotron-3-nano-30b-a3b", "tensor_parallel": 4},
    "align, FlashInfer": {
        "model": "qwen3.5-4b",
        "backend": "FLASHINFER",
        "enable_prefix_caching": True,
    },
    "all": {
        "model": "nemotron-3-nano-30b-a3b",
        "tensor_parallel": 4,
        "enable_prefix_caching": True,
    },
    "drafts": {"model": "qwen3.5-4b", "num_speculative_tokens": 2},
    "attention only": {"model": "llama-3.1-8b", "block_size": 32, "max_model_len": 512},
}


def plan_of(name="states, no caching", **values):
    return wb.resolve(**{**SMALL, **SCENARIOS[name], **values})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", ["fast", "faithful"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_life_of_a_batch(name, path):
    session = TableSession(plan_of(name), parse_batch("q70_2q1s200"), path)
    free = session.launch().free_blocks
    steps = [session.decode(), session.decode(3), session.finish(1)]
    assert steps[-1].free_blocks > free
    steps += [session.admit(BatchRequest(30, 60)), session.move(2, session.free_rows[-1])]
    for step in steps:
        assert step.mismatch is None, (step.title, step.mismatch)
        for group in step.groups:
            assert len(group.table) == len(step.rows) == 2 + (step in steps[:2] + steps[3:])
    assert steps[3].rows[-1].request == 1
    assert steps[3].rows[-1].query_tokens == 30


@pytest.mark.parametrize("path", ["fast", "faithful"])
@pytest.mark.parametrize("name", ["states, no caching", "align, FlashInfer", "drafts"])
def test_tables_of_0_33_hold_manager_blocks_and_the_slots_are_the_same(name, path):
    batch = parse_batch("q70_2q1s200")
    new = TableSession(plan_of(name, rules="0.33", enable_prefix_caching=True), batch, path)
    step = new.launch()
    assert (step.mismatch, new.decode(3).mismatch) == (None, None)
    for group in step.groups:
        assert group.table_holds == group.source_holds == "manager blocks"
        assert group.table == group.blocks
        ratio = group.attention_ratio
        assert group.attention_table == tuple(expanded_row(row, ratio) for row in group.blocks)
    attention = step.attention_group
    traced = step.slot(attention, 0, 69)
    assert "manager blocks" in traced.rule.formula
    shown, kernel = step.groups[attention], step.groups[attention].attention_kernel_block_size
    assert traced.result == shown.slots[69]
    assert shown.attention_table[0][69 // kernel] * kernel + 69 % kernel == shown.slots[69]


def test_flashinfer_splits_a_block_after_the_table():
    plan = plan_of("align, FlashInfer", rules="0.33", gdn_flashinfer_prefill=False)
    step = TableSession(plan, parse_batch("q70")).launch()
    group = next(group for group in step.groups if not group.is_mamba)
    assert (group.ratio, group.attention_ratio) == (1, group.block_size // 16)
    blocks = step.kernel_blocks(step.groups.index(group), group.blocks[0][0])
    assert blocks.result == group.attention_table[0][: group.attention_ratio]
    assert "0.33" in blocks.source


def test_the_two_paths_give_the_same_tables_and_slots():
    plan = plan_of("align, FlashInfer", max_num_batched_tokens=4096)
    fast, faithful = (
        TableSession(plan, parse_batch("q1500_2q1s900"), path).launch()
        for path in ("fast", "faithful")
    )
    assert fast.groups[0].source_holds != faithful.groups[0].source_holds
    for one, other in zip(fast.groups, faithful.groups, strict=True):
        assert (one.table, one.slots) == (other.table, other.slots)
    if triton_mode().mode == "interpreter":  # a GPU counts nothing
        assert fast.counted.launches < faithful.counted.launches


def test_align_keeps_two_states_and_null_blocks_before_them():
    plan = plan_of("align, FlashInfer")
    session = TableSession(plan, parse_batch("q1s2000"))
    step = session.launch()
    states = next(group for group in step.groups if group.is_mamba)
    [row] = states.blocks
    assert len(row) == -(-2000 // states.block_size)
    assert set(row[:-2]) == {0}
    assert 0 not in row[-2:]


def test_a_broken_kernel_would_be_seen(monkeypatch):
    session = TableSession(plan_of(), parse_batch("q70"))
    launch = session.tables.step

    def wrong(*args, **kwargs):
        launch(*args, **kwargs)
        session.tables.slot_mapping[-1, 3] += 1

    monkeypatch.setattr(session.tables, "step", wrong)
    assert "slots: entry 3" in session.launch().mismatch


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("act", "error", "said"),
    [
        (lambda s: s.decode(0), ScenarioError, "from 1 to"),
        (lambda s: s.decode(5000), TableSessionError, "longer than max_model_len"),
        (lambda s: s.admit(BatchRequest(3000, 3000)), TableSessionError, "token budget"),
        (lambda s: s.finish(7), TableSessionError, r"live rows: \[0, 1\]"),
        (lambda s: s.move(0, 1), TableSessionError, "row 1 is not free"),
        (lambda s: s.move(0, 99), TableSessionError, "row 99 is not free"),
    ],
)
def test_what_cannot_be_done_changes_nothing(act, error, said):
    session = TableSession(plan_of(), parse_batch("2q70"))
    before = session.launch()
    with pytest.raises(error, match=said):
        act(session)
    after = session.decode()
    assert after.mismatch is None
    assert after.free_blocks == before.free_blocks
    assert [row.sequence_tokens for row in after.rows] == [71, 71]


def test_a_pool_that_runs_out_says_so_and_loses_nothing():
    session = TableSession(plan_of(num_gpu_blocks_override=13), parse_batch("2q70"))
    assert session.launch().free_blocks == 2
    with pytest.raises(PoolIsEmptyError, match="5 more blocks needed, and 2"):
        session.admit(BatchRequest(10, 10))
    assert session.decode().free_blocks == 2
    session.finish(0)
    assert session.admit(BatchRequest(10, 10)).mismatch is None


def test_a_smaller_batch_has_zeroed_rows_and_those_that_wait_keep_their_blocks():
    session = TableSession(plan_of(), parse_batch("5q70"))
    before = session.launch()
    small = session.shrink()
    assert small.mismatch is None  # the oracle's padded rows are all 0
    assert [row.request for row in small.rows] == [0, 1, 2]
    assert session.live_rows == (0, 1, 2, 3, 4)
    assert 3 not in session.free_rows
    assert session.finish(4).free_blocks == before.free_blocks + 5
    again = session.grow_back()
    assert again.mismatch is None
    assert [(row.request, row.sequence_tokens) for row in again.rows] == [
        (0, 73),
        (1, 73),
        (2, 73),
        (3, 71),
    ]


def test_blocks_before_a_sliding_window_are_dropped():
    plan = wb.resolve(model="gemma-3-27b", kv_cache_memory_bytes="20 GiB")
    step = TableSession(plan, parse_batch("2q1s30000")).launch()
    assert step.mismatch is None
    window = next(group for group in plan.cache.groups if group.spec.window_tokens)
    index = plan.cache.groups.index(window)
    [first, _second] = step.groups[index].blocks
    dropped = (29_999 - (window.spec.window_tokens - 1)) // window.spec.block_size
    assert first[:dropped] == (0,) * dropped
    assert 0 not in first[dropped:]


def test_a_pool_without_blocks_is_refused():
    with pytest.raises(TableSessionError, match="nothing can be stored"):
        TableSession(plan_of(num_gpu_blocks_override=None, kv_cache_memory_bytes=10), "q70")


def test_a_move_without_a_free_row_is_refused():
    session = TableSession(plan_of(), parse_batch("q70"))
    session.launch()
    for _ in range(4):
        session.admit(BatchRequest(5, 5))
    with pytest.raises(TableSessionError, match="rows are taken"):
        session.move(0)


def test_the_last_request_cannot_leave_an_empty_batch():
    session = TableSession(plan_of(), parse_batch("q70"))
    session.launch()
    with pytest.raises(TableSessionError, match="No request would remain"):
        session.finish(0)


def test_slots_and_blocks_by_hand():
    step = TableSession(plan_of(), parse_batch("q70_q1s1500")).launch()
    attention = step.attention_group
    group = step.groups[attention]
    traced = step.slot(attention, 1, 1499)
    assert traced.result == group.slots[step.num_tokens - 1]
    blocks = step.kernel_blocks(attention, group.blocks[1][0]).result
    assert blocks == group.table[1][: group.ratio]
    assert wb.check(list(blocks), step.kernel_blocks(attention, group.blocks[1][0])).ok
    assert not wb.check(traced.result + 1, traced).ok
    with pytest.raises(ValueError, match="has no block"):
        step.slot(attention, 0, 5000)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_can_be_made_on_tables_of_0_33(name):
    damage = make_mistake(plan_of(rules="0.33"), parse_batch("2q1s1500"), name).damage
    assert len(damage.harmed) <= len(damage.landings)


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_harms_tokens(name):
    damage = make_mistake(plan_of(), parse_batch("2q1s1500"), name).damage
    assert damage.harmed
    assert len(damage.harmed) <= len(damage.landings)


@pytest.mark.parametrize("num_blocks", [60, 10_000])
def test_a_wrong_slot_is_placed_in_the_pool_of_the_plan(num_blocks):
    """Past the last block is out of the cache; in a larger pool the same slot is in a block."""
    plan = plan_of(num_gpu_blocks_override=num_blocks)
    damage = make_mistake(plan, parse_batch("2q1s1500"), WRONG_SIZE).damage
    assert (damage.num_blocks, damage.is_sample_pool) == (num_blocks, False)
    [group] = {landing.group for landing in damage.harmed}
    block_size = plan.cache.groups[group].spec.block_size
    end = num_blocks * block_size
    past = [landing for landing in damage.landings if landing.place == Place.PAST_POOL]
    assert past == [landing for landing in damage.landings if landing.wrong_slot >= end]
    assert bool(past) == (num_blocks == 60)
    assert damage.out_of_bounds == len(past)
    inside = [landing for landing in damage.harmed if landing.wrong_slot < end]
    owned = {landing.slot // block_size for landing in damage.landings}
    for landing in inside:
        is_owned = landing.wrong_slot // block_size in owned
        assert (landing.place == Place.FREE_BLOCK) == (not is_owned)
        assert landing.hits_other == (landing.place == Place.OTHER_BLOCK)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_pool_of_unknown_memory_is_called_a_sample(name):
    plan = plan_of(num_gpu_blocks_override=None)
    assert plan.cache.num_blocks is None
    damage = make_mistake(plan, parse_batch("2q1s1500"), name).damage
    assert (damage.num_blocks, damage.is_sample_pool) == (SAMPLE_BLOCKS, True)
    assert TableSession(plan, parse_batch("q70")).launch().is_sample_pool
    assert not TableSession(plan_of(), parse_batch("q70")).launch().is_sample_pool


def test_a_mistake_needs_a_pool_that_holds_its_batch():
    with pytest.raises(PoolIsEmptyError):
        make_mistake(plan_of(num_gpu_blocks_override=5), parse_batch("2q1s1500"), WRONG_SIZE)
    with pytest.raises(TableSessionError, match="max_model_len"):
        make_mistake(plan_of(), parse_batch("q1s4097"), WRONG_SIZE)


@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_window_has_dropped_is_not_a_token_of_the_scene(name):
    plan = wb.resolve(model="gemma-3-27b", kv_cache_memory_bytes="20 GiB")
    damage = make_mistake(plan, parse_batch("2q1s5000"), name).damage
    stored = {(landing.group, landing.position) for landing in damage.landings}
    for index, group in enumerate(plan.cache.groups):
        window, size = group.spec.window_tokens, group.spec.block_size
        dropped = 0 if window is None else (4999 - (window - 1)) // size * size
        assert min(position for g, position in stored if g == index) == dropped
    assert all(landing.block for landing in damage.landings)


def test_a_mistake_that_does_not_exist_and_a_batch_too_long():
    with pytest.raises(ScenarioError, match=f"Nearest: {WRONG_SIZE}"):
        make_mistake(plan_of(), parse_batch("q1"), "slots with the manager block size")
    with pytest.raises(ScenarioError, match="too many to check"):
        make_mistake(plan_of(), parse_batch("20q1s2k"), WRONG_SIZE)
