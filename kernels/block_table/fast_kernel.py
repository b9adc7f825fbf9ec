"""The fast path's second launch: gather, expand, map slots and pad.

Tables hold manager blocks; all groups are in one arena whose rows are multiples of 32 entries.
Every size that changes from step to step is read from device memory, so a captured launch stays
right. Divisions are 32-bit multiplications, or shifts where every divisor is a power of two.
"""

from workbench.kernels.block_table.fast_fields import (
    BLOCK_SIZE,
    LAYOUT_FIELDS,
    PAD,
    PLAN_FIELDS,
    RATIO,
    RATIO_MULTIPLIER,
    RATIO_SHIFT,
    SOURCE_BASE,
    SOURCE_STRIDE,
    SPAN,
    SPAN_MULTIPLIER,
    SPAN_SHIFT,
    TABLE_BASE,
    TABLE_STRIDE,
)
from workbench.kernels.kernel_spec import KernelSpec
from workbench.kernels.language import tl, triton


@triton.jit
def divide(b_number, multiplier, shift, POWER_OF_TWO: tl.constexpr):
    """Return b_number // divisor for 0 <= b_number < 2**31, int32.

    See numbers.multiplier_and_shift.
    """
    if POWER_OF_TWO:
        b_quotient = b_number >> shift
    else:
        # high word of a 32-bit product: a division would cost tens of instructions
        b_doubled = b_number.to(tl.uint32, bitcast=True) << 1
        b_high = tl.umulhi(b_doubled, multiplier.to(tl.uint32))
        b_quotient = (b_high >> shift.to(tl.uint32)).to(tl.int32, bitcast=True)
    return b_quotient


