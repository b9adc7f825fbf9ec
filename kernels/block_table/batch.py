"""One step's batch: which requests, in which order, with which tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.groups import ContextParallel, TableGroup
from workbench.kernels.block_table.numbers import Ids, first_outside, integer_array
from workbench.kernels.block_table.reference import DUMMY_REQUEST
from workbench.kernels.errors import BlockTableError


@dataclass(frozen=True, slots=True)
class Batch:
    """A checked batch. Rows idx_mapping[i]; token t belongs to the i with
    query_start_loc[i] <= t < query_start_loc[i + 1] and is at positions[t].

    idx_mapping [requests] int32, DUMMY_REQUEST for none; query_start_loc [requests + 1] int32;
    positions [tokens] int64. `padded_requests` rows of the gathered tables are written.
    """  # noqa: D205 - the definition of a batch is one sentence

    idx_mapping: NDArray[np.int32]
    query_start_loc: NDArray[np.int32]
    positions: NDArray[np.int64]
    padded_requests: int

    @property
    def token_rows(self) -> NDArray[np.int32]:
        """Return [tokens] the batch row of every token."""
        rows = np.arange(self.num_requests, dtype=np.int32)
        return rows.repeat(np.diff(self.query_start_loc))

    @property
    def has_dummies(self) -> bool:
        """Return whether a row has no request."""
        return bool((self.idx_mapping < 0).any())

    @property
    def num_requests(self) -> int:
        """Return the number of requests, including dummies."""
        return len(self.idx_mapping)

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens before any padding."""
        return len(self.positions)


def checked_batch(
    groups: Sequence[TableGroup],
    counts: NDArray[np.int64],
    idx_mapping: Ids,
    query_start_loc: Ids | None = None,
    positions: Ids | None = None,
    *,
    padded_requests: int | None,
    max_tokens: int,
    parallel: ContextParallel,
) -> Batch:
    """Return a batch whose rows, tokens and positions are valid for tables with these counts.

    counts: [group, request] manager blocks. Without tokens only the rows are checked.
    `padded_requests` defaults to all rows.
    """
    max_requests = counts.shape[1]
    rows = integer_array(idx_mapping, "idx_mapping")
    if (i := first_outside(rows, DUMMY_REQUEST, max_requests)) is not None:
        raise BlockTableError(
            f"idx_mapping[{i}] is {rows[i]}; allowed are rows 0..{max_requests - 1}, and "
            f"{DUMMY_REQUEST} for a dummy request",
            field="idx_mapping",
            given=int(rows[i]),
            limit=max_requests,
            index=i,
        )
    padded = max_requests if padded_requests is None else padded_requests
    # a captured graph runs for a fixed number of rows, those after the batch are padding
    if not len(rows) <= padded <= max_requests:
        raise BlockTableError(
            f"padded_requests {padded} must be between the {len(rows)} requests of the batch and "
            f"the {max_requests} rows of the table",
            field="padded_requests",
            given=padded,
            limit=max_requests,
        )
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    places = np.zeros(0, dtype=np.int64)
    if query_start_loc is not None or positions is not None:
        starts = integer_array(
            () if query_start_loc is None else query_start_loc, "query_start_loc"
        )
        places = integer_array(() if positions is None else positions, "positions")
        _check_starts(starts, len(rows), max_tokens)
        # last, because it relies on starts that rise and end at the number of tokens
        places = _checked_positions(groups, counts, rows, starts, places, parallel.size)
    return Batch(rows.astype(np.int32), starts.astype(np.int32), places, padded)


def _check_starts(starts: NDArray[np.int64], requests: int, max_tokens: int) -> None:
    if len(starts) != requests + 1:
        raise BlockTableError(
            f"query_start_loc has {len(starts)} entries; {requests} requests need {requests + 1}: "
            "0, then the end of each request's tokens",
            field="query_start_loc",
            given=len(starts),
            limit=requests + 1,
        )
    if starts[0] != 0 or (np.diff(starts) < 0).any():
        i = 0 if starts[0] != 0 else int(np.argmax(np.diff(starts) < 0)) + 1
        raise BlockTableError(
            f"query_start_loc[{i}] is {starts[i]}: it must begin with 0 and never fall",
            field="query_start_loc",
            given=int(starts[i]),
            index=i,
        )
    if starts[-1] > max_tokens:
        raise BlockTableError(
            f"the batch has {starts[-1]} tokens, but the slot mapping has room for {max_tokens}",
            field="query_start_loc",
            given=int(starts[-1]),
            limit=max_tokens,
            index=requests,
        )


def _checked_positions(
    groups: Sequence[TableGroup],
    counts: NDArray[np.int64],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    positions: NDArray[np.int64],
    ranks: int,
) -> NDArray[np.int64]:
    """Return the positions; every token must be in a block of its request, in every group.

    A dummy request's token may be anywhere, as in vLLM, whose kernels mask it: it becomes 0.
    """
    if len(positions) != starts[-1]:
        raise BlockTableError(
            f"positions has {len(positions)} entries, but query_start_loc ends at {starts[-1]}: "
            "give one position for every actual token, and none for padding",
            field="positions",
            given=len(positions),
            limit=int(starts[-1]),
        )
    owners = np.repeat(rows, np.diff(starts))
    live = owners != DUMMY_REQUEST
    for g, group in enumerate(groups):
        # counts[g, -1] is the last row, which says nothing about a dummy
        blocks = counts[g, owners]
        # with context parallelism a block of this rank spans `ranks` times its tokens
        room = blocks * group.block_size * (ranks if group.is_sharded else 1)
        if (wrong := live & ((positions < 0) | (positions >= room))).any():
            t = int(np.argmax(wrong))
            raise BlockTableError(
                f"positions[{t}] is {positions[t]}, but request {owners[t]} has {blocks[t]} blocks "
                f"in group {g}, room for positions 0..{room[t] - 1}. Append its blocks first.",
                field="positions",
                given=int(positions[t]),
                limit=int(room[t]),
                index=t,
                group=g,
                request=int(owners[t]),
            )
    return np.where(live, positions, 0)
