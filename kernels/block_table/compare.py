"""Compare a step's result with the oracle, entry by entry."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.reference import ReferenceTables


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry that is not the oracle's.

    `where` is "count", "source", "gathered" or "slot". `row` is the request, the batch row, or 0;
    `column` the kernel block or the token, 0 for a count.
    """

    where: str
    group: int
    row: int
    column: int
    expected: int
    actual: int


def differences(
    tables: BlockTables,
    model: ReferenceTables,
    idx_mapping: Sequence[int],
    query_start_loc: Sequence[int],
    positions: Sequence[int],
    *,
    padded_requests: int | None = None,
) -> tuple[Difference, ...]:
    """List the differences between a step of `tables` with this batch and `model`.

    Return () if they are equal. Compares each request's live row, the live entries and the zero
    rows of the gathered tables, and all slots. The model must have gone through the same writes
    and `apply`.
    """
    found: list[Difference] = []

    def compare(where: str, g: int, row: int, wanted: Sequence[int], got: Sequence[int]) -> None:
        if list(wanted) != list(got):
            pairs = enumerate(zip(wanted, got, strict=True))
            found.extend(
                Difference(where=where, group=g, row=row, column=c, expected=w, actual=a)
                for c, (w, a) in pairs
                if w != a
            )

    padded = tables.max_requests if padded_requests is None else padded_requests
    spans = pairwise(query_start_loc)
    firsts = [positions[begin] if begin < end else 0 for begin, end in spans]
    gathered = model.gather(idx_mapping, padded, firsts)
    slots = model.slot_mappings(idx_mapping, query_start_loc, positions, tables.max_tokens)
    counts = tables.counts()
    for g, table in enumerate(tables.block_table):
        for request in range(tables.max_requests):
            row = model.row(g, request)
            compare("count", g, request, [len(row)], [int(counts[g, request])])
            compare(
                "source", g, request, row, (*tables.row(g, request), *[-1] * len(row))[: len(row)]
            )
        rows = table.cpu().tolist()
        for i, live in enumerate(gathered[g]):
            compare("gathered", g, i, live, rows[i][: len(live)])
        compare("slot", g, 0, slots[g], tables.slot_mapping[g].tolist())
    return tuple(found)
