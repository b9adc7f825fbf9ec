"""Plain text of a plan and of tables, for terminals and as the fallback of every HTML view."""

from collections.abc import Callable, Iterable, Sequence

from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy
from workbench.core.what_if.answers import answers
from workbench.views.door.tiles import answer_to
from workbench.views.rows import ASSUMED, assumptions, begun, plan_facts

ANSWERED = {"hits": "prefix hits", "fits": "requests that fit"}
"""View -> how a line begins that has the answer of the front door."""


def shortened(text: str, width: int = 60) -> str:
    """Return a text of so many characters at most; dots take the place of the rest."""
    return text if len(text) <= width else text[: width - 3] + "..."


def aligned(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Return the rows of a table as lines, with columns as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return [indent + "  ".join(cells).rstrip() for cells in padded]


def problem_lines(problems: Iterable[Problem]) -> list[str]:
    """Return every problem, each with what vLLM says about it."""
    lines = []
    for problem in problems:
        lines.append(str(problem))
        if said := begun(problem.vllm_text):
            lines.append(f"  vLLM says: {said}")
    return lines


def plan_text(
    plan: Plan,
    remedies: Callable[[Problem], Sequence[Remedy]] = lambda _problem: (),
    length_tokens: int | None = None,
) -> str:
    """Return headline, problems, remedies, numbers, answers, assumptions, log lines, trace.

    length_tokens: of the requests that are counted, at most the max model length; None for 32K.
    """
    lines = [repr(plan)]
    for problem in plan.problems:
        lines += ["", str(problem)]
        lines += [f"  tested remedy: {remedy}" for remedy in remedies(problem)]
    if plan.errors:
        lines += ["", "vLLM would not start with this configuration. Its values would be:"]
    lines += ["", *(f"  {fact.label:28} {fact.text}" for fact in plan_facts(plan))]
    now = answers(plan, min(length_tokens, plan.max_model_len) if length_tokens else None)
    lines += [f"  {label:28} {answer_to(view, now)}" for view, label in ANSWERED.items()]
    if plan.model.notes:
        lines += ["", *plan.model.notes]
    if assumed := assumptions(plan):
        lines += ["", ASSUMED]
        lines += [f"  {line}" for line in assumed]
    if (cost := plan.drafter_cost()) is not None:
        lines += ["", *cost.sentences]
    if plan.log_lines:
        lines += ["", "vLLM will log:", *(f"  {line}" for line in plan.log_lines)]
    lines += ["", "Why:"]
    lines += [f"  {number:2d}  {step}" for number, step in enumerate(plan.steps, 1)]
    return "\n".join(lines)
