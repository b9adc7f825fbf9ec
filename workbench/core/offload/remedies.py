"""What makes a failed check of the offload pass: another scenario, or another request."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.offload.plan import offload
from workbench.core.offload.request import OffloadRequest
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy, changed_plan


def offload_remedies(
    plan: Plan, problem: Problem, request: OffloadRequest | None = None, limit: int = 3
) -> tuple[Remedy, ...]:
    """Return the changes of the scenario that pass this check without a new error in the plan."""
    before = {error.code for error in plan.errors}
    found: list[Remedy] = []
    for changes in problem.candidates:
        if any(remedy.changes.items() <= changes.items() for remedy in found):
            continue  # a part of it is enough
        try:
            other = changed_plan(plan, changes)
        except WorkbenchError:
            continue
        if {error.code for error in other.errors} - before or other.cache is None:
            continue
        if problem.code not in {left.code for left in offload(other, request).problems}:
            found.append(Remedy(dict(changes), other))
    return tuple(found[:limit])


def request_remedies(
    plan: Plan, problem: Problem, request: OffloadRequest
) -> tuple[OffloadRequest, ...]:
    """Return requests that pass this check, nearest first; empty when only the plan can help."""
    found = []
    for changes in _request_changes(problem):
        other = replace(request, **changes)
        if problem.code not in {left.code for left in offload(plan, other).problems}:
            found.append(other)
    return tuple(found)


def _request_changes(problem: Problem) -> tuple[dict[str, Any], ...]:
    operands = problem.operands
    match problem.code:
        case "hash_block_size_not_divisor":
            common, explicit = gcd(*operands["group_block_sizes"]), operands["hash_block_size"]
            near = max(
                (d for d in range(1, min(common, explicit) + 1) if common % d == 0), default=1
            )
            return ({"hash_block_size": near}, {"hash_block_size": None})
        case "single_group_hash_block":
            return ({"hash_block_size": operands["block_size"]}, {"hash_block_size": None})
        case "offload_block_not_multiple":
            size, explicit = operands["gpu_block_size"], operands["block_size"]
            below = explicit // size * size
            near_sizes = sorted({below, below + size} - {0}, key=lambda near: abs(near - explicit))
            return tuple({"block_size": near} for near in near_sizes)
        case code:
            return _WITHOUT.get(code, ())


_WITHOUT: dict[str, tuple[dict[str, Any], ...]] = {
    "context_parallel_with_groups": (
        {"decode_context_parallel": 1, "prefill_context_parallel": 1},
    ),
    "offload_groups_differ": ({"block_size": None},),
    "offload_two_chunk_sizes": ({"block_size": None}, {"blocks_per_chunk": None}),
    "offload_chunk_below_1": ({"blocks_per_chunk": 1}, {"blocks_per_chunk": None}),
}
"""Code -> the changes that need no number of the problem."""
