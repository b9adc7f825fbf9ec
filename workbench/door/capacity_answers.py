"""Questions about the size of the cache and of what it holds, answered in sentences."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import ceil

from workbench.core.capacity.blocks import blocks_by_group
from workbench.core.capacity.memory_answer import MemoryTerm, memory_answer, taken_terms
from workbench.core.capacity.memory_budget import DEFAULT_GPU_MEMORY_UTILIZATION
from workbench.core.capacity.memory_estimate import estimate_margin, weights_of
from workbench.core.groups.cache_spec import RING_SPEC
from workbench.core.groups.graph_support import captures_states
from workbench.core.plan import Plan
from workbench.core.what_if.answers import answers
from workbench.core.what_if.outcomes import outcome_of
from workbench.core.what_if.reach import longest_fit, longest_together
from workbench.views.door.tiles import answer_to
from workbench.views.units import bytes_text, counted, range_text, short_bytes_text, tokens_text

LARGE_SHARE = 10
"""What one token takes is worth a word from a tenth of the request's bytes on."""


def _concurrency(plan: Plan, _length: int) -> str:
    """Return how the two lines of the cache belong together, with numbers where they are known."""
    cache = plan.cache
    here = ""
    if cache is not None and cache.max_concurrency is not None and cache.printed_tokens is not None:
        here = (
            f" Here: {cache.max_concurrency:.2f}x of {tokens_text(plan.max_model_len)} is "
            f"{tokens_text(cache.printed_tokens)}."
        )
    return (
        "vLLM prints a size in tokens that is the concurrency times the max model length, before "
        f"the concurrency is rounded to two decimals.{here} Before 0.20 it counted the tokens of "
        "one group alone, a much smaller number for hybrids. It is not the memory divided by "
        "the bytes of a token: a request takes whole blocks of every group, and states and windows "
        "do not grow with its length, so shorter requests would give a different number."
    )


def _longest(plan: Plan, _length: int) -> str:
    found, most = longest_fit(plan), tokens_text(plan.max_model_len)
    if found is not None and not found[1]:
        return f"No request fits. {answer_to('start', answers(plan))}."
    if found is None:
        return ""
    if found[0] == plan.max_model_len:
        return f"A request may have all {most} of the max model length: the cache holds it."
    least, tokens = found[0], range_text(*map("{:,}".format, found))
    longest = f"The longest request that fits has {tokens} tokens, of {most} that are allowed."
    if not least:
        return f"{longest} vLLM certainly starts with a device with more memory."
    limit = {"max_model_len": least}
    if not outcome_of(plan.model, plan.settings, trace=False, **limit).starts:
        return longest  # for another reason than its length
    return f"{longest} vLLM certainly starts with --max-model-len {least}."


def longest_together_text(plan: Plan, requests: int) -> str:
    """Return the longest requests of which so many fit at a time."""
    found = longest_together(plan, requests)
    if found is None:
        return ""
    if not found[1]:
        return f"{requests:,} requests do not fit at a time, however short they are."
    tokens = range_text(*map("{:,}".format, found))
    return f"{requests:,} requests at a time fit up to {tokens} tokens each."


def _request(plan: Plan, length: int) -> str:
    found = answers(plan, length)
    if found.request_bytes is None:
        return ""
    engine = "" if plan.settings.tensor_parallel == 1 else ", of all GPUs of its engine together"
    size = short_bytes_text(found.request_bytes)
    least = answers(plan, 1).request_bytes or 0
    floor = (
        f" Even one token takes {short_bytes_text(least)}: every group of layers holds a block."
        if LARGE_SHARE * least > found.request_bytes
        else ""
    )
    blocks = ""
    cache = plan.kept_cache
    if cache is not None and not cache.stages:  # stages have blocks of their own sizes
        held = found.request_bytes // plan.settings.tensor_parallel
        count = held // cache.grouping.bytes_per_block
        states = _state_blocks(plan, length)
        among = f", {states:,} of them for states" if 0 < states < count else ""
        blocks = f" It holds {counted(count, 'block')} of the pool{among}."
    whole = f"One request of {tokens_text(length)} takes {size} of the KV cache{engine}."
    return f"{whole}{floor}{blocks}"


def _state_blocks(plan: Plan, length: int) -> int:
    """Return the blocks of a request that hold states."""
    if plan.cache is None:
        return 0
    found = zip(blocks_by_group(plan, plan.cache.grouping, length), plan.cache.groups, strict=True)
    return sum(blocks for blocks, group in found if group.spec.is_mamba)


