"""The prefill kernel of gated delta nets, where sizes depend on it (0.33, align mode)."""

from __future__ import annotations

from workbench.core.gdn_prefill import (
    KEY_HEAD_DIM,
    device_has_kernel,
    exports_checkpoints,
    flashinfer_prefill,
    needs_cuda_13,
)
from workbench.core.problems import WARNING
from workbench.core.states import GatedDeltaNet
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

FIELD = "gdn_flashinfer_prefill"
GDN_PREFILL = Rule(
    "gdn_prefill",
    "FlashInfer runs the prefill of gated delta nets",
    "not switched off, and compute capability 9.0, or 10.x and 12.x with CUDA 13 or later and key "
    f"heads of {KEY_HEAD_DIM}",
    "",
)


def gdn_prefill(run: WorkingPlan) -> None:
    """Record which prefill kernel runs, and what the scenario leaves open about it."""
    if not exports_checkpoints(run):
        return
    state, requested = run.model.state, run.settings.gdn_flashinfer_prefill
    assert isinstance(state, GatedDeltaNet)
    assumed = requested is None and needs_cuda_13(run.model, run.settings)
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
    elif requested and not device_has_kernel(run.model, run.settings):
        _falls_back(run, state)


def _assumed(run: WorkingPlan) -> None:
    tokens = run.rules.prefill_checkpoint_tokens
    run.problem(
        "cuda_version_assumed",
        FIELD,
        f"CUDA 13 or later is assumed, as in vLLM's own wheels: on {_device(run)} FlashInfer then "
        "runs the prefill of gated delta nets, and blocks are multiples of "
        f"{tokens} tokens. With CUDA 12 it does not. Set {FIELD} to true or false to decide it.",
        severity=WARNING,
        operands={"compute_capability": run.capability, "prefill_checkpoint_tokens": tokens},
        candidates=({FIELD: True}, {FIELD: False}),
    )


def _falls_back(run: WorkingPlan, state: GatedDeltaNet) -> None:
    run.problem(
        "gdn_prefill_falls_back",
        FIELD,
        "FlashInfer has no prefill kernel for gated delta nets with key heads of "
        f"{state.key_head_dim} on {_device(run)}. Expected compute capability 9.0, or 10.x or 12.x "
        f"with key heads of {KEY_HEAD_DIM}. vLLM falls back to another kernel. Leave {FIELD} "
        "unset.",
        severity=WARNING,
        operands={"compute_capability": run.capability, "key_head_dim": state.key_head_dim},
        vllm_text="GDN prefill backend 'flashinfer' is selected but cannot use this kernel on the "
        "current platform.",
        candidates=({FIELD: None}, {FIELD: False}),
    )


def _device(run: WorkingPlan) -> str:
    if run.capability is None:
        return run.platform.title
    return "compute capability {}.{}".format(*run.capability)
