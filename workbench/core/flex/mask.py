"""Flex attention's mask over a paged cache: who sees which slot, and where a slot belongs (0.23).

Slots are physical: slot = physical block * block size + offset. Small sizes: this is plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from workbench.core.arithmetic import cdiv
from workbench.core.errors import ScenarioError, shown
from workbench.core.tables.block_pool import NULL_BLOCK

UNOWNED = -1
"""The entry of a physical block that is not of this request."""
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MaskRule:
    """Which keys a query of the same request sees; positions in tokens.

    causal: keys up to the query. window: |query - key| < window. chunk: keys of the query's own
    chunk of this many positions (ours, not a mask of vLLM's flex backend). prefix: ranges [s, e],
    both ends included, in which everybody sees everybody, whatever the rest says. prefixes: the
    ranges of each request, in place of `prefix`; requests after the last have `prefix`.
    Errors: ScenarioError for a window or a chunk below one token.
    """

    causal: bool = True
    window: int | None = None
    chunk: int | None = None
    prefix: tuple[Range, ...] = ()
    prefixes: tuple[tuple[Range, ...], ...] = ()

    def __post_init__(self) -> None:
        """Check the sizes: a chunk of 0 would divide by it."""
        for name, size in (("window", self.window), ("chunk", self.chunk)):
            if size is not None and size < 1:
                raise ScenarioError(
                    "out_of_range",
                    f"Invalid {name} = {shown(size)} of a mask. Expected at least 1 token. "
                    "Nearest valid value: 1.",
                    field=name,
                )

    def of(self, request: int) -> MaskRule:
        """Return the rule of one request of the batch."""
        if request >= len(self.prefixes):
            return self
        return replace(self, prefix=self.prefixes[request], prefixes=())

    def visible(self, query: int, length: int) -> tuple[Range, ...]:
        """Return the range [low, high) of keys that position `query` sees among `length` tokens."""
        low, high = 0, query + 1 if self.causal else length
        if self.window is not None:
            low, high = max(low, query - self.window + 1), min(high, query + self.window)
        if self.chunk is not None:
            start = query // self.chunk * self.chunk
            low, high = max(low, start), min(high, start + self.chunk)
        # Prefix ranges are added last, so they override what causal and window exclude.
        ranges = [(low, high), *((s, e + 1) for s, e in self.prefix if s <= query <= e)]
        return _union((max(a, 0), min(b, length)) for a, b in ranges)


@dataclass(frozen=True)
class PagedBatch:
    """A step over a paged cache. Sizes in tokens.

    rows: [request][column] -> physical block; columns after a request's own blocks are whatever
    was there before. query_lens: new tokens of each request; seq_lens: all its tokens.
    num_blocks: of the pool, the null block included.
    """

    rows: tuple[tuple[int, ...], ...]
    query_lens: tuple[int, ...]
    seq_lens: tuple[int, ...]
    block_size: int
    num_blocks: int

    def __post_init__(self) -> None:
        """Check the rows. Errors: ValueError for rows that do not match the lengths."""
        if not len(self.rows) == len(self.query_lens) == len(self.seq_lens):
            raise ValueError("rows, query_lens and seq_lens must have one entry per request")
        for request, (row, query, length) in enumerate(
            zip(self.rows, self.query_lens, self.seq_lens, strict=True)
        ):
            if not 0 <= query <= length <= len(row) * self.block_size:
                raise ValueError(
                    f"request {request}: {query} new of {length} tokens do not fit into "
                    f"{len(row)} blocks of {self.block_size}"
                )
            if any(not 0 <= block < self.num_blocks for block in row):
                raise ValueError(f"request {request}: a block is not one of {self.num_blocks}")

    @property
    def num_tokens(self) -> int:
        """Return new tokens of all requests, packed one request after the other."""
        return sum(self.query_lens)

    @property
    def total_slots(self) -> int:
        """Return the slots of the whole cache: the length of a physical row of the mask."""
        return self.num_blocks * self.block_size

    def alone(self, request: int) -> PagedBatch:
        """Return the same step of one request only, over the same cache."""
        step = (self.rows[request],), (self.query_lens[request],), (self.seq_lens[request],)
        return PagedBatch(*step, self.block_size, self.num_blocks)

    def own_blocks(self, request: int) -> int:
        """Return the columns of a row that belong to its request."""
        return cdiv(self.seq_lens[request], self.block_size)

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """Return [token] -> request."""
        return tuple(r for r, count in enumerate(self.query_lens) for _ in range(count))

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Return [token] -> logical position in its request: the new tokens are the last ones."""
        return tuple(
            length - count + index
            for count, length in zip(self.query_lens, self.seq_lens, strict=True)
            for index in range(count)
        )

    @cached_property
    def inverse(self) -> tuple[tuple[int, ...], ...]:
        """Return [request][physical block] -> logical block, or -1 for blocks of others."""
        # physical_to_logical_mapping (#41252).
        table = []
        for request, row in enumerate(self.rows):
            found = [UNOWNED] * self.num_blocks
            # Only a request's own columns count; a block that appears twice keeps the later one.
            for column in range(self.own_blocks(request)):
                found[row[column]] = max(found[row[column]], column)
            # Every row may name the null block, so it belongs to no request.
            found[NULL_BLOCK] = UNOWNED
            table.append(tuple(found))
        return tuple(table)

    @cached_property
    def places(self) -> tuple[tuple[Range, ...], ...]:
        """Return [request] -> (physical block, logical block) pairs that the mask can see."""
        return tuple(
            tuple((block, logical) for block, logical in enumerate(row) if logical != UNOWNED)
            for row in self.inverse
        )


def sees(batch: PagedBatch, rule: MaskRule, token: int, slot: int) -> bool:
    """Evaluate the mask_mod: return whether packed token `token` may see slot `slot`."""
    request = batch.owners[token]
    block, offset = divmod(slot, batch.block_size)
    logical = batch.inverse[request][block]
    position = logical * batch.block_size + offset
    length = batch.seq_lens[request]
    if logical == UNOWNED or position >= length:
        return False
    visible = rule.of(request).visible(batch.positions[token], length)
    return any(low <= position < high for low, high in visible)


def visible_slots(batch: PagedBatch, rule: MaskRule, token: int) -> tuple[Range, ...]:
    """Return the slots that a token sees, as ranges [low, high) in ascending order."""
    # Keys whose block the inverse table lost (null blocks, blocks used twice) have no slot.
    request, size = batch.owners[token], batch.block_size
    visible = rule.of(request).visible(batch.positions[token], batch.seq_lens[request])
    found = []
    for block, logical in batch.places[request]:
        start = logical * size
        for low, high in visible:
            first, last = max(low, start), min(high, start + size)
            if first < last:
                shift = block * size - start
                found.append((first + shift, last + shift))
    return tuple(sorted(found))


def _union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for low, high in sorted(pair for pair in ranges if pair[0] < pair[1]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)
