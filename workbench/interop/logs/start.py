"""The messages about the requested and the final settings, in the order of a start."""

from __future__ import annotations

import re
from typing import Any

from workbench.core.plan import Plan
from workbench.interop.logs.facts import entries, logged_fields
from workbench.interop.logs.message import Compare, Values, message

BACKENDS = {
    "Flash Attention": "FLASH_ATTN",
    "FlashInfer": "FLASHINFER",
    "Triton": "TRITON_ATTN",
    "Triton MLA": "TRITON_MLA",
}


def _version_fields(values: Values) -> dict[str, Any]:
    return logged_fields(entries(str(values.get("config", ""))))


def _all_fields(values: Values) -> dict[str, Any]:
    fields = logged_fields(entries(str(values["arguments"])))
    return {name: value for name, value in fields.items() if name != "block_size"}  # 16: a default


def _backend_fields(values: Values) -> dict[str, Any]:
    name = str(values["backend"]).removeprefix("AttentionBackendEnum.")
    name = BACKENDS.get(name, name)
    first = re.match(r"\W*(\w+)", str(values.get("candidates", "")))
    # The platform orders the list: FlashInfer is first on compute capability 10 only.
    known = {"compute_capability": "10.0"} if first and first.group(1) == "FLASHINFER" else {}
    return {"backend": name, **known}


def _before_fitting(plan: Plan, reported: Any) -> str | None:
    fitted = [step for step in plan.steps if step.rule.name == "auto_fit_max_model_len"]
    if any(step.operands["longest_of_the_model"] == reported for step in fitted):
        return "This is the length before it was reduced to fit the memory."
    return None


PRINTED_GDN_KERNELS = {"FlashInfer": True, "Triton/FLA": False, "CuteDSL": False}
"""Kernel as vLLM prints it -> `gdn_flashinfer_prefill`; other devices have others."""


def _prefill_fields(values: Values) -> dict[str, Any]:
    runs = PRINTED_GDN_KERNELS.get(str(values["kernel"]))
    return {} if runs is None else {"gdn_flashinfer_prefill": runs}


