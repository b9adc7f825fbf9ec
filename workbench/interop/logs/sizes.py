"""The messages about sizes of blocks, memory and what fits, in the order of a start."""

from typing import Any

from workbench.core.plan import Plan
from workbench.interop.logs.errors import NUM_BLOCKS
from workbench.interop.logs.message import Compare, message

GIB = 2**30
ALIGNMENT = (
    "mamba_page_size_bytes",
    "attention_bytes_per_token",
    "alignment_granule",
    "aligned_block_size",
    "block_size",
)
PADDING = ("mamba_page_size_bytes", "attention_bytes_per_token", "mamba_page_size_padded")


def _old_tokens(plan: Plan, reported: Any) -> str | None:
    """Return the number printed before 0.20, which divided the blocks among the groups."""
    cache = plan.cache
    if cache is None or cache.num_blocks is None or not cache.groups:
        return None
    smallest = min(group.spec.block_size for group in cache.groups)
    old = cache.num_blocks // len(cache.groups) * smallest
    if abs(old - reported) > max(old, reported) / 50:
        return None
    return (
        f"It is {cache.num_blocks:,} blocks // {len(cache.groups)} groups * {smallest:,} tokens = "
        f"{old:,}: how vLLM before 0.20 counted, which is far too low for hybrids (vllm#40691). "
        "Use concurrency * longest request instead."
    )


def _preferred(plan: Plan) -> Any:
    found = [step.result for step in plan.steps if step.rule.name == "preferred_block_size"]
    return found[-1] if found else None


PADDING_LAYERS = Compare(
    "padding_layers",
    of=lambda plan: plan.cache and sum(group.padding_layers for group in plan.cache.groups),
    rules=("num_blocks",),
)
BLOCK = Compare("block_size", rules=ALIGNMENT, unit="tokens", is_size=True)
CONCURRENCY = Compare(
    "concurrency",
    of="cache.max_concurrency",
    rules=("num_blocks",),
    unit="x",
    digits=2,
    tolerance=0.011,
    rounded=True,
)
TOKENS = Compare(
    "tokens",
    of="cache.printed_tokens",
    rules=("num_blocks",),
    unit="tokens",
    rounded=True,
    otherwise=_old_tokens,
)

SIZES = (
    message(
        "preferred_block",
        r"`Setting kv cache block size to` (?P<block_size>\d+) for (?P<backend>[\w, ]+?) backend",
        "Phase 1: the size that the backend prefers, before mamba pages are considered.",
        compares=(
            Compare("block_size", of=_preferred, rules=("preferred_block_size",), unit="tokens"),
        ),
    ),
    message(
        "attention_block_size",
        r"(?<!\])`Setting attention block size to` (?P<block_size>\d+) tokens(?!,? so the)"
        r"(?! to ensure multiple)",
        "Phase 2: an attention page has to hold at least one mamba state, so the block grew.",
        compares=(BLOCK,),
    ),
    message(
        "xpu_block_size",
        r"`\[XPU\]Setting attention block size to` (?P<block_size>\d+) tokens to ensure "
        r"multiple of (?P<multiple>\d+)",
        "XPU's GDN kernel requires a multiple of 64, so the block grew once more.",
        fields={"platform": "xpu"},
        compares=(BLOCK,),
    ),
    message(
        "quantized_block_size",
        r"Setting attention block size to (?P<block_size>\d+) tokens "
        r"`so the quantized primary KV page covers`",
        "0.33: some layers keep another dtype, and their page has to fit as well.",
        "--kv-cache-dtype-skip-layers decides which layers.",
    ),
    message(
        "mamba_padding",
        r"`Padding mamba page size by` (?P<padding_percent>[\d.]+)%",
        "The attention page came out larger than a state, so every state is padded to it.",
        "A large share means that the block granularity is coarse; try --block-size 16.",
        compares=(
            Compare(
                "padding_percent", rules=PADDING, unit="%", digits=2, tolerance=0.006, is_size=True
            ),
        ),
    ),
    message(
        "weights",
        r"(?:Model loading|Loading model weights) `took `(?P<weights_gib>[\d.]+) Gi?B",
        "Weights on one rank.",
        is_distinct=False,
    ),
    message(
        "available_memory",
        r"`Available KV cache memory`: (?P<available_gib>-?[\d.]+) GiB",
        "What is left for the cache on one rank: memory * utilization - weights - activations.",
        "For more: a higher --gpu-memory-utilization, fewer tokens per step, less model per rank.",
        fields=lambda values: {
            "kv_cache_memory_bytes": max(0, round(values["available_gib"] * GIB))
        },
    ),
    message(
        "reserved_memory",
        r"reserved (?P<reserved_gib>[\d.]+) GiB `memory for KV Cache as specified` by "
        r"kv_cache_memory_bytes",
        "--kv-cache-memory-bytes is set, so nothing is measured.",
        fields=lambda values: {"kv_cache_memory_bytes": round(values["reserved_gib"] * GIB)},
    ),
    message(
        "graphs",
        r"`Graph capturing finished` in [\d.]+ secs, took (?P<graphs_gib>-?[\d.]+) GiB",
        "Memory of the captured graphs.",
    ),
    message(
        "override",
        r"`Overriding num_gpu_blocks=`(?P<num_blocks>\d+) with "
        r"num_gpu_blocks_override=(?P<num_gpu_blocks_override>\d+)",
        "The measured number of blocks is replaced by the user-set one.",
        "One block is the null block and never holds a request.",
    ),
    message(
        "num_blocks",
        r"`GPU blocks: `(?P<num_blocks>\d+)",
        "Blocks of the pool, as versions before 0.8 printed it; times the block size in tokens.",
        compares=(NUM_BLOCKS,),
    ),
    message(
        "padding_layers",
        r"Add (?P<padding_layers>\d+) `padding layers, may waste` at most (?P<percent>[\d.]+)%",
        "Groups have equal numbers of layers, so the last one is filled up with empty slots.",
        "Informational; tab `Groups and capacity` shows the slots.",
        compares=(PADDING_LAYERS,),
    ),
    message(
        "tokens_and_concurrency",
        r"`KV cache size: `(?P<tokens>[\d,]+) tokens,\s*Maximum concurrency for "
        r"(?P<max_model_len>[\d,]+) tokens per request: (?P<concurrency>[\d.]+)x",
        "Requests of full length that fit at once, and that number times their length (0.33).",
        "For hybrids, blocks run out before tokens: short requests take whole blocks.",
        compares=(TOKENS, CONCURRENCY),
    ),
    message(
        "tokens",
        r"`KV cache size: `(?P<tokens>[\d,]+) tokens(?!,)",
        "Concurrency times the longest request; before 0.20 a much smaller number for hybrids.",
        "For hybrids, blocks run out before tokens: short requests take whole blocks.",
        compares=(TOKENS,),
    ),
    message(
        "concurrency",
        r"(?<!tokens,\x20)`Maximum concurrency for` (?P<max_model_len>[\d,]+) tokens per request: "
        r"(?P<concurrency>[\d.]+)x",
        "Requests of full length that fit at once: blocks of the pool / blocks of one request.",
        "More: a smaller --max-model-len, an fp8 cache, more memory.",
        compares=(CONCURRENCY,),
    ),
    message(
        "auto_fit",
        r"`Auto-fit max_model_len: reduced` from (?P<before>\d+) to (?P<max_model_len>\d+) to fit",
        "--max-model-len -1: the longest request was cut to what the memory holds.",
        compares=(Compare("max_model_len", rounded=True),),
        fields={"max_model_len": -1},
        is_explicit=True,
    ),
)
"""Messages about the cache, in the order of a start."""
