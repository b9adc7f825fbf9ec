"""Prefill on one side, decode on the other: whether their caches fit together (0.23).

Source: `NixlConnectorWorker.add_remote_agent` and `_validate_remote_agent_handshake`
(`vllm/distributed/kv_transfer/kv_connector/v1/nixl/worker.py`),
`TransferTopology.block_size_ratio` and `compute_nixl_compatibility_hash` of 0.23; vllm#41037. The
hash names vLLM's version both in 0.23 and in 0.33; `_validate_remote_agent_handshake` of 0.33 in
`nixl/base_worker.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.packed import named_layout
from workbench.core.offload.checks import stops
from workbench.core.plan import Plan
from workbench.core.problems import ERROR, WARNING, Problem

CONNECTOR_WISH = "LBHNC"
"""The order that the NIXL connector requests (0.33), where the backends can read it."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one side of a transfer brings. Sizes in tokens; `ratio`: kernel blocks in a block."""

    tensor_parallel: int
    kv_cache_dtype: str
    block_size: int
    kernel_block_size: int

    @property
    def ratio(self) -> int:
        """Return r: kernel blocks in one manager block."""
        return self.block_size // self.kernel_block_size


@dataclass(frozen=True, slots=True)
class Transfer:
    """Two sides compared. The decode side fetches, so it is the local one of the messages."""

    plans: tuple[Plan, Plan] = field(repr=False)
    """Those of prefill and decode."""
    prefill: Side
    decode: Side
    common_block_size: int
    common_kernel_block_size: int
    """Least common multiple of both sides, in tokens, as is `common_block_size`."""
    kernel_ratio: int | None
    """Kernel blocks of prefill in one of decode, None when that is not an integer."""
    problems: tuple[Problem, ...]
    """In the order of vLLM's checks; it stops at the first error."""

    @property
    def is_legal(self) -> bool:
        """Return whether the handshake passes."""
        return not any(problem.severity == ERROR for problem in self.problems)

    @property
    def verdict(self) -> str:
        """Return one line on how the block sizes compare, and the consequence."""
        sizes = (
            f"{self.prefill.block_size:,} (prefill) and {self.decode.block_size:,} (decode) tokens"
        )
        equal = self.prefill.block_size == self.decode.block_size
        kind = "homogeneous: equal" if equal else "heterogeneous: unequal"
        end = "transfer works" if self.is_legal else "transfer refused"
        return f"{kind} blocks of {sizes}; {end}"

    def _repr_html_(self) -> str:
        from workbench.views.offload.transfer import transfer_html

        return transfer_html(*self.plans)


def transfer(prefill: Plan, decode: Plan) -> Transfer:
    """Compare two plans before launch. Errors: ValueError when a side has no kernel block.

    A cache with more than one kind of layer, or with windows, counts as one that needs the hybrid
    manager. The layout of a cache is part of a plan from 0.33 on; before, what needs HND is a
    warning.
    """
    here, there = _side(decode), _side(prefill)
    whole = here.kernel_block_size % there.kernel_block_size == 0
    ratio = here.kernel_block_size // there.kernel_block_size if whole else None
    found = (
        _version_problem(prefill, decode),
        _fingerprint_problem(prefill, decode),
        _divisor_problem(there, here),
        _ratio_problem(decode, there, here),
        _hybrid_problem(decode, there, here, ratio),
        _layout_problem(prefill, decode),
    )
    return Transfer(
        plans=(prefill, decode),
        prefill=there,
        decode=here,
        common_block_size=lcm(there.block_size, here.block_size),
        common_kernel_block_size=lcm(there.kernel_block_size, here.kernel_block_size),
        kernel_ratio=ratio,
        problems=tuple(problem for problem in found if problem is not None),
    )


def _side(plan: Plan) -> Side:
    if not plan.kernel_block_size:
        if plan.model.attention is None:
            raise ValueError(f"{plan.model.name} has no attention layer, so no kernel block")
        raise ValueError("this plan has no kernel block: see plan.problems")
    return Side(
        plan.settings.tensor_parallel,
        plan.kv_cache_dtype,
        plan.block_size,
        plan.kernel_block_size,
    )


def _version_problem(prefill: Plan, decode: Plan) -> Problem | None:
    theirs, ours = prefill.rules, decode.rules
    if theirs.name == ours.name:
        return None
    # The handshake names versions; views differ, and so do the hashes of blocks.
    differ = []
    if theirs.layouts.one_view != ours.layouts.one_view:
        differ.append("views with and without K and V packed into one dimension")
    if theirs.offload.large_block_hash != ours.offload.large_block_hash:
        differ.append("other hashes for the same blocks")
    shown = f" They have {' and '.join(differ)}." if differ else ""
    return stops(
        "transfer_versions",
        "rules",
        f"Prefill runs {theirs.title} and decode {ours.title}: the handshake compares versions, "
        f"and caches of two versions cannot be exchanged.{shown} Take one version on both sides.",
        prefill=theirs.name,
        decode=ours.name,
    )


