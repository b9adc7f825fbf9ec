"""Plain text of a plan, for terminals and as the fallback of every HTML view."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy
from workbench.views.rows import assumptions, plan_facts


def plan_text(
    plan: Plan, remedies: Callable[[Problem], Sequence[Remedy]] = lambda _problem: ()
) -> str:
    """Return headline, problems with remedies, numbers, assumptions, log lines and the trace."""
    lines = [repr(plan)]
    for problem in plan.problems:
        lines += ["", str(problem)]
        lines += [f"  tested remedy: {remedy}" for remedy in remedies(problem)]
    if plan.errors:
        lines += ["", "vLLM would not start with this configuration. Its values would be:"]
    lines += ["", *(f"  {fact.label:24} {fact.text}" for fact in plan_facts(plan))]
    if assumed := assumptions(plan):
        lines += ["", "Absent from config.json, so the family's default:"]
        lines += [f"  {line}" for line in assumed]
    if plan.log_lines:
        lines += ["", "vLLM will log:", *(f"  {line}" for line in plan.log_lines)]
    lines += ["", "Why:"]
    lines += [f"  {number:2d}  {step}" for number, step in enumerate(plan.steps, 1)]
    return "\n".join(lines)
