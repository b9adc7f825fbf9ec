"""What vLLM says against drafting with the layers for multi-token prediction of a checkpoint."""

from __future__ import annotations

from typing import Any

from workbench.core.draft_parts import Mtp
from workbench.core.errors import Refused
from workbench.core.model import V41, Model
from workbench.core.speculation import MTP, NGRAM, SpeculationRules
from workbench.core.working_plan import WorkingPlan

UNSUPPORTED = "Unsupported speculative method: 'mtp'"


def runs_mtp(model: Model, rules: SpeculationRules) -> bool:
    """Return whether this version drafts with the checkpoint's own MTP layers."""
    mtp = model.mtp
    if mtp is None or (mtp.predictions is None and mtp.model_type in rules.declared_only):
        return False
    return rules.predicts(model) and bool(mtp.layers)


def check_mtp(run: WorkingPlan, model: Model) -> None:
    """Check that a checkpoint has such layers, not too many, and that they can draft the tokens."""
    mtp = model.mtp
    if mtp is None or not runs_mtp(model, run.rules.speculation):
        raise _no_layers(run, model, mtp)
    if model is not run.model and run.model.model_type not in (mtp.targets or {model.model_type}):
        raise _of_another_model(run, model)
    _check_rounds(run, model, mtp)
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
    if declared is None or tokens <= declared or not tokens % declared:
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
        model=model,
    )


def _no_layers(run: WorkingPlan, model: Model, mtp: Mtp | None) -> Refused:
    known = mtp is not None and mtp.model_type in run.rules.speculation.mtp_model_types
    if known or mtp is None or not mtp.layers:
        why = f"{model.name} has no MTP layers"
    else:
        why = f"{run.rules.title} does not draft with the MTP layers of {model.name}"
    declared_none = known and mtp is not None and mtp.predictions == 0
    # with 0 layers declared vLLM divides by it, and dies without a message of its own
    attention = run.model.attention
    without = UNSUPPORTED
    if attention is not None and attention.compression == V41:
        without = "DeepSeek V4.1 has no classic-MTP draft"
    text = "integer modulo by zero" if declared_none else None if known else without
    if mtp is not None and mtp.model_type in run.rules.speculation.declared_only:
        text = text or "object has no attribute 'num_nextn_predict_layers'"
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
