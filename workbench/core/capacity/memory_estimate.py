"""What a named device leaves for the cache before the first start: an estimate, with its margin.

Weights follow from config.json. What vLLM measures in its profiling run (`profile_run`,
`profile_cudagraph_memory`) is modelled with constants that public start-up logs gave, see
`tests/data/README.md`. Explicit sizes always win.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.arithmetic import GIB
from workbench.core.capacity.adapters import adapter_bytes
from workbench.core.capacity.draft_weights import (
    DraftBytes,
    copies_of,
    draft_bytes,
    draft_weights,
    split_of_drafter,
)
from workbench.core.capacity.graph_sizes import attention_workspace, graph_bytes
from workbench.core.capacity.largest_images import level_bytes
from workbench.core.capacity.memory_budget import (
    DEFAULT_GPU_MEMORY_UTILIZATION,
    MemoryBudget,
    explicit_bytes,
    memory_budget,
)
from workbench.core.capacity.memory_doubts import (
    HOST,
    OF_PLATFORM,
    RANKS_ELSEWHERE,
    Measured,
    doubts,
    is_unified,
    talking_ranks,
)
from workbench.core.capacity.step_memory import activations, compiling, counted_tokens
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.platforms import HOPPER
from workbench.core.ranks import split_of

if TYPE_CHECKING:
    from workbench.core.plan import Plan

OUTSIDE_TORCH = int(0.25 * GIB)
OF_RANKS = int(1.85 * GIB)
"""What ranks need to talk to each other."""

ELSEWHERE = (
    "on CPU the cache is gpu_memory_utilization of the NUMA node's memory less what the process "
    "holds, and no start was compared"
)


class Unestimated(NamedTuple):
    """Why there is no estimate, and the field that would give what is missing."""

    field: str
    """Empty where no field would."""
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}. Set {self.field}." if self.field else f"{self.reason}."


NO_DEVICE = Unestimated("device", "no device is named, for example H100")
NO_CACHE = Unestimated("", "vLLM stops before it makes the cache")


def budget_of(plan: Plan) -> MemoryBudget | None:
    """Return the explicit budget of a plan, else the estimate; None while neither is there.

    Of pipeline stages, that which leaves least.
    """
    return min(budgets_of(plan), key=lambda one: one.available_bytes, default=None)


def budgets_of(plan: Plan) -> tuple[MemoryBudget, ...]:
    """Return the budget of every pipeline stage, one where all are equal; none while unknown."""
    explicit = memory_budget(plan.settings)
    return plan.estimates if explicit is None else (explicit,)


def estimates_of(plan: Plan) -> tuple[MemoryBudget, ...]:
    """Return the estimate of every pipeline stage; none without a device, or where it is moot."""
    is_moot = plan.device is None or plan.settings.weights_bytes is not None
    found = [] if is_moot else [estimate(plan, layers) for layers in _layers_of_stages(plan)]
    return tuple(one for one in found if one is not None)


def _layers_of_stages(plan: Plan) -> Sequence[range | None]:
    return [stage.layers for stage in plan.stages] or [None]


def estimate_margin(plan: Plan) -> int | None:
    """Return what the plan's cache memory may be off by; None where it is not an estimate."""
    settings = plan.settings
    if explicit_bytes(settings) or settings.num_gpu_blocks_override is not None:
        return None
    found = budget_of(plan)
    return None if found is None else found.margin_bytes


def estimate(plan: Plan, layers: range | None = None) -> MemoryBudget | None:
    """Return the estimated budget of the named device; None where `missing` has a reason.

    layers: of a pipeline stage; the last one samples, and has the drafter.
    """
    weights, device = weights_of(plan, layers), plan.device_memory_bytes
    is_first, is_last = layers is None or not layers.start, _samples(plan, layers)
    drafter = _drafter_of(plan) if is_last else DraftBytes()
    if missing(plan) is not None or weights is None or device is None or drafter is None:
        return None
    settings, share = plan.settings, _share(plan, layers)
    peak = activations(plan, is_first=is_first, is_last=is_last)
    copied = max(compiling(plan) - peak, 0) if is_first else 0
    graphs = int(share * graph_bytes(plan)) + attention_workspace(plan)
    other = _other(plan, share) + (counted_tokens(plan) if is_last else 0)
    measured = Measured(weights, peak, graphs, drafter.uncertain, copied)
    if settings.activation_bytes is not None:
        # What is measured from outside contains non-torch allocations.
        peak, copied, other = settings.activation_bytes, 0, 0
    if settings.cuda_graph_bytes is not None:
        graphs = settings.cuda_graph_bytes
    return MemoryBudget(
        device_bytes=device,
        utilization=settings.gpu_memory_utilization or DEFAULT_GPU_MEMORY_UTILIZATION,
        weights_bytes=_loaded(plan, weights, drafter, layers),
        activation_bytes=peak + copied,
        cuda_graph_bytes=graphs,
        other_bytes=other,
        doubts=doubts(plan, device, measured),
    )


