"""The tabs that are one piece of HTML each."""

from __future__ import annotations

from workbench.core.plan import Plan
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.ui.panels.panel import HtmlPanel
from workbench.ui.session import Session
from workbench.views import html
from workbench.views.pages.grid_table import grid_html
from workbench.views.pages.sizes_figure import sized_columns

SHOWN_SIZES = 6


class WhyPanel(HtmlPanel):
    """The tab of the trace."""

    title = "Why"

    def __init__(self, session: Session) -> None:
        super().__init__(session, lambda plan: html.trace_html(plan.steps))


class WhatIfPanel(HtmlPanel):
    """The tab of single changes that matter."""

    title = "What if"

    def __init__(self, session: Session) -> None:
        super().__init__(session, lambda plan: plan.sensitivity()._repr_html_())


class BackendsPanel(HtmlPanel):
    """The tab of every backend for every tensor-parallel size."""

    title = "Backends by TP"

    def __init__(self, session: Session) -> None:
        super().__init__(session, backends_html)


class FieldsPanel(HtmlPanel):
    """The tab of the origins of the model's numbers."""

    title = "Model fields"

    def __init__(self, session: Session) -> None:
        super().__init__(session, lambda plan: html.document(html.origins_html(plan)))


def backends_html(plan: Plan) -> str:
    """Return the table of backends by tensor-parallel size; a sentence without attention."""
    if plan.model.attention is None:
        return html.document("<p>This model has no attention layer, so no backend to pick.</p>")
    sizes = tensor_parallel_sizes(plan.model)[:SHOWN_SIZES]
    return grid_html(plan.across(sized_columns(plan, sizes)), plan)
