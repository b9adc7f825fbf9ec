"""What makes a failed check of an offload or of a transfer pass: other scenarios or requests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from workbench.core.arithmetic import divisors
from workbench.core.errors import WorkbenchError
from workbench.core.offload.plan import offload
from workbench.core.offload.request import OffloadRequest
from workbench.core.offload.transfer import transfer
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import MOST, Remedy, changed_plan

PREFILL, DECODE, BOTH = "prefill", "decode", "both sides"


def offload_remedies(
    plan: Plan, problem: Problem, request: OffloadRequest | None = None
) -> tuple[Remedy, ...]:
    """Return the changes of the scenario that pass this check without a new error in the plan."""
    before = _codes(plan)
    found: list[Remedy] = []
    for changes in problem.candidates:
        other = None if _covers(found, changes) else _changed(plan, changes)
        if other is None or _codes(other) - before or other.cache is None:
            continue
        if problem.code not in {left.code for left in offload(other, request).problems}:
            found.append(Remedy(dict(changes), other))
    return tuple(found[:MOST])


def request_remedies(
    plan: Plan, problem: Problem, request: OffloadRequest
) -> tuple[OffloadRequest, ...]:
    """Return requests that pass this check, nearest first; empty when only the plan can help."""
    others = [replace(request, **changes) for changes in _request_changes(problem)]
    return tuple(
        other
        for other in others
        if problem.code not in {left.code for left in offload(plan, other).problems}
    )


def _request_changes(problem: Problem) -> tuple[dict[str, Any], ...]:
    operands = problem.operands
    match problem.code:
        case "hash_block_size_not_divisor":
            common, explicit = gcd(*operands["group_block_sizes"]), operands["hash_block_size"]
            near = max(size for size in divisors(common) if size <= explicit)
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
    "context_parallel_with_groups": ({"prefill_context_parallel": 1},),
    "offload_groups_differ": ({"block_size": None},),
    "offload_two_chunk_sizes": ({"block_size": None}, {"blocks_per_chunk": None}),
    "offload_chunk_below_1": ({"blocks_per_chunk": 1}, {"blocks_per_chunk": None}),
}
"""Code -> the changes that need no number of the problem."""


@dataclass(frozen=True, slots=True)
class SideRemedy:
    """A change of `side` ("prefill", "decode" or "both sides") after which the sides fit."""

    side: str
    changes: Mapping[str, Any]
    prefill: Plan
    decode: Plan

    def __str__(self) -> str:
        return self.sentence(Remedy(self.changes, self.decode).text)

    def sentence(self, changes: str) -> str:
        """Return what the changes, in these words, lead to."""
        return (
            f"{self.side}: {changes} (blocks of "
            f"{self.prefill.block_size:,} and {self.decode.block_size:,} tokens)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "side": self.side,
            "changes": dict(self.changes),
            "prefill_block_size": self.prefill.block_size,
            "decode_block_size": self.decode.block_size,
        }


def transfer_remedies(prefill: Plan, decode: Plan) -> tuple[SideRemedy, ...]:
    """Return the changes that pass the handshake without a new error on a side, simplest first.

    Empty when the sides fit already. Errors: ValueError when a side has no kernel block.
    """
    if transfer(prefill, decode).is_legal:
        return ()
    before = _codes(prefill, decode)
    found: list[SideRemedy] = []
    for side, changes in _candidates(prefill, decode):
        if _covers(found, changes):
            continue
        there = prefill if side == DECODE else _changed(prefill, changes)
        here = decode if side == PREFILL else _changed(decode, changes)
        if there is None or here is None or _codes(there, here) - before:
            continue
        if there.kernel_block_size and here.kernel_block_size and transfer(there, here).is_legal:
            found.append(SideRemedy(side, changes, there, here))
        if len(found) == MOST:
            break
    return tuple(found)


def _candidates(prefill: Plan, decode: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield equal versions and dtypes, then equal blocks by `--block-size`, then equal ranks."""
    fixed: dict[str, Any] = {}
    if prefill.settings.rules != decode.settings.rules:
        fixed = {"rules": prefill.settings.rules}
        yield DECODE, fixed
    if prefill.kv_cache_dtype != decode.kv_cache_dtype:
        fixed = {**fixed, "kv_cache_dtype": prefill.settings.kv_cache_dtype}
        yield DECODE, fixed
    # --block-size is the granularity of the alignment, not a cap: the larger one is tried.
    largest = max(prefill.block_size, decode.block_size)
    if not fixed:
        smaller = PREFILL if prefill.block_size <= decode.block_size else DECODE
        yield smaller, {"block_size": largest}
    yield BOTH, {**fixed, "block_size": largest}
    ranks = prefill.settings.tensor_parallel
    if ranks != decode.settings.tensor_parallel:
        yield DECODE, {**fixed, "tensor_parallel": ranks}
    if prefill.enable_prefix_caching or decode.enable_prefix_caching:
        yield BOTH, {**fixed, "enable_prefix_caching": False, "mamba_cache_mode": None}


def _covers(found: list[Remedy] | list[SideRemedy], changes: Mapping[str, Any]) -> bool:
    """Return whether a part of the changes was enough."""
    return any(remedy.changes.items() <= changes.items() for remedy in found)


def _codes(*plans: Plan) -> set[str]:
    return {error.code for plan in plans for error in plan.errors}


def _changed(plan: Plan, changes: Mapping[str, Any]) -> Plan | None:
    try:
        return changed_plan(plan, changes)
    except WorkbenchError:
        return None
