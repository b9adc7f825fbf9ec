"""Properties of slots: every token has its own, in a block of its own request."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import hypothesis.strategies as st
from hypothesis import given, settings

from tests.kernels.block_table.cases import (
    PAD_SLOT,
    PATHS,
    CheckedTables,
    ContextParallel,
    TableGroup,
    packed,
)
from workbench.kernels.block_table.groups import nearest_divisor
from workbench.kernels.block_table.reference import expand_ids, slot_of

both_paths = pytest.mark.parametrize("path", PATHS)
BLOCK_SIZES = (16, 528, 784, 1056, 2096)


def shared_out(groups, lengths, path, parallel, max_tokens):
    """Tables whose rows share no block, all tokens in one step."""
    tables = CheckedTables(
        groups, path, max_requests=len(lengths), max_tokens=max_tokens, parallel=parallel
    )
    spare = [iter(range(4999, 0, -1)) for _ in groups]
    for request, length in enumerate(lengths):
        needed = [-(-length // (g.block_size * parallel.size)) for g in groups]
        tables.append(request, [[next(spare[g]) for _ in range(n)] for g, n in enumerate(needed)])
    tables.step(list(range(len(lengths))), *packed(lengths))
    return tables


@both_paths
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_no_two_tokens_share_a_slot_and_each_is_in_its_requests_blocks(path, block_size):
    groups = [TableGroup(block_size, 16, 60), TableGroup(block_size, block_size, 60)]
    lengths = [63, 1, block_size + 1 if block_size < 1000 else 200]
    tables = shared_out(groups, lengths, path, ContextParallel(), sum(lengths) + 3)
    _, positions = packed(lengths)
    owners = [request for request, n in enumerate(lengths) for _ in range(n)]
    for g, group in enumerate(groups):
        slots = tables.tables.slot_mapping[g].tolist()
        assert len({*slots[:-3]}) == sum(lengths)
        assert slots[-3:] == [PAD_SLOT] * 3
        size = group.kernel_block_size
        for slot, owner, position in zip(slots[:-3], owners, positions, strict=True):
            assert slot // size in tables.model.row(g, owner)
            assert slot % size == position % size


@both_paths
@pytest.mark.parametrize("interleave", [1, 16])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("block_size", [16, 784])
def test_each_token_is_local_to_exactly_one_rank(path, block_size, size, interleave):
    groups = [TableGroup(block_size, 16, 20)]
    lengths = [63, 0, 150]
    found = [
        shared_out(groups, lengths, path, ContextParallel(size, rank, interleave), 220)
        .tables.slot_mapping[0]
        .tolist()
        for rank in range(size)
    ]
    for token in range(sum(lengths)):
        assert sum(slots[token] != PAD_SLOT for slots in found) == 1
    for slots in found:
        assert slots[213:] == [PAD_SLOT] * 7
        stored = [slot for slot in slots if slot != PAD_SLOT]
        assert len(set(stored)) == len(stored)


@both_paths
def test_padding_is_overwritten_after_a_larger_batch(path):
    tables = CheckedTables([TableGroup(32, 16, 4)], path, max_requests=4, max_tokens=600)
    for request in range(4):
        tables.fill(request, 120)
    tables.step([0, 1, 2, 3], *packed([120] * 4))
    tables.step([2], *packed([3]))
    assert set(tables.tables.slot_mapping[0, 3:].tolist()) == {PAD_SLOT}


@both_paths
@pytest.mark.parametrize("place", [128, 10**6, 2**31, 2**40, -1])
@pytest.mark.parametrize("size", [1, 2])
def test_a_dummy_token_may_be_anywhere(path, place, size):
    """VLLM masks what belongs to no request, wherever it is; its slots are padding."""
    parallel = ContextParallel(size, 0, 16)
    tables = CheckedTables(
        [TableGroup(32, 16, 4)], path, max_requests=4, max_tokens=9, parallel=parallel
    )
    tables.fill(1, 100)
    tables.step([-1, 1, -1], [0, 2, 5, 6], [place, 3, 90, 91, 99, place])
    assert tables.tables.slot_mapping[0].tolist().count(PAD_SLOT) >= 6


@both_paths
@pytest.mark.parametrize("block_size", [528, 784, 1024])
def test_positions_up_to_a_million(path, block_size):
    blocks = -(-(2**20) // block_size)
    tables = CheckedTables(
        [TableGroup(block_size, 16, blocks)], path, max_requests=1, max_tokens=12
    )
    tables.append(0, [[(7 * i) % 4999 for i in range(blocks)]])
    positions = [0, block_size - 1, block_size, 2**19 - 1, 2**19, 2**20 - block_size, 2**20 - 1]
    tables.apply()
    tables.tables.slot_mappings([0], [0, len(positions)], positions)
    tables.assert_slots([0], [0, len(positions)], positions)


@given(data=st.data())
@settings(max_examples=25)
@both_paths
def test_random_batches_have_the_models_slots(path, data):
    sizes = st.sampled_from([(16, 16), (34, 17), (12, 4), (1, 1), (96, 32)])
    groups = [
        TableGroup(*data.draw(sizes), max_blocks=data.draw(st.sampled_from([200, 261])))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    size = data.draw(st.sampled_from([1, 2, 3, 4]))
    smallest = min(group.kernel_block_size for group in groups)
    interleave = nearest_divisor(smallest, data.draw(st.sampled_from([1, 4, 16])))
    if any(group.kernel_block_size % interleave for group in groups):
        interleave = 1
    parallel = ContextParallel(size, data.draw(st.integers(0, size - 1)), interleave)
    lengths = data.draw(st.lists(st.integers(0, 190), min_size=1, max_size=4))
    shared_out(groups, lengths, path, parallel, sum(lengths) + data.draw(st.integers(1, 5)))


@given(
    ids=st.lists(st.integers(0, 10**6), max_size=9),
    first=st.integers(1, 131),
    second=st.integers(1, 66),
)
def test_expansion_composes_and_1_is_identity(ids, first, second):
    assert expand_ids(ids, 1) == tuple(ids)
    assert expand_ids(expand_ids(ids, first), second) == expand_ids(ids, first * second)


@given(
    ids=st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    kernel=st.sampled_from([1, 16, 24]),
    ratio=st.integers(1, 66),
    size=st.sampled_from([1, 2, 4]),
    data=st.data(),
)
def test_unexpanded_ids_and_manager_sizes_give_the_same_slot(ids, kernel, ratio, size, data):
    """What the fast path rests on: true as long as the interleave divides the kernel block."""
    interleave = data.draw(st.sampled_from([i for i in (1, 2, 8, 16, 24) if kernel % i == 0]))
    parallel = ContextParallel(size, data.draw(st.integers(0, size - 1)), interleave)
    position = data.draw(st.integers(0, len(ids) * kernel * ratio * size - 1))
    expanded = slot_of(expand_ids(ids, ratio), position, kernel, parallel)
    assert slot_of(ids, position, kernel * ratio, parallel) == expanded
