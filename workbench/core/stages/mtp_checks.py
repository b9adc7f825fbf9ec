"""What vLLM says against drafting with the layers for multi-token prediction of a checkpoint."""

from __future__ import annotations

from typing import Any

from workbench.core.architectures import is_encoder
from workbench.core.draft_parts import Mtp
from workbench.core.errors import Refused
from workbench.core.model import V41, Model
from workbench.core.speculation import MTP, NGRAM, SpeculationRules
from workbench.core.working_plan import WorkingPlan

WITHOUT: dict[str, Any] = {"speculative_method": NGRAM, "draft_model": None}
"""The change that drafts without a second checkpoint."""
OWN_DRAFTS = frozenset({MTP, NGRAM, "ngram_gpu"})
"""What Qwen4-Exp drafts with."""
UNSUPPORTED = "Unsupported speculative method: 'mtp'"
FOREIGN = {
    "glm4_moe": "No Glm4MoE layer found in model.layers.",
    "qwen3_next": "No Qwen3Next layer found in the model.layers.",
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe"), "Invalid model_type "),
}
"""model_type of MTP layers -> how the text begins that their class raises of a target whose
configuration has all fields that it reads."""


def runs_mtp(model: Model, rules: SpeculationRules) -> bool:
    """Return whether this version drafts with the checkpoint's own MTP layers."""
    mtp = model.mtp
    if mtp is None or (mtp.predictions is None and mtp.model_type in rules.declared_only):
        return False
    # a version that does not look where the number is builds none, too
    is_unread = mtp.is_nested and mtp.predictions == 0 and not rules.reads_nested_predictions
    return rules.predicts(model) and (bool(mtp.layers) or mtp.reads_target or is_unread)


def check_own_drafts(run: WorkingPlan, method: str) -> None:
    """Check that the target's class takes this method."""
    # Qwen4ExpForConditionalGenerationConfig.verify_and_update_config, 0.33
    if run.model.family == "qwen4_exp" and method not in OWN_DRAFTS:
        run.problem(
            "only_own_drafts", operands={"speculative_method": method}, candidates=(WITHOUT,)
        )


def check_mtp(run: WorkingPlan, model: Model) -> None:
    """Check that this version drafts with such layers, and that they can draft the tokens."""
    mtp = model.mtp
    if mtp is not None and runs_mtp(model, run.rules.speculation):
        _check_rounds(run, model, mtp)
    elif (text := _said_at_once(run, model)) is not None:
        raise _no_layers(run, model, text)


def check_built_mtp(run: WorkingPlan) -> None:
    """Check what the drafter's class finds in the files that it is built from."""
    if run.speculative_method != MTP:
        return
    model = run.model.drafter or run.model
    mtp = model.mtp
    if mtp is None or not runs_mtp(model, run.rules.speculation):
        raise _no_layers(run, model, None)
    if model is not run.model and run.model.model_type not in (mtp.targets or {model.model_type}):
        raise _of_another_model(run, model)
    if not mtp.is_listed or run.rules.speculation.finds_no_kind(model):
        raise run.refusal(
            "mtp_layers_not_built",
            operands={"model_type": mtp.model_type},
            candidates=_without_mtp(run),
            model=model,
        )
    if mtp.max_predictions is not None and mtp.predictions != mtp.max_predictions:
        raise run.refusal(
            "mtp_layers_above_limit",
            operands={"mtp_layers": mtp.predictions},
            candidates=_without_mtp(run),
            model=model,
            mtp=mtp,
        )


def _check_rounds(run: WorkingPlan, model: Model, mtp: Mtp) -> None:
    """Check that the layers, which draft in turn, draft the tokens in whole rounds."""
    # a version that looks at the top of config.json only finds no n_predict, and tests nothing
    if mtp.is_nested and not run.rules.speculation.reads_nested_predictions:
        return
    declared, tokens = mtp.predictions, run.settings.num_speculative_tokens
    # SpeculativeConfig.__post_init__
    if declared is None or not max(tokens, declared) % declared:
        return
    below = tokens // declared * declared
    raise run.refusal(
        "speculative_tokens_not_divisible",
        operands={"num_speculative_tokens": tokens, "n_predict": declared},
        candidates=[
            {"num_speculative_tokens": below},
            {"num_speculative_tokens": below + declared},
            {"speculative_method": NGRAM},
        ],
        model=model,
        below=below,
    )


def _of_another_model(run: WorkingPlan, model: Model) -> Refused:
    # The drafter's class reads the target's configuration too, and fails on a foreign one.
    return run.refusal(
        "mtp_of_another_model",
        operands={"model_type": run.model.model_type, "draft_model_type": model.model_type},
        candidates=[{"draft_model": None}, {"draft_model": None, "speculative_method": NGRAM}],
        vllm_text=FOREIGN.get(model.mtp.model_type) if model.mtp else None,
        model=model,
    )


def _said_at_once(run: WorkingPlan, model: Model) -> str | None:
    """Return what vLLM says before it builds anything, None where a class of MTP layers is found.

    SpeculativeConfig divides by the number of layers, also by 0.
    """
    mtp, attention, rules = model.mtp, run.model.attention, run.rules.speculation
    if mtp is not None and mtp.model_type in rules.mtp_model_types:
        if mtp.predictions == 0:
            return "integer modulo by zero"
        is_declared = mtp.model_type not in rules.declared_only
        return None if is_declared else "object has no attribute 'num_nextn_predict_layers'"
    if is_encoder(model.architecture):  # ModelConfig.__post_init__ of the drafter
        return "Embedding models do not support `--runner draft`"
    is_v41 = attention is not None and attention.compression == V41
    return "DeepSeek V4.1 has no classic-MTP draft" if is_v41 else UNSUPPORTED


def _no_layers(run: WorkingPlan, model: Model, text: str | None) -> Refused:
    mtp = model.mtp
    if mtp is None or not mtp.layers or mtp.model_type in run.rules.speculation.mtp_model_types:
        why = f"{model.name} has no MTP layers"
    else:
        why = f"{run.rules.title} does not draft with the MTP layers of {model.name}"
    return run.refusal(
        "no_mtp_layers",
        operands={"model_type": model.model_type if mtp is None else mtp.model_type},
        candidates=_without_mtp(run),
        vllm_text=text,
        mtp=MTP,
        why=why,
    )


def _without_mtp(run: WorkingPlan) -> list[dict[str, Any]]:
    """Return the changes that draft in another way, or not at all."""
    explicit = run.settings.speculative_method is not None
    changes: list[dict[str, Any]] = [{"speculative_method": None}] if explicit else []
    return [{"speculative_method": NGRAM}, *changes, {"num_speculative_tokens": 0}]
