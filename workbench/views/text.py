"""Plain text of a plan, for terminals and as the fallback of every HTML view."""

from __future__ import annotations

from workbench.core.plan import Plan
from workbench.views.tables import plan_facts


def plan_text(plan: Plan) -> str:
    """Headline, numbers, problems, log lines and the trace."""
    lines = [repr(plan), ""]
    lines += [f"  {fact.label:24} {fact.text}" for fact in plan_facts(plan)]
    for problem in plan.problems:
        lines += ["", str(problem)]
    if plan.log_lines:
        lines += ["", "vLLM will log:", *(f"  {line}" for line in plan.log_lines)]
    lines += ["", "Why:"]
    lines += [f"  {number:2d}  {step}" for number, step in enumerate(plan.steps, 1)]
    return "\n".join(lines)
