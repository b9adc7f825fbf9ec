"""Batches for the mask: from a plan's own blocks, and the one in which a stale column reorders."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.arithmetic import LARGEST_INT32, cdiv
from workbench.core.errors import ScenarioError, check_integer, check_name
from workbench.core.flex.build import direct_build
from workbench.core.flex.mask import MaskRule, PagedBatch, Range
from workbench.core.tables.batch_grammar import LONGEST, BatchRequest
from workbench.core.tables.block_pool import NULL_BLOCK
from workbench.core.trace import Citation, Rule, Step

CAUSAL, WINDOW, PREFIX, DOCUMENT, CHUNKED = KINDS = (
    "causal", "sliding window", "prefix-LM", "document", "chunked"
)  # fmt: skip
"""Mask kinds. document: every token of the own request, before and after."""
MAX_WORK = 2**18
"""New tokens times blocks of a row: the pictures come from plain Python."""
RANGE = re.compile(r"(\d{1,9})\s*-\s*(\d{1,9})", re.ASCII)

READ_AT = Citation(
    "0.23",
    "v1/attention/backends/flex_attention.py",
    ("FlexAttentionMetadata._build_block_mask_direct",),
    "#41252",
)
TILE_ORDER = Rule(
    "flex_tile_order",
    "Order of a request's pages",
    "first occurrence of each block id over the rows of the group, stale columns included",
    "",
)


def mask_rule(kind: str, size: int) -> MaskRule:
    """Return the rule of a kind; `size`: of its window, prefix or chunk. Errors: ScenarioError."""
    check_name("Mask", kind, KINDS, "mask")
    check_integer("mask_tokens", size, 1, LARGEST_INT32 - 1, LONGEST)
    return {
        CAUSAL: MaskRule(),
        WINDOW: MaskRule(window=size),
        PREFIX: MaskRule(prefix=((0, size - 1),)),
        DOCUMENT: MaskRule(causal=False),
        CHUNKED: MaskRule(chunk=size),
    }[kind]


def parse_prefixes(text: str, requests: int) -> tuple[tuple[Range, ...], ...]:
    """Return [request] -> ranges [start, end] of prefix-LM, both ends included; "" gives ().

    text: such as `0-63; 0-9,20-29` for two requests; requests that are not listed have none.
    Errors: ScenarioError for what is not a range, a range that ends before its start, and more
    requests than the batch has.
    """
    if not text.strip():
        return ()
    lists = text.split(";")
    if len(lists) > requests:
        raise _error(f"ranges are given for {len(lists)} requests, and the batch has {requests}")
    found = tuple(tuple(map(_range, filter(str.strip, part.split(",")))) for part in lists)
    return (*found, *((),) * (requests - len(found)))


def _range(word: str) -> Range:
    match = RANGE.fullmatch(word.strip())
    if match is None:
        raise _error(f"Invalid range {word.strip()[:40]!r}")
    start, end = int(match[1]), int(match[2])
    if end < start:
        raise _error(
            f"Range {start}-{end} ends before it starts. Nearest valid value: {end}-{start}"
        )
    return start, end


def _error(what: str) -> ScenarioError:
    return ScenarioError(
        "prefix_not_readable",
        f"{what}. Expected start-end, joined by commas, requests joined by semicolons, for example "
        "0-63; 0-9,20-29.",
        field="prefix",
    )


def paged_batch(
    requests: Sequence[BatchRequest], block_size: int, *, stale: bool = False
) -> PagedBatch:
    """Return requests that grew together: blocks were allocated in turn, so their pages alternate.

    block_size: the kernel block of the plan. stale: what is after a row's own blocks are the
    first blocks of the request before it, as in a row that was used earlier; else null blocks.
    Errors: ScenarioError when the batch is too large for plain Python.
    """
    own = [cdiv(request.sequence_tokens, block_size) for request in requests]
    width = max(own)
    tokens = sum(request.query_tokens for request in requests)
    if tokens * width > MAX_WORK or sum(own) > MAX_WORK:
        raise ScenarioError(
            "batch_too_large_to_draw",
            f"{tokens:,} new tokens over rows of {width:,} blocks are {tokens * width:,} entries; "
            f"the picture shows at most {MAX_WORK:,}. Nearest valid: "
            f"{max(1, MAX_WORK // width):,} new tokens at this length.",
            field="batch",
        )
    # One block for each request in turn, as decoding requests get them from one pool.
    rows: list[list[int]] = [[] for _ in requests]
    block = NULL_BLOCK
    for column in range(width):
        for row, blocks in zip(rows, own, strict=True):
            if column < blocks:
                block += 1
                row.append(block)
    null = [NULL_BLOCK] * width
    # The gather kernel of the block tables does not clear the tail of a row (0.23).
    tails = [rows[index - 1] if stale else [] for index in range(len(rows))]
    return PagedBatch(
        tuple((*row, *tail, *null)[:width] for row, tail in zip(rows, tails, strict=True)),
        tuple(request.query_tokens for request in requests),
        tuple(request.sequence_tokens for request in requests),
        block_size,
        block + 1,
    )


STALE_ROWS = ((3, 5, 1, 7, 4, 2, 9, 6), (8, 10, 11, 5, 0, 0, 0, 0), (4, 4, 11, 0, 0, 0, 0, 0))
"""Request 1 has two blocks of its own; its third column still names block 11, of request 2."""


def stale_batch() -> PagedBatch:
    """Return requests of 1, 3 and 16 new tokens, blocks of 16, and a stale column that matters."""
    return PagedBatch(STALE_ROWS, (1, 3, 16), (50, 17, 40), 16, 12)


STALE_REQUEST, STALE_GROUP = 2, 16
"""The request of that batch whose pages a neighbour reorders, and the queries of a group."""


@dataclass(frozen=True, slots=True)
class OrderInversion:
    """Order in which a request's pages are visited alone, in 0.23's batch, and in 0.33's."""

    request: int
    alone: tuple[int, ...]
    batched: tuple[int, ...]
    pruned: tuple[int, ...]

    @property
    def inverted(self) -> bool:
        """Return whether 0.23 adds this request up in another order because of its neighbours."""
        return self.alone != self.batched

    def step(self) -> Step:
        """Return the order in the batch as a step, to check an answer against."""
        return Step(
            TILE_ORDER, {"alone": self.alone, "rows": STALE_ROWS}, self.batched, citation=READ_AT
        )


def order_inversion(batch: PagedBatch, request: int, q_block_size: int) -> OrderInversion:
    """Compare the page order of the first group that `request` has tokens in, alone and batched."""
    alone = batch.alone(request)
    group = batch.owners.index(request) // q_block_size
    mine = {block for block, _logical in batch.places[request]}

    def order(of: PagedBatch, index: int, *, pruned: bool = False) -> tuple[int, ...]:
        lists = direct_build(of, MaskRule(), q_block_size, pruned=pruned)
        return tuple(block for block in lists.visits[index] if block in mine)

    pruned = order(batch, group, pruned=True)
    return OrderInversion(request, order(alone, 0), order(batch, group), pruned)


def predicted_orders() -> OrderInversion:
    """Predict the orders of the batch with the stale column from the plain model."""
    return order_inversion(stale_batch(), STALE_REQUEST, STALE_GROUP)
