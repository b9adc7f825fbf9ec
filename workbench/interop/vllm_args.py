"""Write a scenario as `vllm serve` arguments (0.23 names)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from workbench.core.flex.sizes import FLEX_FIELDS
from workbench.core.model import Model
from workbench.core.rules import RULE_SETS
from workbench.core.settings import Settings
from workbench.core.speculation import HIDDEN_STATES, NGRAM
from workbench.core.stages.speculation import method_for

VALUE_FLAGS = {
    "tensor_parallel": "--tensor-parallel-size",
    "dtype": "--dtype",
    "kv_cache_dtype": "--kv-cache-dtype",
    "backend": "--attention-backend",
    "mamba_cache_dtype": "--mamba-cache-dtype",
    "mamba_ssm_cache_dtype": "--mamba-ssm-cache-dtype",
    "mamba_cache_mode": "--mamba-cache-mode",
    "block_size": "--block-size",
    "mamba_block_size": "--mamba-block-size",
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "kv_cache_memory_bytes": "--kv-cache-memory-bytes",
    "num_gpu_blocks_override": "--num-gpu-blocks-override",
    "max_num_batched_tokens": "--max-num-batched-tokens",
}
SKIPPED_LAYERS = "--kv-cache-dtype-skip-layers"
HYBRID_MANAGER = "--disable-hybrid-kv-cache-manager"
GDN_PREFILL = "--gdn-prefill-backend"
GDN_KERNELS = {True: "flashinfer", False: "triton"}
"""Value of `gdn_flashinfer_prefill` -> value of the flag."""
VARIABLES = {
    "batch_invariant": ("VLLM_BATCH_INVARIANT", "1"),
    "kv_cache_layout": ("VLLM_KV_CACHE_LAYOUT", None),
}
"""Field -> the environment variable for it, and its value (None: the field's own)."""
DEFAULTS = Settings()
HIDDEN_STATE_IDS = "eagle_aux_hidden_state_layer_ids"
DRAFT_MODEL = "<hub id or folder of the draft model>"
NGRAM_TOKENS = 5
"""vLLM's own window for ngram drafts, written out because some versions require it."""


def vllm_args(settings: Settings, model: Model, repository: str | None = None) -> tuple[str, ...]:
    """Return the arguments that differ from vLLM's defaults, after the model's name.

    `repository` is what vLLM should load, a placeholder replaces an unknown one. Platform,
    capability, memory that is measured, TRT-LLM's kernels and rule set belong to the machine, the
    checkpoint and the installed version, so they give no argument; nor do batch invariance and the
    layout of the cache, which are environment variables. The method of speculative decoding is
    always written, with a placeholder for a checkpoint of its own. Layers whose hidden states are
    kept take the method extract_hidden_states, and a connector that a person chooses.
    """
    args = [repository or f"<hub id or folder of {model.name}>"]
    for field, flag in VALUE_FLAGS.items():
        value = getattr(settings, field)
        if value != getattr(DEFAULTS, field):
            args += [flag, str(value)]
    if settings.enable_prefix_caching is not None:
        prefix = "--" if settings.enable_prefix_caching else "--no-"
        args.append(prefix + "enable-prefix-caching")
    if settings.disable_hybrid_kv_cache_manager:
        args.append(HYBRID_MANAGER)
    if drafts := _drafts(settings, model):
        args += ["--speculative-config", json.dumps(drafts)]
    if settings.kv_cache_dtype_skip_layers:
        args += [SKIPPED_LAYERS, *settings.kv_cache_dtype_skip_layers]
    if settings.gdn_flashinfer_prefill is not None:
        args += [GDN_PREFILL, GDN_KERNELS[settings.gdn_flashinfer_prefill]]
    flex = {field: getattr(settings, field) for field in FLEX_FIELDS}
    if given := {field: value for field, value in flex.items() if value is not None}:
        args += ["--attention-config", json.dumps(given)]
    return tuple(args)


def _drafts(settings: Settings, model: Model) -> dict[str, Any]:
    """Return which method drafts, and how many tokens; empty where nothing drafts.

    Only the number of the layers affects cache sizes, so the first ones are used. Source:
    `SpeculativeConfig` and `ExtractHiddenStatesConfig`, 0.23 and 0.33.
    """
    count = {"num_speculative_tokens": settings.num_speculative_tokens}
    if settings.hidden_state_layers:
        ids = {HIDDEN_STATE_IDS: list(range(settings.hidden_state_layers))}
        return {"method": HIDDEN_STATES, **count, "draft_model_config": {"hf_config": ids}}
    rules = RULE_SETS[settings.rules].speculation
    method = method_for(model, settings, rules)
    if method is None:
        return {}
    drafts: dict[str, Any] = {"method": method, **count}
    if method == NGRAM:
        drafts["prompt_lookup_max"] = NGRAM_TOKENS
    if method in rules.methods and rules.methods[method].needs_model:
        drafts["model"] = DRAFT_MODEL
    return drafts


def vllm_environment(settings: Settings) -> dict[str, str]:
    """Return the settings that are environment variables of the server, not flags."""
    return {
        name: value or str(getattr(settings, field))
        for field, (name, value) in VARIABLES.items()
        if getattr(settings, field)
    }


def vllm_command(args: tuple[str, ...], environment: Mapping[str, str] | None = None) -> str:
    """Return a shell command, one flag per line, after the variables that it needs."""
    variables = "".join(
        f"{name}={shlex.quote(value)} " for name, value in (environment or {}).items()
    )
    lines = [f"{variables}vllm serve {shlex.quote(args[0])}"]
    for arg in args[1:]:
        if arg.startswith("--"):
            lines.append("  " + arg)
        else:
            lines[-1] += " " + shlex.quote(arg)
    return " \\\n".join(lines)
