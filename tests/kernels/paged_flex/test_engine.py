"""The engine's path: inverse table, direct block lists, physical mask, and its result."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.paged_flex.cases import DEVICE, Case, requests
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.engine import (
    direct_block_lists,
    direct_mask,
    engine_attention,
    first_occurrences,
    generic_mask,
    physical_to_logical,
    prepare_engine,
    slots_of,
    tile_of,
)
from workbench.kernels.paged_flex.reference import agreement
from workbench.kernels.paged_flex.work import paged_batch

# 12 blocks of 16; the third row holds block 4 twice, and all have entries after their end
ROWS = [[3, 5, 1, 7, 4, 2, 9, 6], [8, 10, 11, 5, 0, 0, 0, 0], [4, 4, 11, 0, 0, 0, 0, 0]]
LENGTHS = (50, 17, 40)
QUERIES = (0, 1, 4, 20)
EXAMPLES = settings.default.max_examples


def example():
    table = torch.tensor(ROWS, dtype=torch.int32, device=DEVICE)
    return paged_batch(QUERIES, LENGTHS, table, num_blocks=12, entry_tokens=16)


def lists(q_block, **options):
    found = direct_block_lists(slots_of(example(), 16, 12, DEVICE), q_block, **options)
    return [[block for block in row if block >= 0] for row in found.tolist()]


def test_the_inverse_table_as_vllm_builds_it():
    table, lengths = torch.tensor(ROWS), torch.tensor(LENGTHS)
    inverse = physical_to_logical(table, lengths, 16, 12)
    found = [{b: n for b, n in enumerate(row) if n >= 0} for row in inverse.tolist()]
    assert found == [{1: 2, 3: 0, 5: 1, 7: 3}, {8: 0, 10: 1}, {4: 1, 11: 2}]


def test_a_slot_is_a_key_of_the_request_that_holds_its_block():
    slots = slots_of(example(), 16, 12, DEVICE)
    tokens, pool = torch.arange(QUERIES[-1]), torch.arange(12 * 16)
    grid = (one.to(DEVICE) for one in torch.meshgrid(tokens, pool, indexing="ij"))
    request, position, key, valid = slots.places(*grid)
    for i, row in enumerate(request[:, 0].tolist()):
        assert QUERIES[row] <= i < QUERIES[row + 1]
        # queries are the last tokens
        assert set(position[i].tolist()) == {LENGTHS[row] - QUERIES[row + 1] + i}
        held = {int(slot): int(key[i, slot]) for slot in valid[i].nonzero()}
        assert {(ROWS[row][k // 16], k % 16) for k in held.values()} == {
            divmod(slot, 16) for slot in held
        }
        # the third row has a block twice: its later place counts
        assert sorted(held.values()) == [*range(16 if row == 2 else 0, LENGTHS[row])]


def test_blocks_in_the_order_in_which_vllm_023_visits_them():
    assert first_occurrences(torch.tensor([[3, 1, 0, 1, 2]])).tolist() == [[3, 1, 2, -1, -1]]
    assert lists(16) == [[3, 5, 1, 7, 8, 10, 11, 4], [4, 11]]
    assert lists(8) == [[3, 5, 1, 7, 8, 10, 11, 4], [4, 11], [4, 11]]


def test_pruned_lists_keep_a_requests_own_order_as_in_033():
    """The stale column 11 of the second request moved the third one's pages above."""
    assert lists(16, prune=True) == [[3, 5, 1, 7, 8, 10, 4, 11], [4, 11]]
    assert lists(8, prune=True) == [[3, 5, 1, 7, 8, 10, 4], [4, 11], [4, 11]]


@pytest.mark.parametrize("window", [1, 2, 3, 16, 17, 18, 50])
def test_a_windows_lists_begin_with_the_block_of_its_first_key(window):
    """Lists of one query: its row's columns up to the longest request's."""
    expected = []
    for row, held in enumerate(ROWS):
        count = QUERIES[row + 1] - QUERIES[row]
        for position in range(LENGTHS[row] - count, LENGTHS[row]):
            first = max(position - window + 1, 0) // 16
            expected.append(list(dict.fromkeys(block for block in held[first:4] if block)))
    assert lists(1, window=window) == expected


