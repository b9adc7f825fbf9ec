"""Which KV blocks a flex kernel visits: the direct and the generic build of a block mask (0.23).

Source: `FlexAttentionMetadata._build_block_mask_direct` (#41252) and torch's `create_block_mask`.
A group is one mask block of queries: consecutive packed tokens, often of several requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.arithmetic import cdiv
from workbench.core.flex.mask import MaskRule, PagedBatch, Range, visible_slots
from workbench.core.tables.block_pool import NULL_BLOCK

EMPTY, PARTIAL, FULL = "empty", "partial", "full"


@dataclass(frozen=True)
class BlockLists:
    """The KV blocks of every group, in the order in which the kernel visits them.

    visits: [group] -> KV blocks without a per-pair skip; full: [group] -> those of them whose mask
    is all true and not evaluated (generic build only). dropped: entries that were there twice.
    """

    q_block_size: int
    kv_block_size: int
    visits: tuple[tuple[int, ...], ...]
    full: tuple[frozenset[int], ...]
    dropped: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Return KV blocks of each group."""
        return tuple(map(len, self.visits))


def direct_build(
    batch: PagedBatch, rule: MaskRule, q_block_size: int, *, pruned: bool = False
) -> BlockLists:
    """List each group's pages straight from the block table: first occurrence first.

    Every row is read as far as the longest request reaches, so a shorter request brings columns
    that are not its own. pruned: as in 0.33, which drops columns after a request's own blocks and,
    under causal, later blocks. A window drops pages that a prefix would still see, and so does
    this pruning: `Visits.missed` counts what is lost.
    """
    groups, dropped = [], 0
    for start in range(0, batch.num_tokens, q_block_size):
        tokens = range(start, min(start + q_block_size, batch.num_tokens))
        pages = [page for token in tokens for page in _pages(batch, rule, token, pruned=pruned)]
        unique = tuple(dict.fromkeys(page for page in pages if page != NULL_BLOCK))
        groups.append(unique)
        dropped += sum(page != NULL_BLOCK for page in pages) - len(unique)
    full: tuple[frozenset[int], ...] = (frozenset(),) * len(groups)
    return BlockLists(q_block_size, batch.block_size, tuple(groups), full, dropped)


def _pages(batch: PagedBatch, rule: MaskRule, token: int, *, pruned: bool) -> list[int]:
    """Return the columns of a token's row, 0 where the build omits one."""
    request, position = batch.owners[token], batch.positions[token]
    row = batch.rows[request][: batch.max_blocks]
    first = 0
    if rule.window is not None:
        first = max(0, position - (rule.window - 1)) // batch.block_size
    last = len(row)
    if pruned:
        last = min(last, batch.own_blocks(request))
        if rule.causal:
            last = min(last, position // batch.block_size + 1)
    return [page if first <= column < last else NULL_BLOCK for column, page in enumerate(row)]


def generic_build(
    batch: PagedBatch, rule: MaskRule, q_block_size: int, kv_block_size: int
) -> BlockLists:
    """Evaluate every (token, slot) pair and keep the KV blocks with a true one, ascending.

    The kernel visits blocks that are partly true first, then the full ones. Queries that do not
    fill a group count as false, so the last group has no full block unless it is filled.
    """
    visits, full = [], []
    for counts in _pair_counts(batch, rule, q_block_size, kv_block_size):
        whole = {b for b, pairs in counts.items() if pairs == q_block_size * kv_block_size}
        partial = sorted(counts.keys() - whole)
        visits.append((*partial, *sorted(whole)))
        full.append(frozenset(whole))
    return BlockLists(q_block_size, kv_block_size, tuple(visits), tuple(full))


@dataclass(frozen=True)
class Visits:
    """What the kernel does with a list of KV blocks.

    kinds: [group][visit] -> full, partial or empty. pairs: visible (query, slot) pairs; missed:
    those of them in blocks that the list omits, so the result is wrong.
    """

    lists: BlockLists
    kinds: tuple[tuple[str, ...], ...]
    pairs: int
    missed: int = 0

    @property
    def visited(self) -> int:
        """Return KV blocks over all groups."""
        return sum(self.lists.counts)

    @property
    def wasted(self) -> int:
        """Return the visits of a block in which no query of the group sees anything."""
        return sum(kinds.count(EMPTY) for kinds in self.kinds)

    @property
    def repeated(self) -> int:
        """Return the repeated visits: blocks that another group has already loaded."""
        return self.visited - len({block for group in self.lists.visits for block in group})

    @property
    def evaluated_pairs(self) -> int:
        """Return the pairs that the kernel computes, seen or not."""
        return self.visited * self.lists.q_block_size * self.lists.kv_block_size


def visits(batch: PagedBatch, rule: MaskRule, lists: BlockLists) -> Visits:
    """Report for every visit whether it was full, partial or without any visible pair."""
    size = lists.q_block_size * lists.kv_block_size
    counts = _pair_counts(batch, rule, lists.q_block_size, lists.kv_block_size)
    kinds = tuple(
        tuple(_kind(found.get(block, 0), size) for block in group)
        for found, group in zip(counts, lists.visits, strict=True)
    )
    missed = sum(
        pairs
        for found, group in zip(counts, lists.visits, strict=True)
        for block, pairs in found.items()
        if block not in group
    )
    return Visits(lists, kinds, sum(sum(found.values()) for found in counts), missed)


def _kind(pairs: int, size: int) -> str:
    return EMPTY if pairs == 0 else FULL if pairs == size else PARTIAL


def _pair_counts(
    batch: PagedBatch, rule: MaskRule, q_block_size: int, kv_block_size: int
) -> list[dict[int, int]]:
    """Return [group] -> KV block -> visible pairs in it; blocks without any are omitted."""
    groups: list[dict[int, int]] = [{} for _ in range(cdiv(batch.num_tokens, q_block_size))]
    for token in range(batch.num_tokens):
        counts = groups[token // q_block_size]
        for span in visible_slots(batch, rule, token):
            for block, length in _split(span, kv_block_size):
                counts[block] = counts.get(block, 0) + length
    return groups


def _split(span: Range, size: int) -> list[Range]:
    """Return (block, length) of every block of `size` that a range [low, high) reaches into."""
    low, high = span
    return [
        (block, min(high, (block + 1) * size) - max(low, block * size))
        for block in range(low // size, cdiv(high, size))
    ]
