"""vLLM's defaults of `max_num_batched_tokens` and `max_num_seqs`, by device and entry point.

Source: `EngineArgs.get_batch_defaults` and `_set_default_max_num_seqs_and_batched_tokens_args` of
0.23 and 0.33, usage contexts OPENAI_API_SERVER (`vllm serve`) and LLM_CLASS (`LLM(...)`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.arithmetic import GIB
from workbench.core.devices import driver_memory_of
from workbench.core.media import sees_whole
from workbench.core.ranks import ranks_of

if TYPE_CHECKING:
    from workbench.core.plan import Plan

SCHEDULER_MAX_NUM_BATCHED_TOKENS = 2048
"""Default of `SchedulerConfig`, which knows no device."""
CPU = "cpu"
SERVE, LLM = "serve", "LLM"
PERFORMANCE_MODES = ("balanced", "interactivity", "throughput")
"""Values of `performance_mode`, the default first."""
INTERACTIVITY, THROUGHPUT = PERFORMANCE_MODES[1:]
USAGE_CONTEXTS = {SERVE: "OPENAI_API_SERVER", LLM: "LLM_CLASS"}
"""Ways to start vLLM that have defaults of their own -> what vLLM calls them."""


class Excepted(NamedTuple):
    """Devices that do not get a tier's defaults, whatever their memory."""

    capability: tuple[int, int]
    word: str = ""
    """What vLLM looks for in the device's name; the capability decides while no device is
    named. Empty: vLLM looks at the capability."""

    def holds(self, plan: Plan) -> bool:
        """Return whether the plan's device is one of them."""
        if self.word and plan.device is not None:
            return self.word in plan.device.title.lower()
        return plan.capability == self.capability


# Large steps cost an A100 throughput (vllm#17885); a GB10 has the memory of a large GPU and not its
# compute (0.33). Both get the tier of small devices.
A100 = Excepted((8, 0), "a100")
GB10 = Excepted((12, 1))


class BatchSizes(NamedTuple):
    """Tokens and sequences of a step, under their names in a scenario."""

    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True, slots=True)
class BatchTier:
    """The defaults of devices with at least `device_memory_bytes`; the last tier has all others."""

    device_memory_bytes: int
    serve: BatchSizes
    llm: BatchSizes
    excepted: frozenset[Excepted] = frozenset()

    def defaults(self, plan: Plan) -> BatchSizes:
        """Return the defaults of the plan's entry point and performance mode."""
        found = self.llm if plan.settings.entry_point == LLM else self.serve
        if plan.settings.performance_mode != THROUGHPUT:
            return found
        return BatchSizes(2 * found.max_num_batched_tokens, 2 * found.max_num_seqs)


SMALL = BatchTier(0, BatchSizes(SCHEDULER_MAX_NUM_BATCHED_TOKENS, 256), BatchSizes(8192, 256))


def device_tier(plan: Plan) -> BatchTier:
    """Return the tier of the device, the last one where its memory is not given."""
    if plan.platform.name == CPU:  # it has its own, for every rank
        ranks = ranks_of(plan.settings)
        serve, llm = BatchSizes(2048 * ranks, 128 * ranks), BatchSizes(4096 * ranks, 256 * ranks)
        return BatchTier(0, serve, llm)
    memory = driver_memory_of(plan.settings)
    if memory is None:
        # As vLLM does where the driver does not answer: it counts 0 bytes.
        return plan.rules.batch_tiers[-1]
    return next(tier for tier in possible_tiers(plan) if memory >= tier.device_memory_bytes)


def possible_tiers(plan: Plan) -> tuple[BatchTier, ...]:
    """Return the tiers that the device can be in whatever its memory is."""
    return tuple(
        tier
        for tier in plan.rules.batch_tiers
        if not any(excepted.holds(plan) for excepted in tier.excepted)
    )


def chunks_prompts(plan: Plan) -> bool:
    """Return whether the arguments allow that a prompt takes several steps (chunked prefill)."""
    # ModelConfig.is_chunked_prefill_supported, 0.23 and 0.33: not next to an encoder.
    explicit, pooling = plan.settings.enable_chunked_prefill, plan.model.pooling
    in_steps = pooling is None or pooling.takes_steps
    return (in_steps and not plan.model.is_encoder_decoder) if explicit is None else explicit


def batch_sizes(plan: Plan, tier: BatchTier) -> BatchSizes:
    """Return what is explicit, else the tier's defaults, each limited by the other."""
    settings, defaults = plan.settings, tier.defaults(plan)
    # A step needs no more tokens than all sequences have, and no more sequences than tokens.
    sequences = settings.max_num_seqs or defaults.max_num_seqs
    # An image or a video whose tokens see each other is not cut: it raises the default.
    budget = defaults.max_num_batched_tokens
    if (largest := plan.model.largest_item_tokens) and sees_whole(plan, plan.model.attention):
        budget = max(budget, largest)
    if not chunks_prompts(plan):
        budget = max(budget, plan.max_model_len)
    # In this order: the tokens by the sequences as they are by default, then these by the tokens.
    tokens = settings.max_num_batched_tokens or min(sequences * plan.max_model_len, budget)
    return BatchSizes(tokens, settings.max_num_seqs or min(sequences, tokens))


def is_certain(plan: Plan, field: str) -> bool:
    """Return whether the value of `field` follows from the scenario alone."""
    # Not certain is a default that devices have different ones of, while the memory is not given.
    if plan.platform.name == CPU or driver_memory_of(plan.settings) is not None:
        return True
    if getattr(plan.settings, field):
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
        f"Set device (for example H100), device_memory_bytes or {field}."
    )