@triton.jit
def gather_tile(
    p_batch, p_idx_mapping, p_field, p_sources, p_tables, p_group_counts, i_first_row,
    i_first_column,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, POWER_OF_TWO: tl.constexpr,
):  # fmt: skip
    """Copy and expand ROWS x COLUMNS entries of one group; zero padded and dummy rows.

    Up to three entries after a live row's last one become 0: stores are 16 bytes wide.
    """
    num_requests = tl.load(p_batch)
    num_padded = tl.load(p_batch + 1)
    o_row = i_first_row + tl.arange(0, ROWS)
    # other=-1: padded rows are treated as dummy requests, which get zeros
    b_request = tl.load(p_idx_mapping + o_row, mask=o_row < num_requests, other=-1)
    m_live = b_request >= 0
    b_blocks = tl.load(p_group_counts + b_request, mask=m_live, other=0)
    b_ratio = tl.load(p_field + RATIO).to(tl.int32)
    b_table_stride = tl.multiple_of(tl.load(p_field + TABLE_STRIDE), 32)
    b_entries = b_blocks * b_ratio
    # a multiple of 4 on either side, so that four neighbours share one mask
    b_bound = tl.where(m_live, (b_entries + 3) // 4, b_table_stride.to(tl.int32) // 4) * 4
    b_bound = tl.where(o_row < num_padded, b_bound, 0)
    # a tile after every row of its rows: nothing to write
    if tl.max(b_bound, 0) > i_first_column:
        o_column = i_first_column + tl.arange(0, COLUMNS)
        m_store = o_column[None, :] < b_bound[:, None]
        m_entry = o_column[None, :] < b_entries[:, None]
        b_source_stride = tl.multiple_of(tl.load(p_field + SOURCE_STRIDE), 32)
        o_source = tl.multiple_of(tl.load(p_field + SOURCE_BASE), 32)
        # int64 before the stride: an arena may exceed 2**31 entries
        p_rows = p_sources + (o_source + b_request.to(tl.int64) * b_source_stride)[:, None]
        # no division where kernel and manager blocks are the same
        if b_ratio == 1:
            m_load = m_store & m_live[:, None]
            b_id = tl.load(p_rows + o_column[None, :], mask=m_load, other=0)
            b_value = tl.where(m_entry, b_id, 0)
        else:
            b_multiplier = tl.load(p_field + RATIO_MULTIPLIER)
            b_shift = tl.load(p_field + RATIO_SHIFT).to(tl.int32)
            b_block = divide(o_column, b_multiplier, b_shift, POWER_OF_TWO)
            b_id = tl.load(p_rows + b_block[None, :], mask=m_entry, other=0)
            # remainder without a second division
            b_part = o_column - b_block * b_ratio
            b_value = tl.where(m_entry, b_id * b_ratio + b_part[None, :], 0)
        o_table = tl.multiple_of(tl.load(p_field + TABLE_BASE), 32)
        o_target = o_table + o_row.to(tl.int64) * b_table_stride
        tl.store(p_tables + o_target[:, None] + o_column[None, :], b_value, mask=m_store)


@triton.jit
def slot_tile(
    p_batch, p_idx_mapping, p_query_start_loc, p_positions, p_field, p_sources, p_group_counts,
    p_group_slots, i_first_token, slot_stride,
    TOKENS: tl.constexpr, STEPS: tl.constexpr, POWER_OF_TWO: tl.constexpr, CP_SIZE: tl.constexpr,
    CP_RANK: tl.constexpr, CP_INTERLEAVE: tl.constexpr,
):  # fmt: skip
    """Map TOKENS tokens of one group; padding, up to the row's stride, has no request.

    (b*r + t) * kernel + o == b * manager + (t*kernel + o), and the interleave divides the kernel
    block: so unexpanded ids and manager sizes give the slots of the expanded table.
    """
    num_requests = tl.load(p_batch)
    num_tokens = tl.load(p_batch + 2)
    o_token = i_first_token + tl.arange(0, TOKENS)
    m_token = o_token < num_tokens
    # binary search for the last request that starts at or before the token
    b_row = tl.zeros([TOKENS], tl.int32)
    for i_step in tl.static_range(STEPS):
        b_candidate = b_row + (1 << (STEPS - 1 - i_step))
        m_candidate = m_token & (b_candidate < num_requests)
        b_start = tl.load(p_query_start_loc + b_candidate, mask=m_candidate, other=0)
        b_row = tl.where(m_candidate & (b_start <= o_token), b_candidate, b_row)
    b_request = tl.load(p_idx_mapping + b_row, mask=m_token, other=-1)
    m_live = b_request >= 0
    b_count = tl.load(p_group_counts + b_request, mask=m_live, other=0)
    # positions fit in 32 bits: ContextParallel.check_groups
    b_position = tl.load(p_positions + o_token, mask=m_token, other=0).to(tl.int32)
    b_span = tl.load(p_field + SPAN).to(tl.int32)
    b_multiplier = tl.load(p_field + SPAN_MULTIPLIER)
    b_shift = tl.load(p_field + SPAN_SHIFT).to(tl.int32)
    b_logical = divide(b_position, b_multiplier, b_shift, POWER_OF_TWO)
    # remainder without a second division
    b_offset = b_position - b_logical * b_span
    m_here = m_live & (b_logical < b_count)
    if CP_SIZE > 1:
        b_run = b_offset // CP_INTERLEAVE
        b_round = b_run // CP_SIZE
        m_here &= b_run - b_round * CP_SIZE == CP_RANK
        b_offset = b_round * CP_INTERLEAVE + b_offset - b_run * CP_INTERLEAVE
    o_row = tl.load(p_field + SOURCE_BASE)
    o_row += b_request.to(tl.int64) * tl.load(p_field + SOURCE_STRIDE)
    b_block = tl.load(p_sources + o_row + b_logical, mask=m_here, other=0).to(tl.int64)
    b_slot = b_block * tl.load(p_field + BLOCK_SIZE) + b_offset
    tl.store(p_group_slots + o_token, tl.where(m_here, b_slot, PAD), mask=o_token < slot_stride)


@triton.jit
def gather_and_slots_kernel(
    p_plan, p_batch, p_idx_mapping, p_query_start_loc, p_positions, p_layout, p_sources, p_counts,
    p_tables, p_slots, slot_stride, max_requests,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TOKENS: tl.constexpr, STEPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr, CP_SIZE: tl.constexpr, CP_RANK: tl.constexpr,
    CP_INTERLEAVE: tl.constexpr,
):  # fmt: skip
    """Run one entry of the plan per program: a tile of tokens or of a table.

    plan: int32 [programs, 4]: group, 0, first token, 0 or group, 1, first row, first column.
    batch: int32 header (requests, padded requests, tokens); idx_mapping, query_start_loc and
    positions int32, the last one int64 if need be. layout: int64 [groups, LAYOUT_FIELDS]. sources
    and counts hold manager blocks as in apply_kernel; tables: the arena of [group][batch row,
    kernel_block] -> physical kernel block; slots: [group, token] int64.
    """
    p_entry = p_plan + tl.program_id(0) * PLAN_FIELDS
    i_group = tl.load(p_entry).to(tl.int64)
    i_kind = tl.load(p_entry + 1)
    # promised here: a hint on another function's parameter is lost when it is inlined
    i_first = tl.load(p_entry + 2)
    p_field = p_layout + i_group * LAYOUT_FIELDS
    p_group_counts = p_counts + i_group * max_requests
    if i_kind == 0:
        slot_tile(
            p_batch, p_idx_mapping, p_query_start_loc, p_positions, p_field, p_sources,
            p_group_counts, p_slots + i_group * slot_stride, tl.multiple_of(i_first, 32),
            slot_stride, TOKENS, STEPS, POWER_OF_TWO, CP_SIZE, CP_RANK, CP_INTERLEAVE,
        )  # fmt: skip
    else:
        gather_tile(
            p_batch, p_idx_mapping, p_field, p_sources, p_tables, p_group_counts,
            i_first, tl.multiple_of(tl.load(p_entry + 3), 32), ROWS, COLUMNS, POWER_OF_TWO,
        )  # fmt: skip


def _tiles(name: str, power_of_two: bool, cp_size: int, rows: int, columns: int) -> KernelSpec:
    return KernelSpec(
        name=name,
        function=gather_and_slots_kernel,
        constexprs={
            "ROWS": rows,
            "COLUMNS": columns,
            "TOKENS": 512,
            "STEPS": 13,
            "POWER_OF_TWO": power_of_two,
            "CP_SIZE": cp_size,
            "CP_RANK": 0,
            "CP_INTERLEAVE": 16,
        },
        types={"p_layout": "*i64", "p_slots": "*i64"},
        aligned=("slot_stride",),
        vector_load_bytes=16,
        vector_store_bytes=16,
    )


INSPECTED = (
    _tiles("fast gather and slots, powers of two", True, 1, 64, 32),
    _tiles("fast gather and slots, any size", False, 1, 16, 128),
    _tiles("fast gather and slots, context parallel", False, 4, 16, 128),
)
