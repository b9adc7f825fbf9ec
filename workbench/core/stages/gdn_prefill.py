"""Whether FlashInfer runs the prefill of gated delta nets, which keeps states inside a prompt.

Source: `_resolve_gdn_prefill_backend` and `QwenGatedDeltaNetAttention`, 0.33. Sizes depend on it in
align mode; 0.23 has the kernel too (not on SM12x), but keeps no states inside a prompt.
"""

from workbench.core.plan import Plan
from workbench.core.platforms import HOPPER, gfx_of
from workbench.core.states import GatedDeltaNet, KimiDeltaAttention
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

BLACKWELL = frozenset({10, 12})
"""Major compute capabilities where the kernel needs CUDA 13 and key heads of KEY_HEAD_DIM."""
KEY_HEAD_DIM = 128
OWN_KERNEL = frozenset({"olmo_hybrid"})
"""Families of gated delta nets whose layer always runs Triton/FLA."""
FIELD = "gdn_flashinfer_prefill"
GDN_PREFILL = Rule(
    "gdn_prefill",
    "FlashInfer runs the prefill of gated delta nets",
    "not switched off, and compute capability 9.0, or 10.x and 12.x with CUDA 13 or later and key "
    f"heads of {KEY_HEAD_DIM}",
)


def flashinfer_prefill(plan: Plan) -> bool:
    """Return whether FlashInfer runs the prefill and keeps states inside a prompt."""
    # Unset is vLLM's "auto", which takes the kernel wherever the device has it; a request for it
    # elsewhere falls back to Triton/FLA.
    return (
        plan.settings.gdn_flashinfer_prefill is not False
        and _keeps_states(plan)
        and (plan.capability == HOPPER or _needs_cuda_13(plan))
    )


def flashkda_prefill(plan: Plan) -> bool:
    """Return whether the prefill kernel of Kimi delta attention keeps a state inside a prompt."""
    # is_flashkda_supported of kimi_k3, _resolve_kda_prefill_backend of glm5next, 0.33.
    state = plan.model.state
    return (
        isinstance(state, KimiDeltaAttention)
        and state.is_bounded
        and state.head_dim == KEY_HEAD_DIM
        and (_has_flashkda(plan) or _has_fused_kda(plan))
    )


def _has_flashkda(plan: Plan) -> bool:
    if plan.capability is None or plan.platform.name != "cuda":
        return False
    return plan.capability[0] in BLACKWELL | {HOPPER[0]} and plan.model_dtype == "bfloat16"


def _has_fused_kda(plan: Plan) -> bool:
    # KimiK3DeltaAttention.get_kv_cache_spec and is_fused_kda_chunk_supported of kimi_k3/amd, 0.33.
    own = plan.rules.own_state_backends.get(plan.model.architecture, {})
    on_gfx950 = plan.platform.name == "rocm" and gfx_of(plan.settings) == "gfx950"
    return on_gfx950 and "rocm" in own


def gdn_prefill(run: WorkingPlan) -> None:
    """Record which prefill kernel runs, and what the scenario leaves open about it."""
    if not _keeps_states(run):
        return
    state, requested = run.model.state, run.settings.gdn_flashinfer_prefill
    assert isinstance(state, GatedDeltaNet)
    needs_cuda_13 = _needs_cuda_13(run)
    assumed = requested is None and needs_cuda_13
    run.step(
        GDN_PREFILL,
        flashinfer_prefill(run),
        "CUDA 13 assumed" if assumed else "",
        requested=requested,
        compute_capability=run.capability,
        key_head_dim=state.key_head_dim,
    )
    if assumed:
        _assumed(run)
    elif requested and run.capability != HOPPER and not needs_cuda_13:
        _falls_back(run, state)


def _keeps_states(plan: Plan) -> bool:
    """Return whether FlashInfer's prefill, if it runs, keeps states inside a prompt."""
    if plan.rules.prefill_checkpoint_tokens == 1 or plan.mamba_cache_mode != "align":
        return False
    return isinstance(plan.model.state, GatedDeltaNet) and plan.model.family not in OWN_KERNEL


def _needs_cuda_13(plan: Plan) -> bool:
    """Return whether the kernel exists for this device and model with CUDA 13 or later only."""
    state = plan.model.state
    if plan.capability is None or plan.capability[0] not in BLACKWELL:
        return False
    return isinstance(state, GatedDeltaNet) and state.key_head_dim == KEY_HEAD_DIM


def _assumed(run: WorkingPlan) -> None:
    tokens = run.rules.prefill_checkpoint_tokens
    run.problem(
        "cuda_version_assumed",
        operands={"compute_capability": run.capability, "prefill_checkpoint_tokens": tokens},
        candidates=({FIELD: True}, {FIELD: False}),
        field=FIELD,
        place=_device(run),
    )


def _falls_back(run: WorkingPlan, state: GatedDeltaNet) -> None:
    run.problem(
        "gdn_prefill_falls_back",
        operands={"compute_capability": run.capability, "key_head_dim": state.key_head_dim},
        candidates=({FIELD: None}, {FIELD: False}),
        field=FIELD,
        place=_device(run),
        key_head_dim=KEY_HEAD_DIM,
    )


def _device(run: WorkingPlan) -> str:
    if run.capability is None:
        return run.platform.title
    return "compute capability {}.{}".format(*run.capability)
