"""Segments: they follow each other, mean one thing, and are never too many."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.core.byte_map_cases import ATTENTION_BACKENDS, packed_group, small_group, state_group
from tests.labs.small_views import hybrid
from workbench.core.byte_map.of_plan import byte_map
from workbench.core.byte_map.segments import (
    BLOCK,
    DETAILS,
    HEAD,
    KERNEL_BLOCK,
    PART,
    STRETCH,
    TOKEN,
    VALUE,
    segments,
)
from workbench.core.layouts.hybrid_rewrite import NEVER
from workbench.core.layouts.view import View, next_byte
from workbench.core.versions.v0_23 import layouts


def groups():
    """A group of every kind, right and wrong ones."""
    found = {name: small_group(name, 3, 2) for name in ATTENTION_BACKENDS}
    found |= {"wrong": small_group("ROCM_ATTN", 3, rule=NEVER), "nvfp4": packed_group("nvfp4")}
    found["padded"] = small_group("FLASH_ATTN", 3, padding=24)
    found["state"] = state_group(hybrid(layouts.FLASH_ATTN, 3))
    return found


GROUPS = groups()
SAME = {
    BLOCK: ("block",),
    KERNEL_BLOCK: ("block", "kernel_block"),
    PART: ("block", "kernel_block", "part"),
    TOKEN: ("block", "part", "token"),
    HEAD: ("block", "part", "token", "head"),
    VALUE: ("block", "part", "token", "head", "value"),
}


@given(
    name=st.sampled_from(sorted(GROUPS)),
    ends=st.tuples(st.integers(0, 10**5), st.integers(0, 10**5)),
    finest=st.sampled_from(DETAILS),
    limit=st.integers(1, 300),
)
def test_segments_cover_every_byte_with_the_right_meaning(name, ends, finest, limit):
    group = GROUPS[name]
    start, stop = sorted(end % (group.raw_bytes + 1) for end in ends)
    if start == stop:
        stop += 1
        start = min(start, group.raw_bytes - 1)
    found = segments(group, start, stop, finest=finest, limit=limit, stretches=7)
    assert len(found) <= max(limit, 7)
    assert (found[0].start, found[-1].stop) == (start, min(stop, group.raw_bytes))
    assert all(one.stop == other.start for one, other in pairwise(found))
    for piece in found:
        if piece.detail == STRETCH:
            continue
        assert DETAILS.index(piece.detail) <= DETAILS.index(finest)
        inside = {group.meaning(byte) for byte in range(piece.start, piece.stop)}
        names = SAME[piece.detail] if not group.is_state else ("block",)
        if group.is_state and piece.detail not in {BLOCK, KERNEL_BLOCK}:
            names = ("block", "part")
        meanings = {tuple(getattr(meaning, name) for name in names) for meaning in inside}
        assert len(meanings) == 1, (piece, meanings)


def test_a_segment_ends_where_the_meaning_does():
    """The coarsest cut that fits, not a finer one, and no run cut in two."""
    group = GROUPS["FLASH_ATTN"]
    by_detail = {
        detail: len(segments(group, 0, group.raw_bytes, finest=detail, limit=10**6))
        for detail in DETAILS
    }
    assert by_detail == {
        BLOCK: 3, KERNEL_BLOCK: 6, PART: 12, TOKEN: 12 * 16, HEAD: 12 * 32, VALUE: 12 * 64
    }  # fmt: skip


@pytest.mark.parametrize("backend", ["FLASH_ATTN", "FLEX_ATTENTION", "FLASHINFER"])
def test_a_million_blocks_are_cut_evenly(backend):
    plan = wb.resolve(model="qwen3.5-4b", backend=backend)
    pool = byte_map(plan, num_blocks=10**6)
    for group in (pool.tensors[0].groups[0], pool.tensors[0].groups[-1]):
        found = segments(group, 0, group.raw_bytes, limit=300)
        assert len(found) == 100
        assert {piece.detail for piece in found} == {STRETCH}
        assert found[-1].last.block == 10**6 - 1
        page = segments(group, 5 * group.page_bytes, 6 * group.page_bytes, limit=300)
        assert {piece.first.block for piece in page} == {5}


@st.composite
def views_with_gaps(draw):
    """Up to three dimensions in any order, each as long as what is inside it, or longer."""
    reach, found = 1, []
    for axis in range(draw(st.integers(0, 3))):
        stride, size = reach + draw(st.integers(0, 3)), draw(st.integers(1, 3))
        found.append((f"axis {axis}", size, stride))
        reach += (size - 1) * stride
    axes, shape, strides = zip(*draw(st.permutations(found)), strict=True) if found else ((),) * 3
    return View(
        axes, shape, strides, draw(st.integers(0, 3)), draw(st.sampled_from(["int8", "bfloat16"]))
    )


@given(views_with_gaps())
def test_the_next_byte_of_a_view_is_the_first_of_all_that_follow(view):
    held = {byte for part in view.byte_ranges({}) for byte in part}
    for byte in range(max(held) + 2):
        later = [one for one in held if one >= byte]
        assert next_byte(view, byte) == min(later, default=None)
