"""Every byte of small pages: one meaning, and the way back."""

from collections import Counter
from itertools import chain

import pytest

from tests.core.byte_map_cases import (
    ATTENTION_BACKENDS,
    PACKED,
    geometry_for,
    packed_group,
    small_group,
    state_group,
)
from tests.groups import in_groups
from tests.labs.small_views import hybrid
from workbench.core.byte_map.cuts import Part
from workbench.core.byte_map.groups import GroupBytes
from workbench.core.byte_map.parts import PAGE_RECORDS, RECORDS, attention_parts
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.hybrid_rewrite import GUESSED_UNCHECKED, NEVER
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.view import View, joined
from workbench.core.versions.v0_23 import layouts

BLOCKS = (1, 2, 3, 7)
RATIOS = (1, 2, 33)


def assert_exact(group):
    """L1 to L3 byte by byte: disjoint, covering with the padding, and a bijection."""
    seen = Counter()
    for byte in range(group.raw_bytes):
        meaning = group.meaning(byte)
        if meaning.is_padding and meaning.value is None:
            assert any(byte in gap for gap in group.padding(meaning.page))
            continue
        place = (meaning.part, meaning.block, meaning.kernel_block, meaning.token, meaning.head)
        seen[(*place, meaning.value, meaning.last_value, meaning.byte_in_value)] += 1
        found = group.ranges(
            meaning.block,
            kernel_block=meaning.kernel_block,
            part=meaning.part,
            token=meaning.kernel_token,
            head=meaning.head,
            value=meaning.value,
        )
        assert any(byte in piece for piece in found), (byte, meaning)
    bits = {part.name: part.bits for part in group.parts}
    # Values of 3 bits share bytes unevenly: there, a byte is named by its first and last value.
    assert all(count == 1 for place, count in seen.items() if bits[place[0]] != 3)
    assert sum(seen.values()) + sum(
        len(gap) for page in range(group.raw_bytes // group.page_bytes)
        for gap in group.padding(page)
    ) == group.raw_bytes  # fmt: skip


@pytest.mark.parametrize("backend", ATTENTION_BACKENDS)
@pytest.mark.parametrize("name", ["NHD", "HND"])
def test_every_byte_of_every_backend(backend, name):
    assert_exact(small_group(backend, 2, 2, name=name))


@pytest.mark.parametrize("case", PACKED)
@pytest.mark.parametrize("name", ["NHD", "HND"])
def test_every_byte_of_every_packed_format(case, name):
    assert_exact(packed_group(case, blocks=2, ratio=2, name=name))


@pytest.mark.parametrize("backend", ["FLASH_ATTN", "FLEX_ATTENTION", "CPU_ATTN", "TRITON_MLA"])
def test_padded_pages(backend):
    group = small_group(backend, 3, padding=24)
    assert [sum(map(len, group.padding(block))) for block in range(3)] == [24, 24, 24]
    assert_exact(group)


@pytest.mark.parametrize("rule", [None, NEVER])
def test_keys_first_with_and_without_the_rewrite(rule):
    group = small_group("ROCM_ATTN", 3, rule=rule)
    assert_exact(group)
    wrong = sum(group.meaning(byte).is_misplaced for byte in range(group.raw_bytes))
    assert wrong == (0 if rule is None else group.raw_bytes * 2 // 3)


def test_a_guess_that_corrupts_is_seen():
    group = small_group("FLASH_ATTN", 2, rule=GUESSED_UNCHECKED)
    assert_exact(group)
    wrong = [group.meaning(byte).is_misplaced for byte in range(group.raw_bytes)]
    assert sum(wrong) == group.raw_bytes // 2


def test_a_guess_that_makes_blocks_meet_is_refused():
    with pytest.raises(LayoutError, match="exceed the tensor or overlap"):
        small_group("FLEX_ATTENTION", 2, rule=GUESSED_UNCHECKED)


@in_groups
@pytest.mark.parametrize("backend", ATTENTION_BACKENDS)
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_every_block_owns_its_page(backend, blocks, ratio):
    """L5, and L1 for manager blocks."""
    group = small_group(backend, blocks, ratio)
    page = group.page_bytes
    for block in range(blocks):
        found = joined((*group.ranges(block), *group.padding(block)))
        assert found == (range(block * page, (block + 1) * page),)


@pytest.mark.parametrize("backend", ATTENTION_BACKENDS)
def test_kernel_blocks_address_the_bytes_of_their_manager_block(backend):
    """L4: token j * n + t of a block is token t of its j-th kernel block."""
    group = small_group(backend, 2, 3)
    for token in (0, 15, 16, 37, 47):
        kernel_block, inside = divmod(token, group.kernel_tokens)
        whole = group.ranges(1, token=token)
        assert whole == group.ranges(1, kernel_block=kernel_block, token=inside)
        assert {group.meaning(piece.start).token for piece in whole} == {token}


@pytest.mark.parametrize("blocks", BLOCKS)
def test_states_and_their_padding(blocks):
    views = hybrid(layouts.FLASH_ATTN, blocks, kernel=geometry_for(layouts.FLASH_ATTN))
    group = state_group(views)
    assert_exact(group)
    last = group.meaning(group.page_bytes - 1)
    assert last.is_padding
    recurrent = group.meaning(group.ranges(blocks - 1, part="recurrent")[0].stop - 1)
    assert (recurrent.block, recurrent.head, recurrent.state_index) == (blocks - 1, 1, (1, 0, 1))
    own = group.ranges(0, part="recurrent", head=1)
    assert sum(map(len, own)) == 2 * 4


def test_different_sizes_of_keys_and_values():
    kernel = CacheGeometry(16, 2, 6, "auto", 4)
    shape = layouts.FLASH_ATTN_DIFFERENT_VALUES.shape(2, kernel)
    view = View(layouts.FLASH_ATTN_DIFFERENT_VALUES.axes, shape, (320, 20, 10, 1), 0, "bfloat16")
    key, value = attention_parts(view, kernel)
    assert (key.values, value.values) == (6, 4)
    assert key.view.byte_of((1, 0, 0, 0)) == 640
    assert value.view.byte_of((0, 0, 0, 0)) == 12


def test_what_packed_bytes_hold():
    group = packed_group("nvfp4")
    first = group.meaning(1)
    assert (first.part, first.value, first.last_value, first.byte_in_value) == ("K", 2, 3, 0)
    names = [part.name for part in packed_group("k8v4").parts]
    assert names == ["K", "V", "V scale", "V zero"]
    odd = packed_group("3bit")
    assert {part.name: part.values for part in odd.parts}["K"] == 8
    mla = packed_group("fp8_ds_mla")
    inside = [mla.meaning(byte).part for byte in (0, 511, 512, 527, 528, 655)]
    assert inside == ["latent", "latent", "latent scale", "latent scale", "rope", "rope"]
    assert mla.meaning(531).value == 1


def test_unknown_dimensions_and_heads_that_are_not_vectors():
    view = View(("num_blocks", "x"), (2, 2), (2, 1), 0, "int8")
    with pytest.raises(LayoutError, match="num_blocks, x"):
        attention_parts(view, CacheGeometry(16, 1, 1))
    odd = hybrid(layouts.ROCM_ATTN, 2)
    with pytest.raises(LayoutError, match="Nearest valid: 8"):
        attention_parts(odd.attention, CacheGeometry(16, 2, 2))


def test_views_that_leave_the_tensor_are_refused():
    view = View(("num_blocks", "x"), (2, 4), (4, 1), 0, "int8")
    with pytest.raises(LayoutError):
        GroupBytes(0, "x", "a", (Part("x", view, 8),), 4, 7)


@pytest.mark.parametrize("size", [*RECORDS, *PAGE_RECORDS])
def test_the_parts_of_a_packed_latent_are_all_of_it(size):
    pieces = RECORDS.get(size) or tuple(chain(*PAGE_RECORDS[size]))
    assert sum(count for _name, count, _bits in pieces) == size
    bits = {name: bits for name, _count, bits in pieces}
    assert {bits["latent"], bits["latent scale"], bits.get("rope", 8)} <= {4, 8, 16, 32}
    assert bits.get("padding", 8) == 8


@pytest.mark.parametrize("is_by_head", [True, False])
def test_the_halves_of_an_nvfp4_page_share_its_heads(is_by_head):
    """Two heads of 32 values: 16 bytes of values and 2 of scales for each of K and V."""
    tokens, full, slots = 4, 18, 4
    inner = (tokens * full, full) if is_by_head else (full, slots * full)
    axes = ("num_blocks", "num_kv_heads", "block_size", "keys_then_values")
    view = View(axes, (2, slots, tokens, full), (slots * tokens * full, *inner, 1), 0, "uint8")
    parts = attention_parts(view, CacheGeometry(tokens, 2, 32, "nvfp4"))
    first = [part.view.byte_of((0,) * len(part.view.shape)) for part in parts]
    assert first == [0, 128, 144, 272]
    assert [part.values for part in parts] == [32, 2, 32, 2]
