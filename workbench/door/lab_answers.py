"""Questions that a lab is about, answered in sentences of their own."""

from collections.abc import Callable, Collection

from workbench.core.errors import WorkbenchError
from workbench.core.offload.request import USUAL_BYTES
from workbench.core.plan import Plan
from workbench.core.rule_set import RuleSet
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.outcomes import outcome_of
from workbench.door.capacity_answers import (
    CAPACITY_ANSWERS,
    concurrency_answer,
    longest_together_text,
)
from workbench.door.chunks_answers import chunks_answer
from workbench.door.default_answers import default_answer
from workbench.door.hits_answers import hits_answer, multiples_answer
from workbench.door.transfer_answers import transfer_answer
from workbench.interop.glossary import METRICS, glossary
from workbench.interop.plan_values import declared_sizes
from workbench.interop.question import Question
from workbench.interop.quoted import limits_of
from workbench.scenario import FIELDS
from workbench.views.backends import backend_record
from workbench.views.model_fields import layers_text
from workbench.views.offload.break_even import links_text, loaded_text
from workbench.views.pages.parts import PADDING, page_parts
from workbench.views.settings import changes_text, in_labels
from workbench.views.units import bytes_text, short_bytes_text, tokens_text

FEW_BLOCKS = 3
"""Of a pool whose memory is not known."""


def lab_answer(question: Question, plan: Plan, length_tokens: int) -> str:
    """Return the answer to a question that a lab is about; nothing where the tiles answer it.

    length_tokens: of the requests that are counted.
    """
    if question.default_of:
        return default_answer(question.default_of, plan)
    if question.value:
        return _value(question.value, plan) + (_decision(question.value, plan) * question.is_why)
    if (at := step_of(question, plan)) is not None:
        return _step(plan, at)
    try:
        return in_labels(_in_words(question, plan, length_tokens))
    except WorkbenchError as error:  # of the pool: there is none, or it has no such byte
        return in_labels(error.message)


def _in_words(question: Question, plan: Plan, length_tokens: int) -> str:
    """Return the answer to a question that is about no value; nothing for a word's meaning."""
    if found := " ".join(limits_of(question.limits)):
        return found
    if question.concurrency is not None:
        return concurrency_answer(question.concurrency, plan, length_tokens)
    return "" if question.term is not None else _of_kind(question, plan, length_tokens)


def _decision(name: str, plan: Plan) -> str:
    """Return the steps that decided a value."""
    decided = (at for at, step in enumerate(plan.steps) if step.rule.name == name)
    return "".join(f" {_step(plan, at)}" for at in decided)


def _value(name: str, plan: Plan) -> str:
    """Return a size of the plan, with what it is."""
    declared = declared_sizes()[name]
    value = next(one for one in plan.entries() if one.name == name).read(plan)
    written = {"bytes": bytes_text, "tokens": tokens_text}.get(declared.unit)
    if value is None:
        said = "none here"
    elif written:
        said = written(value)
    else:
        said = f"{value:,} {declared.unit}" if isinstance(value, int) else f"{value}"
    meaning = declared.meaning.partition(", null")[0]
    return f"The {plan.label_of(name)} of {plan.model.name}: {said} ({meaning})."


def _step(plan: Plan, at: int) -> str:
    return f"Step {at + 1} of {len(plan.steps)}: {plan.steps[at]}"


def _of_kind(question: Question, plan: Plan, length_tokens: int) -> str:
    kind, requests = question.special or question.topic.lab, question.said.load.requests
    if kind == "longest" and requests:
        return longest_together_text(plan, requests)
    if (of_cache := CAPACITY_ANSWERS.get(kind)) is not None:
        return of_cache(plan, length_tokens)
    answer = ANSWERS.get(kind)
    return answer(question, plan, length_tokens) if answer else ""


