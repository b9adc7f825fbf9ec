"""The messages that are recognised, one entry each, in the order of a start."""

from __future__ import annotations

import re
from typing import Any

from workbench.core.plan import Plan
from workbench.core.registry import Registry
from workbench.interop.log_errors import ERRORS
from workbench.interop.log_facts import argument_fields, engine_fields, entries
from workbench.interop.log_message import Compare, Message, Values, message

GIB = 2**30
ALIGNMENT = (
    "mamba_page_size_bytes",
    "attention_bytes_per_token",
    "alignment_granule",
    "aligned_block_size",
    "block_size",
)
PADDING = ("mamba_page_size_bytes", "attention_bytes_per_token", "mamba_page_size_padded")
BACKENDS = {
    "Flash Attention": "FLASH_ATTN",
    "FlashInfer": "FLASHINFER",
    "Triton": "TRITON_ATTN",
    "Triton MLA": "TRITON_MLA",
}


def gib_bytes(gib: float) -> int:
    """Bytes of a size that was printed in GiB."""
    return round(gib * GIB)


def _padding_layers(plan: Plan) -> int | None:
    return sum(group.padding_layers for group in plan.cache.groups) if plan.cache else None


def _padding_percent(plan: Plan) -> float | None:
    return None if plan.padding_percent is None else round(plan.padding_percent, 2)


def _tokens(plan: Plan) -> int | None:
    return plan.cache.printed_tokens if plan.cache else None


def _concurrency(plan: Plan) -> float | None:
    found = plan.cache.max_concurrency if plan.cache else None
    return None if found is None else round(found, 2)


def _old_tokens(plan: Plan, said: Any) -> str | None:
    """The number that was printed before 0.20, which shared the blocks out among the groups."""
    cache = plan.cache
    if cache is None or cache.num_blocks is None or not cache.groups:
        return None
    smallest = min(group.spec.block_size for group in cache.groups)
    old = cache.num_blocks // len(cache.groups) * smallest
    if abs(old - said) > max(old, said) / 50:
        return None
    return (
        f"It is {cache.num_blocks:,} blocks // {len(cache.groups)} groups * {smallest:,} tokens = "
        f"{old:,}: how vLLM before 0.20 counted, which is far too little for hybrids (vllm#40691). "
        "Concurrency * longest request is the number to go by."
    )


def _version_fields(values: Values) -> dict[str, Any]:
    return engine_fields(entries(str(values.get("config", ""))))


def _backend_fields(values: Values) -> dict[str, Any]:
    name = str(values["backend"]).removeprefix("AttentionBackendEnum.")
    name = BACKENDS.get(name, name)
    first = re.match(r"\W*(\w+)", str(values.get("candidates", "")))
    # The order of the list is the platform's: FlashInfer leads it on compute capability 10 only.
    known = {"compute_capability": "10.0"} if first and first.group(1) == "FLASHINFER" else {}
    return {"backend": name, **known}


BLOCK = Compare("block_size", lambda plan: plan.block_size, ALIGNMENT, "tokens", is_size=True)
CONCURRENCY = Compare("concurrency", _concurrency, ("num_blocks",), "x", 0.011, rounded=True)
TOKENS = Compare("tokens", _tokens, ("num_blocks",), "tokens", rounded=True, otherwise=_old_tokens)

