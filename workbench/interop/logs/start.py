"""The messages about the requested and the final settings, in the order of a start."""

import re
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.interop.commands.command_line import read_command
from workbench.interop.logs.facts import entries, logged_fields
from workbench.interop.logs.message import BACKEND, Compare, Message, Values, message

BACKENDS = {
    "Flash Attention": "FLASH_ATTN",
    "FlashInfer": "FLASHINFER",
    "Triton": "TRITON_ATTN",
    "Triton MLA": "TRITON_MLA",
}


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


def _command_fields(values: Values) -> dict[str, Any]:
    """Return the fields of a command; nothing of text that only mentions one."""
    try:
        fields = read_command(str(values["command"])).fields
    except WorkbenchError:
        return {}
    # what a shell would have replaced is unknown
    return {name: value for name, value in fields.items() if "$" not in str(value)}


RUN = r"(?:docker|podman|nerdctl) run\b"


def _command(name: str, pattern: str) -> Message:
    return message(
        name,
        rf"(?<![^\s\x60'\"])(?P<command>(?:[A-Z_][A-Z0-9_]*=\S* ){{0,40}}+{pattern})",
        "The command that started the server; what the log prints itself wins over it.",
        fields=_command_fields,
        is_command=True,
        is_distinct=False,
    )


START = (
    _command("serve_command", r"[^\s\x60'\"]*`vllm serve` (?=\S*[-/.\d$])[^\x60]+"),
    _command(
        "docker_command",
        # From the last `run` before the image: a search from every one of many takes minutes.
        rf"(?:{RUN}(?:(?!{RUN}).)*?(?<!\S))?\S*`vllm-openai`\S* [^\x60]+",
    ),
    _command("python_command", r"\S*python[\d.]* -m `vllm.entrypoints`[\w.]* -[^\x60]+"),
    message(
        "version",
        r"(?:vLLM (?:API )?server|▀▄▀ █ ) ?`version `(?P<version>\d+\.[\w.+-]+)",
        "The running vLLM version, which determines the rules.",
        is_distinct=False,
    ),
    message(
        "typed_arguments",
        r"`non-default args`: (?P<arguments>\{.*)",
        "The user-set arguments that differ from vLLM's defaults; all others are defaults.",
        fields=lambda values: logged_fields(entries(values["arguments"])),
        is_dump=True,
    ),
    message(
        "all_arguments",
        r"`args: Namespace\(`(?P<arguments>.*)",
        "Every argument, defaults as well, as versions before 0.9 printed them.",
        # A block size of 16 is a default there.
        fields=lambda values: {**logged_fields(entries(values["arguments"])), "block_size": None},
        is_dump=True,
    ),
    message(
        "platform",
        r"`Automatically detected platform` (?P<platform>\w+)",
        "The platform that picks the attention backend.",
        is_explicit=True,  # ROCm's device_config says cuda
    ),
    message(
        "listed_device",
        r"`GPU 0: `(?P<device>[\w.-]+(?: [\w.-]+)*)",
        "The device, as `nvidia-smi -L` and vLLM's collect_env list it.",
        is_distinct=False,
    ),
    message(
        "moe_device",
        r"`device_name=`(?P<device>[\w-]+?)(?:,|\.json)",
        "The device for which a tuned configuration of the MoE kernels is looked for.",
        is_distinct=False,
    ),
    message(
        "architecture",
        r"`Resolved architecture`: (?P<architecture>\w+)",
        "The model class, from `architectures` in config.json.",
    ),
    message(
        "max_model_len",
        r"`Using max model len` (?P<max_model_len>\d+)",
        "The longest request, prompt and answer together.",
        "With prefix caching off, a mamba block holds this many tokens.",
        compares=(Compare("max_model_len", otherwise=_before_fitting),),
    ),
    message(
        "token_budget",
        r"`Chunked prefill is enabled with` max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)",
        "Tokens that one scheduler step may take. In cache mode align a block must fit into it.",
    ),
    message(
        "default_token_budget",
        r"`Defaulting max_num_batched_tokens` to (?P<max_num_batched_tokens>\d+) for"
        r" (?P<entry_point>\w+) usage",
        "The token budget of this device and of this way to start vLLM.",
    ),
    message(
        "default_sequences",
        r"`Defaulting max_num_seqs` to (?P<max_num_seqs>\d+) for (?P<entry_point>\w+) usage",
        "The most requests of one step, of this device and of this way to start vLLM.",
    ),
    message(
        "kv_cache_dtype",
        r"Using (?P<kv_cache_dtype>\w+) `data type to store kv cache`",
        "The dtype of the KV cache is not the model's.",
    ),
    message(
        "kv_cache_layout",
        r"environment variable detected\. Setting `KV cache layout to `(?P<kv_cache_layout>\w+)\.",
        "VLLM_KV_CACHE_LAYOUT is set.",
    ),
    message(
        "resolved_layout",
        r"Using (?P<kv_cache_layout>[A-Z]+) `KV cache layout\.`",
        "0.33: the one layout of all layers, from VLLM_KV_CACHE_LAYOUT or the backends' order.",
    ),
    message(
        "engine_config",
        r"Initializing an? (?:V\d )?`LLM engine \(v`(?P<version>[^)]+)\) with config: "
        r"(?P<config>.*)",
        "The engine's settings after the defaults were filled in.",
        fields=lambda values: logged_fields(entries(values.get("config", ""))),
        is_dump=True,
    ),
    message(
        "backend",
        r"Using (?P<backend>[\w.]+) `attention backend out of potential` backends: "
        r"(?P<candidates>\[[^\]]*\])",
        "The first backend in the platform's priority order that passes all checks.",
        "Request another one with --attention-backend; tab `Backends by TP` compares them.",
        fields=_backend_fields,
        compares=(BACKEND,),
    ),
    message(
        "rocm_backend",
        r"(?:Using|Overriding with) (?P<backend>[A-Z][A-Z0-9_]*) (?:backend )?`out of potential` "
        r"backends: (?P<candidates>\[[^\]]*\])",
        "The attention backend, as ROCm prints it.",
        "Request another one with --attention-backend; tab `Backends by TP` compares them.",
        fields=lambda values: {"backend": values["backend"]},
        compares=(BACKEND,),
        is_distinct=False,
    ),
    message(
        "backend_in_words",
        r"`Using `(?P<backend>Flash Attention|FlashInfer|Triton MLA|Triton"
        r"|(?:AttentionBackendEnum\.)?[A-Z][A-Z0-9]*_[A-Z0-9_]+) backend"
        r"(?: on V1 engine| \(selected via --attention-backend\))?\.",
        "The attention backend, as XPU and older versions print it.",
        fields=_backend_fields,
        compares=(
            Compare(
                "backend",
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
        r"Using (?P<kernel>\S+(?: \w+)?) `GDN prefill kernel`",
        "The kernel that runs the prefill of gated delta nets.",
        "FlashInfer's makes blocks multiples of 64 tokens in align mode, from 0.33 on.",
        fields=lambda values: {"gdn_flashinfer_prefill": PRINTED_GDN_KERNELS.get(values["kernel"])},
    ),
    message(
        "cache_mode",
        r"`Mamba cache mode is set to '`(?P<mamba_cache_mode>all|align)' for (?P<architecture>\w+) "
        r"by default",
        "Prefix caching is on and no mode was set, so vLLM chose how states are kept.",
        "align keeps a state at block ends only, all keeps one per block (not in 0.33).",
        fields={"enable_prefix_caching": True},
        compares=(Compare("mamba_cache_mode"),),
    ),
    message(
        "cache_mode_none",
        r"`Mamba cache mode is set to 'none'` when prefix caching is disabled",
        "A cache mode was set, but without prefix caching there is nothing to keep.",
        "Add --enable-prefix-caching, or omit --mamba-cache-mode.",
        fields={"enable_prefix_caching": False},
    ),
    message(
        "cache_mode_fallback",
        r"cache 'all' mode: `falling back to 'align' mode`",
        "This model cannot keep a state for every block, so align replaces all.",
        "Set --mamba-cache-mode align to avoid the message.",
        fields={"enable_prefix_caching": True, "mamba_cache_mode": "all"},
    ),
    message(
        "prefix_caching_not_supported",
        r"without `support for prefix caching: disabling`",
        "This version cannot reuse the states of this model, so it turned prefix caching off.",
        "Newer versions cache hybrid models; see --mamba-cache-mode.",
        fields={"enable_prefix_caching": False},
    ),
    message(
        "block_size_precluded",
        r"--block-size (?P<block_size>\d+) `precluded higher-priority backend`\(s\) "
        r"(?P<precluded>[\w, ]+)\. Using (?P<backend>\w+) instead",
        "A faster backend was skipped only because it does not support the requested block size.",
        "Omit --block-size.",
        fields=lambda values: {"block_size": values["block_size"]},
        compares=(BACKEND,),
        codes=("block_size_precludes_backend",),
    ),
    message(
        "prefix_caching_off",
        r"`Disabling prefix caching`(?: for (?P<backends>[\w/]+) with batch invariance|:)",
        "vLLM turned prefix caching off automatically.",
        "Use another backend if batch invariance is the reason.",
        fields=lambda values: {
            "enable_prefix_caching": False,
            "batch_invariant": True if "backends" in values else None,
        },
        is_distinct=False,
    ),
)
"""Messages about settings, in the order of a start."""
