"""What a connector refuses of an engine, whatever the chunk is: as problems, in its order.

Source: as named in `connectors`; how the hybrid manager is turned off: `VllmConfig.__post_init__`,
the same in 0.23 and 0.33.
"""

from collections.abc import Iterator
from dataclasses import replace

from workbench.core.chunks.connectors import LMCACHE, MOONCAKE, OFFLOADING, Connector
from workbench.core.chunks.pieces import same_heads
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
    if connector.state_modes:
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
    groups = enumerate(plan.built_cache().groups)
    states = [number for number, group in groups if group.spec.is_mamba]
    if not states:
        return
    modes = connector.state_modes
    by_block = connector.name == MOONCAKE and not plan.rules.offload.store_wants_align
    state_block = plan.built_cache().groups[states[0]].spec.block_size
    fits = state_block == plan.block_size if by_block else plan.mamba_cache_mode in modes
    if fits:
        return
    text = (
        f"LMCache cannot serve this model's KV cache groups: group {states[0]}: MambaSpec with "
        f"mamba_cache_mode='{plan.mamba_cache_mode}'"
        if connector.name == LMCACHE
        else f"MooncakeStoreConnector does not support: group {states[0]}:"
    )
    yield stops(
        "connector_state_mode",
        {"vllm_text": text, "connector": connector, "kept_modes": " or ".join(modes)},
        candidates=ENABLE_PREFIX_CACHING,
        mamba_cache_mode=plan.mamba_cache_mode,
        groups=tuple(states),
    )


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
    if not groups or not plan.rules.offload.store_shares_states:
        return
    if (ranks := same_heads(plan, groups[0])) > 1:
        attention = plan.model.attention
        heads = 0 if attention is None else attention.num_kv_heads
        found = stops(
            "connector_shares_states",
            {"heads": heads, "plan": plan, "nearest": max(1, heads)},
            ranks=ranks,
        )
        yield replace(found, severity=WARNING)
