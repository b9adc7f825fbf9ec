"""The numbers of a plan that messages are compared with."""

from math import ceil, lcm
from typing import Any

from workbench.core.arithmetic import GIB
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.memory_estimate import loaded_weights
from workbench.core.groups.cache_spec import HIDDEN_SPEC, CacheSpec
from workbench.core.plan import Plan
from workbench.interop.logs.meanings import BACKENDS
from workbench.interop.logs.message import Compare

LOADING = 0.025
"""Share of the weights that kernels may add or drop while they are loaded: the most of all starts
in `tests/data/startup_memory.jsonl` whose experts are not padded."""
HUNDREDTH = 0.011
"""A hundredth, and what adding it to a decimal loses."""
PAGES = ("mamba_page_size_bytes", "attention_bytes_per_token")
ALIGNMENT = (*PAGES, "alignment_granule", "aligned_block_size", "block_size")


PRINTED = ("tokens", "concurrency")
"""What is printed of a pool; its size follows from both."""


def _before_fitting(plan: Plan, reported: Any) -> str | None:
    fitted = [step for step in plan.steps if step.rule.name == "auto_fit_max_model_len"]
    if any(step.operands["longest_of_the_model"] == reported for step in fitted):
        return "This is the length before it was reduced to fit the memory."
    return None


def _in_words(plan: Plan, reported: Any) -> str | None:
    return f"{reported} is another name for it." if BACKENDS.get(reported) == plan.backend else None


def tokens_before_0_20(plan: Plan) -> int | None:
    """Return the tokens as vLLM before 0.20 printed them, the blocks divided among the groups."""
    cache = plan.cache
    if cache is None or cache.num_blocks is None or not cache.groups:
        return None
    return cache.num_blocks // len(cache.groups) * _block(cache)


def _old_tokens(plan: Plan, reported: Any) -> str | None:
    old, cache = tokens_before_0_20(plan), plan.cache
    if old != reported or cache is None:
        return None
    return (
        f"It is {cache.num_blocks:,} blocks // {len(cache.groups)} groups * "
        f"{_block(cache):,} tokens = {old:,}: how vLLM before "
        "0.20 counted, which is far too low for hybrids (vllm#40691). Use concurrency * longest "
        "request instead."
    )


def fits_tokens(plan: Plan, tokens: int, blocks: int | None) -> bool:
    """Return whether a pool that differs by at most so many blocks prints these tokens."""
    cache = plan.cache
    return cache is not None and any(_is_near(cache, one, blocks) for one in _pools(cache, tokens))


def pool_of(plan: Plan, tokens: int, concurrency: float) -> int | None:
    """Return the blocks of a pool that prints both, as this or as older versions count tokens.

    None where no pool does: the log is of another model, or of other settings.
    """
    cache = plan.cache
    if cache is None or not cache.groups:
        return None
    unit, groups = _block(cache), len(cache.groups)
    older = tokens // unit * groups
    pools = [*_pools(cache, tokens), *(range(older, older + groups) if not tokens % unit else ())]
    request = cache.blocks_per_request
    fits = (one for one in pools if one and abs(one / request - concurrency) <= HUNDREDTH)
    return next(fits, None)


def _pools(cache: CachePlan, tokens: int) -> list[int]:
    """Return the numbers of blocks for which a version prints these tokens, from 0.20 on."""
    length, request = cache.max_model_len, cache.blocks_per_request
    near = round(tokens / length * request)
    return [one for one in (near, near + 1) if request and int(one / request * length) == tokens]


def _block(cache: CachePlan) -> int:
    return min(one.spec.block_size for one in cache.groups)


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


def _paddings(plan: Plan) -> int | tuple[int, ...] | None:
    """Return the padding layers of every kind that has some, each of which prints a line."""
    if plan.cache is None:
        return None
    kinds: dict[CacheSpec, int] = {}
    for group in plan.cache.groups:
        kinds[group.spec] = kinds.get(group.spec, 0) + group.padding_layers
    found = tuple(filter(None, kinds.values()))
    return found if len(found) > 1 else sum(found)


def _lcm_of_groups(plan: Plan) -> int | None:
    sizes = _group_sizes(plan)
    return lcm(*sizes) if sizes else None


