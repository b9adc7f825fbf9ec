"""The mistakes made on purpose do the damage they are there to show."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.block_table.cases import TableGroup
from workbench.kernels.block_table.damage import (
    gather_with_one_stride,
    generator_consumed_twice,
    slots_with_manager_size,
)
from workbench.kernels.block_table.landings import (
    NO_BLOCK,
    PAST_TABLE,
    Damage,
    Place,
    Scene,
)

GROUPS = (TableGroup(32, 16, 4), TableGroup(48, 16, 3), TableGroup(16, 16, 5))


def filled_scene(groups, tokens, num_blocks=None):
    """Return a scene whose blocks are handed out in order, from 1 on: 0 is the null block.

    num_blocks: of the pool; None for one that ends with the last block in use.
    """
    ids = iter(range(1, 1 << 31))
    blocks = tuple(
        tuple(tuple(next(ids) for _ in range(-(-n // g.block_size))) for g in groups)
        for n in tokens
    )
    return Scene(tuple(groups), tuple(tokens), blocks, num_blocks or next(ids))


SCENE = filled_scene(GROUPS, (40, 17, 63))


def test_a_scene_shares_no_block():
    blocks = [block for request in SCENE.block_ids for ids in request for block in ids]
    assert sorted(blocks) == list(range(1, SCENE.num_blocks))
    assert SCENE.owners[SCENE.block_ids[1][2][0]] == (1, 2)


def assert_true_to_itself(damage):
    assert len(damage.landings) == sum(SCENE.tokens) * len(GROUPS)
    for landing in damage.landings:
        own = SCENE.block_ids[landing.request][landing.group]
        size = GROUPS[landing.group].block_size
        assert landing.block in own
        assert landing.slot == own[landing.position // size] * size + landing.position % size
        assert landing.owner == SCENE.owners.get(landing.wrong_block)
        assert (landing.place == Place.PAST_POOL) == (landing.wrong_block >= SCENE.num_blocks)
        assert (landing.place == Place.OWN_SLOT) == (landing.slot == landing.wrong_slot)
        if landing.owner is None:
            assert landing.place not in {Place.OWN_BLOCKS, Place.OTHER_BLOCK}
        else:
            mine = landing.owner == (landing.request, landing.group)
            assert (landing.place == Place.OTHER_BLOCK) == (not mine)


def test_slots_with_the_manager_size():
    damage = slots_with_manager_size(SCENE)
    assert_true_to_itself(damage)
    # a group whose blocks are not split divides by the right size all the same
    assert {landing.group for landing in damage.harmed} == {0, 1}
    for landing in damage.landings:
        group = GROUPS[landing.group]
        size, ratio = group.block_size, group.ratio
        own = SCENE.block_ids[landing.request][landing.group]
        row = [block * ratio + part for block in own for part in range(ratio)]
        position = landing.position
        assert landing.wrong_slot == row[position // size] * size + position % size
    assert damage.hits_others
    assert damage.out_of_bounds == sum(
        landing.wrong_block >= SCENE.num_blocks for landing in damage.harmed
    )
    assert damage.out_of_bounds
    assert damage.entries_past_tables == 0


@pytest.mark.parametrize("num_blocks", [SCENE.num_blocks, 40, 1000])
def test_a_larger_pool_has_free_blocks_where_a_smaller_one_has_ended(num_blocks):
    small = slots_with_manager_size(SCENE)
    large = slots_with_manager_size(filled_scene(GROUPS, (40, 17, 63), num_blocks))
    assert large.num_blocks == num_blocks
    for before, after in zip(small.landings, large.landings, strict=True):
        expected = before.place
        if expected == Place.PAST_POOL and before.wrong_block < num_blocks:
            expected = Place.FREE_BLOCK
        assert (after.place, after.wrong_slot) == (expected, before.wrong_slot)


def test_dropped_tokens_are_not_in_the_scene():
    scene = Scene((TableGroup(16, 8, 3),), (40, 33), (((0, 0, 4),), ((0, 2, 3),)), 20)
    damage = slots_with_manager_size(scene)
    stored = [(landing.request, landing.position) for landing in damage.landings]
    assert stored == [(0, p) for p in range(32, 40)] + [(1, p) for p in range(16, 33)]
    assert 0 not in scene.owners


@pytest.mark.parametrize("stride_of", [0, 1, 2])
def test_gather_with_one_stride(stride_of):
    damage = gather_with_one_stride(SCENE, stride_of)
    assert_true_to_itself(damage)
    widths = [group.max_kernel_blocks for group in GROUPS]
    expected = {g for g in range(3) if widths[g] != widths[stride_of]}
    assert {landing.group for landing in damage.harmed} == expected
    places = {landing.wrong_slot: landing.place for landing in damage.harmed}
    assert places.get(NO_BLOCK, Place.NO_ENTRY) == Place.NO_ENTRY
    assert places.get(PAST_TABLE, Place.PAST_TABLE) == Place.PAST_TABLE
    assert {NO_BLOCK, PAST_TABLE} & places.keys()
    past = sum(landing.place == Place.PAST_TABLE for landing in damage.landings)
    assert damage.out_of_bounds == past
    # the widest table's stride leads out of the narrower ones
    assert (damage.entries_past_tables > 0) == (widths[stride_of] > min(widths))
    assert not past or damage.entries_past_tables


@pytest.mark.parametrize(("stride_of", "past"), [(0, 0), (1, 4)])
def test_entries_past_a_table_are_counted(stride_of, past):
    """Two rows of 2 entries, read and written 6 apart: entries 6 and 7 of 4, once on each side."""
    groups = (TableGroup(16, 16, 2), TableGroup(16, 16, 6))
    damage = gather_with_one_stride(filled_scene(groups, (32, 32)), stride_of)
    assert damage.entries_past_tables == past


def test_the_first_groups_stride_is_taken_by_default():
    assert gather_with_one_stride(SCENE).landings == gather_with_one_stride(SCENE, 0).landings
    assert gather_with_one_stride(SCENE).landings != gather_with_one_stride(SCENE, 1).landings


def test_gather_with_one_stride_finds_other_requests_rows():
    groups = (TableGroup(32, 32, 2), TableGroup(16, 16, 3))
    scene = Scene(groups, (48, 48), (((1, 2), (3, 4, 5)), ((6, 7), (8, 9, 10))), 11)
    damage = gather_with_one_stride(scene, 0)
    # 3 4 5 8 9 10 read 2 apart: request 1 begins at 5, which is request 0's
    assert {(x.request, x.owner) for x in damage.hits_others} == {(1, (0, 1))}


def test_a_generator_consumed_twice():
    damage = generator_consumed_twice(filled_scene(GROUPS, (40, 40)))
    new = [landing for landing in damage.landings if landing.request == 0]
    old = [landing for landing in damage.landings if landing.request == 1]
    assert not any(landing.is_harmed for landing in old)
    assert all(landing.owner == (1, landing.group) for landing in new)
    # request 1's own token at the same position is overwritten
    places = {(x.group, x.position): x.slot for x in old}
    assert all(places[x.group, x.position] == x.wrong_slot for x in new)


def test_a_generator_needs_two_requests_of_one_length():
    with pytest.raises(ValueError, match="two requests with the same number"):
        generator_consumed_twice(SCENE)


def test_without_split_blocks_or_different_widths_nothing_is_harmed():
    scene = filled_scene((TableGroup(16, 16, 4), TableGroup(16, 16, 4)), (20, 33))
    assert not slots_with_manager_size(scene).harmed
    assert not gather_with_one_stride(scene, 1).harmed


def test_a_damage_of_which_no_more_is_said_stays_in_its_tables():
    made = Damage(title="t", mistake="m", landings=(), num_blocks=4)
    assert (made.entries_past_tables, made.is_sample_pool, made.needs) == (0, False, "")
    assert (made.harmed, made.hits_others, made.out_of_bounds) == ((), (), 0)
