"""Tables whose rows are 2**30 entries apart, with memory for one row only."""

import ctypes

import numpy as np
import torch

STRIDE = 2**30
ROW = 3


def tensor_at(address):
    """A tensor that claims to begin at an address; nothing is read there."""
    return torch.from_numpy(np.frombuffer((ctypes.c_int32 * 1).from_address(address), np.int32))


def far_table(entries):
    """(table, row): row ROW of the table, STRIDE entries a row, is the small tensor `row`."""
    row = torch.zeros(entries, dtype=torch.int32)
    return tensor_at(row.data_ptr() - 4 * ROW * STRIDE), row


def spread_rows(path):
    """Make a path's kernels believe in STRIDE, so that row ROW stays where it is."""
    if hasattr(path, "strides"):
        far = ((path._p_sources, path.sources), (path._p_gathered, path.gathered))
        for pointers, tables in far:
            pointers.sub_(4 * ROW * (STRIDE - tables[0].stride(0)))
        path.strides.fill_(STRIDE)
    else:
        for base, stride in ((0, 1), (2, 3)):  # of the sources, of the gathered tables
            path._layout[0, base] -= ROW * (STRIDE - int(path._layout[0, stride]))
            path._layout[0, stride] = STRIDE
