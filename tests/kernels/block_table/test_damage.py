"""The mistakes made on purpose do the damage they are there to show."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.block_table.cases import TableGroup
from workbench.kernels.block_table.damage import (
    NO_BLOCK,
    Scene,
    filled_scene,
    gather_with_one_stride,
    generator_handed_over_twice,
    slots_with_manager_size,
)

GROUPS = (TableGroup(32, 16, 4), TableGroup(48, 16, 3), TableGroup(16, 16, 5))
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
        assert landing.behind_pool == (landing.wrong_block >= SCENE.num_blocks)


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
    assert any(landing.behind_pool for landing in damage.harmed)


@pytest.mark.parametrize("stride_of", [0, 1, 2])
def test_gather_with_one_stride(stride_of):
    damage = gather_with_one_stride(SCENE, stride_of)
    assert_true_to_itself(damage)
    widths = [group.max_kernel_blocks for group in GROUPS]
    expected = {g for g in range(3) if widths[g] != widths[stride_of]}
    assert {landing.group for landing in damage.harmed} == expected
    assert any(landing.wrong_slot == NO_BLOCK for landing in damage.harmed)


def test_gather_with_one_stride_finds_other_requests_rows():
    groups = (TableGroup(32, 32, 2), TableGroup(16, 16, 3))
    scene = Scene(groups, (48, 48), (((1, 2), (3, 4, 5)), ((6, 7), (8, 9, 10))))
    damage = gather_with_one_stride(scene, 0)
    # 3 4 5 8 9 10 read 2 apart: request 1 begins at 5, which is request 0's
    assert {(x.request, x.owner) for x in damage.hits_others} == {(1, (0, 1))}


def test_a_generator_handed_over_twice():
    damage = generator_handed_over_twice(GROUPS, 40)
    new = [landing for landing in damage.landings if landing.request == 0]
    old = [landing for landing in damage.landings if landing.request == 1]
    assert not any(landing.is_harmed for landing in old)
    assert all(landing.owner == (1, landing.group) for landing in new)
    # request 1's own token at the same position is overwritten
    places = {(x.group, x.position): x.slot for x in old}
    assert all(places[x.group, x.position] == x.wrong_slot for x in new)


def test_without_split_blocks_or_different_widths_nothing_is_harmed():
    scene = filled_scene((TableGroup(16, 16, 4), TableGroup(16, 16, 4)), (20, 33))
    assert not slots_with_manager_size(scene).harmed
    assert not gather_with_one_stride(scene, 1).harmed
