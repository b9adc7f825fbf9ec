"""The checks of an offload as rows, in vLLM's order, with compared values and outcome."""

from typing import Any, NamedTuple

from workbench.core.offload.plan import Offload, OffloadRequest
from workbench.core.offload.request import context_parallel
from workbench.core.plan import Plan
from workbench.core.trace import show
from workbench.views.units import bytes_text

PASSES, STOPS, NOT_REACHED, NOT_SET = "passes", "stops here", "not reached", "not set"
SIGNS = {PASSES: "✓", STOPS: "✕", NOT_REACHED: "·", NOT_SET: "·"}
CHECKS = {
    "context_parallel_with_groups": (None, "one group, or no context parallelism"),
    "offload_no_group": (None, "some group can be offloaded"),
    "single_group_hash_block": (
        "hash_block_size",
        "an explicit {option} is the block of the only group",
    ),
    "hash_block_size_not_divisor": (
        "hash_block_size",
        "an explicit {option} divides the block of every group",
    ),
    "connector_with_encoder": (None, "the model has a decoder alone"),
    "offload_hash_block_size": (None, "the block of every group is a multiple of the hash block"),
    "offload_two_chunk_sizes": ("blocks_per_chunk", "not both block_size and blocks_per_chunk"),
    "offload_chunk_below_1": ("blocks_per_chunk", "an explicit blocks_per_chunk is above 0"),
    "offload_groups_differ": (
        "block_size",
        "an explicit offloaded block: all groups have one block size",
    ),
    "offload_block_not_multiple": ("block_size", "an explicit offloaded block is a multiple of it"),
    "offload_bytes_missing": (None, "the host pool has a size"),
}
"""Code of a check -> the field of a request that it is about, if any, and what has to hold."""


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
    compared = _compared(plan, request, result)
    order = [code for code in CHECKS if code in compared]
    reached = order.index(result.problems[0].code) if result.problems else len(order)
    rows = []
    for number, code in enumerate(order):
        field, question = CHECKS[code]
        passes = NOT_SET if field and getattr(request, field) is None else PASSES
        outcome = passes if number < reached else STOPS if number == reached else NOT_REACHED
        question = question.format(option=plan.rules.offload.hash_option)
        rows.append(CheckRow(code, question, compared[code], outcome))
    return tuple(rows)


def _compared(plan: Plan, request: OffloadRequest, result: Offload) -> dict[str, str]:
    """Return the checks that this version makes of this plan, with the numbers they compare."""
    groups, units, rules = plan.built_cache().groups, result.block_sizes, plan.rules.offload
    hashes, size, chunk = (
        "not set" if value is None else f"set to {value:,}"
        for value in (request.hash_block_size, request.block_size, request.blocks_per_chunk)
    )
    own = f"{hashes}; groups {_different(group.spec.span_tokens for group in groups)}"
    sizes = _different(result.gpu_block_sizes)
    unread = ""
    if units is not None and request.hash_block_size not in {None, units.hash}:
        unread = f" (not read here: {units.hash:,} is in use)"
    compared = {
        "context_parallel_with_groups": f"groups: {len(groups)}; context parallel: "
        f"{context_parallel(plan, request)}",
        "offload_no_group": f"groups: {len(groups)}",
        "single_group_hash_block": own,
        "hash_block_size_not_divisor": own + unread,
        "connector_with_encoder": "with an encoder",
        "offload_hash_block_size": f"groups {sizes}; hash block "
        f"{show(units.hash) if units else 'unknown'}",
        "offload_two_chunk_sizes": f"block_size: {size}; blocks_per_chunk: {chunk}",
        "offload_chunk_below_1": chunk,
        "offload_groups_differ": f"{size}; groups {sizes}",
        "offload_block_not_multiple": f"{size}; groups {sizes}",
        "offload_bytes_missing": bytes_text(request.cpu_bytes_to_use),
    }
    missing = {"offload_no_group", "offload_two_chunk_sizes", "offload_chunk_below_1"}
    if plan.rules.groups.spreads_by_layer:
        missing = {"context_parallel_with_groups"}
    if not plan.model.is_encoder_decoder:
        missing.add("connector_with_encoder")
    if not rules.checks_single_group or len(groups) != 1:
        missing.add("single_group_hash_block")
    return {code: operands for code, operands in compared.items() if code not in missing}


def _different(sizes: Any) -> str:
    return " and ".join(f"{size:,}" for size in sorted(set(sizes))) or "no group"