def _states(plan: Plan, length: int) -> str:
    """Return what the states of a request take, which may grow with its length."""
    cache = plan.kept_cache
    if cache is None or not (blocks := _state_blocks(plan, length)):
        return "No layer of this model keeps a state."
    size = short_bytes_text(blocks * cache.grouping.bytes_per_block)
    groups = counted(sum(group.spec.is_mamba for group in cache.groups), "group")
    is_constant = blocks == _state_blocks(plan, 1)
    of = "whatever its length" if is_constant else f"for {tokens_text(length)}"
    return (
        f"The states of a request take {size} on each GPU: {counted(blocks, 'block')} in {groups} "
        f"of SSM layers, {of} (Mamba cache mode {plan.mamba_cache_mode}). A block of the pool "
        f"takes {short_bytes_text(cache.grouping.bytes_per_block)}, whichever group uses it."
    )


def _mixed(_plan: Plan, _length: int) -> str:
    return (
        "A scenario has one device, for all ranks of an engine; engines whose devices differ are "
        "not computed. vLLM gives every rank as many blocks as the rank with the least room has, "
        "so name the device with the least memory, or enter Memory per rank. Two engines may run "
        "on different devices: one that prefills and one that decodes are compared in Offload "
        "and transfer."
    )


def _token(plan: Plan, _length: int) -> str:
    """Return what one more token takes on a GPU; windows, rings and states stop growing."""
    if plan.kept_cache is None:
        return ""
    growing = [
        (spec, layers)
        for group in plan.kept_cache.groups
        for spec, layers in group.layers_by_spec
        if not spec.is_mamba and spec.window_tokens is None and spec.kind != RING_SPEC
    ]
    size = sum(Fraction(spec.content_bytes * layers, spec.span_tokens) for spec, layers in growing)
    layers = counted(sum(count for _spec, count in growing), "layer")
    return (
        f"Each token of a request takes {bytes_text(ceil(size))} on each GPU, in {layers}. States, "
        "windows and rings do not grow with it; blocks are given whole, "
        f"{tokens_text(plan.block_size)} each."
    )


def _groups(plan: Plan, _length: int) -> str:
    """Return the groups of layers, why they are so, and what padding layers cost."""
    if (cache := plan.kept_cache) is None:
        return ""
    kinds = Counter((one.kind, len(one.layers), one.padding_layers) for one in cache.groups)
    parts = (
        f"{counted(count, 'group')} of {counted(layers, 'layer')} ({kind})"
        + (f" and {counted(padding, 'padding layer')}" if padding else "")
        for (kind, layers, padding), count in kinds.items()
    )
    said = "".join(f" vLLM logs: {one}" for one in plan.log_lines if "padding layers" in one)
    return f"{'; '.join(parts)}. {cache.grouping.reason}.{said}"


def _terms(plan: Plan, _length: int) -> str:
    """Return what takes the memory of a GPU; without a device the weights, where they are known."""
    found = memory_answer(plan)
    if found.terms:
        return f"On each GPU: {', '.join(map(_term, found.terms))}."
    weights = weights_of(plan)
    if weights is None:
        return ""
    return f"The weights take {short_bytes_text(weights)} on each GPU. The rest needs a device."


def _term(one: MemoryTerm) -> str:
    if one.size_bytes < 0:
        return f"{one.name} nothing, {short_bytes_text(-one.size_bytes)} are missing"
    return f"{one.name} {short_bytes_text(one.size_bytes)} ({one.source})"


def _needs(plan: Plan, length: int) -> str:
    """Return what a GPU must have: what vLLM takes before the cache, and the longest request."""
    settings = plan.settings
    taken = taken_terms(memory_answer(plan))
    if not taken:
        return _terms(plan, length)
    ranks = settings.tensor_parallel * settings.pipeline_parallel
    usual, longest = (
        (answers(plan, tokens).request_bytes or 0) // ranks
        for tokens in (length, plan.max_model_len)
    )
    before = sum(one.size_bytes for one in taken)
    parts = ", ".join(f"{one.name} {short_bytes_text(one.size_bytes)}" for one in taken)
    share = settings.gpu_memory_utilization or DEFAULT_GPU_MEMORY_UTILIZATION
    states = _states_of_all(plan)
    starts = (
        f"one of {tokens_text(plan.max_model_len)}, {short_bytes_text(longest)}"
        if longest >= states
        else f"the states of {plan.max_num_seqs:,} (--max-num-seqs), {short_bytes_text(states)}"
    )
    of_requests = (
        f"A request of {tokens_text(length)} adds {short_bytes_text(usual)}; vLLM starts with room "
        f"for {starts}. "
    )
    margin, needed = estimate_margin(plan) or 0, before + max(longest, states)
    sizes = (short_bytes_text(ceil((needed + off) / share)) for off in (-margin, margin))
    return (
        f"{'The GPU' if ranks == 1 else f'Each of the {ranks} GPUs'} needs "
        f"{short_bytes_text(before)} before the cache ({parts}). {of_requests if longest else ''}"
        f"As vLLM takes {share:g} of the memory, that is a GPU of {range_text(*sizes)}."
    )