START = (
    message(
        "version",
        "version ",
        r"(?:vLLM (?:API )?server|▀▄▀ █ ) ?version (?P<version>\d+\.[\w.+-]+)",
        "The running vLLM version, which determines the rules.",
        is_distinct=False,
    ),
    message(
        "typed_arguments",
        "non-default args",
        r"non-default args: (?P<arguments>\{.*)",
        "The user-set arguments that differ from vLLM's defaults; all others are defaults.",
        fields=lambda values: logged_fields(entries(str(values["arguments"]))),
        is_dump=True,
    ),
    message(
        "all_arguments",
        "args: Namespace(",
        r"args: Namespace\((?P<arguments>.*)",
        "Every argument, defaults as well, as versions before 0.9 printed them.",
        fields=_all_fields,
        is_dump=True,
    ),
    message(
        "platform",
        "Automatically detected platform",
        r"Automatically detected platform (?P<platform>\w+)",
        "The platform that picks the attention backend.",
        fields=lambda values: (
            {"platform": values["platform"]}
            if values["platform"] in {"cuda", "rocm", "xpu", "cpu"}
            else {}
        ),
        is_explicit=True,  # ROCm's device_config says cuda
    ),
    message(
        "architecture",
        "Resolved architecture",
        r"Resolved architecture: (?P<architecture>\w+)",
        "The model class, from `architectures` in config.json.",
    ),
    message(
        "max_model_len",
        "Using max model len",
        r"Using max model len (?P<max_model_len>\d+)",
        "The longest request, prompt and answer together.",
        "With prefix caching off, a mamba block holds this many tokens.",
        fields=lambda values: {"max_model_len": values["max_model_len"]},
        compares=(
            Compare(
                "max_model_len",
                of=lambda plan: plan.max_model_len,
                rules=("max_model_len",),
                otherwise=_before_fitting,
            ),
        ),
    ),
    message(
        "token_budget",
        "Chunked prefill is enabled with",
        r"Chunked prefill is enabled with max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)",
        "Tokens that one scheduler step may take. In cache mode align a block must fit into it.",
        fields=lambda values: {"max_num_batched_tokens": values["max_num_batched_tokens"]},
    ),
    message(
        "default_token_budget",
        "Defaulting max_num_batched_tokens",
        r"Defaulting max_num_batched_tokens to (?P<max_num_batched_tokens>\d+) for",
        "The token budget of this device and of this way to start vLLM.",
        fields=lambda values: {"max_num_batched_tokens": values["max_num_batched_tokens"]},
    ),
    message(
        "default_sequences",
        "Defaulting max_num_seqs",
        r"Defaulting max_num_seqs to (?P<max_num_seqs>\d+) for",
        "The most requests of one step, of this device and of this way to start vLLM.",
        fields=lambda values: {"max_num_seqs": values["max_num_seqs"]},
    ),
    message(
        "kv_cache_dtype",
        "data type to store kv cache",
        r"Using (?P<kv_cache_dtype>\w+) data type to store kv cache",
        "The dtype of the KV cache is not the model's.",
        fields=lambda values: {"kv_cache_dtype": values["kv_cache_dtype"]},
    ),
    message(
        "kv_cache_layout",
        "KV cache layout to ",
        r"environment variable detected\. Setting KV cache layout to (?P<kv_cache_layout>\w+)\.",
        "VLLM_KV_CACHE_LAYOUT is set.",
        fields=lambda values: {"kv_cache_layout": values["kv_cache_layout"]},
    ),
    message(
        "resolved_layout",
        "KV cache layout.",
        r"Using (?P<kv_cache_layout>[A-Z]+) KV cache layout\.",
        "0.33: the one layout of all layers, from VLLM_KV_CACHE_LAYOUT or the backends' order.",
        fields=lambda values: {"kv_cache_layout": values["kv_cache_layout"]},
    ),
    message(
        "engine_config",
        "LLM engine (v",
        r"Initializing an? (?:V\d )?LLM engine \(v(?P<version>[^)]+)\) with config: (?P<config>.*)",
        "The engine's settings after the defaults were filled in.",
        fields=_version_fields,
        is_dump=True,
    ),
    message(
        "backend",
        "attention backend out of potential",
        r"Using (?P<backend>[\w.]+) attention backend out of potential backends: "
        r"(?P<candidates>\[[^\]]*\])",
        "The first backend in the platform's priority order that passes all checks.",
        "Request another one with --attention-backend; tab `Backends by TP` compares them.",
        fields=_backend_fields,
        compares=(Compare("backend", of=lambda plan: plan.backend, rules=("backend",)),),
    ),
    message(
        "rocm_backend",
        "out of potential backends",
        r"(?:Using|Overriding with) (?P<backend>[A-Z][A-Z0-9_]*) (?:backend )?out of potential "
        r"backends: (?P<candidates>\[[^\]]*\])",
        "The attention backend, as ROCm prints it.",
        "Request another one with --attention-backend; tab `Backends by TP` compares them.",
        fields=lambda values: {"backend": values["backend"]},
        compares=(Compare("backend", of=lambda plan: plan.backend, rules=("backend",)),),
        is_distinct=False,
    ),
    message(
        "backend_in_words",
        "Using ",
        r"Using (?P<backend>Flash Attention|FlashInfer|Triton MLA|Triton"
        r"|(?:AttentionBackendEnum\.)?[A-Z][A-Z0-9]*_[A-Z0-9_]+) backend"
        r"(?: on V1 engine| \(selected via --attention-backend\))?\.",
        "The attention backend, as XPU and older versions print it.",
        fields=_backend_fields,
        compares=(
            Compare(
                "backend",
                of=lambda plan: plan.backend,
                rules=("backend",),
                otherwise=lambda plan, reported: (
                    f"{reported} is another name for it."
                    if BACKENDS.get(reported) == plan.backend
                    else None
                ),
            ),
        ),
        is_distinct=False,
    ),
    message(
        "gdn_prefill",
        "GDN prefill kernel",
        r"Using (?P<kernel>\S+(?: \w+)?) GDN prefill kernel",
        "The kernel that runs the prefill of gated delta nets.",
        "FlashInfer's makes blocks multiples of 64 tokens in align mode, from 0.33 on.",
        fields=_prefill_fields,
    ),
    message(
        "cache_mode",
        "Mamba cache mode is set to '",
        r"Mamba cache mode is set to '(?P<mamba_cache_mode>all|align)' for (?P<architecture>\w+) "
        r"by default",
        "Prefix caching is on and no mode was set, so vLLM chose how states are kept.",
        "align keeps a state at block ends only, all keeps one per block (not in 0.33).",
        fields=lambda values: {
            "enable_prefix_caching": True,
            "mamba_cache_mode": values["mamba_cache_mode"],
        },
        compares=(
            Compare(
                "mamba_cache_mode",
                of=lambda plan: plan.mamba_cache_mode,
                rules=("mamba_cache_mode",),
            ),
        ),
    ),
    message(
        "cache_mode_none",
        "Mamba cache mode is set to 'none'",
        r"Mamba cache mode is set to 'none' when prefix caching is disabled",
        "A cache mode was set, but without prefix caching there is nothing to keep.",
        "Add --enable-prefix-caching, or omit --mamba-cache-mode.",
        fields=lambda _values: {"enable_prefix_caching": False},
    ),
    message(
        "cache_mode_fallback",
        "falling back to 'align' mode",
        r"cache 'all' mode: falling back to 'align' mode",
        "This model cannot keep a state for every block, so align replaces all.",
        "Set --mamba-cache-mode align to avoid the message.",
        fields=lambda _values: {"enable_prefix_caching": True, "mamba_cache_mode": "all"},
    ),
    message(
        "prefix_caching_not_supported",
        "support for prefix caching: disabling",
        r"without support for prefix caching: disabling",
        "This version cannot reuse the states of this model, so it turned prefix caching off.",
        "Newer versions cache hybrid models; see --mamba-cache-mode.",
        fields=lambda _values: {"enable_prefix_caching": False},
    ),
)
"""Messages about settings, in the order of a start."""