NOTICES = (
    message(
        "version",
        "version ",
        r"(?:vLLM (?:API )?server|▀▄▀ █ ) ?version (?P<version>\d+\.[\w.+-]+)",
        "Which vLLM runs, so which rules hold.",
        is_distinct=False,
    ),
    message(
        "typed_arguments",
        "non-default args",
        r"non-default args: (?P<arguments>\{.*)",
        "What was typed and differs from vLLM's defaults; everything else is a default.",
        fields=lambda values: argument_fields(entries(str(values["arguments"]))),
    ),
    message(
        "platform",
        "Automatically detected platform",
        r"Automatically detected platform (?P<platform>\w+)",
        "Which platform picks the attention backend.",
        fields=lambda values: (
            {"platform": values["platform"]}
            if values["platform"] in {"cuda", "rocm", "xpu", "cpu"}
            else {}
        ),
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
        compares=(Compare("max_model_len", lambda plan: plan.max_model_len, ("max_model_len",)),),
    ),
    message(
        "token_budget",
        "Chunked prefill is enabled with",
        r"Chunked prefill is enabled with max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)",
        "Tokens that one scheduler step may take. In cache mode align a block must fit into it.",
        fields=lambda values: {"max_num_batched_tokens": values["max_num_batched_tokens"]},
    ),
    message(
        "engine_config",
        "LLM engine (v",
        r"Initializing an? (?:V\d )?LLM engine \(v(?P<version>[^)]+)\) with config: (?P<config>.*)",
        "The engine's settings after the defaults were filled in.",
        fields=_version_fields,
    ),
    message(
        "backend",
        "attention backend out of potential",
        r"Using (?P<backend>[\w.]+) attention backend out of potential backends: "
        r"(?P<candidates>\[[^\]]*\])",
        "The first backend of the platform's order that nothing speaks against.",
        "Ask for another one with --attention-backend; tab `Backends by TP` compares them.",
        fields=_backend_fields,
        compares=(Compare("backend", lambda plan: plan.backend, ("backend",)),),
    ),
    message(
        "backend_in_words",
        "Using ",
        r"Using (?P<backend>Flash Attention|FlashInfer|Triton MLA|Triton"
        r"|AttentionBackendEnum\.\w+) backend(?: on V1 engine)?\.",
        "The attention backend, as XPU and older versions print it.",
        fields=_backend_fields,
        compares=(
            Compare(
                "backend",
                lambda plan: plan.backend,
                ("backend",),
                otherwise=lambda plan, said: (
                    f"{said} is another word for it."
                    if BACKENDS.get(said) == plan.backend
                    else None
                ),
            ),
        ),
        is_distinct=False,
    ),
    message(
        "cache_mode",
        "Mamba cache mode is set to '",
        r"Mamba cache mode is set to '(?P<mamba_cache_mode>all|align)' for (?P<architecture>\w+) "
        r"by default",
        "Prefix caching is on and no mode was typed, so vLLM chose how states are kept.",
        "align keeps a state at block ends only, all keeps one per block (not in 0.33).",
        fields=lambda _values: {"enable_prefix_caching": True},
        compares=(
            Compare("mamba_cache_mode", lambda plan: plan.mamba_cache_mode, ("mamba_cache_mode",)),
        ),
    ),
    message(
        "cache_mode_none",
        "Mamba cache mode is set to 'none'",
        r"Mamba cache mode is set to 'none' when prefix caching is disabled",
        "A cache mode was typed, but without prefix caching there is nothing to keep.",
        "Add --enable-prefix-caching, or leave --mamba-cache-mode out.",
        fields=lambda _values: {"enable_prefix_caching": False},
    ),
    message(
        "cache_mode_fallback",
        "falling back to 'align' mode",
        r"cache 'all' mode: falling back to 'align' mode",
        "This model cannot keep a state for every block, so align takes the place of all.",
        "Type --mamba-cache-mode align to silence it.",
        fields=lambda _values: {"enable_prefix_caching": True},
    ),
    message(
        "preferred_block",
        "Setting kv cache block size to",
        r"Setting kv cache block size to (?P<block_size>\d+) for (?P<backend>[\w, ]+?) backend",
        "Phase 1: the size that the backend prefers, before any mamba page is looked at.",
        compares=(
            Compare(
                "block_size",
                lambda plan: _step(plan, "preferred_block_size"),
                ("preferred_block_size",),
                "tokens",
            ),
        ),
    ),
    message(
        "attention_block_size",
        "Setting attention block size to",
        r"(?<!\])Setting attention block size to (?P<block_size>\d+) tokens(?!,? so the)"
        r"(?! to ensure multiple)",
        "Phase 2: an attention page has to hold at least one mamba state, so the block grew.",
        compares=(BLOCK,),
    ),
    message(
        "xpu_block_size",
        "[XPU]Setting attention block size to",
        r"\[XPU\]Setting attention block size to (?P<block_size>\d+) tokens to ensure multiple of "
        r"(?P<multiple>\d+)",
        "XPU's GDN kernel wants a multiple of 64, so the block grew once more.",
        fields=lambda _values: {"platform": "xpu"},
        compares=(BLOCK,),
    ),
    message(
        "quantized_block_size",
        "so the quantized primary KV page covers",
        r"Setting attention block size to (?P<block_size>\d+) tokens so the quantized",
        "0.33: some layers keep another dtype, and their page has to fit as well.",
        "--kv-cache-dtype-skip-layers decides which layers.",
    ),
    message(
        "mamba_padding",
        "Padding mamba page size by",
        r"Padding mamba page size by (?P<padding_percent>[\d.]+)%",
        "The attention page came out larger than a state, so every state is padded to it.",
        "A large share means that one granule of the block is much; try --block-size 16.",
        compares=(Compare("padding_percent", _padding_percent, PADDING, "%", 0.006, is_size=True),),
    ),
    message(
        "weights",
        "Model loading took",
        r"Model loading took (?P<weights_gib>[\d.]+) GiB",
        "Weights on one rank.",
    ),
    message(
        "available_memory",
        "Available KV cache memory",
        r"Available KV cache memory: (?P<available_gib>-?[\d.]+) GiB",
        "What is left for the cache on one rank: memory * utilization - weights - activations.",
        "More: a higher --gpu-memory-utilization, fewer tokens a step, a smaller model a rank.",
        fields=lambda values: {"kv_cache_memory_bytes": max(0, gib_bytes(values["available_gib"]))},
    ),
    message(
        "graphs",
        "Graph capturing finished",
        r"Graph capturing finished in [\d.]+ secs, took (?P<graphs_gib>-?[\d.]+) GiB",
        "Memory of the captured graphs.",
    ),
    message(
        "override",
        "Overriding num_gpu_blocks=",
        r"Overriding num_gpu_blocks=(?P<num_blocks>\d+) with "
        r"num_gpu_blocks_override=(?P<num_gpu_blocks_override>\d+)",
        "The measured number of blocks is replaced by the typed one.",
        "One block is the null block and never holds a request.",
        fields=lambda values: {"num_gpu_blocks_override": values["num_gpu_blocks_override"]},
    ),
    message(
        "padding_layers",
        "padding layers, may waste",
        r"Add (?P<padding_layers>\d+) padding layers, may waste at most (?P<percent>[\d.]+)%",
        "Groups have equal numbers of layers, so the last one is filled up with empty slots.",
        "Informational; tab `Groups and capacity` shows the slots.",
        compares=(Compare("padding_layers", _padding_layers, ("num_blocks",)),),
    ),
    message(
        "tokens_and_concurrency",
        "KV cache size: ",
        r"KV cache size: (?P<tokens>[\d,]+) tokens,\s*Maximum concurrency for "
        r"(?P<max_model_len>[\d,]+) tokens per request: (?P<concurrency>[\d.]+)x",
        "Requests of full length that fit at once, and that number times their length (0.33).",
        "For hybrids blocks are what runs out, not tokens: short requests take whole blocks.",
        fields=lambda values: {"max_model_len": values["max_model_len"]},
        compares=(TOKENS, CONCURRENCY),
    ),
    message(
        "tokens",
        "KV cache size: ",
        r"KV cache size: (?P<tokens>[\d,]+) tokens(?!,)",
        "Concurrency times the longest request; before 0.20 a much smaller number for hybrids.",
        "For hybrids blocks are what runs out, not tokens: short requests take whole blocks.",
        compares=(TOKENS,),
    ),
    message(
        "concurrency",
        "Maximum concurrency for",
        r"(?<!tokens,\x20)Maximum concurrency for (?P<max_model_len>[\d,]+) tokens per request: "
        r"(?P<concurrency>[\d.]+)x",
        "Requests of full length that fit at once: blocks of the pool / blocks of one request.",
        "More: a smaller --max-model-len, an fp8 cache, more memory.",
        fields=lambda values: {"max_model_len": values["max_model_len"]},
        compares=(CONCURRENCY,),
    ),
    message(
        "auto_fit",
        "Auto-fit max_model_len: reduced",
        r"Auto-fit max_model_len: reduced from (?P<before>\d+) to (?P<max_model_len>\d+) to fit",
        "--max-model-len -1: the longest request was cut to what the memory holds.",
        compares=(
            Compare(
                "max_model_len", lambda plan: plan.max_model_len, ("max_model_len",), rounded=True
            ),
        ),
    ),
)


def _step(plan: Plan, rule: str) -> Any:
    found = [step.result for step in plan.steps if step.rule.name == rule]
    return found[-1] if found else None


MESSAGES: Registry[Message] = Registry("message", "log")
"""Name -> message."""

for _message in (*NOTICES, *ERRORS):
    MESSAGES.add(_message.name, _message)
