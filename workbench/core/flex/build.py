"""Which KV blocks a flex kernel visits: the direct and the generic build of a block mask (0.23).

A group is one mask block of queries: consecutive packed tokens, often of several requests.
"""

from dataclasses import dataclass

from workbench.core.arithmetic import cdiv
from workbench.core.flex.mask import MaskRule, PagedBatch, visible_slots
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

    pruned: as in 0.33, which drops columns after a request's own blocks and, under causal, later
    blocks. Source: `FlexAttentionMetadata._build_block_mask_direct` (#41252).
    """
    groups, dropped = [], 0
    for start in range(0, batch.num_tokens, q_block_size):
        tokens = range(start, min(start + q_block_size, batch.num_tokens))
        pages = [page for token in tokens for page in _pages(batch, rule, token, pruned=pruned)]
        # A stale column can move another request's page to the front; its keys are then
        # added up in another order, which gives different bits (0.23).
        # Columns before a window are set to the null block, which is dropped like a repeated page.
        unique = tuple(dict.fromkeys(page for page in pages if page != NULL_BLOCK))
        groups.append(unique)
        dropped += sum(page != NULL_BLOCK for page in pages) - len(unique)
    # No page is known to be full: the mask is evaluated in every one.
    full: tuple[frozenset[int], ...] = (frozenset(),) * len(groups)
    return BlockLists(q_block_size, batch.block_size, tuple(groups), full, dropped)


def _pages(batch: PagedBatch, rule: MaskRule, token: int, *, pruned: bool) -> tuple[int, ...]:
    """Return the columns of a token's row that the build keeps, null blocks included."""
    request, position = batch.owners[token], batch.positions[token]
    # Every row is read as far as the longest request reaches, so a shorter request brings columns
    # that are not its own.
    row = batch.rows[request][: cdiv(max(batch.seq_lens), batch.block_size)]
    first = 0
    # A window drops pages that a prefix would still see, and so does pruning: `Visits.missed`.
    if rule.window is not None:
        first = max(0, position - (rule.window - 1)) // batch.block_size
    last = len(row)
    if pruned:
        last = min(last, batch.own_blocks(request))
        if rule.causal:
            last = min(last, position // batch.block_size + 1)
    return row[first:last]


def generic_build(
    batch: PagedBatch, rule: MaskRule, q_block_size: int, kv_block_size: int
) -> BlockLists:
    """Evaluate every (token, slot) pair and keep the KV blocks with a true one, ascending."""
    # As create_block_mask of torch does.
    visits, full = [], []
    for counts in _pair_counts(batch, rule, q_block_size, kv_block_size):
        # Queries that do not fill a group count as false, so the last group has no full block
        # unless it is filled.
        whole = {b for b, pairs in counts.items() if pairs == q_block_size * kv_block_size}
        # The kernel visits blocks that are partly true first, then the full ones.
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
    missed: int

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
    kind_of = {0: EMPTY, size: FULL}
    kinds, missed = [], 0
    for found, group in zip(counts, lists.visits, strict=True):
        kinds.append(tuple(kind_of.get(found.get(block, 0), PARTIAL) for block in group))
        missed += sum(pairs for block, pairs in found.items() if block not in group)
    return Visits(lists, tuple(kinds), sum(sum(found.values()) for found in counts), missed)


def _pair_counts(
    batch: PagedBatch, rule: MaskRule, q_block_size: int, kv_block_size: int
) -> list[dict[int, int]]:
    """Return [group] -> KV block -> visible pairs in it; blocks without any are omitted."""
    groups: list[dict[int, int]] = [{} for _ in range(cdiv(batch.num_tokens, q_block_size))]
    for token in range(batch.num_tokens):
        counts = groups[token // q_block_size]
        for low, high in visible_slots(batch, rule, token):
            for block in range(low // kv_block_size, cdiv(high, kv_block_size)):
                start, stop = block * kv_block_size, (block + 1) * kv_block_size
                counts[block] = counts.get(block, 0) + min(high, stop) - max(low, start)
    return groups
