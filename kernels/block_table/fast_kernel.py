"""The fast path's second launch: gather, expand, map slots and pad.

Tables hold manager blocks; all groups are in one arena whose rows are multiples of 32 entries.
Every size that changes from step to step is read from device memory, and programs stride over the
tiles, so a captured launch stays right, whatever its grid. Divisions are 32-bit multiplications, or
shifts where every divisor is a power of two.
"""

from workbench.kernels.block_table.fast_fields import (
    BLOCK_SIZE,
    FIRST_TILES,
    LAYOUT_FIELDS,
    PAD,
    PADDED,
    RATIO,
    RATIO_MULTIPLIER,
    RATIO_SHIFT,
    REQUESTS,
    ROW_TILES,
    SOURCE_BASE,
    SOURCE_STRIDE,
    SPAN,
    SPAN_MULTIPLIER,
    SPAN_SHIFT,
    TABLE_BASE,
    TABLE_STRIDE,
    TOKENS_OF_BATCH,
)
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
    num_requests = tl.load(p_batch + REQUESTS)
    num_padded = tl.load(p_batch + PADDED)
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
    p_batch, p_idx_mapping, p_token_rows, p_positions, p_field, p_sources, p_group_counts,
    p_group_slots, i_first_token, slot_stride,
    TOKENS: tl.constexpr, POWER_OF_TWO: tl.constexpr, CP_SIZE: tl.constexpr,
    CP_RANK: tl.constexpr, CP_INTERLEAVE: tl.constexpr,
):  # fmt: skip
    """Map TOKENS tokens of one group; padding, up to the row's stride, has no request.

    (b*r + t) * kernel + o == b * manager + (t*kernel + o), and the interleave divides the kernel
    block: so unexpanded ids and manager sizes give the slots of the expanded table.
    """
    num_requests = tl.load(p_batch + REQUESTS)
    num_tokens = tl.load(p_batch + TOKENS_OF_BATCH)
    o_token = i_first_token + tl.arange(0, TOKENS)
    m_token = o_token < num_tokens
    b_row = tl.load(p_token_rows + o_token, mask=m_token, other=0)
    # positions fit in 32 bits: ContextParallel.check_groups
    b_position = tl.load(p_positions + o_token, mask=m_token, other=0).to(tl.int32)
    # a token that no row claims has the row of another batch
    b_request = tl.load(p_idx_mapping + b_row, mask=m_token & (b_row < num_requests), other=-1)
    m_live = b_request >= 0
    b_count = tl.load(p_group_counts + b_request, mask=m_live, other=0)
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
    p_batch, p_idx_mapping, p_token_rows, p_positions, p_layout, p_sources, p_counts, p_tables,
    p_slots, slot_stride, slot_tiles, max_requests,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TOKENS: tl.constexpr, GROUPS: tl.constexpr,
    SPREAD: tl.constexpr, SLOTS: tl.constexpr, TABLES: tl.constexpr, POWER_OF_TWO: tl.constexpr,
    CP_SIZE: tl.constexpr, CP_RANK: tl.constexpr, CP_INTERLEAVE: tl.constexpr,
):  # fmt: skip
    """Fill tiles of slots (SLOTS), then of tables (TABLES). Any grid: programs stride over them.

    batch: int32 header as in fast_fields, with the tiles of the step's live maxima; idx_mapping,
    token_rows [tokens] -> batch row, and positions int32, the last one int64 if need be. layout:
    int64 [groups, LAYOUT_FIELDS]. sources and counts hold manager blocks as in apply_kernel;
    tables: the arena of [group][batch row, kernel_block] -> physical kernel block; slots:
    [group, token] int64, slot_tiles tiles a group. SPREAD: a power of two above GROUPS.
    """
    o_group = tl.arange(0, SPREAD)
    b_firsts = tl.load(p_batch + FIRST_TILES + o_group, mask=o_group <= GROUPS, other=2**31 - 1)
    row_tiles = tl.load(p_batch + ROW_TILES)
    end = tl.load(p_batch + FIRST_TILES + GROUPS) if TABLES else 0
    num_slot_tiles = slot_tiles * GROUPS if SLOTS else 0
    for i_any in range(tl.program_id(0), num_slot_tiles + end, tl.num_programs(0)):
        if i_any < num_slot_tiles:
            i_group = (i_any // slot_tiles).to(tl.int64)
            slot_tile(
                p_batch, p_idx_mapping, p_token_rows, p_positions,
                p_layout + i_group * LAYOUT_FIELDS, p_sources, p_counts + i_group * max_requests,
                p_slots + i_group * slot_stride, i_any % slot_tiles * TOKENS, slot_stride,
                TOKENS, POWER_OF_TWO, CP_SIZE, CP_RANK, CP_INTERLEAVE,
            )  # fmt: skip
        else:
            i_tile = i_any - num_slot_tiles
            # the last group that begins at or before the tile: one load, and no search
            i_group = (tl.sum((b_firsts <= i_tile).to(tl.int32)) - 1).to(tl.int64)
            i_tile -= tl.sum(tl.where(o_group == i_group, b_firsts, 0))
            gather_tile(
                p_batch, p_idx_mapping, p_layout + i_group * LAYOUT_FIELDS, p_sources, p_tables,
                p_counts + i_group * max_requests, i_tile % row_tiles * ROWS,
                i_tile // row_tiles * COLUMNS, ROWS, COLUMNS, POWER_OF_TWO,
            )  # fmt: skip
