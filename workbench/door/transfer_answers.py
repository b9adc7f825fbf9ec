"""Answers about an engine that prefills for another one, which decodes."""

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.core.what_if.outcomes import outcome_of
from workbench.interop.description import Description
from workbench.interop.question import Question
from workbench.interop.said import with_said
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve
from workbench.views.settings import changes_text

MOST_RANKS = 8
"""Of a decode engine: those of one machine."""


def between(question: Question, present: Scenario, plan: Plan) -> str:
    """Return whether the second engine in a question can read the cache of the first."""
    try:
        scenario = with_said(present, Description(dict(question.decode)))
        read = _reading(plan, resolve(scenario))
    except WorkbenchError as error:
        return f"The engine that decodes: {error.message}"
    new = {name: getattr(scenario, name) for name in question.decode}
    return f"An engine prefills; can one with {changes_text(new)} read its cache? {read}."


def transfer_answer(question: Question, plan: Plan, _length: int) -> str:
    """Return from which other ranks this cache can be read, as decode engines may have them."""
    if question.decode:
        return ""
    verdicts: dict[str, list[str]] = {}
    for size in tensor_parallel_sizes(plan.model, MOST_RANKS):
        other = outcome_of(plan.model, plan.settings, trace=False, tensor_parallel=size)
        if other.plan is not None:
            verdicts.setdefault(_reading(plan, other.plan), []).append(f"TP {size}")
    found = "; ".join(f"{', '.join(ranks)}: {why}" for why, ranks in verdicts.items())
    rank = plan.settings.tensor_parallel
    return f"An engine with TP {rank} prefills; which others can read its cache? {found}"


def _reading(plan: Plan, other: Plan) -> str:
    """Return whether an engine can read the cache of another one, or why not."""
    problems = plan.transfer(other).problems
    return problems[0].message.rstrip(".") if problems else "it can"
