"""Whether FlashInfer runs the prefill of gated delta nets, which makes states inside a prompt.

Source: `_resolve_gdn_prefill_backend` and `QwenGatedDeltaNetAttention`, 0.33. 0.23 has the kernel
too (not on SM12x); it keeps no states inside a prompt there, so no size depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.platforms import capability_of
from workbench.core.states import GatedDeltaNet

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

HOPPER = (9, 0)
BLACKWELL = frozenset({10, 12})
"""Major compute capabilities where the kernel needs CUDA 13 and key heads of KEY_HEAD_DIM."""
KEY_HEAD_DIM = 128
OWN_KERNEL = frozenset({"olmo_hybrid"})
"""Families of gated delta nets whose layer always runs Triton/FLA."""


def exports_checkpoints(plan: Plan) -> bool:
    """Return whether FlashInfer's prefill, if it runs, keeps states inside a prompt."""
    if plan.rules.prefill_checkpoint_tokens == 1 or plan.mamba_cache_mode != "align":
        return False
    return isinstance(plan.model.state, GatedDeltaNet) and plan.model.family not in OWN_KERNEL


def device_has_kernel(model: Model, settings: Settings) -> bool:
    """Return whether FlashInfer has the kernel for this device and model; CUDA 13 is assumed."""
    capability = capability_of(settings)
    return capability == HOPPER or needs_cuda_13(model, settings)


def needs_cuda_13(model: Model, settings: Settings) -> bool:
    """Return whether the kernel exists for this device and model with CUDA 13 or later only."""
    capability, state = capability_of(settings), model.state
    if capability is None or capability[0] not in BLACKWELL:
        return False
    return isinstance(state, GatedDeltaNet) and state.key_head_dim == KEY_HEAD_DIM


def flashinfer_prefill(plan: Plan) -> bool:
    """Return whether FlashInfer runs the prefill and keeps states inside a prompt.

    Unset means vLLM's "auto", which takes the kernel wherever the device has it; a request for it
    elsewhere falls back to Triton/FLA.
    """
    if plan.settings.gdn_flashinfer_prefill is False or not exports_checkpoints(plan):
        return False
    return device_has_kernel(plan.model, plan.settings)
