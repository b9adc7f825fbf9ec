"""Which model runner serves a plan by default, and what its steps have in common."""

from typing import Any

from workbench.core.plan import Plan
from workbench.core.pooling import pools
from workbench.core.speculation import MTP


def model_runner(plan: Plan) -> str:
    """Return the runner that serves a plan, "v1" or "v2"."""
    # VllmConfig.use_v2_model_runner
    explicit = plan.settings.v2_model_runner
    is_second = _takes_v2(plan) if explicit is None else explicit
    return "v2" if is_second else "v1"


def refused_by_runner(plan: Plan, runner: str) -> dict[str, Any]:
    """Return what `runner_without_feature` says of a runner; empty where it serves the plan."""
    # VllmConfig._validate_v1_model_runner and _validate_v2_model_runner
    why = _refusal(plan, runner)
    given = {"v2_model_runner": plan.settings.v2_model_runner, "platform": plan.platform.name}
    operands = {"model_runner": runner, "speculative_method": plan.speculative_method, **given}
    return {"operands": operands, "vllm_text": why, "why": why} if why else {}


def _refusal(plan: Plan, runner: str) -> str:
    # It needs Triton, which a CPU build of 0.23 does not have. One of 0.33 may have triton-cpu,
    # which is not assumed.
    if runner == "v2" and plan.platform.name == "cpu":
        return "Model Runner V2 requires Triton."
    return plan.rules.speculation.refuses(plan, runner)


def _takes_v2(plan: Plan) -> bool:
    model, served = plan.model, plan.rules.speculation.v2_architectures
    is_served = model.architecture in (served or ()) and model.pooling is None
    by_default = served is None or (is_served and not model.is_quantized)
    return by_default and not _refusal(plan, "v2")


def is_async(plan: Plan) -> bool:
    """Return whether a step is scheduled before the last one has ended (async scheduling)."""
    # VllmConfig.__post_init__, and CpuPlatform.check_and_update_config, which switches it off.
    explicit = plan.settings.async_scheduling
    overlaps = (
        not pools(plan.model.pooling) and not waits_for(plan) if explicit is None else explicit
    )
    return overlaps and plan.platform.name != "cpu"


def waits_for(plan: Plan) -> str:
    """Return what the V1 runner waits for before it schedules a step; empty if for nothing."""
    rules, method = plan.rules.speculation, plan.speculative_method
    if model_runner(plan) == "v2":
        return ""
    if method in rules.v1_waits:
        return f"{method}-based speculative decoding"
    is_cut = rules.stages_wait and plan.settings.pipeline_parallel > 1
    return "pipeline parallelism" if is_cut else ""


def keeps_drafts_whole(plan: Plan) -> bool:
    """Return whether the drafter runs without decode context parallelism, on every rank."""
    # DFlashSpeculator.__init__, 0.33.
    method, drafter = plan.speculation, plan.drafter
    if method is None or drafter is None or drafter.attention.use_mla:
        return False
    return method.keeps_tokens_whole and model_runner(plan) == "v2"


def lookahead_tokens(plan: Plan) -> int:
    """Return how far a drafter of hidden states reads past a position."""
    # One token, or the whole draft of a chain of MTP layers (num_prefill_lookahead_tokens and
    # use_multi_module_mtp, 0.33).
    # Each module of a chain reads one token further than the one before it.
    mtp, tokens = (plan.model.drafter or plan.model).mtp, plan.settings.num_speculative_tokens
    chained = mtp is not None and mtp.chained > 1 and plan.speculative_method == MTP
    return tokens if chained and tokens > 1 else 1


def concurrent_batches(plan: Plan) -> int:
    """Return the steps that may be under way at once: one per stage, and one that is scheduled."""
    # VllmConfig.max_concurrent_batches, 0.23 and 0.33.
    # A step per stage keeps all of them busy, and async scheduling adds one; the V1 runner does not
    # overlap steps of several stages.
    stages = plan.settings.pipeline_parallel
    if not is_async(plan):
        return stages
    return stages + 1 if stages == 1 or model_runner(plan) == "v2" else stages
