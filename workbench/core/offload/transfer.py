"""Prefill on one side, decode on the other: whether their caches fit together (0.23).

Source: `NixlConnectorWorker.add_remote_agent` and `_validate_remote_agent_handshake`
(`vllm/distributed/kv_transfer/kv_connector/v1/nixl/worker.py`),
`TransferTopology.block_size_ratio` and `compute_nixl_compatibility_hash` of 0.23; vllm#41037. The
hash names vLLM's version both in 0.23 and in 0.33; `_validate_remote_agent_handshake` of 0.33 in
`nixl/base_worker.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

from workbench.core.errors import ScenarioError, check_plan
from workbench.core.kv_connectors import layout_for_transfer
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.packed import named_layout
from workbench.core.offload import transfer_ranks
from workbench.core.offload.checks import stops
from workbench.core.plan import Plan
from workbench.core.problems import WARNING, Problem, has_error
from workbench.core.ranks import shared_tokens_text


@dataclass(frozen=True, slots=True)
class Transfer:
    """Two plans compared. The decode side fetches, so it is the local one of the messages."""

    prefill: Plan = field(repr=False)
    decode: Plan = field(repr=False)
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
        return not has_error(self.problems)

    @property
    def verdict(self) -> str:
        """Return one line on how the block sizes compare, and the consequence."""
        there, here = self.prefill.block_size, self.decode.block_size
        kind = "homogeneous: equal" if there == here else "heterogeneous: unequal"
        end = "transfer works" if self.is_legal else "transfer refused"
        return f"{kind} blocks of {there:,} (prefill) and {here:,} (decode) tokens; {end}"

    def __repr__(self) -> str:
        from workbench.views.offload.transfer import transfer_text

        return transfer_text(self.prefill, self.decode)

    def _repr_html_(self) -> str:
        from workbench.views.offload.transfer import transfer_html

        return transfer_html(self.prefill, self.decode)


def transfer(prefill: Plan, decode: Plan) -> Transfer:
    """Compare two plans before launch.

    Errors: ValueError when a side has no kernel block, ScenarioError where its ranks share tokens.
    """
    check_plan("plan.transfer", decode, Plan)
    for side in (prefill, decode):
        if text := shared_tokens_text(side.settings, "A transfer"):
            raise ScenarioError("context_parallel", text, field="decode_context_parallel")
    remote, local = _kernel_block(prefill), _kernel_block(decode)
    ratio = None if local % remote else local // remote
    found = (
        transfer_ranks.state_problem(decode),
        _version_problem(prefill, decode),
        _fingerprint_problem(prefill, decode),
        transfer_ranks.ratio_problem(prefill, decode),
        _kernel_problem(prefill, decode, remote, local),
        transfer_ranks.replicated_problem(prefill, decode),
        *_size_problems(prefill, decode, remote, local),
        _layout_problem(prefill, decode),
        *transfer_ranks.page_problems(prefill, decode, ratio),
        transfer_ranks.unequal_states(prefill, decode),
    )
    return Transfer(
        prefill=prefill,
        decode=decode,
        common_block_size=lcm(prefill.block_size, decode.block_size),
        common_kernel_block_size=lcm(remote, local),
        kernel_ratio=ratio,
        problems=tuple(problem for problem in found if problem is not None),
    )


def _kernel_block(plan: Plan) -> int:
    if plan.kernel_block_size:
        return plan.kernel_block_size
    if plan.model.attention is None:
        raise ValueError(f"{plan.model.name} has no attention layer, so no kernel block")
    raise ValueError("this plan has no kernel block: see plan.problems")


def _version_problem(prefill: Plan, decode: Plan) -> Problem | None:
    theirs, ours = prefill.rules, decode.rules
    if theirs.name == ours.name:
        return None
    # The handshake names versions; views differ, and so do the hashes of blocks.
    differ = []
    if theirs.layouts.one_view != ours.layouts.one_view:
        differ.append("views with and without K and V packed into one dimension")
    if theirs.offload.large_block_hash != ours.offload.large_block_hash:
        differ.append("different hashes for the same blocks")
    shown = f" They have {' and '.join(differ)}." if differ else ""
    return stops(
        "transfer_versions",
        {"theirs": theirs, "ours": ours, "shown": shown},
        prefill=theirs.name,
        decode=ours.name,
    )


def _fingerprint(plan: Plan) -> dict[str, Any]:
    attention, drafter = plan.model.attention, plan.model.drafter
    is_compared = plan.speculative_method in plan.rules.offload.fingerprinted_methods
    return {
        "model": plan.model.name,
        "dtype": plan.model_dtype,
        "kv_cache_dtype": plan.kv_cache_dtype,
        "backend": plan.backend,
        "num_kv_heads": None if attention is None else attention.num_kv_heads,
        "head_size": None if attention is None else attention.head_size,
        "num_hidden_layers": plan.model.num_hidden_layers,
        "disable_hybrid_kv_cache_manager": plan.settings.disable_hybrid_kv_cache_manager,
        "speculative_method": plan.speculative_method if is_compared else None,
        "draft_model": drafter.name if drafter and is_compared else None,
    }


def _fingerprint_problem(prefill: Plan, decode: Plan) -> Problem | None:
    ours, theirs = _fingerprint(decode), _fingerprint(prefill)
    differ: dict[str, Any] = {
        name: (theirs[name], ours[name]) for name in ours if ours[name] != theirs[name]
    }
    if not differ:
        return None
    words = "; ".join(f"{name}: {there} and {here}" for name, (there, here) in differ.items())
    return stops("transfer_fingerprint", {"field": next(iter(differ)), "words": words}, **differ)


def _kernel_problem(prefill: Plan, decode: Plan, remote: int, local: int) -> Problem | None:
    """Check the kernel blocks of prefill (remote) and decode (local)."""
    # The ratio of kernel blocks has to be an integer: TransferTopology.block_size_ratio.
    if not local % remote:
        return None
    return stops(
        "transfer_kernel_blocks",
        decode_kernel_block_size=local,
        prefill_kernel_block_size=remote,
        decode_block_size=decode.block_size,
        prefill_block_size=prefill.block_size,
    )


def _size_problems(prefill: Plan, decode: Plan, remote: int, local: int) -> Iterator[Problem]:
    """Check blocks and kernel blocks. remote, local: kernel blocks of prefill and decode."""
    # With prefix caching _validate_remote_agent_handshake wants equal physical_blocks_per_logical.
    there, here = prefill.block_size // remote, decode.block_size // local
    if decode.model.ssm_layers and decode.enable_prefix_caching and there != here:
        yield stops("transfer_prefix_caching", prefill_ratio=there, decode_ratio=here)
    # More than one kind of layer, or windows, need the hybrid manager ("HMA" in the message).
    specs = () if decode.cache is None else tuple(group.spec for group in decode.cache.groups)
    mixed = any(spec.is_mamba or spec.window_tokens is not None for spec in specs)
    ratio, rest = divmod(local, remote)
    if mixed and not rest and ratio != 1 and not decode.rules.offload.transfers_mixed_blocks:
        yield stops(
            "transfer_hybrid_ratio",
            decode_kernel_block_size=local,
            prefill_kernel_block_size=remote,
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
            {"field": field, "what": what},
            **layouts,
            prefill_tensor_parallel=theirs,
            decode_tensor_parallel=ours,
        )

    layouts: dict[str, Any] = {}
    # The layout of a cache is part of a plan from 0.33 on; before, what needs HND is a warning.
    if not (prefill.rules.layouts.one_view and decode.rules.layouts.one_view):
        warning = needs_hnd("tensor_parallel", ": both caches need the layout HND.")
        return replace(warning, severity=WARNING) if split else None
    wish = layout_for_transfer(decode)
    try:
        there, here = (named_layout(plan, None, wish)[1].name for plan in (prefill, decode))
    except LayoutError:
        return None  # the side does not start, whatever the other one has
    layouts |= {"prefill_layout": there, "decode_layout": here}
    if there != here:
        return stops(
            "transfer_layouts", {"there": there, "here": here, "connector_wish": wish}, **layouts
        )
    if split and not here.endswith("HNC"):
        what = f", and in the order {here} those of a block are not contiguous. Use "
        return needs_hnd("kv_cache_layout", f"{what}{wish}.")
    return None