def _fingerprint(plan: Plan) -> dict[str, Any]:
    attention = plan.model.attention
    return {
        "model": plan.model.name,
        "dtype": plan.model_dtype,
        "kv_cache_dtype": plan.kv_cache_dtype,
        "backend": plan.backend,
        "num_kv_heads": None if attention is None else attention.num_kv_heads,
        "head_size": None if attention is None else attention.head_size,
    }


def _fingerprint_problem(prefill: Plan, decode: Plan) -> Problem | None:
    ours, theirs = _fingerprint(decode), _fingerprint(prefill)
    differ: dict[str, Any] = {
        name: (theirs[name], ours[name]) for name in ours if ours[name] != theirs[name]
    }
    if not differ:
        return None
    words = "; ".join(f"{name}: {there} and {here}" for name, (there, here) in differ.items())
    return stops(
        "transfer_fingerprint",
        next(iter(differ)),
        "Prefill and decode must agree on everything that shapes the cache. Prefill and decode "
        f"have {words}.",
        **differ,
    )


def _divisor_problem(there: Side, here: Side) -> Problem | None:
    local, remote = here.kernel_block_size, there.kernel_block_size
    if local % remote == 0:
        return None
    return stops(
        "transfer_kernel_blocks",
        "block_size",
        f"The kernel block of decode ({local:,} tokens, in a block of {here.block_size:,}) is not "
        f"a multiple of that of prefill ({remote:,}, in a block of {there.block_size:,}).",
        f"Local block size {local} is not divisible by remote block size {remote} or vice versa.",
        decode_kernel_block_size=local,
        prefill_kernel_block_size=remote,
        decode_block_size=here.block_size,
        prefill_block_size=there.block_size,
    )


def _ratio_problem(decode: Plan, there: Side, here: Side) -> Problem | None:
    if not (decode.model.ssm_layers and decode.enable_prefix_caching) or there.ratio == here.ratio:
        return None
    return stops(
        "transfer_prefix_caching",
        "enable_prefix_caching",
        "With prefix caching, a model with state-space layers needs as many kernel blocks in a "
        f"block on both sides; prefill has {there.ratio:,}, decode {here.ratio:,}.",
        "Prefix caching with heterogeneous physical_blocks_per_logical",
        ({"enable_prefix_caching": False, "mamba_cache_mode": None},),
        prefill_ratio=there.ratio,
        decode_ratio=here.ratio,
    )


def _hybrid_problem(decode: Plan, there: Side, here: Side, ratio: int | None) -> Problem | None:
    specs = () if decode.cache is None else tuple(group.spec for group in decode.cache.groups)
    hybrid = any(spec.is_mamba or spec.window_tokens is not None for spec in specs)
    if not hybrid or ratio is None or ratio == 1 or decode.rules.offload.transfers_mixed_blocks:
        return None
    return stops(
        "transfer_hybrid_ratio",
        "block_size",
        f"A cache with several kinds of layers needs equal kernel blocks; decode has "
        f"{here.kernel_block_size:,} tokens, prefill {there.kernel_block_size:,} (ratio {ratio}).",
        "HMA does not support different remote block size yet",
        decode_kernel_block_size=here.kernel_block_size,
        prefill_kernel_block_size=there.kernel_block_size,
        kernel_ratio=ratio,
    )


def _layout_problem(prefill: Plan, decode: Plan) -> Problem | None:
    """Check the order of both caches: they must be equal, with heads in one run."""
    attention = decode.model.attention
    if attention is None or attention.use_mla:
        return None
    ours, theirs = decode.settings.tensor_parallel, prefill.settings.tensor_parallel
    split = ours != theirs and theirs <= attention.num_kv_heads

    def needs_hnd(field: str, what: str) -> Problem:
        return stops(
            "transfer_needs_hnd",
            field,
            f"Heads are split differently (tensor parallel {theirs} and {ours}){what}",
            "Heterogeneous TP head-dimension splitting requires contiguous heads.",
            **layouts,
            prefill_tensor_parallel=theirs,
            decode_tensor_parallel=ours,
        )

    layouts: dict[str, Any] = {}
    if not (prefill.rules.layouts.one_view and decode.rules.layouts.one_view):
        warning = needs_hnd("tensor_parallel", ": both caches need the layout HND.")
        return replace(warning, severity=WARNING) if split else None
    try:
        there, here = (
            named_layout(plan, None, CONNECTOR_WISH)[1].name for plan in (prefill, decode)
        )
    except LayoutError:
        return None  # the side does not start, whatever the other one has
    layouts |= {"prefill_layout": there, "decode_layout": here}
    if there != here:
        return stops(
            "transfer_layouts",
            "kv_cache_layout",
            f"Both caches need one order; prefill has {there}, decode {here}. Set "
            f"VLLM_KV_CACHE_LAYOUT to {CONNECTOR_WISH} on both sides, or omit it.",
            f"Heterogeneous TP expects same kv_cache_layout (local {here}, remote {there}).",
            **layouts,
        )
    if split and not here.endswith("HNC"):
        what = f", and in the order {here} those of a block are not one after the other. Take "
        return needs_hnd("kv_cache_layout", f"{what}{CONNECTOR_WISH}.")
    return None
