"""The multiplier that replaces a division, and the cuts of a launch."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from workbench.kernels.block_table.arena import row_arena
from workbench.kernels.block_table.groups import nearest_divisor
from workbench.kernels.block_table.numbers import multiplier_and_shift
from workbench.kernels.block_table.plan import cuts_of

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
    data=st.data(),
)
def test_tiles_cover_the_live_entries_once_and_little_else(widths, rows, data):
    cuts = cuts_of(row_arena(widths, rows), max_requests=rows)
    padded = data.draw(st.integers(0, rows))
    live = [data.draw(st.integers(0, width)) for width in widths]
    firsts = cuts.first_tiles(padded, live)
    row_tiles = cuts.row_tiles(padded)
    for g, width in enumerate(live):
        covered = np.zeros((padded + cuts.rows, width + cuts.columns), int)
        for tile in range(firsts[g + 1] - firsts[g]):
            row, column = tile % row_tiles * cuts.rows, tile // row_tiles * cuts.columns
            covered[row : row + cuts.rows, column : column + cuts.columns] += 1
        assert (covered[:padded, :width] == 1).all()
        # at most one tile more than needed along each side
        assert covered.sum() <= (padded + cuts.rows) * (width + cuts.columns)


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