def _hidden_block(plan: Plan) -> int | None:
    groups = plan.cache.groups if plan.cache else ()
    return next((one.spec.block_size for one in groups if one.spec.kind == HIDDEN_SPEC), None)


def _preferred(plan: Plan) -> Any:
    found = [step.result for step in plan.steps if step.rule.name == "preferred_block_size"]
    return found[-1] if found else None


def _loaded_gib(plan: Plan) -> float | None:
    found = loaded_weights(plan)
    return found[0] / GIB if found else None


def _near_weights(plan: Plan, gib: float) -> str | None:
    """Return why loaded weights are those of the plan, where they are not equal."""
    found = [size / GIB for size in loaded_weights(plan)]
    if round(gib, 2) in [round(size, 2) for size in found]:
        return "It is another pipeline stage's."
    if any(abs(gib - size) <= LOADING * size for size in found):
        return (
            f"Kernels repack and pad weights while they are loaded: {LOADING:.1%} in either "
            "direction is usual."
        )
    return None


NUMBERS = {
    "backend": Compare("backend"),
    "backend_in_words": Compare("backend", otherwise=_in_words),
    "cache_mode": Compare("mamba_cache_mode"),
    "state_dtype": Compare("state_dtype", of="mamba_ssm_cache_dtype", rules=()),
    "longest_request": Compare("max_model_len", otherwise=_before_fitting),
    "fitted_request": Compare("max_model_len", rounded=True),
    "token_budget": Compare("max_num_batched_tokens", rules=(), unit="tokens"),
    "preferred_block": Compare(
        "block_size", of=_preferred, rules=("preferred_block_size",), unit="tokens"
    ),
    "block": Compare("block_size", unit="tokens"),
    "aligned_block": Compare("block_size", rules=ALIGNMENT, unit="tokens", is_size=True),
    "block_in_budget": Compare(
        "block_size",
        rules=(*PAGES, "aligned_block_size", "align_budget"),
        unit="tokens",
        is_size=True,
    ),
    "padding": Compare(
        "padding_percent",
        rules=(*PAGES, "mamba_page_size_padded"),
        unit="%",
        digits=2,
        tolerance=0.006,
        is_size=True,
    ),
    "padding_layers": Compare(
        "padding_layers", of=_paddings, rules=("num_blocks",), is_target=True
    ),
    "group_sizes": Compare("group_sizes", of=_group_sizes, rules=("num_blocks",), unit="tokens"),
    "lcm_block": Compare("lcm_block", of=_lcm_of_groups, rules=("num_blocks",), unit="tokens"),
    "hidden_block": Compare("hidden_block", of=_hidden_block, rules=(), unit="tokens"),
    "num_blocks": Compare(
        "num_blocks", of="cache.num_blocks", unit="blocks", rounded=True, is_target=True
    ),
    "tokens": Compare(
        "tokens",
        of="cache.printed_tokens",
        rules=("num_blocks",),
        unit="tokens",
        rounded=True,
        is_target=True,
        before=tokens_before_0_20,
        fits=fits_tokens,
        cannot_be=lambda plan, tokens: bool(plan.cache and tokens % _block(plan.cache)),
        otherwise=_old_tokens,
    ),
    "concurrency": Compare(
        "concurrency",
        of="cache.max_concurrency",
        rules=("num_blocks",),
        unit="x",
        digits=2,
        tolerance=HUNDREDTH,
        rounded=True,
        is_target=True,
        fits=_fits_concurrency,
    ),
    "weights": Compare(
        "weights_gib",
        of=_loaded_gib,
        rules=(),
        unit="GiB",
        digits=2,
        tolerance=HUNDREDTH,
        otherwise=_near_weights,
        of_checkpoint=True,
        unknown="config.json does not tell the weights",
    ),
    "needed_memory": Compare(
        "needed_gib",
        of=lambda plan: plan.cache and plan.cache.needed_bytes / GIB,
        rules=("block_size", "num_blocks"),
        unit="GiB",
        digits=2,
        tolerance=HUNDREDTH,
        is_target=True,
    ),
}
"""Name in the declaration of a message -> the number."""
