"""vLLM's defaults of `max_num_batched_tokens` and `max_num_seqs` under `vllm serve`.

Source: `EngineArgs.get_batch_defaults` and `_set_default_max_num_seqs_and_batched_tokens_args` of
0.23 and 0.33, usage context OPENAI_API_SERVER. The entry point `LLM(...)` has larger budgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from workbench.core.plan import Plan

GIB = 2**30
SCHEDULER_MAX_NUM_BATCHED_TOKENS = 2048
"""Default of `SchedulerConfig`, which knows no device."""
A100 = (8, 0)
"""Taken for an A100, which vLLM recognizes by "a100" in the device's name."""
GB10 = (12, 1)
CPU = "cpu"


@dataclass(frozen=True, slots=True)
class BatchTier:
    """The defaults of devices with at least `device_memory_bytes`; the last tier has all others.

    excepted: compute capabilities that do not get them, whatever the memory.
    """

    device_memory_bytes: int
    max_num_batched_tokens: int
    max_num_seqs: int
    excepted: frozenset[tuple[int, int]] = frozenset()


SMALL = BatchTier(0, SCHEDULER_MAX_NUM_BATCHED_TOKENS, 256)


class BatchSizes(NamedTuple):
    """Tokens and sequences of a step, under their names in a scenario."""

    max_num_batched_tokens: int
    max_num_seqs: int


def device_tier(plan: Plan) -> BatchTier:
    """Return the tier of the device, the last one where its memory is not given."""
    settings = plan.settings
    if settings.platform == CPU:  # it has its own, for every rank
        ranks = settings.tensor_parallel
        return BatchTier(0, 2048 * ranks, 128 * ranks)
    memory = settings.device_memory_bytes
    if memory is None:
        return plan.rules.batch_tiers[-1]
    return next(tier for tier in possible_tiers(plan) if memory >= tier.device_memory_bytes)


def possible_tiers(plan: Plan) -> tuple[BatchTier, ...]:
    """Return the tiers that the device can be in by its compute capability alone."""
    return tuple(tier for tier in plan.rules.batch_tiers if plan.capability not in tier.excepted)


def batch_sizes(plan: Plan, tier: BatchTier) -> BatchSizes:
    """Return what is explicit, else the tier's defaults, each limited by the other."""
    settings = plan.settings
    # A step needs no more tokens than all sequences have, and no more sequences than tokens.
    sequences = settings.max_num_seqs or tier.max_num_seqs
    tokens = settings.max_num_batched_tokens or min(
        sequences * plan.max_model_len, tier.max_num_batched_tokens
    )
    return BatchSizes(tokens, settings.max_num_seqs or min(sequences, tokens))


def is_certain(plan: Plan, field: str) -> bool:
    """Return whether the value of `field` follows from the scenario alone."""
    # Not certain is a default that devices have different ones of, while the memory is not given.
    settings = plan.settings
    if settings.platform == CPU or settings.device_memory_bytes is not None:
        return True
    if getattr(settings, field):
        return True
    return len({getattr(batch_sizes(plan, tier), field) for tier in plan.rules.batch_tiers}) == 1


def depends_on_device(plan: Plan, field: str) -> str:
    """Return a sentence with the defaults of `field`, where they depend on an unknown device."""
    # Empty where the value is certain; what is certain may be an error, what is not a warning.
    if is_certain(plan, field):
        return ""
    found: dict[str, str] = {}
    for tier in possible_tiers(plan):
        value = getattr(batch_sizes(plan, tier), field)
        memory = tier.device_memory_bytes // GIB
        found[f"{value:,}"] = f"from {memory} GiB" if memory else "on others"
    return (
        f" The default of {field} depends on the device's memory, which is not given: "
        f"{', '.join(f'{value} {where}' for value, where in found.items())}. "
        f"Set device_memory_bytes or {field}."
    )
