"""The multiplier that replaces a division, and the cuts of a launch."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from workbench.kernels.block_table.arena import row_arena
from workbench.kernels.block_table.groups import (
    ContextParallel,
    TableGroup,
    checked_groups,
    nearest_divisor,
)
from workbench.kernels.block_table.numbers import (
    first_outside,
    integer_array,
    is_power_of_two,
    multiplier_and_shift,
)
from workbench.kernels.block_table.plan import cuts_of
from workbench.kernels.errors import BlockTableError

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


def test_numbers_of_64_bits_are_those_with_a_sign():
    largest = np.array([2**63 - 1], dtype=np.uint64)
    assert integer_array(largest, "ids").tolist() == [2**63 - 1]
    with pytest.raises(BlockTableError, match="beyond 64 bits"):
        integer_array(largest + np.uint64(1), "ids")


@pytest.mark.parametrize("ratio", [1, 4])
def test_kernel_blocks_are_numbers_of_32_bits(ratio):
    most = LARGEST // ratio
    groups = (TableGroup(16 * ratio, 16, 8),)
    assert checked_groups(groups, most) == groups
    with pytest.raises(BlockTableError, match=f"num_blocks must be in 1..{most},") as caught:
        checked_groups(groups, most + 1)
    assert caught.value.limit == most


def test_positions_are_numbers_of_32_bits_on_all_ranks():
    ranks = ContextParallel(2, 0, 1)
    for size in (1, 3):
        most = LARGEST // (2 * size)
        ranks.check_groups([TableGroup(size, size, most)])
        with pytest.raises(BlockTableError, match=f"at most {most} blocks do") as caught:
            ranks.check_groups([TableGroup(1, 1, 1), TableGroup(size, size, most + 1)])
        assert (caught.value.limit, caught.value.group) == (most, 1)
    # 2**31 - 1 is odd: a rank alone reaches it
    ContextParallel().check_groups([TableGroup(1, 1, LARGEST)])
    with pytest.raises(BlockTableError):
        ContextParallel().check_groups([TableGroup(1, 1, LARGEST + 1)])


def test_powers_of_two_are_found():
    assert [n for n in range(-4, 70) if is_power_of_two(n)] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(
    ("values", "place"),
    [([], None), ([3], None), ([9], None), ([2], 0), ([10], 0), ([3, 9, 10, 2], 2), ([5, 2, 9], 1)],
)
def test_the_first_number_outside_is_found(values, place):
    assert first_outside(np.array(values, dtype=np.int64), 3, 10) == place
