"""Questions that a lab is about, answered in sentences of their own."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import ceil

from workbench.core.capacity.memory_answer import memory_answer
from workbench.core.capacity.memory_estimate import weights_of
from workbench.core.errors import WorkbenchError
from workbench.core.groups.cache_spec import RING_SPEC
from workbench.core.plan import Plan
from workbench.core.prefix.hits import reason_without_hits, shortest_prompt_with_hit
from workbench.core.rule_set import RuleSet
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.answers import answers
from workbench.core.what_if.reach import longest_fit
from workbench.interop.questions import Question
from workbench.views.backends import backend_record
from workbench.views.offload.break_even import links_text, loaded_text
from workbench.views.settings import changes_text, in_labels
from workbench.views.units import bytes_text, counted, range_text, short_bytes_text, tokens_text

HOST_BYTES = 64 * 2**30
"""The host memory that the lab of offload starts with."""
LARGE_SHARE = 10
"""What one token takes is worth a word from a tenth of the request's bytes on."""
FEW_BLOCKS = 3
"""Of a pool whose memory is not known."""


def lab_answer(question: Question, plan: Plan, length_tokens: int) -> str:
    """Return the answer to a question that a lab is about; nothing where the tiles answer it.

    length_tokens: of the requests that are counted.
    """
    if question.concurrency is not None:
        return in_labels(concurrency_answer(question.concurrency, plan, length_tokens))
    if question.step is not None and 0 < question.step <= len(plan.steps):
        return f"Step {question.step} of {len(plan.steps)}: {plan.steps[question.step - 1]}"
    answer = ANSWERS.get(question.special or question.topic.lab)
    if answer is None or question.term is not None:
        return ""
    try:
        return in_labels(answer(question, plan, length_tokens))
    except WorkbenchError as error:  # of the pool: there is none, or it has no such byte
        return in_labels(error.message)


