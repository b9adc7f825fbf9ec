"""One step's batch, checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.numbers import Ids, integer_array
from workbench.kernels.errors import BlockTableError, PagedFlexError
from workbench.kernels.paged_flex.settings import check_integer

DUMMY_REQUEST = -1
LARGEST_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PagedBatch:
    """A checked batch. Batch row i has tokens query_start_loc[i] .. query_start_loc[i + 1] of the
    packed queries, the last ones of the seq_lens[i] tokens that its pages hold.

    rows[i]: its row of block_table [row, entry] -> physical block; DUMMY_REQUEST for none, with
    length 0. All int32. An entry covers entry_tokens tokens and is in 0..num_blocks - 1.
    """  # noqa: D205 - the definition of a batch is one sentence

    query_start_loc: NDArray[np.int32]
    seq_lens: NDArray[np.int32]
    rows: NDArray[np.int32]
    block_table: Any
    entry_tokens: int
    num_blocks: int

    @property
    def num_requests(self) -> int:
        """Return the number of requests, including dummies."""
        return len(self.seq_lens)

    @property
    def num_tokens(self) -> int:
        """Return the number of queries."""
        return int(self.query_start_loc[-1])

    @property
    def query_lens(self) -> NDArray[np.int32]:
        """Return the queries of each request."""
        return np.diff(self.query_start_loc)


def numbers(values: Ids, field: str, *, low: int, limit: int) -> NDArray[np.int64]:
    """Return integers in low..limit - 1; anything else is refused with its index."""
    try:
        array = integer_array(values, field)
    except BlockTableError as error:
        raise PagedFlexError(str(error), field=field, given=error.given) from None
    wrong = (array < low) | (array >= limit)
    if wrong.any():
        i = int(np.argmax(wrong))
        near = low if array[i] < low else limit - 1
        raise PagedFlexError(
            f"{field}[{i}] is {array[i]}; allowed are {low}..{limit - 1}, nearest: {near}",
            field=field,
            given=int(array[i]),
            limit=limit,
            index=i,
        )
    return array


def paged_batch(
    query_start_loc: Ids,
    seq_lens: Ids,
    block_table: Any,
    *,
    num_blocks: int,
    entry_tokens: int,
    idx_mapping: Ids | None = None,
    trusted: bool = False,
) -> PagedBatch:
    """Return a batch whose every page is in the cache.

    block_table: [rows, width] integers, an array or tensor; an entry covers entry_tokens
    tokens and is in 0..num_blocks - 1 as far as its request reaches; entries after that may be
    anything. idx_mapping[i]: table row of batch row i, DUMMY_REQUEST for none, all rows in order
    if absent. `trusted` does not read the table's ids, which for a GPU's table means to wait.
    """
    check_integer("entry_tokens", entry_tokens, 1, LARGEST_INT32)
    check_integer("num_blocks", num_blocks, 0, LARGEST_INT32)
    starts = numbers(query_start_loc, "query_start_loc", low=0, limit=LARGEST_INT32)
    lengths = numbers(seq_lens, "seq_lens", low=0, limit=LARGEST_INT32)
    if len(starts) != len(lengths) + 1:
        raise PagedFlexError(
            f"query_start_loc has {len(starts)} entries; {len(lengths)} seq_lens need "
            f"{len(lengths) + 1}: 0, then the end of each request's queries",
            field="query_start_loc",
            given=len(starts),
            limit=len(lengths) + 1,
        )
    if starts[0] != 0 or (np.diff(starts) < 0).any():
        i = 0 if starts[0] != 0 else int(np.argmax(np.diff(starts) < 0)) + 1
        raise PagedFlexError(
            f"query_start_loc[{i}] is {starts[i]}: it must begin with 0 and never fall",
            field="query_start_loc",
            given=int(starts[i]),
            index=i,
        )
    shape = tuple(getattr(block_table, "shape", ()))
    if len(shape) != 2:
        raise PagedFlexError(
            "block_table must be an array or a tensor [rows, entries]; got "
            f"{list(shape) or type(block_table).__name__}. Lists of different lengths: fill them "
            "up to the longest, with any number.",
            field="block_table",
            given=shape,
        )
    if idx_mapping is None:
        idx_mapping = np.arange(len(lengths))
    rows = numbers(idx_mapping, "idx_mapping", low=DUMMY_REQUEST, limit=max(shape[0], 0))
    if len(rows) != len(lengths):
        raise PagedFlexError(
            f"idx_mapping has {len(rows)} entries, but there are {len(lengths)} seq_lens: give one "
            "table row for each request",
            field="idx_mapping",
            given=len(rows),
            limit=len(lengths),
        )
    # a dummy reads no page, whatever length it came with
    lengths = np.where(rows == DUMMY_REQUEST, 0, lengths)
    _check_lengths(starts, lengths, rows, shape[1] * entry_tokens)
    if not trusted:
        # entries after the last one of a request are never read, so they are not checked
        _check_ids(block_table, rows, -(-lengths // entry_tokens), num_blocks)
    return PagedBatch(
        query_start_loc=starts.astype(np.int32),
        seq_lens=lengths.astype(np.int32),
        rows=rows.astype(np.int32),
        block_table=block_table,
        entry_tokens=entry_tokens,
        num_blocks=num_blocks,
    )


def _check_lengths(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], rows: NDArray[np.int64], room: int
) -> None:
    counts = np.diff(starts)
    live = rows != DUMMY_REQUEST
    if (wrong := live & (counts > lengths)).any():
        i = int(np.argmax(wrong))
        raise PagedFlexError(
            f"request {i} has {counts[i]} queries but seq_lens[{i}] is {lengths[i]}: a length "
            "counts the queries too",
            field="seq_lens",
            given=int(lengths[i]),
            limit=int(counts[i]),
            index=i,
            request=i,
        )
    if (wrong := lengths > room).any():
        i = int(np.argmax(wrong))
        raise PagedFlexError(
            f"seq_lens[{i}] is {lengths[i]}, but a row of the block table holds {room} tokens. "
            "Widen the table, or shorten the request.",
            field="seq_lens",
            given=int(lengths[i]),
            limit=room,
            index=i,
            request=i,
        )


def _check_ids(
    block_table: Any, rows: NDArray[np.int64], entries: NDArray[np.int64], num_blocks: int
) -> None:
    table = np.asarray(block_table.cpu() if hasattr(block_table, "cpu") else block_table)
    if table.dtype.kind not in "iu":
        raise PagedFlexError(
            f"block_table must hold integers; got {table.dtype}",
            field="block_table",
            given=str(table.dtype),
        )
    for i, row in enumerate(rows):
        ids = table[row, : entries[i]] if row != DUMMY_REQUEST else table[:0, 0]
        if (wrong := (ids < 0) | (ids >= num_blocks)).any():
            column = int(np.argmax(wrong))
            raise PagedFlexError(
                f"block_table[{row}, {column}] is {ids[column]}; the cache has blocks "
                f"0..{num_blocks - 1}, and request {i} reads {entries[i]} entries of its row",
                field="block_table",
                given=int(ids[column]),
                limit=num_blocks,
                index=column,
                request=i,
            )
