"""A plan as HTML that reads without a script, and without the style sheet."""

from workbench.core.plan import Plan
from workbench.views import html
from workbench.views.html import Html
from workbench.views.pages.drawing import page_drawing
from workbench.views.rows import plan_facts


def plan_html(plan: Plan, answered: Html | None = None) -> str:
    """Return headline, numbers, problems, both pages, log lines, and the trace to unfold.

    answered: what follows the headline, such as the answers of the front door.
    Without a style sheet every part still reads in this order, which is that of the questions.
    """
    return html.document(
        html.headline_html(plan),
        answered or Html(),
        html.facts_html(plan_facts(plan)),
        *map(html.problem_html, plan.problems),
        page_drawing(plan, as_images=True),
        html.log_html(plan.log_lines),
        html.fold(f"Why: {len(plan.steps)} steps", html.trace_table(plan.steps)),
        html.fold(html.ORIGINS, html.origins_html(plan)),
    )
