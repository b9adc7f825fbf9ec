"""The self-test's kernel: copies rows picked by index."""

from workbench.kernels.language import tl, triton


@triton.jit
def gather_rows_kernel(
    p_source,
    p_index,
    p_output,
    columns,
    stride_source,
    stride_output,
    BLOCK: tl.constexpr,
):
    """Copy one row per program: output[i, :] = source[index[i], :]. Grid: (picked,).

    source [rows, columns] and output [picked, columns] have contiguous columns; the strides
    count elements between rows; index [picked] is int64. The loop's bound is known only at run
    time, which some pairs of an interpreter and a numpy release cannot do.
    """
    i_picked = tl.program_id(0).to(tl.int64)
    b_row = tl.load(p_index + i_picked)
    for i_first in range(0, columns, BLOCK):
        o_column = i_first + tl.arange(0, BLOCK)
        m_column = o_column < columns
        b_values = tl.load(p_source + b_row * stride_source + o_column, mask=m_column, other=0.0)
        tl.store(p_output + i_picked * stride_output + o_column, b_values, mask=m_column)
