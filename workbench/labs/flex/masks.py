"""Real torch BlockMask objects over a paged cache, compared with the plain model.

The mask_mod is written here once more, on tensors, as the engine passes it to torch. Small
sizes: comparing looks at every (query, slot) pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import CAUSAL, mask_rule, paged_batch
from workbench.core.flex.build import BlockLists, direct_build, generic_build
from workbench.core.flex.mask import MaskRule, PagedBatch, sees
from workbench.core.flex.plan import FlexPlan
from workbench.core.flex.result import LabResult
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.labs.flex.inputs import sizes_of
from workbench.labs.jobs import Job

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
MAX_PAIRS = 2**20


def mask_mod(batch: PagedBatch, rule: MaskRule) -> MaskMod:
    """Return the mask_mod over physical slots: (batch, head, token, slot) -> bool.

    Tokens after the last one, and slots past the cache, must not be evaluated.
    """
    inverse = torch.tensor(batch.inverse)
    owners, positions = torch.tensor(batch.owners), torch.tensor(batch.positions)
    lengths = torch.tensor(batch.seq_lens)

    own = [rule.of(request).prefix for request in range(len(batch.rows))]
    most = max(map(len, own), default=0)
    # an empty range: its end is before its start
    filled = [[*found, *[(0, -1)] * (most - len(found))] for found in own]
    ranges = torch.tensor(filled, dtype=torch.int64).reshape(len(own), most, 2)

    def mod(_batch: Tensor, _head: Tensor, token: Tensor, slot: Tensor) -> Tensor:
        request, query = owners[token], positions[token]
        logical = inverse[request, slot // batch.block_size]
        key = logical * batch.block_size + slot % batch.block_size
        valid = (logical >= 0) & (key < lengths[request])
        seen = query >= key if rule.causal else torch.ones_like(valid)
        if rule.window is not None:
            seen = seen & ((query - key).abs() < rule.window)
        if rule.chunk is not None:
            seen = seen & (query // rule.chunk == key // rule.chunk)
        for i in range(ranges.shape[1]):
            start, end = ranges[request, i, 0], ranges[request, i, 1]
            both = (query >= start) & (query <= end) & (key >= start) & (key <= end)
            seen = seen | both
        return valid & seen

    return mod


def torch_mask(batch: PagedBatch, rule: MaskRule) -> Tensor:
    """Return torch's own dense mask [tokens, slots]."""
    mod = mask_mod(batch, rule)
    return create_mask(mod, 1, 1, batch.num_tokens, batch.total_slots, device="cpu")[0, 0]


def generic_block_mask(
    batch: PagedBatch, rule: MaskRule, q_block_size: int, kv_block_size: int
) -> BlockMask:
    """Return torch's own BlockMask, which evaluates every pair."""
    return create_block_mask(
        mask_mod(batch, rule),
        1,
        1,
        batch.num_tokens,
        batch.total_slots,
        device="cpu",
        BLOCK_SIZE=(q_block_size, kv_block_size),
    )


def direct_block_mask(batch: PagedBatch, rule: MaskRule, lists: BlockLists) -> BlockMask:
    """Build a BlockMask from listed blocks like the engine's direct build: none is full."""
    width = max(1, *lists.counts) if lists.counts else 1
    padded = [[*group, *[0] * (width - len(group))] for group in lists.visits]
    return BlockMask.from_kv_blocks(
        torch.tensor([[lists.counts]], dtype=torch.int32),
        torch.tensor([[padded]], dtype=torch.int32),
        BLOCK_SIZE=(lists.q_block_size, lists.kv_block_size),
        mask_mod=mask_mod(batch, rule),
        seq_lengths=(batch.num_tokens, batch.total_slots),
        compute_q_blocks=False,
    )


