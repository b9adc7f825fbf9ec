"""The checks of an offload as rows, in vLLM's order, with compared values and outcome."""

from __future__ import annotations

from typing import Any, NamedTuple

from workbench.core.offload.plan import Offload, OffloadRequest
from workbench.core.offload.request import BlockSizes
from workbench.core.plan import Plan
from workbench.core.trace import show
from workbench.views.units import bytes_text

PASSES, STOPS, NOT_REACHED, NOT_SET = "passes", "stops here", "not reached", "not set"
SIGNS = {PASSES: "✓", STOPS: "✕", NOT_REACHED: "·", NOT_SET: "·"}


class CheckRow(NamedTuple):
    """One check at start, with the numbers that it compares and its outcome."""

    code: str
    question: str
    operands: str
    outcome: str

    @property
    def text(self) -> str:
        """Outcome with its sign."""
        return f"{SIGNS[self.outcome]} {self.outcome}"


def check_rows(plan: Plan, request: OffloadRequest, result: Offload) -> tuple[CheckRow, ...]:
    """Return every check, in vLLM's order. Errors: ValueError without a cache."""
    groups = plan.built_cache().groups
    own = _different([group.spec.block_size for group in groups])
    sizes, chunk_size = _different(result.gpu_block_sizes), request.block_size
    units, hashes, chunk = result.block_sizes, request.hash_block_size, request.blocks_per_chunk
    rules = plan.rules.offload
    first = (
        "context_parallel_with_groups",
        "one group, or no context parallelism",
        f"groups: {len(groups)}; context parallel: {request.context_parallel}",
        True,
    )
    if rules.takes_blocks_per_chunk:
        first = (
            "offload_no_group",
            "some group can be offloaded",
            f"groups: {len(groups)}",
            True,
        )
    single = (
        "single_group_hash_block",
        f"an explicit {rules.hash_option} is the block of the only group",
        f"{_setting(hashes)}; groups {own}",
        hashes is not None,
    )
    chunks = (
        (
            "offload_two_chunk_sizes",
            "not both block_size and blocks_per_chunk",
            f"block_size: {_setting(chunk_size)}; blocks_per_chunk: {_setting(chunk)}",
            chunk is not None,
        ),
        (
            "offload_chunk_below_1",
            "an explicit blocks_per_chunk is above 0",
            _setting(chunk),
            chunk is not None,
        ),
    )
    rows = (
        first,
        *([single] if rules.checks_single_group and len(groups) == 1 else []),
        (
            "hash_block_size_not_divisor",
            f"an explicit {rules.hash_option} divides the block of every group",
            f"{_setting(hashes)}; groups {own}" + _unread(hashes, units),
            hashes is not None,
        ),
        (
            "offload_hash_block_size",
            "the block of every group is a multiple of the hash block",
            f"groups {sizes}; hash block {show(units.hash) if units else 'unknown'}",
            True,
        ),
        *(chunks if rules.takes_blocks_per_chunk else ()),
        (
            "offload_groups_differ",
            "an explicit offloaded block: all groups have one block size",
            f"{_setting(chunk_size)}; groups {sizes}",
            chunk_size is not None,
        ),
        (
            "offload_block_not_multiple",
            "an explicit offloaded block is a multiple of it",
            f"{_setting(chunk_size)}; groups {sizes}",
            chunk_size is not None,
        ),
        (
            "offload_bytes_missing",
            "the host pool has a size",
            bytes_text(request.cpu_bytes_to_use),
            True,
        ),
    )
    stop = result.problems[0].code if result.problems else None
    order = [row[0] for row in rows]
    reached = len(rows) if stop is None else order.index(stop)
    return tuple(
        CheckRow(code, question, operands, _outcome(number, reached, is_set))
        for number, (code, question, operands, is_set) in enumerate(rows)
    )


def _outcome(number: int, reached: int, is_set: bool) -> str:
    if number == reached:
        return STOPS
    if number > reached:
        return NOT_REACHED
    return PASSES if is_set else NOT_SET


def _setting(size: int | None) -> str:
    return "not set" if size is None else f"set to {size:,}"


def _unread(size: int | None, units: BlockSizes | None) -> str:
    if size is None or units is None or size == units.hash:
        return ""
    return f" (not read here: {units.hash:,} is in use)"


def _different(sizes: Any) -> str:
    return " and ".join(f"{size:,}" for size in sorted(set(sizes))) or "no group"
