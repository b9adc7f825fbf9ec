"""A plan as HTML that reads without a script, and without the style sheet."""

from workbench.core.plan import Plan
from workbench.views import html
from workbench.views.pages.drawing import page_drawing
from workbench.views.rows import plan_facts


def plan_html(plan: Plan) -> str:
    """Return headline, numbers, problems, both pages, log lines, and the trace to unfold."""
    return html.document(
        html.headline_html(plan),
        html.facts_html(plan_facts(plan)),
        *map(html.problem_html, plan.problems),
        page_drawing(plan),
        html.log_html(plan.log_lines),
        html.fold(f"Why: {len(plan.steps)} steps", html.trace_table(plan.steps)),
        html.fold("Where the model's numbers come from", html.origins_html(plan)),
    )


def page_picture(plan: Plan) -> str:
    """Return both pages alone, with the style."""
    return html.document(page_drawing(plan))
