"""The multiplier that replaces a division, and the cuts of a launch."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from workbench.kernels.block_table.arena import row_arena
from workbench.kernels.block_table.groups import nearest_divisor
from workbench.kernels.block_table.numbers import multiplier_and_shift
from workbench.kernels.block_table.plan import TABLE, TOKENS, launch_plan

LARGEST = 2**31 - 1
numbers = st.one_of(st.integers(0, LARGEST), st.integers(0, 10_000))


@given(number=numbers, divisor=st.one_of(st.integers(1, LARGEST), st.integers(1, 10_000)))
@example(number=LARGEST, divisor=1)
@example(number=LARGEST, divisor=LARGEST)
@example(number=2**30 - 1, divisor=2**30)
def test_multiplying_and_shifting_divides(number, divisor):
    multiplier, shift = multiplier_and_shift(divisor)
    assert 0 < multiplier < 2**32
    for dividend in (number, number - number % divisor, max(number - number % divisor - 1, 0)):
        assert (2 * dividend * multiplier >> 32) >> shift == dividend // divisor
    if divisor & (divisor - 1) == 0:
        assert number >> shift == number // divisor


@pytest.mark.parametrize("divisor", [0, -1, 2**31])
def test_divisors_that_are_refused(divisor):
    with pytest.raises(ValueError, match="divisor"):
        multiplier_and_shift(divisor)


@given(number=st.integers(1, 5000), wanted=st.integers(1, 6000))
def test_no_divisor_is_nearer(number, wanted):
    near = nearest_divisor(number, wanted)
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    assert near in divisors
    assert abs(near - wanted) == min(abs(d - wanted) for d in divisors)


@given(
    widths=st.lists(st.integers(1, 300), min_size=1, max_size=9),
    rows=st.integers(1, 70),
    tokens=st.integers(1, 2000),
)
def test_tiles_cover_every_entry_once(widths, rows, tokens):
    arena = row_arena(widths, rows)
    plan = launch_plan(arena, max_requests=rows, max_tokens=tokens)
    covered = [np.zeros((rows, stride), int) for stride in arena.strides]
    slots = np.zeros((len(widths), tokens), int)
    for group, kind, first, column in plan.entries.tolist():
        if kind == TABLE:
            covered[group][first : first + plan.rows, column : column + plan.columns] += 1
        else:
            slots[group, first : first + TOKENS] += 1
    assert (slots == 1).all()
    assert all((tiles == 1).all() for tiles in covered)


@given(widths=st.lists(st.integers(1, 300), min_size=1, max_size=9), rows=st.integers(1, 70))
def test_rows_of_an_arena_are_aligned_and_disjoint(widths, rows):
    arena = row_arena(widths, rows)
    used = np.zeros(arena.size, int)
    for width, stride, base in zip(arena.widths, arena.strides, arena.bases, strict=True):
        assert stride % 32 == base % 32 == 0
        for row in range(rows):
            used[base + row * stride :][:width] += 1
    assert used.max() == 1
    assert used.sum() == sum(widths) * rows
