"""Start-up logs as vLLM prints them for a scenario, up to the error with which the start ends."""

from __future__ import annotations

from workbench.core.stages.speculation import method_for
from workbench.core.versions import RULE_SETS
from workbench.models import load_model, repository
from workbench.scenario import FIELDS, Settings

VERSIONS = {"0.23": "0.23.0", "0.33": "0.33.0", "before-37467": "0.17.1"}
GIB = 2**30
DEFAULTS = Settings()
ARGUMENTS = {
    name: field.argument[0]
    for name, field in FIELDS.items()
    if field.argument[0] and not field.argument[1] and name != "model"
}
"""Field -> the argument that has its value."""
MEASURED = ("kv_cache_memory_bytes",)
HEAD = "(EngineCore pid=99) {} 11-20 10:00:20 [core.py:1] "
CONFIG = (
    "AttentionSelectorConfig(head_size=128, dtype={dtype}, kv_cache_dtype={kv_cache_dtype}, "
    "block_size={block_size}, use_mla=False, has_sink=False, use_sparse=False, "
    "use_batch_invariant=False)"
)
ENDINGS = {
    "max_model_len_too_long": "max_position_embeddings=4096 or model_max_length=None in model's "
    "config.json).",
    "backend_not_valid": " ['head_size not supported']",
    "plain_layers_refused": " ['head_size not supported']",
    "not_one_type": "",
    "cannot_auto_fit": " not enough GPU memory available to serve even a single token.",
    "pages_not_equal": " Cannot unify by adjusting block_size.",
}
"""Code -> how vLLM's message goes on after the words that the rules know."""


def method_of(scenario):
    """The method that vLLM is given: our own choice is written down, as in copied commands."""
    rules = RULE_SETS[scenario.rules].speculation
    return scenario.speculative_method or method_for(load_model(scenario.model), scenario, rules)


def arguments_of(scenario):
    """`non-default args` of a scenario whose memory is measured, not set."""
    given = {
        ARGUMENTS[field]: FIELDS[field].kind.write(getattr(scenario, field))
        for field in ARGUMENTS
        if field not in MEASURED and getattr(scenario, field) != getattr(DEFAULTS, field)
    }
    name = repository(scenario.model) or scenario.model
    given |= {"model_tag": name, "model": name}
    if scenario.num_speculative_tokens:
        given["speculative_config"] = {
            "method": method_of(scenario),
            "num_speculative_tokens": scenario.num_speculative_tokens,
        }
    return given


def settled_of(scenario, plan):
    """The engine's config line: what vLLM has made of the arguments."""
    drafts = (
        f"SpeculativeConfig(method={method_of(scenario)!r}, model=None, num_spec_tokens="
        f"{scenario.num_speculative_tokens})"
        if scenario.num_speculative_tokens
        else None
    )
    device = "cuda" if scenario.platform == "rocm" else scenario.platform
    return (
        f"Initializing a V1 LLM engine (v{VERSIONS[scenario.rules]}) with config: "
        f"model={repository(scenario.model) or scenario.model!r}, speculative_config={drafts}, "
        f"dtype=torch.{plan.model_dtype}, max_seq_len={plan.max_model_len}, download_dir=None, "
        f"tensor_parallel_size={scenario.tensor_parallel}, "
        f"pipeline_parallel_size={scenario.pipeline_parallel}, "
        f"kv_cache_dtype={scenario.kv_cache_dtype}, device_config={device}, "
        f"enable_prefix_caching={plan.enable_prefix_caching}, enable_chunked_prefill=True"
    )


def error_text(scenario, problem):
    """vLLM's whole message for a problem or a refusal."""
    text = problem.vllm_text
    if text == "No valid attention backend found for":
        known = {
            "dtype": "torch.bfloat16" if scenario.dtype == "auto" else f"torch.{scenario.dtype}",
            "kv_cache_dtype": scenario.kv_cache_dtype,
            "block_size": scenario.block_size,
        }
        text += f" {scenario.platform} with {CONFIG.format(**known)}. Reasons: {{}}."
    return text + ENDINGS.get(problem.code, " Please see the documentation.")


def start_log(scenario, problem, plan=None, *, arguments=True, settled=True):
    """The lines of a start that ends with `problem`; `plan`: as far as there is one."""
    info = HEAD.format("INFO")
    lines = [
        f"vLLM API server version {VERSIONS[scenario.rules]}",
        f"Automatically detected platform {scenario.platform}.",
    ]
    if arguments:
        lines.append(f"non-default args: {arguments_of(scenario)}")
    lines.append(f"Resolved architecture: {load_model(scenario.model).architecture}")
    budget = scenario.max_num_batched_tokens
    if budget is not None:
        lines.append(f"Chunked prefill is enabled with max_num_batched_tokens={budget}.")
    if plan is not None:
        lines += [settled_of(scenario, plan)] if settled else []
        if scenario.kv_cache_memory_bytes is not None:
            size = round(scenario.kv_cache_memory_bytes / GIB, 2)
            lines.append(f"Available KV cache memory: {size} GiB")
        lines += [line for line in plan.log_lines if not line.startswith("Available")]
    end = HEAD.format("ERROR") + f"ValueError: {error_text(scenario, problem)}"
    after = "RuntimeError: Engine core initialization failed. See root cause above."
    return "\n".join([*(info + line for line in lines), end, after])
