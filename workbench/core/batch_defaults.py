"""vLLM's defaults of `max_num_batched_tokens` and `max_num_seqs` under `vllm serve`.

Source: `EngineArgs.get_batch_defaults` and `_set_default_max_num_seqs_and_batched_tokens_args` of
0.23 and 0.33, usage context OPENAI_API_SERVER. The entry point `LLM(...)` has larger budgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.platforms import capability_of

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

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


def device_tier(tiers: tuple[BatchTier, ...], settings: Settings) -> BatchTier:
    """Return the tier of the device, the last one where its memory is not given.

    A CPU has its own, for every rank of `tensor_parallel`.
    """
    if settings.platform == CPU:
        ranks = settings.tensor_parallel
        return BatchTier(0, 2048 * ranks, 128 * ranks)
    memory = settings.device_memory_bytes
    if memory is None:
        return tiers[-1]
    found = possible_tiers(tiers, settings)
    return next(tier for tier in found if memory >= tier.device_memory_bytes)


def possible_tiers(tiers: tuple[BatchTier, ...], settings: Settings) -> tuple[BatchTier, ...]:
    """Return the tiers that the device can be in by its compute capability alone."""
    capability = capability_of(settings)
    return tuple(tier for tier in tiers if capability not in tier.excepted)


def excepts(tiers: tuple[BatchTier, ...], capability: tuple[int, int], memory: int) -> bool:
    """Return whether a device with this memory misses a tier by its compute capability."""
    return any(memory >= tier.device_memory_bytes and capability in tier.excepted for tier in tiers)


def batch_sizes(tier: BatchTier, settings: Settings, max_model_len: int) -> BatchSizes:
    """Return what is explicit, else the tier's defaults.

    Each default is limited by the other: a step needs no more tokens than all sequences have, and
    no more sequences than tokens.
    """
    sequences = settings.max_num_seqs or tier.max_num_seqs
    tokens = settings.max_num_batched_tokens or min(
        sequences * max_model_len, tier.max_num_batched_tokens
    )
    return BatchSizes(tokens, settings.max_num_seqs or min(sequences, tokens))


def is_certain(
    field: str, tiers: tuple[BatchTier, ...], settings: Settings, max_model_len: int
) -> bool:
    """Return whether the value of `field` follows from the scenario alone.

    Not certain is a default that devices have different ones of, while the memory is not given.
    """
    if settings.platform == CPU or settings.device_memory_bytes is not None:
        return True
    if getattr(settings, field):
        return True
    first, *others = (getattr(batch_sizes(tier, settings, max_model_len), field) for tier in tiers)
    return all(other == first for other in others)


def defaults_text(
    field: str, tiers: tuple[BatchTier, ...], settings: Settings, max_model_len: int
) -> str:
    """Return the default of `field` by device memory: "8,192 from 70 GiB, 2,048 on others"."""
    found: dict[str, str] = {}
    for tier in possible_tiers(tiers, settings):
        value = getattr(batch_sizes(tier, settings, max_model_len), field)
        memory = tier.device_memory_bytes // GIB
        found[f"{value:,}"] = f"from {memory} GiB" if memory else "on others"
    return ", ".join(f"{value} {where}" for value, where in found.items())
