"""The messages about sizes of blocks, memory and what fits, in the order of a start."""

from functools import partial
from math import ceil, lcm
from typing import Any

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.groups.cache_spec import HIDDEN_SPEC
from workbench.core.plan import Plan
from workbench.interop.logs.errors import NUM_BLOCKS
from workbench.interop.logs.message import Compare, message

HUNDREDTH = 0.011
"""A hundredth, and what adding it to a decimal loses."""
ALIGNMENT = (
    "mamba_page_size_bytes",
    "attention_bytes_per_token",
    "alignment_granule",
    "aligned_block_size",
    "block_size",
)
PADDING = ("mamba_page_size_bytes", "attention_bytes_per_token", "mamba_page_size_padded")


def tokens_before_0_20(plan: Plan) -> int | None:
    """Return the tokens as vLLM before 0.20 printed them, the blocks divided among the groups."""
    cache = plan.cache
    if cache is None or cache.num_blocks is None or not cache.groups:
        return None
    return cache.num_blocks // len(cache.groups) * min(one.spec.block_size for one in cache.groups)


def _old_tokens(plan: Plan, reported: Any) -> str | None:
    old, cache = tokens_before_0_20(plan), plan.cache
    if old != reported or cache is None:
        return None
    return (
        f"It is {cache.num_blocks:,} blocks // {len(cache.groups)} groups * "
        f"{min(one.spec.block_size for one in cache.groups):,} tokens = {old:,}: how vLLM before "
        "0.20 counted, which is far too low for hybrids (vllm#40691). Use concurrency * longest "
        "request instead."
    )


def fits_tokens(plan: Plan, tokens: int, blocks: int | None) -> bool:
    """Return whether a pool that differs by at most so many blocks prints these tokens."""
    cache = plan.cache
    if cache is None or not cache.blocks_per_request:
        return False
    length, request = cache.max_model_len, cache.blocks_per_request
    near = round(tokens / length * request)
    pools = [pool for pool in (near, near + 1) if int(pool / request * length) == tokens]
    return any(_is_near(cache, pool, blocks) for pool in pools)


def _fits_concurrency(plan: Plan, concurrency: float, blocks: int | None) -> bool:
    cache = plan.cache
    if cache is None or not (request := cache.blocks_per_request):
        return False
    low, high = ceil((concurrency - HUNDREDTH) * request), int((concurrency + HUNDREDTH) * request)
    present = cache.num_blocks or low
    return low <= high and _is_near(cache, min(max(present, low), high), blocks)


def _is_near(cache: CachePlan, pool: int, blocks: int | None) -> bool:
    return blocks is None or cache.num_blocks is None or abs(pool - cache.num_blocks) <= blocks


def _group_sizes(plan: Plan) -> list[int] | None:
    return None if plan.cache is None else [one.spec.block_size for one in plan.cache.groups]


def _lcm_of_groups(plan: Plan) -> int | None:
    sizes = _group_sizes(plan)
    return lcm(*sizes) if sizes else None


def _hidden_block(plan: Plan) -> int | None:
    groups = plan.cache.groups if plan.cache else ()
    return next((one.spec.block_size for one in groups if one.spec.kind == HIDDEN_SPEC), None)


def _preferred(plan: Plan) -> Any:
    found = [step.result for step in plan.steps if step.rule.name == "preferred_block_size"]
    return found[-1] if found else None


PADDING_LAYERS = Compare(
    "padding_layers",
    of=lambda plan: plan.cache and sum(group.padding_layers for group in plan.cache.groups),
    rules=("num_blocks",),
    is_target=True,
)
BLOCK = Compare("block_size", rules=ALIGNMENT, unit="tokens", is_size=True)
CONCURRENCY = Compare(
    "concurrency",
    of="cache.max_concurrency",
    rules=("num_blocks",),
    unit="x",
    digits=2,
    tolerance=HUNDREDTH,
    rounded=True,
    is_target=True,
    fits=_fits_concurrency,
)
TOKENS = Compare(
    "tokens",
    of="cache.printed_tokens",
    rules=("num_blocks",),
    unit="tokens",
    rounded=True,
    is_target=True,
    before=tokens_before_0_20,
    fits=fits_tokens,
    otherwise=_old_tokens,
)

_auto_fit = partial(
    message,
    compares=(Compare("max_model_len", rounded=True),),
    fields={"max_model_len": -1},
    is_explicit=True,
)
"""What vLLM says of --max-model-len -1."""

SIZES = (
    message(
        "preferred_block",
        r"`Setting kv cache block size to` (?P<block_size>\d+) for (?P<backend>[\w, /]+?) backend",
        "The size that the backend prefers, before mamba pages are considered.",
        compares=(
            Compare("block_size", of=_preferred, rules=("preferred_block_size",), unit="tokens"),
        ),
    ),
    message(
        "attention_block_size",
        r"(?<!\])`Setting attention block size to` (?P<block_size>\d+) tokens(?!,? so the)"
        r"(?! to ensure multiple)",
        "An attention page has to hold at least one mamba state, so the block grew.",
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
        "profiling_blocks",
        r"`Overriding num_gpu_blocks=0 with` num_gpu_blocks_override=(?P<profiling_blocks>\d+)",
        "vLLM's own small cache for estimating graphs (0.17 to 0.19); the real one comes later.",
    ),
    message(
        "override",
        r"`Overriding num_gpu_blocks=`(?P<num_blocks>[1-9]\d*) with "
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
        "window_groups",
        r"`Sliding-window bucket\(s\) are the smallest`; using group_size (?P<group_size>\d+)",
        "The other layers set the size of a group, and the sliding windows of a drafter are filled "
        "up to it: some builds of 0.27 and 0.28 only, which these rules do not have.",
    ),
    message(
        "group_sizes",
        r"`kv cache group sizes` (?P<group_sizes>[\[(][\d, ]+[\])])",
        "The block of every group of layers, with its share of context parallelism.",
        compares=(Compare("group_sizes", of=_group_sizes, rules=("num_blocks",), unit="tokens"),),
    ),
    message(
        "lcm_block",
        r"`kv lcm block sizes` (?P<lcm_block>\d+)",
        "The scheduler's unit: the least common multiple of the groups' blocks.",
        "A prefill step and a prefix hit end at a multiple of it.",
        compares=(Compare("lcm_block", of=_lcm_of_groups, rules=("num_blocks",), unit="tokens"),),
    ),
    message(
        "hidden_state_block",
        r"`Using block size` (?P<hidden_block>\d+) for hidden-state cache layer \S+; page "
        r"alignment wastes (?P<wasted_bytes>\d+) bytes",
        "Hidden states (extract_hidden_states) share the pages of the other layers, with fewer "
        "tokens in one; vLLM then hashes prefixes in these smaller blocks.",
        compares=(Compare("hidden_block", of=_hidden_block, rules=(), unit="tokens"),),
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
        "estimated_length",
        r"`the estimated maximum model length is` (?P<estimated>\d+)",
        "The longest request that the cache holds, found by halving.",
        lambda values, _scenario: f"Set --max-model-len {values['estimated']}.",
    ),
    _auto_fit(
        "auto_fit_whole",
        r"`Auto-fit max_model_len: full model context length` (?P<max_model_len>\d+) fits",
        "--max-model-len -1: the longest request of the model fits, so nothing was cut.",
    ),
    _auto_fit(
        "auto_fit",
        r"`Auto-fit max_model_len: reduced` from (?P<before>\d+) to (?P<max_model_len>\d+) to fit",
        "--max-model-len -1: the longest request was cut to what the memory holds.",
    ),
)
"""Messages about the cache, in the order of a start."""
