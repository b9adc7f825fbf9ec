"""Kernels of learners: each has one typical mistake; its docstring holds words of the verdict."""

from workbench.kernels.language import tl, triton


@triton.jit
def read_past_the_row(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """p_table[0, 3], past the end of row 0; BLOCK lanes; tl.load(p_table"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        block = tl.load(p_table + request * table_stride + column // RATIO)
        tl.store(p_rows + i * row_stride + column, block * RATIO + column % RATIO,
                 mask=column < width)  # fmt: skip


@triton.jit
def never_end(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Do not move on: it is not one of the mistakes that are explained."""
    first = 0
    while first < width:
        first += 0


@triton.jit
def keep_the_tail(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """made from an entry that holds no data; an earlier request; p_rows[0, 2]; expected: 0"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < width
        block = tl.load(p_table + request * table_stride + column // RATIO, mask=inside, other=0)
        tl.store(p_rows + i * row_stride + column, block * RATIO + column % RATIO, mask=inside)


@triton.jit
def forget_the_mapping(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """p_requests[i] names its request; expected: 6; got: 1; program: 0"""
    i = tl.program_id(0)
    count = tl.load(p_counts + i) * RATIO
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        live = column < count
        block = tl.load(p_table + i * table_stride + column // RATIO, mask=live, other=0)
        part = tl.where(live, block * RATIO + column % RATIO, 0)
        tl.store(p_rows + i * row_stride + column, part, mask=column < width)


@triton.jit
def forget_to_expand(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """the manager block of that column; got: 3; expected: 6"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    count = tl.load(p_counts + request)
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        block = tl.load(p_table + request * table_stride + column, mask=column < count, other=0)
        tl.store(p_rows + i * row_stride + column, block, mask=column < width)


@triton.jit
def forget_the_part(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """add the part, column % RATIO; got: 6; expected: 7"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    count = tl.load(p_counts + request) * RATIO
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        live = column < count
        block = tl.load(p_table + request * table_stride + column // RATIO, mask=live, other=0)
        tl.store(p_rows + i * row_stride + column, block * RATIO, mask=column < width)


@triton.jit
def repeat_the_block(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """the number of the manager block itself; got: 3; expected: 7"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    count = tl.load(p_counts + request) * RATIO
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        live = column < count
        block = tl.load(p_table + request * table_stride + column // RATIO, mask=live, other=0)
        part = tl.where(column == 0, block * RATIO, block)
        tl.store(p_rows + i * row_stride + column, part, mask=column < width)


@triton.jit
def count_manager_blocks(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Counts are in manager blocks; got: 0; expected: 3"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    count = tl.load(p_counts + request)
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        live = column < count
        block = tl.load(p_table + request * table_stride + column // RATIO, mask=live, other=0)
        part = tl.where(live, block * RATIO + column % RATIO, 0)
        tl.store(p_rows + i * row_stride + column, part, mask=column < width)


@triton.jit
def add_to_the_null_block(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Choose with tl.where after the arithmetic; expected: 0; got: 1"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    count = tl.load(p_counts + request, mask=request >= 0, other=0) * RATIO
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        entry = p_table + request * table_stride + column // RATIO
        block = tl.load(entry, mask=column < count, other=0)
        tl.store(p_rows + i * row_stride + column, block * RATIO + column % RATIO,
                 mask=column < width)  # fmt: skip


@triton.jit
def count_of_padding(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """p_counts[-1], before its first entry; A padding row has no request; program: 1, of 3"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    count = tl.load(p_counts + request) * RATIO
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        live = column < count
        block = tl.load(p_table + request * table_stride + column // RATIO, mask=live, other=0)
        part = tl.where(live, block * RATIO + column % RATIO, 0)
        tl.store(p_rows + i * row_stride + column, part, mask=column < width)


@triton.jit
def write_past_the_row(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """about to write; p_rows[0, 3], past the end of row 0: it has 3 entries; the next row"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    count = tl.load(p_counts + request) * RATIO
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        live = column < count
        block = tl.load(p_table + request * table_stride + column // RATIO, mask=live, other=0)
        tl.store(p_rows + i * row_stride + column, tl.where(live, block * RATIO, 0))


@triton.jit
def stop_after_one_block(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """No program wrote this entry; what was there before the launch; none wrote it"""
    i = tl.program_id(0)
    request = tl.load(p_requests + i)
    count = tl.load(p_counts + request) * RATIO
    column = tl.arange(0, BLOCK)
    live = column < count
    block = tl.load(p_table + request * table_stride + column // RATIO, mask=live, other=0)
    part = tl.where(live, block * RATIO + column % RATIO, 0)
    tl.store(p_rows + i * row_stride + column, part, mask=column < width)


@triton.jit
def write_twice(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """two programs race; 0 and 1 both write it; p_rows[0, 0]"""
    for i in range(tl.num_programs(0)):
        request = tl.load(p_requests + i)
        count = tl.load(p_counts + request, mask=request >= 0, other=0) * RATIO
        for first in range(0, width, BLOCK):
            column = first + tl.arange(0, BLOCK)
            live = column < count
            entry = p_table + request * table_stride + column // RATIO
            part = tl.where(live, tl.load(entry, mask=live, other=0) * RATIO + column % RATIO, 0)
            tl.store(p_rows + i * row_stride + column, part, mask=column < width)


@triton.jit
def use_an_unknown_name(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """does not run to its end; NameError; requests_of; your line"""
    tl.store(p_rows, tl.load(requests_of))  # noqa: F821


@triton.jit
def other_parameters(p_requests, p_rows, BLOCK: tl.constexpr):
    """parameters differ; p_counts"""


GATHERS = (
    *(read_past_the_row, keep_the_tail, forget_the_mapping, forget_to_expand, forget_the_part),
    *(repeat_the_block, count_manager_blocks, add_to_the_null_block, count_of_padding),
    *(write_past_the_row, stop_after_one_block, write_twice, use_an_unknown_name),
    other_parameters,
)


@triton.jit
def use_the_token(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """counted from 0 in this step; p_positions[token]"""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        entry = p_rows + i * row_stride + token // KERNEL_BLOCK
        block = tl.load(entry, mask=token < end, other=0).to(tl.int64)
        tl.store(p_slots + token, block * KERNEL_BLOCK + token % KERNEL_BLOCK, mask=token < end)


@triton.jit
def use_the_new_token(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """counted from 0 in this step; is further on"""
    i = tl.program_id(0)
    start, end = tl.load(p_starts + i), tl.load(p_starts + i + 1)
    for first in range(start, end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = token - start
        entry = p_rows + i * row_stride + position // KERNEL_BLOCK
        block = tl.load(entry, mask=token < end, other=0).to(tl.int64)
        slot = block * KERNEL_BLOCK + position % KERNEL_BLOCK
        tl.store(p_slots + token, slot, mask=token < end)


@triton.jit
def use_32_bits(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """wrapped at 32 bits; .to(tl.int64); a large pool"""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = tl.load(p_positions + token, mask=token < end, other=0).to(tl.int32)
        stored = (token < end) & (position // KERNEL_BLOCK < tl.load(p_counts + i))
        entry = p_rows + i * row_stride + position // KERNEL_BLOCK
        slot = tl.load(entry, mask=stored, other=0) * KERNEL_BLOCK + position % KERNEL_BLOCK
        tl.store(p_slots + token, tl.where(stored, slot, -1), mask=token < end)


@triton.jit
def return_the_block(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """This is the kernel block; multiply by KERNEL_BLOCK"""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = tl.load(p_positions + token, mask=token < end, other=0)
        entry = p_rows + i * row_stride + position // KERNEL_BLOCK
        tl.store(p_slots + token, tl.load(entry, mask=token < end, other=0), mask=token < end)


@triton.jit
def forget_the_offset(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """add position % KERNEL_BLOCK; got: 8; expected: 9"""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = tl.load(p_positions + token, mask=token < end, other=0)
        entry = p_rows + i * row_stride + position // KERNEL_BLOCK
        block = tl.load(entry, mask=token < end, other=0).to(tl.int64)
        tl.store(p_slots + token, block * KERNEL_BLOCK, mask=token < end)


@triton.jit
def trust_every_position(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """p_rows[1, 1], past the end of row 1: it has 1 entry; draft tokens; program: 1"""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = tl.load(p_positions + token, mask=token < end, other=0)
        entry = p_rows + i * row_stride + position // KERNEL_BLOCK
        block = tl.load(entry, mask=token < end, other=0).to(tl.int64)
        slot = block * KERNEL_BLOCK + position % KERNEL_BLOCK
        tl.store(p_slots + token, slot, mask=token < end)


@triton.jit
def store_in_the_null_block(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """a slot of the null block; expected: -1; got: 0"""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = tl.load(p_positions + token, mask=token < end, other=0)
        stored = (token < end) & (position // KERNEL_BLOCK < tl.load(p_counts + i))
        entry = p_rows + i * row_stride + position // KERNEL_BLOCK
        block = tl.load(entry, mask=stored, other=0).to(tl.int64)
        slot = block * KERNEL_BLOCK + position % KERNEL_BLOCK
        tl.store(p_slots + token, slot, mask=token < end)


@triton.jit
def write_all_lanes(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """about to write; p_slots[7], past its end: it has 7 entries; mask the store"""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = tl.load(p_positions + token, mask=token < end, other=0)
        entry = p_rows + i * row_stride + position // KERNEL_BLOCK
        block = tl.load(entry, mask=token < end, other=0).to(tl.int64)
        tl.store(p_slots + token, block * KERNEL_BLOCK + position % KERNEL_BLOCK)


@triton.jit
def read_the_first_row(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """looked up in the first row; row_stride; two requests; program: 1"""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = tl.load(p_positions + token, mask=token < end, other=0)
        entry = p_rows + position // KERNEL_BLOCK
        block = tl.load(entry, mask=token < end, other=0).to(tl.int64)
        slot = block * KERNEL_BLOCK + position % KERNEL_BLOCK
        tl.store(p_slots + token, slot, mask=token < end)


SLOTS = (
    *(use_the_token, use_the_new_token, use_32_bits, return_the_block, forget_the_offset),
    *(trust_every_position, store_in_the_null_block, write_all_lanes, read_the_first_row),
)


@triton.jit
def nothing(p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
            KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """As shipped: it does nothing yet."""


@triton.jit
def read_far_away(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """far from every array"""
    tl.store(p_slots, tl.load(p_rows + 1099511627776).to(tl.int64))