@pytest.mark.parametrize("prune", [False, True])
def test_a_list_holds_no_id_that_is_outside_of_the_cache(prune):
    """Entries after a request's end may be anything; those of a block are visited by 0.23 alone."""
    table = torch.tensor([[3, 11, 5, -1], [8, 12, 11, -(2**31)], [9, 13, 2**31 - 1, 6]]).int()
    lengths, queries = (40, 16, 10), (0, 1, 2, 3)
    batch = paged_batch(queries, lengths, table.to(DEVICE), num_blocks=12, entry_tokens=16)
    found = direct_block_lists(slots_of(batch, 16, 12, DEVICE), 1, prune=prune)
    tail = [8, -1, -1] if prune else [8, 11, -1]
    assert found.tolist() == [[3, 11, 5], tail, [9, -1, -1]]


@pytest.mark.parametrize(("q_block", "groups"), [(1, 20), (8, 3), (16, 2), (32, 1)])
def test_a_list_has_room_for_every_column_of_its_queries(q_block, groups):
    """As vLLM's tensor: the longest request has 50 tokens, 4 columns."""
    found = direct_block_lists(slots_of(example(), 16, 12, DEVICE), q_block)
    assert found.shape == (groups, q_block * 4)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.lists(st.integers(-3, 9), min_size=7, max_size=7), min_size=1, max_size=5))
def test_first_occurrences_are_a_dictionarys(rows):
    expected = []
    for row in rows:
        seen = list(dict.fromkeys(value for value in row if value > 0))
        expected.append(seen + [-1] * (7 - len(seen)))
    assert first_occurrences(torch.tensor(rows)).tolist() == expected