def step_of(question: Question, plan: Plan) -> int | None:
    """Return the step that is named, or that made the number in question."""
    if question.step is not None:
        return question.step - 1 if 0 < question.step <= len(plan.steps) else None
    if question.block_tokens is None or question.is_wanted:
        return None
    made = (
        at
        for at, step in enumerate(plan.steps)
        if step.result == question.block_tokens
        and (step.rule.unit == "tokens" or not question.names_block)
    )
    return next(made, None)


def _byte(question: Question, plan: Plan, _length: int) -> str:
    if question.byte is None:
        return _layout(plan)
    known = plan.cache.num_blocks if plan.cache else None
    page = plan.attention_page_size_bytes or plan.mamba_page_size_bytes or 1
    blocks = known or max(FEW_BLOCKS, question.byte // page + 1)
    words = plan.byte_map(num_blocks=blocks).describe(0, question.byte)
    return f"In a pool of {blocks:,} blocks: {' '.join(words)}"


def _backends(question: Question, plan: Plan, _length: int) -> str:
    rules = RULE_SETS[plan.settings.rules]
    if question.backend in rules.backends:
        sizes = _block_sizes(rules, question.backend)
        return sizes if "why" in question.views else f"{_if_set(plan, question.backend)} {sizes}"
    if plan.model.attention is None:
        return "The model has no attention layer, so it has no attention backend."
    step = plan.trace.step("backend")
    refused = step.operands.get("refused") or {}
    reasons = "".join(f" Not {name}: {why.removesuffix('.')}." for name, why in refused.items())
    if plan.backend is None:
        return f"vLLM finds no backend for this configuration.{reasons}"
    if plan.settings.backend is not None:
        return f"{plan.backend} is set.{reasons}"
    order = "comes after what was ruled out" if refused else "comes first in vLLM's order here"
    others = _other_backends(plan, plan.backend, refused)
    return f"vLLM chooses {plan.backend}, which {order}.{reasons}{others}"


def _if_set(plan: Plan, name: str) -> str:
    """Return whether a backend can be set, and what speaks against it."""
    other = outcome_of(plan.model, plan.settings, trace=False, backend=name)
    errors = other.plan.errors if other.plan is not None else ()
    if against := other.refused or next((one.message for one in errors), ""):
        return against
    chosen = f"; vLLM chooses {plan.backend} by itself" if plan.backend not in {name, None} else ""
    return f"{name} can be set here{chosen}."


def backends_to_set(question: Question, plan: Plan) -> list[dict[str, str]]:
    """Return the changes to the backend in question if that starts, or to all others that do."""
    if question.topic.lab != "Backends by TP" or plan.backend is None:
        return []
    refused = plan.trace.step("backend").operands.get("refused") or {}
    names, _against = _others(plan, plan.backend, refused)
    return [{"backend": name} for name in names if question.backend in {"", name}]


def _other_backends(plan: Plan, chosen: str, refused: Collection[str]) -> str:
    """Return which other backends of the platform can be set, and what speaks against the rest."""
    valid, against = _others(plan, chosen, refused)
    return (f" Can be set: {', '.join(valid)}." if valid else "") + against


def _others(plan: Plan, chosen: str, refused: Collection[str]) -> tuple[list[str], str]:
    found, valid, against = RULE_SETS[plan.settings.rules].backends, [], ""
    for name in FIELDS["backend"].tried_values(plan.settings, plan.model):
        here = name and plan.settings.platform in found[name].platforms
        is_known = name == chosen or name in refused
        if is_known or not here or found[name].is_mla != found[chosen].is_mla:
            continue
        other = outcome_of(plan.model, plan.settings, trace=False, backend=name)
        problems = other.plan.errors if other.plan is not None else ()
        why = [one for problem in problems for one in problem.operands.get("reasons", ())]
        if other.plan is not None and not problems:
            valid.append(name)
        elif why:
            against += f" Not {name}: {'; '.join(why)}."
    return valid, against


def _block_sizes(rules: RuleSet, name: str) -> str:
    """Return which kernel blocks a backend takes, and what they depend on."""
    record = backend_record(rules, name)
    sizes = record.get("kernel block sizes") or {}
    found = "; ".join(f"{where}: {', '.join(map(str, one))}" for where, one in sizes.items())
    kernels = f"kernel blocks {found}" if found else "no kernel blocks of its own"
    platforms = ", ".join(record.get("platforms", ()))
    return f"{name} in {rules.title} has {kernels}. It runs on {platforms}."


def _offload(question: Question, plan: Plan, length: int) -> str:
    host_bytes = question.host_bytes or USUAL_BYTES
    found = plan.offload(cpu_bytes_to_use=host_bytes)
    if found.problems:
        remedies = [changes_text(one.changes) for one in found.remedies()[:1]]
        tried = f" It starts with this change: {remedies[0]}." if remedies else ""
        return f"vLLM does not start with offload: {found.problems[0].message}{tried}"
    stored, loaded = found.stored_prompt(length), found.loaded_prefix(length)
    memory, tokens = short_bytes_text(host_bytes), tokens_text(length)
    if not stored.requests or not stored.loadable_tokens:
        return f"{memory} of host memory cannot give back any part of a prompt of {tokens}."
    return (
        f"{memory} of host memory holds {found.cpu_blocks:,} blocks or {stored.requests:,} prompts "
        f"of {tokens}; {tokens_text(stored.loadable_tokens)} of each can be loaded back. That pays "
        "where prompts return after the GPU has evicted them, and loading is quicker than "
        "computing. "
        f"{loaded_text(loaded)} {links_text(loaded)}"
    )


def _layout(plan: Plan) -> str:
    """Return the shapes of the tensors that layers see, in a pool of a few blocks."""
    blocks = (plan.cache.num_blocks if plan.cache else None) or FEW_BLOCKS
    found = plan.layout(num_blocks=blocks)
    views = [("attention", found.attention), *zip(found.state_names, found.states, strict=True)]
    shapes = (f"{name} {view.shape} of {view.dtype}" for name, view in views if view is not None)
    size = plan.attention_page_size_bytes or plan.mamba_page_size_bytes or 0
    page = f"A block of {tokens_text(plan.block_size)} is a page of {bytes_text(size)} in a layer."
    return f"{page} A pool of {blocks:,} blocks as layers see it: {'; '.join(shapes)}."


def _state(_question: Question, plan: Plan, _length: int) -> str:
    """Return what the state of one layer consists of."""
    state = plan.model.state
    if state is None:
        return "No layer of this model keeps a state."
    found = page_parts(plan)
    parts = [found[name] for name in (*state.parts, PADDING) if name in found]
    said = "; ".join(f"{one.label} {one.words}" for one in parts)
    return f"Each {state.kind} layer keeps of a request, on each GPU: {said}."


def _metrics(_question: Question, _plan: Plan, _length: int) -> str:
    """Return the counters and gauges of a running server that are about the cache."""
    found = glossary()[METRICS]
    return f"A server's /metrics have: {' '.join(one.meaning for one in found)}"


SPEED = (
    "Tokens per second are not predicted: they depend on the kernels, the load and the host. "
    "What is exact here is what bounds them: the requests that fit at once, and the tokens "
    "that prefix caching does not compute again. The lab measures kernels on an attached GPU."
)
LESSONS = (
    "Lessons with exercises are notebooks: the row of labs ends with the first one, and "
    "`notebooks/index.ipynb` lists all of them with their pictures."
)
ANSWERS: dict[str, Callable[[Question, Plan, int], str]] = {
    "Page bytes": _byte,
    "Prefix hits": hits_answer,
    "Model fields": lambda _question, plan, _length: layers_text(plan),
    "Backends by TP": _backends,
    "Chunks": chunks_answer,
    "Offload and transfer": _offload,
    "Kernel sweeps": lambda *_given: SPEED,
    "Export": lambda _question, plan, _length: plan.to_vllm_command(),
    "transfer": transfer_answer,
    "multiples": multiples_answer,
    "state": _state,
    "metrics": _metrics,
    "lessons": lambda *_given: LESSONS,
}
"""Title of a lab, or kind of a question about one -> its answer."""
