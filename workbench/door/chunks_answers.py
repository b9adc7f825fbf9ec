"""Answers about the chunks of a connector, of one engine or of several that share a store."""

from collections.abc import Sequence

from workbench.core.chunks.answer import Chunks
from workbench.core.plan import Plan
from workbench.interop.question import Question
from workbench.interop.said import with_model
from workbench.interop.topics import CHUNKS
from workbench.scenario.resolution import resolve
from workbench.views.units import tokens_text


def chunks_answer(question: Question, plan: Plan, _length: int) -> str:
    """Return the legal chunk sizes, and whether the size in question is one of them.

    Where only prefix caching is missing, also those with it. Errors: WorkbenchError for another
    engine of the store that vLLM refuses.
    """
    scenarios = [plan.scenario, *(with_model(plan.scenario, one) for one in question.sharing)]
    found = _chunks(question, [plan, *map(resolve, scenarios[1:])])
    named = " and ".join(one.label for one in found.members)
    store = f"One store for {named}. " if question.sharing else ""
    problem = f"{found.problems[0].message} " if found.problems else ""
    cached = ""
    if found.chunk_tokens is None:
        others = [resolve(one.replace(enable_prefix_caching=True)) for one in scenarios]
        sizes = _sizes(_chunks(question, others))
        cached = f"With prefix caching on: {sizes}" if sizes else ""
    return f"{store}{_sizes(found)}{problem}{cached}".strip()


def caching_for_chunks(question: Question, plan: Plan) -> list[dict[str, bool]]:
    """Return the change without which no chunk keeps a state; nothing where none is missing."""
    is_about = question.topic.lab == CHUNKS.lab and plan.model.state is not None
    return [{"enable_prefix_caching": True}] * (is_about and not plan.enable_prefix_caching)


def _chunks(question: Question, plans: Sequence[Plan]) -> Chunks:
    one, *others = plans
    connector, size = question.connector or None, question.chunk_tokens
    return one.chunks(*others, connector=connector, chunk_tokens=size)


def _sizes(found: Chunks) -> str:
    """Return the legal sizes in a sentence; nothing where there is none."""
    name, size = found.connector.name, found.chunk_tokens
    if size is None:
        return ""
    if found.connector.option is None:
        return f"{name}: chunks of {tokens_text(size)}, which nothing sets. "
    said = f"{name}: chunks are multiples of {tokens_text(found.unit_tokens)} here"
    requested, default = found.requested_tokens, found.connector.default_tokens
    if requested is not None:
        return f"{said}; {_verdict(found, requested)}. "
    return f"{said}; its default of {_verdict(found, default)}. " if default else f"{said}. "


def _verdict(found: Chunks, tokens: int) -> str:
    if found.is_legal_size(tokens):
        return f"{tokens_text(tokens)} is legal"
    near = found.nearest(tokens) or (found.chunk_tokens,)
    sizes = " and ".join(tokens_text(one) for one in near if one)
    return f"{tokens_text(tokens)} is not, {sizes} {'are' if len(near) > 1 else 'is'}"