def loaded_weights(plan: Plan) -> tuple[int, ...]:
    """Return the bytes that loading takes on one rank, of every pipeline stage; none if unknown.

    With the drafter, which is loaded at the same time.
    """
    found = []
    for layers in _layers_of_stages(plan):
        weights = weights_of(plan, layers)
        drafter = _drafter_of(plan) if _samples(plan, layers) else DraftBytes()
        if weights is None or drafter is None:
            return ()
        found.append(_loaded(plan, weights, drafter, layers))
    return tuple(found)


def _samples(plan: Plan, layers: range | None) -> bool:
    """Return whether these are the layers of the last stage, which samples and has the drafter."""
    return layers is None or layers.stop > plan.model.num_hidden_layers


def _loaded(plan: Plan, weights: int, drafter: DraftBytes, layers: range | None) -> int:
    """Return the weights and what is made with them: explicit ones have the room of levels."""
    levels = level_bytes(plan) * (plan.settings.weights_bytes is None)
    return weights + levels + drafter.size + adapter_bytes(plan, layers)


def _share(plan: Plan, layers: range | None) -> float:
    """Return the share of the layers that a pipeline stage has; 1 without stages."""
    count = plan.model.num_hidden_layers
    return 1 if layers is None else (min(layers.stop, count) - layers.start) / count


def weights_of(plan: Plan, layers: range | None = None) -> int | None:
    """Return the bytes of weights on one rank: explicit, or of config.json.

    layers: of a pipeline stage, None for all.
    """
    explicit = plan.settings.weights_bytes
    if explicit is not None:
        return explicit
    found = plan.model.weights.size(split_of(plan), plan.model_dtype, copies_of(plan), layers)
    if found is not None and plan.model.weights.unknown:
        return int(_share(plan, layers) * found)
    return found


def _drafter_of(plan: Plan) -> DraftBytes | None:
    """Return what the drafter has; explicit weights are those of both models."""
    return DraftBytes() if plan.settings.weights_bytes is not None else draft_bytes(plan)


def missing(plan: Plan) -> Unestimated | None:
    """Return what keeps the memory from being estimated, None if nothing does."""
    if plan.platform.name not in OF_PLATFORM:
        return Unestimated("kv_cache_memory_bytes", ELSEWHERE)
    if plan.device_memory_bytes is None:
        return NO_DEVICE
    return None if plan.settings.weights_bytes is not None else _unknown_weights(plan)


def _unknown_weights(plan: Plan) -> Unestimated | None:
    """Return why the weights of the model or of its drafter are not known."""
    of_model = (plan.model.weights, split_of(plan))
    of_drafter = (draft_weights(plan), split_of_drafter(plan))
    for weights, split in (of_model, of_drafter):
        if weights is not None and weights.unknown and not weights.checkpoint_bytes:
            return Unestimated("weights_bytes", weights.unknown)
        part = None if weights is None else weights.undivided(split, copies_of(plan))
        if part is not None:
            reason = f"{part.ranks(split)} ranks cannot divide {part.name} evenly"
            return Unestimated("tensor_parallel", reason)
    return None


def _other(plan: Plan, share: float) -> int:
    of_ranks = OF_RANKS if plan.capability == HOPPER else RANKS_ELSEWHERE
    copies = int(share * _latent_copies(plan, plan.settings.tensor_parallel))
    found = OUTSIDE_TORCH + (of_ranks if talking_ranks(plan) > 1 else 0) + copies
    return found + HOST if is_unified(plan) else found


def _latent_copies(plan: Plan, ranks: int) -> int:
    """Return the up-projections of MLA, which vLLM keeps a second time, transposed for decoding."""
    attention = plan.model.attention
    if attention is None or not attention.use_mla:
        return 0
    rank = attention.head_size - (attention.qk_rope_head_dim or 0)
    sizes = (attention.qk_nope_head_dim or 0) + (attention.v_head_dim or 0)
    layers = plan.model.attention_layers
    return layers * attention.num_heads // ranks * sizes * rank * FLOAT_BYTES[plan.model_dtype]
