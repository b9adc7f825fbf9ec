"""The checks of an offload as rows, in vLLM's order: what each compares, and what became of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from workbench.core.offload.plan import Offload, OffloadRequest
from workbench.core.offload.units import BlockSizes
from workbench.core.plan import Plan
from workbench.core.trace import show
from workbench.views.units import bytes_text

PASSES, STOPS, NOT_REACHED, NOT_ASKED = "passes", "stops here", "not reached", "not asked"
SIGNS = {PASSES: "✓", STOPS: "✕", NOT_REACHED: "·", NOT_ASKED: "·"}


class CheckRow(NamedTuple):
    """One check at start: vLLM's order, the numbers that it compares, what became of it."""

    code: str
    question: str
    operands: str
    outcome: str

    @property
    def text(self) -> str:
        """Outcome with its sign."""
        return f"{SIGNS[self.outcome]} {self.outcome}"


def check_rows(plan: Plan, request: OffloadRequest, found: Offload) -> tuple[CheckRow, ...]:
    """Every check, in the order in which vLLM asks. Errors: ValueError without a cache."""
    groups = plan.built_cache().groups
    own = _different([group.spec.block_size for group in groups])
    sizes, typed = _different(found.gpu_block_sizes), request.block_size
    units, hashes, chunk = found.block_sizes, request.hash_block_size, request.blocks_per_chunk
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
        f"a typed {rules.hash_option} is the block of the only group",
        f"{_typed(hashes)}; groups {own}",
        hashes is not None,
    )
    chunks = (
        (
            "offload_two_chunk_sizes",
            "not both block_size and blocks_per_chunk",
            f"block_size: {_typed(typed)}; blocks_per_chunk: {_typed(chunk)}",
            chunk is not None,
        ),
        (
            "offload_chunk_below_1",
            "a typed blocks_per_chunk is above 0",
            _typed(chunk),
            chunk is not None,
        ),
    )
    rows = (
        first,
        *([single] if rules.checks_single_group and len(groups) == 1 else []),
        (
            "hash_block_size_not_divisor",
            f"a typed {rules.hash_option} divides the block of every group",
            f"{_typed(hashes)}; groups {own}" + _unread(hashes, units),
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
            "a typed offloaded block: all groups have one block size",
            f"{_typed(typed)}; groups {sizes}",
            typed is not None,
        ),
        (
            "offload_block_not_multiple",
            "a typed offloaded block is a multiple of it",
            f"{_typed(typed)}; groups {sizes}",
            typed is not None,
        ),
        (
            "offload_bytes_missing",
            "the host pool has a size",
            bytes_text(request.cpu_bytes_to_use),
            True,
        ),
    )
    stop = found.problems[0].code if found.problems else None
    order = [row[0] for row in rows]
    reached = len(rows) if stop is None else order.index(stop)
    return tuple(
        CheckRow(code, question, operands, _outcome(number, reached, asked))
        for number, (code, question, operands, asked) in enumerate(rows)
    )


def _outcome(number: int, reached: int, asked: bool) -> str:
    if number == reached:
        return STOPS
    if number > reached:
        return NOT_REACHED
    return PASSES if asked else NOT_ASKED


def _typed(size: int | None) -> str:
    return "nothing typed" if size is None else f"typed {size:,}"


def _unread(typed: int | None, units: BlockSizes | None) -> str:
    if typed is None or units is None or typed == units.hash:
        return ""
    return f" (not read here: {units.hash:,} is in use)"


def _different(sizes: Any) -> str:
    return " and ".join(f"{size:,}" for size in sorted(set(sizes))) or "no group"
