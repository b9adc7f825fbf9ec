"""What a connector refuses of an engine, whatever the chunk is: as problems, in its order.

Source: as named in `connectors`; how the hybrid manager is turned off: `VllmConfig.__post_init__`,
the same in 0.23 and 0.33.
"""

from collections.abc import Iterator
from dataclasses import replace

from workbench.core.chunks.connectors import LMCACHE, MOONCAKE, OFFLOADING, SIMPLE, Connector
from workbench.core.chunks.pieces import UNKEPT, same_heads
from workbench.core.errors import WorkbenchError
from workbench.core.offload.checks import ENABLE_PREFIX_CACHING, encoder_problem, stops
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.core.offload.transfer_ranks import state_problem
from workbench.core.plan import Plan
from workbench.core.prefix.prefill import ALIGN
from workbench.core.problems import WARNING, Problem
from workbench.core.remedies import changed_plan

ENOUGH_BYTES = 2**50
"""A host pool that is never the reason of a refusal."""


def engine_with(plan: Plan, connector: Connector) -> tuple[Plan, Problem | None]:
    """Return the plan with this connector in its command, and what that changes."""
    supports_hybrid = plan.rules.offload.connectors[connector.name].supports_hybrid
    if supports_hybrid or plan.cache is None or len(plan.cache.groups) < 2:
        return plan, None
    try:
        other = changed_plan(plan, {"kv_connector": connector.name})
    except WorkbenchError as error:
        return plan, _needs_manager(connector, error.message)
    if other.cache is None:
        return plan, _needs_manager(connector, "; ".join(one.message for one in other.errors))
    before, after = plan.built_cache(), other.built_cache()
    found = stops(
        "connector_turns_manager_off",
        {"connector": connector, "other": other, "after": after},
        groups=len(before.groups),
    )
    return other, replace(found, severity=WARNING)


def _needs_manager(connector: Connector, reason: str) -> Problem:
    return stops(
        "connector_needs_one_group",
        {"reason": reason, "lmcache": LMCACHE},
        connector=connector.name,
    )


def connector_problems(plan: Plan, connector: Connector) -> Iterator[Problem]:
    """Yield what the connector refuses, or keeps wrongly, of this plan, which has a cache."""
    if plan.model.is_encoder_decoder and connector.name != OFFLOADING:
        yield encoder_problem()
    if connector.stores:
        yield from _state_problems(plan, connector)
    if connector.name == LMCACHE:
        yield from _step_problems(plan)
    if connector.name == MOONCAKE:
        yield from _shared_states(plan)
    if connector.name == OFFLOADING:
        yield from offload(plan, OffloadRequest(cpu_bytes_to_use=ENOUGH_BYTES)).problems
    if not connector.stores and (problem := state_problem(plan)):
        yield problem


def _state_problems(plan: Plan, connector: Connector) -> Iterator[Problem]:
    """Check that the states of a request are kept at the ends of blocks."""
    groups = plan.built_cache().groups
    states = [number for number, group in enumerate(groups) if group.spec.is_mamba]
    unkept = plan.mamba_cache_mode == UNKEPT
    if not states or (connector.name == OFFLOADING and len(groups) > 1):
        return  # vLLM's own offload looks at the blocks of several groups itself
    text = _state_refusal(plan, connector, states[0])
    if text is None and not unkept:
        return
    found = stops(
        "connector_state_mode",
        {"vllm_text": text, "connector": connector, "kept_modes": " or ".join(_modes(connector))},
        candidates=ENABLE_PREFIX_CACHING,
        mamba_cache_mode=plan.mamba_cache_mode,
        groups=tuple(states),
    )
    # One group of states is not refused by every connector, but no prefix is found again.
    yield found if text is not None else replace(found, severity=WARNING)


def _modes(connector: Connector) -> tuple[str, ...]:
    return connector.state_modes or (ALIGN, "all")


def _state_refusal(plan: Plan, connector: Connector, first: int) -> str | None:
    """Return what vLLM prints of the first group of states; None where the engine starts."""
    mode, groups = plan.mamba_cache_mode, plan.built_cache().groups
    if connector.name == LMCACHE and mode not in connector.state_modes:
        text = f"LMCache cannot serve this model's KV cache groups: group {first}: MambaSpec with "
        return f"{text}mamba_cache_mode='{mode}'"
    if connector.name == MOONCAKE:
        by_block = not plan.rules.offload.store_wants_align
        fits = groups[first].spec.block_size == plan.block_size
        if not (fits if by_block else mode in connector.state_modes):
            return f"MooncakeStoreConnector does not support: group {first}:"
    if connector.name == SIMPLE and mode == UNKEPT and len(groups) > 1:
        # The pool of the host always caches prefixes, which MambaManager refuses (0.33). In 0.23
        # hashes are as long as all blocks together (resolve_kv_cache_block_sizes), which
        # HybridKVCacheCoordinator refuses.
        if "all" not in plan.rules.cache_modes:
            return "Mamba prefix caching requires mamba_cache_mode='align'"
        return "block_size must be divisible by hash_block_size"
    return None


def _step_problems(plan: Plan) -> Iterator[Problem]:
    """Check the steps of a prompt: each must hold a block, and keeps one state."""
    block, budget = plan.mamba_block_size, plan.max_num_batched_tokens
    if plan.mamba_cache_mode != ALIGN or block is None or not plan.model.ssm_layers:
        return
    if budget < block:
        yield stops(
            "connector_step_below_block",
            candidates=({"max_num_batched_tokens": block},),
            max_num_batched_tokens=budget,
            block_size=block,
        )
    elif budget >= 2 * block:
        found = stops(
            "connector_states_between_steps",
            {"room": budget // block},
            max_num_batched_tokens=budget,
            block_size=block,
        )
        yield replace(found, severity=WARNING)


def _shared_states(plan: Plan) -> Iterator[Problem]:
    """Warn of ranks that write different states under one key of a Mooncake store (0.23)."""
    groups = [group for group in plan.built_cache().groups if group.spec.is_mamba]
    attention = plan.model.attention
    if not groups or attention is None or not plan.rules.offload.store_shares_states:
        return
    if (ranks := same_heads(plan, groups[0])) > 1:
        heads = attention.num_kv_heads
        found = stops(
            "connector_shares_states",
            {"heads": heads, "plan": plan, "nearest": heads},
            ranks=ranks,
        )
        yield replace(found, severity=WARNING)
