"""What vLLM 0.23.0 and 0.33.0 answered (`tests/data`), and how its fields are called here."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.recorded import DATA, recorded
from workbench.core.model import Model
from workbench.models import load_model

PLATFORMS = {
    "cuda": ("cuda", "9.0"),
    "cuda_sm100": ("cuda", "10.0"),
    "rocm": ("rocm", None),
    "xpu": ("xpu", None),
    "cpu": ("cpu", None),
}
SCENARIO_FIELDS = {
    "backend": "backend",
    "tensor_parallel": "tp",
    "dtype": "model_dtype",
    "kv_cache_dtype": "kv_cache_dtype",
    "mamba_cache_dtype": "mamba_cache_dtype",
    "mamba_ssm_cache_dtype": "mamba_ssm_cache_dtype",
    "block_size": "block_size",
    "mamba_block_size": "mamba_block_size",
    "max_model_len": "max_model_len",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "num_speculative_tokens": "num_speculative_tokens",
}
"""Scenario field -> input field that it is taken from as it is."""

PLAN_FIELDS = {
    "is_hybrid": "is_hybrid",
    "use_mla": "use_mla",
    "effective_mamba_cache_mode": "mamba_cache_mode",
    "effective_mamba_cache_dtype": "mamba_cache_dtype",
    "effective_mamba_ssm_cache_dtype": "mamba_ssm_cache_dtype",
    "num_kv_heads_per_rank": "num_kv_heads_per_rank",
    "head_size": "head_size",
    "mamba_backend": "mamba_backend",
    "mamba_state_shapes": "mamba_state_shapes",
    "mamba_state_dtypes": "mamba_state_dtypes",
    "mamba_page_bytes_unpadded": "mamba_page_size_bytes",
    "supported_kernel_block_sizes": "supported_kernel_block_sizes",
    "block_size": "block_size",
    "mamba_block_size": "mamba_block_size",
    "mamba_page_size_padded": "mamba_page_size_padded",
    "padding_percent": "padding_percent",
    "attn_page_bytes": "attention_page_size_bytes",
    "attn_bytes_per_token": "attention_bytes_per_token",
    "kernel_block_size": "kernel_block_size",
}
"""Output field -> field of the published plan."""

ALIGN_LOCALS = {
    "attn_page_size_1_token": ("attention_bytes_per_token", "result"),
    "mamba_page_size": ("mamba_page_size_bytes", "result"),
    "kernel_block_alignment_size": ("alignment_granule", "result"),
    "attn_block_size": ("aligned_block_size", "result"),
    "attn_tokens_per_mamba_state": ("aligned_block_size", "tokens_needed"),
    "base_chunk_size": ("aligned_block_size", "base_chunk"),
    "chunk_size": ("aligned_block_size", "c"),
    "backend_block_alignment": ("aligned_block_size", "every_backend"),
}
"""vLLM's local variable -> the step of the trace that shows it: (rule, operand or result)."""

OTHER_FIELDS = {
    "align_locals",
    "mamba_chunk_size",
    "mamba_page_bytes_final",
    "validate_block_size_error",
}
"""Output fields that are derived from the published plan in `answer`."""

Case = dict[str, Any]


FILES = {"0.23": "alignment", "0.33": "alignment_0_33"}
"""Rule set -> the file with that version's answers."""


@cache
def cases(rules: str = "0.23") -> tuple[Case, ...]:
    """Every line: {"line", "rules", "input", "output"}."""
    rows = enumerate(recorded(FILES[rules]), 1)
    return tuple({"line": number, "rules": rules, **row} for number, row in rows)


@cache
def config(name: str) -> dict[str, Any]:
    """The config file that a line names."""
    return json.loads((DATA / "models" / f"{name}.json").read_text(encoding="utf-8"))


@cache
def model(name: str) -> Model:
    """The model of that file, read once."""
    return load_model(config(name))


def scenario_values(case: Case, model: Any = None) -> dict[str, Any]:
    """The fields of the scenario that a line describes; `model` replaces the config object."""
    given = case["input"]
    platform, capability = PLATFORMS[given["platform"]]
    mode = given["mamba_cache_mode"]
    return {
        "model": config(given["config"]) if model is None else model,
        "rules": case["rules"],
        "gdn_flashinfer_prefill": given.get("gdn_flashinfer_prefill", False),
        "platform": platform,
        "compute_capability": capability,
        "enable_prefix_caching": mode != "none",
        "mamba_cache_mode": None if mode == "default" else mode,
        **{field: given[name] for field, name in SCENARIO_FIELDS.items()},
    }


def _trace(plan: dict[str, Any], rule: str) -> dict[str, Any]:
    return next(step for step in plan["trace"] if step["rule"] == rule)


def _align_local(plan: dict[str, Any], name: str) -> Any:
    rule, operand = ALIGN_LOCALS[name]
    step = _trace(plan, rule)
    return step["result"] if operand == "result" else step["operands"][operand]


def answer(plan: dict[str, Any], expected: dict[str, Any], chunk_size: int) -> dict[str, Any]:
    """A published plan in the words of the output; `expected` shows which locals there are."""
    texts = {problem["code"]: problem["vllm_text"] for problem in plan["problems"]}
    return {
        **{theirs: plan[ours] for theirs, ours in PLAN_FIELDS.items()},
        "align_locals": {name: _align_local(plan, name) for name in expected["align_locals"]},
        "mamba_chunk_size": chunk_size,
        "mamba_page_bytes_final": plan["mamba_page_size_padded"] or plan["mamba_page_size_bytes"],
        "validate_block_size_error": texts.get("block_exceeds_token_budget"),
    }
