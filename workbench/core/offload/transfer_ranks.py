"""Which numbers of ranks, and which states, a transfer from prefill to decode supports.

Source: `derive_mamba_conv_split` (`ssm_conv_transfer_utils.py`), `TransferTopology.tp_ratio`
(`kv_connector/utils.py`) and `_validate_remote_agent_handshake` of the NIXL worker, 0.23 and 0.33.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

from workbench.core.offload.checks import stops
from workbench.core.plan import Plan
from workbench.core.problems import Problem

NVFP4 = "nvfp4"


def state_problem(plan: Plan) -> Problem | None:
    """Report states that the connector cannot cut into parts; vLLM stops at start-up."""
    state, known = plan.model.state, plan.rules.offload.transferred_states
    if state is None or state.kind in known:
        return None
    return stops(
        "transfer_state_kind",
        {"plan": plan, "listed": ", ".join(sorted(known))},
        variant="" if plan.rules.offload.reads_three_parts else "before_three_parts",
        kind=state.kind,
        known=tuple(sorted(known)),
    )


def ratio_problem(prefill: Plan, decode: Plan) -> Problem | None:
    """Report tensor-parallel sizes of which neither is a multiple of the other."""
    theirs, ours = prefill.settings.tensor_parallel, decode.settings.tensor_parallel
    # A rank then reads from whole ranks of the other side, or shares one with others.
    large, small = max(theirs, ours), min(theirs, ours)
    if not large % small:
        return None
    words = ("Local", "remote") if ours == large else ("Remote", "local")
    return stops(
        "transfer_ranks_not_divisible",
        {
            "theirs": theirs,
            "ours": ours,
            "below": large // small * small,
            "above": (large // small + 1) * small,
            "words": words,
            "large": large,
            "small": small,
        },
        **_ranks(prefill, decode),
    )


def replicated_problem(prefill: Plan, decode: Plan) -> Problem | None:
    """Report ranks of prefill with the same heads, of which decode would read several."""
    theirs, ours = prefill.settings.tensor_parallel, decode.settings.tensor_parallel
    heads = _heads_to_split(decode)
    if heads is None or theirs <= max(ours, heads):
        return None
    return stops(
        "transfer_replicated_heads",
        {"theirs": theirs, "ours": ours, "nearest": max(ours, heads)},
        **_ranks(prefill, decode),
        num_kv_heads=heads,
    )


def page_problems(prefill: Plan, decode: Plan, kernel_ratio: int | None) -> Iterator[Problem]:
    """Check what a rank of one side reads of a page of the other.

    kernel_ratio: kernel blocks of prefill in one of decode.
    """
    theirs, ours = prefill.settings.tensor_parallel, decode.settings.tensor_parallel
    attention, rules = decode.model.attention, decode.rules.offload
    if attention is None or attention.use_mla:
        return
    here, there = (attention.kv_heads_per_rank(ranks) for ranks in (ours, theirs))
    if here != there and NVFP4 in decode.kv_cache_dtype and rules.checks_packed_heads:
        yield stops(
            "transfer_packed_heads",
            {"decode": decode, "theirs": theirs, "ours": ours},
            **_ranks(prefill, decode),
        )
    heads = _heads_to_split(decode)
    if heads is None or theirs > heads:
        return
    if theirs > ours and kernel_ratio not in {None, 1}:
        yield stops(
            "transfer_ranks_and_blocks",
            {"theirs": theirs, "ours": ours},
            **_ranks(prefill, decode),
            kernel_ratio=kernel_ratio,
        )
    elif ours > heads and ours > theirs and rules.splits_heads_by_ranks:
        yield stops(
            "transfer_heads_per_rank",
            {
                "ours": ours,
                "theirs": theirs,
                "decode": decode,
                "ratio": ours // theirs,
                "nearest": max(theirs, heads),
            },
            **_ranks(prefill, decode),
            num_kv_heads=heads,
        )


def _heads_to_split(plan: Plan) -> int | None:
    """Return the KV heads that ranks split; None for latents, and alongside states."""
    attention = plan.model.attention
    if attention is None or attention.use_mla or plan.model.ssm_layers:
        return None
    return attention.num_kv_heads


def _ranks(prefill: Plan, decode: Plan) -> dict[str, Any]:
    return {
        "prefill_tensor_parallel": prefill.settings.tensor_parallel,
        "decode_tensor_parallel": decode.settings.tensor_parallel,
    }


def unequal_states(prefill: Plan, decode: Plan) -> Problem | None:
    """Warn of states with other dtypes or shapes, which no check of vLLM compares."""
    there, here = _whole_states(prefill), _whole_states(decode)
    if there == here:
        return None
    return stops(
        "transfer_states_differ",
        {"theirs": _shown(there), "ours": _shown(here)},
        prefill_states=there,
        decode_states=here,
    )


def _whole_states(plan: Plan) -> tuple[tuple[str, int], ...]:
    """Return (dtype, elements over all ranks) of the states of one layer."""
    ranks = plan.settings.tensor_parallel
    pairs = zip(plan.mamba_state_dtypes, plan.layer_state_shapes, strict=True)
    return tuple((dtype, ranks * prod(shape)) for dtype, shape in pairs)


def _shown(states: Any) -> str:
    return " and ".join(f"{elements:,} x {dtype}" for dtype, elements in states) or "none"
