"""Questions about prefix hits, answered in sentences of their own."""

from workbench.core.plan import Plan
from workbench.core.prefix.hits import reason_without_hits, shortest_prompt_with_hit
from workbench.core.what_if.outcomes import outcome_of
from workbench.door.changes import CACHING
from workbench.interop.question import Question
from workbench.views.units import tokens_text


def hits_answer(question: Question, plan: Plan, length: int) -> str:
    """Return what a prompt of the length in question finds again."""
    caching = plan.hits().caching
    if question.said.load.length_tokens is None or reason_without_hits(caching) is not None:
        return ""
    shared, unit = question.shared_tokens, tokens_text(caching.alignment_tokens)
    found = plan.hits().hit(length, length if shared is None else shared).cached_tokens
    if shared is not None:
        kept = ""
        if found + caching.alignment_tokens <= shared:
            kept = ", and of states and windows only some are kept: where steps and prompts end"
        return (
            f"Of a prompt of {tokens_text(length)} whose first {tokens_text(shared)} are those of "
            f"an earlier one, {tokens_text(found)} are found again ({found / length:.0%}): hits "
            f"are multiples of {unit}{kept}."
        )
    shortest = tokens_text(shortest_prompt_with_hit(caching))
    again = f"finds {tokens_text(found) if found else 'nothing'} again"
    return (
        f"A prompt of {tokens_text(length)} that comes a second time {again}: hits are multiples "
        f"of {unit}, and the shortest prompt that can hit has {shortest}."
    )


def multiples_answer(_question: Question, plan: Plan, _length: int) -> str:
    """Return of what hits are multiples, if need be with prefix caching on."""
    caching, when = plan.hits().caching, "Hits"
    if not caching.is_on:
        on = outcome_of(plan.model, plan.settings, trace=False, **CACHING).plan
        caching, when = (on or plan).hits().caching, "With prefix caching on, hits"
    unit, shortest = caching.alignment_tokens, shortest_prompt_with_hit(caching)
    return (
        f"{when} are multiples of {tokens_text(unit)}, the least common multiple of the blocks of "
        f"all groups: a block is found again as a whole. The shortest prompt that can hit has "
        f"{tokens_text(shortest)}."
    )