def _byte(question: Question, plan: Plan, _length: int) -> str:
    if question.byte is None:
        return ""
    known = plan.cache.num_blocks if plan.cache else None
    page = plan.attention_page_size_bytes or plan.mamba_page_size_bytes or 1
    blocks = known or max(FEW_BLOCKS, question.byte // page + 1)
    words = plan.byte_map(num_blocks=blocks).describe(0, question.byte)
    return f"In a pool of {blocks:,} blocks: {' '.join(words)}"


def _backends(question: Question, plan: Plan, _length: int) -> str:
    rules = RULE_SETS[plan.settings.rules]
    if question.backend in rules.backends:
        return _block_sizes(rules, question.backend)
    if plan.model.attention is None:
        return "The model has no attention layer, so it has no attention backend."
    step = plan.trace.step("backend")
    refused = step.operands.get("refused") or {}
    reasons = "".join(f" Not {name}: {why}." for name, why in refused.items())
    if plan.backend is None:
        return f"vLLM finds no backend for this configuration.{reasons}"
    if plan.settings.backend is not None:
        return f"{plan.backend} is set.{reasons}"
    order = "comes after what was ruled out" if refused else "comes first in vLLM's order here"
    return f"vLLM chooses {plan.backend}, which {order}.{reasons} The lab tries all others."


def _block_sizes(rules: RuleSet, name: str) -> str:
    """Return which kernel blocks a backend takes, and what they depend on."""
    record = backend_record(rules, name)
    sizes = record.get("kernel block sizes") or {}
    found = "; ".join(f"{where}: {', '.join(map(str, one))}" for where, one in sizes.items())
    kernels = f"kernel blocks {found}" if found else "no kernel blocks of its own"
    platforms = ", ".join(record.get("platforms", ()))
    return f"{name} in {rules.title} has {kernels}. It runs on {platforms}."


def _offload(_question: Question, plan: Plan, length: int) -> str:
    found = plan.offload(cpu_bytes_to_use=HOST_BYTES)
    if found.problems:
        remedies = [changes_text(one.changes) for one in found.remedies()[:1]]
        tried = f" It starts with this change: {remedies[0]}." if remedies else ""
        return f"vLLM does not start with offload: {found.problems[0].message}{tried}"
    stored, loaded = found.stored_prompt(length), found.loaded_prefix(length)
    memory, tokens = short_bytes_text(HOST_BYTES), tokens_text(length)
    if not stored.requests or not stored.loadable_tokens:
        return f"{memory} of host memory give nothing of a prompt of {tokens} back."
    return (
        f"{memory} of host memory hold {stored.requests:,} prompts of {tokens} and give "
        f"{tokens_text(stored.loadable_tokens)} of each back. That pays where prompts come again "
        "after the GPU had no more room for them, and loading is quicker than computing. "
        f"{loaded_text(loaded)} {links_text(loaded)}"
    )


def _chunks(_question: Question, plan: Plan, _length: int) -> str:
    found = plan.chunks()
    problem = found.problems[0].message if found.problems else ""
    if found.chunk_tokens is None:
        return problem
    verdict = "is legal" if found.is_legal else "is not"
    return (
        f"{found.connector.name}: chunks are multiples of {tokens_text(found.unit_tokens)} here; "
        f"its default of {tokens_text(found.chunk_tokens)} {verdict}. {problem}"
    ).strip()


def _hits(question: Question, plan: Plan, length: int) -> str:
    """Return what a prompt of the length in question finds again."""
    caching = plan.hits().caching
    if question.said.length_tokens is None or reason_without_hits(caching) is not None:
        return ""
    found = plan.hits().hit(length, length).cached_tokens
    shortest = tokens_text(shortest_prompt_with_hit(caching))
    again = f"finds {tokens_text(found) if found else 'nothing'} again"
    unit = tokens_text(caching.alignment_tokens)
    return (
        f"A prompt of {tokens_text(length)} that comes a second time {again}: hits are multiples "
        f"of {unit}, and the shortest prompt that can hit has {shortest}."
    )


def _longest(_question: Question, plan: Plan, _length: int) -> str:
    found, most = longest_fit(plan), tokens_text(plan.max_model_len)
    if found is None or not found[1]:
        return ""
    if found[0] == plan.max_model_len:
        return f"A request may have all {most} of the max model length: the cache holds it."
    least, tokens = found[0], range_text(*map("{:,}".format, found))
    flag = f"--max-model-len {least}" if least else "a device with more memory"
    return (
        f"The longest request that fits has {tokens} tokens, of {most} that are allowed. vLLM "
        f"starts for sure with {flag}."
    )


def _request(_question: Question, plan: Plan, length: int) -> str:
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
    return f"One request of {tokens_text(length)} takes {size} of the KV cache{engine}.{floor}"


def _token(_question: Question, plan: Plan, _length: int) -> str:
    """Return what one more token takes on a GPU; windows, rings and states stop growing."""
    if plan.cache is None:
        return ""
    growing = [
        (spec, layers)
        for group in plan.cache.groups
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


def _groups(_question: Question, plan: Plan, _length: int) -> str:
    """Return the groups of layers, why they are so, and what padding layers cost."""
    if plan.cache is None:
        return ""
    kinds = Counter((one.kind, len(one.layers), one.padding_layers) for one in plan.cache.groups)
    parts = (
        f"{counted(count, 'group')} of {counted(layers, 'layer')} ({kind})"
        + (f" and {counted(padding, 'padding layer')}" if padding else "")
        for (kind, layers, padding), count in kinds.items()
    )
    said = "".join(f" vLLM logs: {one}" for one in plan.log_lines if "padding layers" in one)
    return f"{'; '.join(parts)}. {plan.cache.grouping.reason}.{said}"


def _speed(_question: Question, _plan: Plan, _length: int) -> str:
    return (
        "Tokens per second are not predicted: they depend on the kernels, the load and the host. "
        "What is exact here is what bounds them: the requests that fit at once, and the tokens "
        "that prefix caching does not compute again. The lab measures kernels on an attached GPU."
    )


def _terms(_question: Question, plan: Plan, _length: int) -> str:
    """Return what takes the memory of a GPU; without a device the weights, where they are known."""
    found = memory_answer(plan)
    if found.terms:
        parts = (
            f"{one.name} {short_bytes_text(one.size_bytes)} ({one.source})" for one in found.terms
        )
        return f"On each GPU: {', '.join(parts)}."
    weights = weights_of(plan)
    if weights is None:
        return ""
    return f"The weights take {short_bytes_text(weights)} on each GPU. The rest needs a device."


def _cache(_question: Question, plan: Plan, _length: int) -> str:
    found, cache = memory_answer(plan), plan.cache
    if cache is None or found.cache_bytes is None or found.tokens is None:
        return ""
    blocks = f"{'about ' * found.is_estimate}{counted(cache.num_blocks or 0, 'block')}"
    size = range_text(*(short_bytes_text(max(one, 0)) for one in found.cache_bytes))
    tokens = range_text(*map("{:,}".format, found.tokens))
    printed = f"vLLM would print a size of {tokens} tokens"
    return f"The KV cache gets {size} on each GPU, {blocks}; {printed}."


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


ANSWERS: dict[str, Callable[[Question, Plan, int], str]] = {
    "Page bytes": _byte,
    "Prefix hits": _hits,
    "Backends by TP": _backends,
    "Chunks": _chunks,
    "Offload and transfer": _offload,
    "Kernel sweeps": _speed,
    "Export": lambda _question, plan, _length: plan.to_vllm_command(),
    "groups": _groups,
    "longest": _longest,
    "request": _request,
    "terms": _terms,
    "token": _token,
    "cache": _cache,
}
"""Title of a lab, or kind of a question -> its answer."""