def visited_by(block_mask: BlockMask) -> tuple[tuple[int, ...], ...]:
    """Return [group] -> KV blocks in a kernel's order: partial blocks first, then full ones."""
    found = _listed(block_mask.kv_num_blocks, block_mask.kv_indices)
    if block_mask.full_kv_num_blocks is None or block_mask.full_kv_indices is None:
        return found
    full = _listed(block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    return tuple((*some, *whole) for some, whole in zip(found, full, strict=True))


def _listed(counts: Tensor, indices: Tensor) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(row[:count])
        for count, row in zip(counts[0, 0].tolist(), indices[0, 0].tolist(), strict=True)
    )


@dataclass(frozen=True, slots=True)
class MaskComparison(LabResult):
    """torch against the plain model: pairs looked at, and the first difference (None: none)."""

    pairs: int
    mismatch: str | None


def mask_lab(
    plan: Plan,
    batch: Sequence[BatchRequest],
    *,
    mask: str = CAUSAL,
    mask_tokens: int = 64,
    job: Job | None = None,  # noqa: ARG001 - takes a second
) -> MaskComparison:
    """Compare the mask of a batch over blocks of this plan with torch's own, pair by pair.

    Errors: ScenarioError for a plan without a mask, or for more than a million pairs.
    """
    paged, rule, flex = mask_case(plan, batch, mask, mask_tokens)
    return compare_with_torch(paged, rule, flex.mask.q_block_size, flex.mask.kv_block_size)


def mask_case(
    plan: Plan, batch: Sequence[BatchRequest], mask: str, mask_tokens: int
) -> tuple[PagedBatch, MaskRule, FlexPlan]:
    """Return the batch over blocks of the plan, the mask's rule, and the sizes of the plan.

    Errors: ScenarioError.
    """
    flex = sizes_of(plan)
    return paged_batch(batch, flex.cache_block_size), mask_rule(mask, mask_tokens), flex


def compare_with_torch(
    batch: PagedBatch, rule: MaskRule, q_block_size: int, kv_block_size: int
) -> MaskComparison:
    """Compare every pair of the mask, and every block of both builds.

    Errors: ScenarioError for more than a million pairs.
    """
    pairs = checked_pairs(batch, MAX_PAIRS)
    return MaskComparison(
        pairs,
        _pair_mismatch(batch, rule)
        or _block_mismatch(
            "generic",
            generic_build(batch, rule, q_block_size, kv_block_size),
            generic_block_mask(batch, rule, q_block_size, kv_block_size),
        )
        or _direct_mismatch(batch, rule, q_block_size),
    )


def checked_pairs(batch: PagedBatch, most: int) -> int:
    """Return the pairs of token and slot. Errors: ScenarioError for more than `most`."""
    pairs = batch.num_tokens * batch.total_slots
    if pairs > most:
        raise ScenarioError(
            "batch_too_large_to_check",
            f"Invalid batch: {pairs:,} pairs of token and slot are too many to look at one by one. "
            f"Expected at most {most:,}: take fewer or shorter requests.",
            field="batch",
        )
    return pairs


def _pair_mismatch(batch: PagedBatch, rule: MaskRule) -> str | None:
    for token, row in enumerate(torch_mask(batch, rule).tolist()):
        for slot, theirs in enumerate(row):
            ours = sees(batch, rule, token, slot)
            if ours != theirs:
                return f"token {token}, slot {slot}: torch says {theirs}, the model {ours}"
    return None


def _direct_mismatch(batch: PagedBatch, rule: MaskRule, q_block_size: int) -> str | None:
    lists = direct_build(batch, rule, q_block_size)
    return _block_mismatch("direct", lists, direct_block_mask(batch, rule, lists))


def _block_mismatch(build: str, lists: BlockLists, block_mask: BlockMask) -> str | None:
    theirs = visited_by(block_mask)
    for group, (ours, found) in enumerate(zip(lists.visits, theirs, strict=True)):
        if ours != found:
            return f"{build} build, group {group}: torch visits {found}, the model {ours}"
    return None
