"""What the model runners of 0.33 do not serve.

Source: `_get_v2_model_runner_unsupported_features` and `_get_v1_model_runner_unsupported_features`
of `VllmConfig`.
"""

from workbench.core.model import SLIDING
from workbench.core.plan import Plan
from workbench.core.speculation import DSPARK, SUFFIX

CANDIDATE_HEADS = frozenset({"DFlash2BeamDraftModel", "DFlash2DraftModel", "LiLiCorrDraftModel"})
STEP5 = frozenset({"Step5ForCausalLM", "Step5ForConditionalGeneration"})


def refuses(plan: Plan, runner: str) -> str:
    """Return what vLLM says against a runner; empty where it serves the plan."""
    if runner == "v2":
        method = plan.speculative_method
        lacked = [f"speculative method '{method}'"] if method in {SUFFIX, "custom_class"} else []
        return f"Model Runner V2 does not yet support: {lacked[0]}" if lacked else ""
    lacked = [what for what, is_so in _lacked_by_v1(plan).items() if is_so]
    return f"Model Runner V1 does not support: {', '.join(lacked)}" if lacked else ""


def _lacked_by_v1(plan: Plan) -> dict[str, bool]:
    method, draft, attention = plan.speculative_method, plan.model.drafter, plan.model.attention
    slides = {one.kind == SLIDING for one in draft.layers} if draft is not None else set()
    drafts = method == "dflash"
    return {
        "dspark speculative decoding": method == DSPARK,
        "mixed sliding/full dflash drafts": drafts and len(slides) > 1,
        "DFlash candidate-head drafts": drafts
        and draft is not None
        and draft.architecture in CANDIDATE_HEADS,
        "diffusion models": attention is not None and attention.canvas_tokens is not None,
        "Step5": plan.model.architecture in STEP5,
    }
