"""The shipped kernels of lesson 7, written as a learner would: read them after you have tried."""

from workbench.kernels.kernel_spec import KernelSpec
from workbench.kernels.language import tl, triton


@triton.jit
def gather_rows(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Solve lesson 7: expand a column at a time, and let only live columns read the table."""
    i = tl.program_id(0)
    # 64 bits: request * stride exceeds 32 bits in large tables
    request = tl.load(p_requests + i).to(tl.int64)
    count = tl.load(p_counts + request, mask=request >= 0, other=0) * RATIO
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        live = column < count
        block = tl.load(p_table + request * table_stride + column // RATIO, mask=live, other=0)
        part = tl.where(live, block * RATIO + column % RATIO, 0)
        tl.store(p_rows + i * row_stride + column, part, mask=column < width)


@triton.jit
def map_slots(
    p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
    KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Solve lesson 7: the kernel block of a position, times its size, plus the remainder."""
    i = tl.program_id(0)
    end = tl.load(p_starts + i + 1)
    count = tl.load(p_counts + i)
    for first in range(tl.load(p_starts + i), end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        position = tl.load(p_positions + token, mask=token < end, other=0)
        stored = (token < end) & (position // KERNEL_BLOCK < count)
        entry = p_rows + i * row_stride + position // KERNEL_BLOCK
        # 64 bits: block * size exceeds 32 bits in large pools
        block = tl.load(entry, mask=stored, other=0).to(tl.int64)
        slot = tl.where(stored, block * KERNEL_BLOCK + position % KERNEL_BLOCK, -1)
        tl.store(p_slots + token, slot, mask=token < end)


INSPECTED = (
    KernelSpec(name="lesson gather", function=gather_rows, constexprs={"RATIO": 33, "BLOCK": 128}),
    KernelSpec(
        name="lesson slots",
        function=map_slots,
        constexprs={"KERNEL_BLOCK": 48, "BLOCK": 128},
        types={"p_positions": "*i64", "p_slots": "*i64"},
    ),
)
