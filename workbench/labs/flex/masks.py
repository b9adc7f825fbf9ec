"""Real torch BlockMask objects over a paged cache: compared with the plain model, and their cost.

The mask_mod is written here once more, on tensors, as the engine passes it to torch. Small
sizes: comparing looks at every (query, slot) pair.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask
from torch.utils.benchmark import Timer

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import CAUSAL, mask_rule, paged_batch
from workbench.core.flex.build import BlockLists, direct_build, generic_build
from workbench.core.flex.mask import MaskRule, PagedBatch, sees
from workbench.core.flex.result import LabResult
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.labs.flex.inputs import sizes_of
from workbench.labs.jobs import Job

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
MAX_PAIRS = 2**20
MAX_BUILT_PAIRS = 2**24
"""Pairs of token and slot that the generic build may evaluate: below a second."""
GROWTHS = (1, 16, 256)
"""Sizes of the pool, in those of the batch."""


def mask_mod(batch: PagedBatch, rule: MaskRule) -> MaskMod:
    """Return the mask_mod over physical slots: (batch, head, token, slot) -> bool.

    Tokens after the last one, and slots past the cache, must not be evaluated.
    """
    inverse = torch.tensor(batch.inverse)
    owners, positions = torch.tensor(batch.owners), torch.tensor(batch.positions)
    lengths = torch.tensor(batch.seq_lens)

    own = [rule.of(request).prefix for request in range(len(batch.rows))]
    most = max(map(len, own), default=0)
    # the ranges that a request lacks are empty: their end is before their start
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
    partly = (block_mask.kv_num_blocks, block_mask.kv_indices)
    whole = (block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    found: list[tuple[int, ...]] = [()] * block_mask.kv_num_blocks.shape[-1]
    for counts, indices in (partly, whole):
        if counts is not None and indices is not None:
            rows = zip(found, counts[0, 0].tolist(), indices[0, 0].tolist(), strict=True)
            found = [(*visited, *blocks[:count]) for visited, count, blocks in rows]
    return tuple(found)


@dataclass(frozen=True, slots=True, repr=False)
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
    sizes = sizes_of(plan)
    paged, rule = paged_batch(batch, sizes.cache_block_size), mask_rule(mask, mask_tokens)
    return compare_with_torch(paged, rule, sizes.mask.q_block_size, sizes.mask.kv_block_size)


def compare_with_torch(
    batch: PagedBatch, rule: MaskRule, q_block_size: int, kv_block_size: int
) -> MaskComparison:
    """Compare every pair of the mask, and every block of both builds.

    Errors: ScenarioError for more than a million pairs.
    """
    pairs = _checked_pairs(batch, MAX_PAIRS)
    generic = generic_build(batch, rule, q_block_size, kv_block_size)
    direct = direct_build(batch, rule, q_block_size)
    mismatch = (
        _pair_mismatch(batch, rule)
        or _block_mismatch(
            "generic", generic, generic_block_mask(batch, rule, q_block_size, kv_block_size)
        )
        or _block_mismatch("direct", direct, direct_block_mask(batch, rule, direct))
    )
    return MaskComparison(pairs, mismatch)


def _checked_pairs(batch: PagedBatch, most: int) -> int:
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


def _block_mismatch(build: str, lists: BlockLists, block_mask: BlockMask) -> str | None:
    theirs = visited_by(block_mask)
    for group, (ours, found) in enumerate(zip(lists.visits, theirs, strict=True)):
        if ours != found:
            return f"{build} build, group {group}: torch visits {found}, the model {ours}"
    return None


@dataclass(frozen=True, slots=True)
class BuildCost:
    """Both builds of the same batch over a pool of `num_blocks`; seconds are medians on a CPU.

    bytes: the tensors of the block mask. The generic build evaluates every pair; compiled by torch
    it is faster, and grows the same way. The direct one is listed in plain Python here.
    """

    num_blocks: int
    generic_seconds: float
    generic_bytes: int
    direct_seconds: float
    direct_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class BuildCosts(LabResult):
    """The cost over growing pools."""

    costs: tuple[BuildCost, ...]

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """Return one row per size of the pool."""
        return tuple(
            {
                "blocks in the pool": one.num_blocks,
                "generic, ms": round(one.generic_seconds * 1e3, 3),
                "generic mask, bytes": one.generic_bytes,
                "direct, ms": round(one.direct_seconds * 1e3, 3),
                "direct mask, bytes": one.direct_bytes,
            }
            for one in self.costs
        )


def cost_lab(
    plan: Plan,
    batch: Sequence[BatchRequest],
    *,
    mask: str = CAUSAL,
    mask_tokens: int = 64,
    job: Job | None = None,
) -> BuildCosts:
    """Measure both builds of a batch's mask over its own pool, and over ones that are larger.

    Errors: ScenarioError for a plan without a mask, or a batch that is too large; Stopped.
    """
    sizes = sizes_of(plan)
    paged, rule = paged_batch(batch, sizes.cache_block_size), mask_rule(mask, mask_tokens)
    pairs = _checked_pairs(paged, MAX_BUILT_PAIRS)
    pools = [paged.num_blocks * times for times in GROWTHS if times * pairs <= MAX_BUILT_PAIRS]
    q_block_size = sizes.mask.q_block_size
    return build_costs(paged, rule, pools, q_block_size=q_block_size, seconds=0.05, job=job)


def build_costs(
    batch: PagedBatch,
    rule: MaskRule,
    pools: Sequence[int],
    *,
    q_block_size: int,
    seconds: float,
    job: Job | None = None,
) -> BuildCosts:
    """Measure both builds over pools of these sizes, each for about `seconds`.

    Errors: ValueError for a pool that is smaller than the batch's own; Stopped.
    """
    job, costs = job or Job(), []
    for blocks in pools:
        job.check()
        if blocks < batch.num_blocks:
            raise ValueError(f"a pool of {blocks} blocks is smaller than {batch.num_blocks}")
        grown = replace(batch, num_blocks=blocks)
        generic = partial(generic_block_mask, grown, rule, q_block_size, grown.block_size)
        costs.append(
            BuildCost(
                blocks,
                *_measured(generic, seconds),
                *_measured(partial(_direct_mask, grown, rule, q_block_size), seconds),
            )
        )
    return BuildCosts(tuple(costs))


def _direct_mask(batch: PagedBatch, rule: MaskRule, q_block_size: int) -> BlockMask:
    return direct_block_mask(batch, rule, direct_build(batch, rule, q_block_size))


def _measured(build: Callable[[], BlockMask], seconds: float) -> tuple[float, int]:
    """Return the median seconds of a build, and the bytes of the mask."""
    timer = Timer("build()", globals={"build": build})
    return timer.blocked_autorange(min_run_time=seconds).median, mask_bytes(build())


def mask_bytes(mask: BlockMask) -> int:
    """Return the bytes of all tensors that a block mask holds."""
    tensors = (part for part in mask.as_tuple() if isinstance(part, Tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
