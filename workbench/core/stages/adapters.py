"""What `--enable-lora` refuses, before any adapter is loaded."""

from workbench.core import online
from workbench.core.expert_formats import MXFP4, NVFP4
from workbench.core.stages.expert_kernels import experts_of
from workbench.core.working_plan import WorkingPlan

# select_mxfp4_moe_backend: XPUExpertsMxFp4 lacks LoRAExpertsMixin, 0.23 and 0.33
NO_ADAPTERS = (
    "Mxfp4 MoE backend '{platform}' does not support the deployment configuration since kernel"
)
XPU_UNADAPTED = {("xpu", MXFP4): NO_ADAPTERS.format(platform="XPU")}
FORMATS = {online.MXFP4.block: MXFP4, online.NVFP4.block: NVFP4}
"""Blocks of experts -> their format, as `RuleSet.quantization` calls it."""


def adapted_class(run: WorkingPlan) -> None:
    """Refuse adapters of a class that has no interface for them.

    Source: `LoRAConfig.verify_with_model_config`, 0.33; `LoRAModelRunnerMixin.load_lora_model`,
    0.23.
    """
    name, registry, media = run.model.architecture, run.rules.model_registry, run.rules.media
    if run.settings.enable_lora and name in registry.without_adapters:
        is_asserted = registry.served.get(name) in media.asserts_no_adapters
        run.problem(
            "adapters_not_supported",
            operands={"enable_lora": True, "architecture": name},
            vllm_text="" if is_asserted else media.words_of_adapters.format(name=name),
        )


def adapted_experts(run: WorkingPlan) -> None:
    """Refuse adapters where the one kernel of a platform for its experts takes none."""
    if not run.settings.enable_lora:
        return
    known, platform = run.rules.quantization.unadapted_experts, run.platform.name
    kinds = (FORMATS.get(one.stored.block) for one in experts_of(run) if one.stored is not None)
    kind = next((one for one in kinds if one and (platform, one) in known), None)
    if kind is not None:
        run.problem(
            "experts_not_adapted",
            operands={"enable_lora": True},
            candidates=({"enable_lora": False}, {"platform": "cuda", "device": None}),
            vllm_text=known[platform, kind],
            format=kind.upper(),
        )


def steps_of_drafts(run: WorkingPlan) -> None:
    """Refuse adapters where a step cannot hold the drafts of all sequences."""
    # EngineArgs.create_engine_config, 0.23 and 0.33
    settings, tokens = run.settings, run.max_num_batched_tokens
    needed = run.max_num_seqs * (settings.num_speculative_tokens + 1)
    if not (settings.enable_lora and run.speculative_method) or tokens >= needed:
        return
    run.problem(
        "adapters_need_longer_steps",
        operands={"max_num_batched_tokens": tokens, "needed": needed},
        candidates=(
            {"max_num_batched_tokens": needed},
            {"max_num_seqs": tokens // (settings.num_speculative_tokens + 1)},
            {"num_speculative_tokens": 0},
        ),
    )