@settings(max_examples=EXAMPLES // 4)
@given(st.permutations(range(1, 10)), st.integers(1, 48), st.integers(1, 48), st.data())
def test_inverting_is_looking_up(blocks, first, second, data):
    table = torch.tensor([[*blocks[:3], 10**6], [*blocks[3:6], -7]])
    lengths = torch.tensor([first, second])
    inverse = physical_to_logical(table, lengths, 16, 10)
    request = data.draw(st.integers(0, 1))
    position = data.draw(st.integers(0, int(lengths[request]) - 1))
    block = int(table[request, position // 16])
    assert inverse[request, block] == position // 16
    assert int((inverse[request] >= 0).sum()) == -(-int(lengths[request]) // 16)


@pytest.mark.parametrize("window", [0, 20])
def test_a_block_list_misses_no_visible_key(window):
    case = Case(requests((50, 20), (40, 5), (20, 1)), 16)
    mask = masks.sliding_window(window) if window else masks.causal()
    slots = slots_of(case.batch, 16, len(case.cache), DEVICE)
    dense = generic_mask(slots, mask, 16, 16).to_dense()[0, 0].bool()
    for prune in (False, True):
        found = direct_block_lists(slots, 16, window=window, prune=prune)
        for group, blocks in enumerate(found.tolist()):
            needed = set(dense[group].nonzero().flatten().tolist())
            assert needed <= set(blocks)


SCORES = {"no score": None, "soft cap": masks.soft_cap(2.0), "alibi": masks.alibi([0.3, 0.01])}
MASKS = {
    "causal": masks.causal(),
    "window": masks.sliding_window(20),
    "prefix": masks.prefix_lm([[(3, 75)], [(0, 39)]]),
    "documents": masks.document([[10, 60, 30], [20, 30]]),
    "chunks": masks.chunked(24),
    "full": masks.full(),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "score"),
    [*((name, "no score") for name in MASKS), ("causal", "soft cap"), ("window", "alibi")],
)
def test_eager_agrees_with_float64_and_with_our_kernel(name, score):
    mask, change = MASKS[name], SCORES[score]
    case = Case(requests((80, 20), (40, 1)), 16, poison=0.0, padding=2, layout="planes")
    arguments = (case.query, case.cache, case.batch)
    result = engine_attention(*arguments, mask=mask, score=change)
    assert agreement(result, *arguments, mask, change).ok
    if score == "no score":
        assert (case.check(mask) - result).abs().max() < 1e-5


def test_unlike_ours_it_multiplies_what_it_masks():
    case = Case(requests((20, 3)), 16)
    causal = masks.causal()
    if DEVICE == "cpu":
        assert engine_attention(case.query, case.cache, case.batch, mask=causal).isnan().any()
    assert not case.check(causal).isnan().any()


def test_a_block_mask_has_the_lists_and_the_cache_as_its_keys():
    slots = slots_of(example(), 16, 12, DEVICE)
    direct = direct_mask(slots, masks.causal(), 16)
    assert direct.kv_num_blocks.flatten().tolist() == [8, 2]
    assert direct.shape == (1, 1, 20, 12 * 16)
    assert direct.BLOCK_SIZE == (16, 16)
    assert direct.full_kv_num_blocks is None


@pytest.mark.parametrize(
    ("block", "tile"), [(16, 16), (528, 16), (48, 16), (64, 64), (1056, 32), (128, 64)]
)
def test_a_tile_divides_its_mask_block(block, tile):
    assert tile_of(block) == tile


def test_tiles_that_are_given_go_to_the_compiler():
    case = Case(requests((80, 20)), 16, poison=0.0)
    arguments = (case.query, case.cache, case.batch)
    call = prepare_engine(*arguments, mask=masks.causal(), block_m=8, compiled=True)
    # on a CPU torch chooses what is not given
    others = {} if DEVICE == "cpu" else {"BLOCK_N": 16}
    expected = {"FORCE_USE_FLEX_ATTENTION": True, "BLOCK_M": 8, **others}
    assert call.arguments["kernel_options"] == expected


def test_a_batch_invariant_call_has_one_variant_for_every_length():
    case = Case(requests((80, 20)), 16, poison=0.0)
    call = prepare_engine(
        case.query, case.cache, case.batch, mask=masks.causal(), batch_invariant=True, compiled=True
    )
    assert call.arguments["kernel_options"]["IS_DIVISIBLE"] is False


@pytest.mark.parametrize("heads", [2, 4])
def test_a_call_is_that_of_023_where_nothing_else_is_said(heads):
    query = torch.zeros(QUERIES[-1], heads, 64, device=DEVICE)
    cache = torch.zeros(12, 2, 16, 2, 64, device=DEVICE)

    def prepared(**options):
        return prepare_engine(query, cache, example(), mask=masks.causal(), **options)

    def counts(**options):
        return prepared(**options).block_mask.kv_num_blocks.flatten().tolist()

    call = prepared()
    assert not call.compiled
    assert call.block_mask.BLOCK_SIZE == (16, 16)
    assert call.arguments["kernel_options"] is None
    assert call.arguments["enable_gqa"] == (heads > 2)
    assert counts() == counts(q_block=16, kv_block=16) == [8, 2]
    for others in ({"prune": True}, {"window": 1}):
        assert counts(q_block=8, **others) == [len(blocks) for blocks in lists(8, **others)]
        assert counts(q_block=8, **others) != counts(q_block=8)


def test_what_this_path_refuses():
    case = Case(requests((80, 20)), 16, ratio=3, poison=0.0)
    arguments = (case.query, case.cache, case.batch)
    with pytest.raises(PagedFlexError, match="one kernel block per entry"):
        engine_attention(*arguments, mask=masks.causal())
    case = Case(requests((80, 20)), 16, poison=0.0)
    arguments = (case.query, case.cache, case.batch)
    for tile, field in (({"block_m": 32}, "block_m"), ({"block_n": 32}, "block_n")):
        with pytest.raises(PagedFlexError, match="must divide the mask block of 16") as caught:
            engine_attention(*arguments, mask=masks.causal(), **tile)
        assert caught.value.field == field


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kv_block", "mask"),
    [
        (32, "window"),
        *(
            pytest.param(*others, marks=pytest.mark.thorough)
            for others in ((None, "causal"), (None, "window"), (32, "causal"))
        ),
    ],
)
def test_compiled_agrees_with_float64(kv_block, mask):
    torch._dynamo.reset()
    case = Case(requests((80, 20), (40, 1), heads=4, kv_heads=2), 16, poison=0.0, spare=8)
    arguments = (case.query, case.cache, case.batch)
    mask = MASKS[mask]
    result = engine_attention(*arguments, mask=mask, kv_block=kv_block, compiled=True)
    assert np.isfinite(result.cpu().numpy()).all()
    assert agreement(result, *arguments, mask).ok


@pytest.mark.parametrize("kv_block", [None, 32])
def test_a_batch_without_queries_is_refused(kv_block):
    """Torch's masks have no form for it."""
    table = torch.zeros(1, 4, dtype=torch.int32, device=DEVICE)
    batch = paged_batch((0, 0), (5,), table, num_blocks=12, entry_tokens=16)
    query = torch.zeros(3, 2, 64, device=DEVICE)
    cache = torch.zeros(12, 2, 16, 2, 64, device=DEVICE)
    with pytest.raises(PagedFlexError, match="no query"):
        engine_attention(query, cache, batch, mask=masks.causal(), kv_block=kv_block)