def _states_of_all(plan: Plan) -> int:
    """Return the bytes of the blocks that graph capture wants, one of states for each sequence."""
    cache = plan.kept_cache
    if cache is None or not captures_states(plan, cache):
        return 0
    return plan.max_num_seqs * cache.grouping.bytes_per_block


def _cache(plan: Plan, length: int) -> str:
    found, cache = memory_answer(plan), plan.cache
    if cache is None or found.cache_bytes is None or found.tokens is None:
        return ""
    blocks = f"{'about ' * found.is_estimate}{counted(cache.num_blocks or 0, 'block')}"
    size = range_text(*(short_bytes_text(max(one, 0)) for one in found.cache_bytes))
    tokens = range_text(*map("{:,}".format, found.tokens))
    printed = f"vLLM would print a size of {tokens} tokens"
    rest = _terms(plan, length) if found.terms else ""
    return f"The KV cache gets {size} on each GPU, {blocks}; {printed}. {rest}".rstrip()


def concurrency_answer(times: float, plan: Plan, length: int) -> str:
    """Return what a printed concurrency means: the cache that it is of, and shorter requests."""
    longest, shorter = answers(plan, plan.max_model_len), answers(plan, length)
    if not longest.request_bytes or not shorter.request_bytes:
        return ""
    engine = "the GPU" if longest.devices == 1 else f"all {longest.devices} GPUs"
    cache_bytes = int(times * longest.request_bytes)
    here = plan.cache.max_concurrency if plan.cache else None
    known = "" if here is None else f" Here it would print {here:.2f}x."
    several = (
        f" The same cache holds about {cache_bytes / shorter.request_bytes:.1f} requests of "
        f"{tokens_text(length)}; with --max-model-len {length} vLLM would print that."
    )
    return (
        f"vLLM prints the concurrency for requests of the max model length, here "
        f"{tokens_text(plan.max_model_len)}. One takes {short_bytes_text(longest.request_bytes)} "
        f"on {engine}, so {times:g}x is a cache of {short_bytes_text(cache_bytes)}.{known}"
        f"{several if length < plan.max_model_len else ''}"
    )


def _full(plan: Plan, length: int) -> str:
    """Return what vLLM does when no block is free (`Scheduler.schedule`, 0.23 and 0.33)."""
    found = answers(plan, length)
    serves = found.requests and not found.is_stopped
    here = f" Here {answer_to('fits', found)}; others wait." if serves else ""
    return (
        f"No request fails: those that find no free block wait.{here} If a running request needs "
        "a block and none is free, vLLM preempts the one that came last, or with "
        "--scheduling-policy priority the one of the lowest priority: its blocks are freed, and it "
        "is computed again later, except for what prefix caching still finds. Blocks that no "
        "request holds are reused, the least recently used first, and what they cached is then "
        "lost. A request is never longer than the cache: vLLM does not start if one of the max "
        "model length does not fit."
    )


def _drafter(plan: Plan, _length: int) -> str:
    found = plan.drafter_cost()
    if found is not None:
        return str(found)
    if plan.settings.num_speculative_tokens:
        return "The drafter keeps nothing in the cache."
    return "This scenario has no drafter. Name one to see what it costs, such as MTP 1."


CAPACITY_ANSWERS: dict[str, Callable[[Plan, int], str]] = {
    "concurrency": _concurrency,
    "groups": _groups,
    "longest": _longest,
    "request": _request,
    "terms": _terms,
    "needs": _needs,
    "token": _token,
    "cache": _cache,
    "full": _full,
    "states": _states,
    "drafter": _drafter,
    "mixed": _mixed,
}
"""Kind of a question -> its answer. Arguments: the plan, and the tokens of the counted requests."""
