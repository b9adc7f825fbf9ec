"""What a write may contain: rows of the table, each once, and blocks of the pool."""

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.numbers import Ids, first_outside, integer_array
from workbench.kernels.errors import BlockTableError

Ints = NDArray[np.int64]
LISTS = frozenset({list, tuple, np.ndarray})


def checked_requests(requests: Ids, max_requests: int, *, distinct: bool = True) -> Ints:
    """Return the rows as an array; refuses rows outside the table, or repeated if `distinct`."""
    if type(requests) in {list, tuple} and not LISTS.isdisjoint(map(type, requests)):
        raise BlockTableError("a request is the number of a row, not a list", field="request")
    values = integer_array(requests, "requests")
    if (i := first_outside(values, 0, max_requests)) is not None:
        raise BlockTableError(
            f"request {values[i]} (entry {i}) is not in this table: rows are 0..{max_requests - 1}",
            field="request",
            given=int(values[i]),
            limit=max_requests,
            index=i,
        )
    if distinct and len(set(values.tolist())) < len(values):
        i = next(i for i in range(len(values)) if values[i] in values[:i])
        raise BlockTableError(
            f"request {values[i]} occurs twice (entry {i}): join its ids into one entry",
            field="request",
            given=int(values[i]),
            index=i,
        )
    return values


def check_ids(blocks: Ints, num_blocks: int, offset: Ints, group: Ints, owner: Ints) -> None:
    """Refuse the first id outside of the pool; write w has blocks[offset[w] : offset[w + 1]]."""
    if (i := first_outside(blocks, 0, num_blocks)) is not None:
        # "right": an empty write has the offset of the next one
        w = int(np.searchsorted(offset, i, side="right")) - 1
        place, g, request = i - int(offset[w]), int(group[w]), int(owner[w])
        raise BlockTableError(
            f"request {request}, group {g}: block id {blocks[i]} (entry {place}) is not in the "
            f"pool: ids are 0..{num_blocks - 1}",
            field="block_ids",
            given=int(blocks[i]),
            limit=num_blocks,
            index=place,
            group=g,
            request=request,
        )
