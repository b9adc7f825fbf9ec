"""What building a block mask costs on this machine, over the number of blocks of the pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch.nn.attention.flex_attention import BlockMask
from torch.utils.benchmark import Timer

from workbench.core.flex.batch import CAUSAL
from workbench.core.flex.build import direct_build
from workbench.core.flex.mask import MaskRule, PagedBatch
from workbench.core.flex.result import LabResult
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.labs.flex.masks import (
    checked_pairs,
    direct_block_mask,
    generic_block_mask,
    mask_case,
)
from workbench.labs.jobs import Job

MAX_PAIRS = 2**24
"""Pairs of token and slot that the generic build may evaluate: below a second."""
GROWTHS = (1, 16, 256)


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


@dataclass(frozen=True, slots=True)
class BuildCosts(LabResult):
    """The cost over growing pools."""

    costs: tuple[BuildCost, ...]

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """Return one row per size of the pool."""
        return tuple(map(asdict, self.costs))


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
    paged, rule, flex = mask_case(plan, batch, mask, mask_tokens)
    pairs = checked_pairs(paged, MAX_PAIRS)
    pools = [paged.num_blocks * times for times in GROWTHS if times * pairs <= MAX_PAIRS]
    return build_costs(
        paged, rule, pools, q_block_size=flex.mask.q_block_size, seconds=0.05, job=job
    )


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
        costs.append(_cost(batch, rule, blocks, q_block_size, seconds))
    return BuildCosts(tuple(costs))


def _cost(
    batch: PagedBatch, rule: MaskRule, num_blocks: int, q_block_size: int, seconds: float
) -> BuildCost:
    if num_blocks < batch.num_blocks:
        raise ValueError(f"a pool of {num_blocks} blocks is smaller than {batch.num_blocks}")
    grown = replace(batch, num_blocks=num_blocks)

    def generic() -> BlockMask:
        return generic_block_mask(grown, rule, q_block_size, grown.block_size)

    def direct() -> BlockMask:
        return direct_block_mask(grown, rule, direct_build(grown, rule, q_block_size))

    return BuildCost(
        num_blocks=num_blocks,
        generic_seconds=_median_seconds(generic, seconds),
        generic_bytes=mask_bytes(generic()),
        direct_seconds=_median_seconds(direct, seconds),
        direct_bytes=mask_bytes(direct()),
    )


def _median_seconds(build: Callable[[], BlockMask], seconds: float) -> float:
    return Timer("build()", globals={"build": build}).blocked_autorange(min_run_time=seconds).median


def mask_bytes(mask: BlockMask) -> int:
    """Return the bytes of all tensors that a block mask holds."""
    tensors = (
        mask.kv_num_blocks,
        mask.kv_indices,
        mask.full_kv_num_blocks,
        mask.full_kv_indices,
        mask.q_num_blocks,
        mask.q_indices,
        mask.full_q_num_blocks,
        mask.full_q_indices,
    )
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)
