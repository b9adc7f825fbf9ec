"""What the V2 model runner of 0.23 does not serve.

Source: `_get_v2_model_runner_unsupported_features` and `validate_block_size` of `VllmConfig`.
"""

from workbench.core.plan import Plan
from workbench.core.speculation import NGRAM

DRAFTS = frozenset({None, "eagle", "eagle3", "mtp"})
WITHOUT_INNER_STATE = frozenset(
    {
        *("InternS2PreviewForConditionalGeneration", "Lfm2VlForConditionalGeneration"),
        *("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
    }
)
"""Hybrids whose class is not a `HasInnerState`: an assertion stops them when the block is known."""


def refuses(plan: Plan, runner: str) -> str:
    """Return what vLLM says against a runner; empty where it serves the plan."""
    if runner == "v1":
        return ""
    method, lacked = plan.speculative_method, []
    has_states = plan.model.state is not None
    is_aligned = (has_states or plan.settings.v2_model_runner) and plan.mamba_cache_mode == "align"
    is_found = has_states and plan.model.architecture not in WITHOUT_INNER_STATE
    if is_aligned and is_found:
        lacked.append("hybrid/mamba models with align cache mode")
    if method in {NGRAM, "ngram_gpu"}:
        lacked.append("ngram/ngram_gpu speculative decoding")
    elif method not in DRAFTS:
        lacked.append(f"speculative method '{method}'")
    if method == "dflash":
        lacked.append("parallel drafting for speculative decoding")
    if method == "eagle3" and plan.settings.pipeline_parallel > 1:
        lacked.append("EAGLE3 with pipeline parallelism")
    if lacked:
        return f"Model Runner V2 does not yet support: {', '.join(lacked)}"
    return "Model Runner V2 has not yet supported mamba_cache_mode='align'." if is_aligned else ""
