"""What must hold of every layout: L1 to L5, on small sizes."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.labs.small_views import ATTENTION_BACKENDS, hybrid, torch_view
from workbench.core.layouts.hybrid_rewrite import interleaved
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.view import block_ranges, bytes_outside_their_page
from workbench.core.versions.v0_23.backends import BACKENDS
from workbench.labs.cache_views import (
    UNWRITTEN,
    byte_owners,
    check_ownership,
    ownership,
)


@st.composite
def tensors(draw):
    """Hybrid views of small sizes: any backend, name, ratio, padding where it is allowed."""
    backend = draw(st.sampled_from(ATTENTION_BACKENDS))
    kernel = CacheGeometry(16, draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    ratio = draw(st.integers(1, 3))
    blocks = draw(st.integers(1, 4))
    layout = BACKENDS[backend].cache
    may_pad = ratio == 1 and layout.axes[0] == "num_blocks"
    padding = 8 * draw(st.integers(0, 3)) if may_pad else 0
    name = draw(st.sampled_from(["NHD", "HND"]))
    return hybrid(layout, blocks, ratio, kernel, name=name, padding=padding)


def all_ranges(views, view):
    ratio = views.kernel_blocks_per_block if view is views.attention else 1
    blocks = range(view.shape[view.block_axis] // ratio)
    return [block_ranges(view, block, ratio) for block in blocks]


@given(views=tensors())
def test_byte_ranges_are_disjoint_and_inside(views):
    """L1: of distinct (block, K or V); L5: a block of either kind is in its own page."""
    for view in (views.attention, *views.states):
        seen = []
        for block, parts in enumerate(all_ranges(views, view)):
            page = views.raw_bytes // views.num_blocks
            assert all(
                block * page <= part.start <= part.stop <= (block + 1) * page for part in parts
            )
            seen += parts
        seen.sort(key=lambda part: part.start)
        assert all(one.stop <= other.start for one, other in pairwise(seen))
        assert seen[-1].stop <= views.raw_bytes
    if "kv" in views.attention.axes:
        keys, values = (views.attention.byte_ranges({"kv": half}) for half in (0, 1))
        assert not {byte for part in keys for byte in part} & {b for part in values for b in part}


@given(views=tensors())
def test_ranges_and_padding_fill_the_tensor(views):
    """L2: what has no owner is exactly the padding, in the attention view and in the states."""
    page = views.raw_bytes // views.num_blocks
    view = views.attention
    used = sum(len(part) for parts in all_ranges(views, view) for part in parts)
    assert used == view.elements * view.itemsize
    found = check_ownership(views)
    padding = page - used // views.num_blocks
    assert [part.unwritten_bytes for part in found.attention.pages] == [padding] * views.num_blocks
    own = sum(view.elements * view.itemsize for view in views.states) // views.num_blocks
    assert [part.own_bytes for part in found.states.pages] == [own] * views.num_blocks


@given(views=tensors(), data=st.data())
def test_addresses_and_elements_are_inverse(views, data):
    """L3: every element has bytes of its own, and every byte an element or none."""
    for view in (views.attention, *views.states):
        index = tuple(data.draw(st.integers(0, size - 1)) for size in view.shape)
        byte = view.byte_of(index)
        assert {view.index_of(byte + offset) for offset in range(view.itemsize)} == {index}
        raw = torch.zeros(views.raw_bytes, dtype=torch.int8)
        torch_view(raw, view)[index] = 1
        written = raw.nonzero().flatten().tolist()
        assert written
        assert set(written) <= set(range(byte, byte + view.itemsize))


@pytest.mark.parametrize("backend", ATTENTION_BACKENDS)
@pytest.mark.parametrize("padding", [0, 16])
def test_every_byte_has_one_element_or_none(backend, padding):
    """L3 for all bytes: the map to elements is a bijection on what is not padding."""
    layout = BACKENDS[backend].cache
    keys_first = layout.axes[0] != "num_blocks"
    views = hybrid(layout, 3, padding=0 if keys_first else padding)
    for view in (views.attention, *views.states):
        found = [view.index_of(byte) for byte in range(views.raw_bytes)]
        owned = [index for index in found if index is not None]
        assert len(set(owned)) == view.elements
        assert len(owned) == view.elements * view.itemsize


@given(views=tensors(), token=st.integers(0, 127), data=st.data())
def test_kernel_blocks_address_the_bytes_of_their_manager_block(views, token, data):
    """L4: kernel block b * r + j is the j-th part of page b, token by token."""
    view, ratio = views.attention, views.kernel_blocks_per_block
    page = views.raw_bytes // views.num_blocks
    block = data.draw(st.integers(0, views.num_blocks - 1))
    part, inside = divmod(token % (ratio * views.kernel_block_size), views.kernel_block_size)
    index = {"num_blocks": block * ratio + part, "block_size": inside}
    first = {"num_blocks": 0, "block_size": inside}
    at, start = (
        view.byte_of([fixed.get(axis, 0) for axis in view.axes]) for fixed in (index, first)
    )
    assert at - start == block * page + part * (page // ratio if ratio > 1 else 0)


@given(views=tensors())
def test_attention_and_states_meet_in_one_page_only(views):
    """L5: bytes of both kinds overlap where the block is the same, and nowhere else."""
    attention = byte_owners((views.attention,), views.raw_bytes, views.kernel_blocks_per_block)
    states = byte_owners(views.states, views.raw_bytes)
    both = (attention != UNWRITTEN) & (states != UNWRITTEN)
    assert both.any()
    assert torch.equal(attention[both], states[both])


@given(views=tensors(), rewrite=st.booleans())
def test_counted_ranges_and_raw_bytes_agree(views, rewrite):
    """Two ways to the misplaced bytes, for right layouts and for wrongly rewritten ones."""
    view, page = views.attention, views.attention_page_bytes
    if rewrite and len(view.shape) == 5:
        wrong = interleaved(view)
        # If tokens are outside K and V, the rewrite even leaves the storage.
        view = wrong if wrong.storage_bytes <= views.raw_bytes else view
    ratio = views.kernel_blocks_per_block
    found = ownership((view,), page_bytes=page, raw_bytes=views.raw_bytes, blocks_per_page=ratio)
    if not found.overwritten_bytes:
        assert found.misplaced_bytes == bytes_outside_their_page(view, page, ratio)
