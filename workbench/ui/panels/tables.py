"""Labs that are tables: backends by tensor-parallel size, and what a model is read as."""

from workbench.core.plan import Plan
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.door.session import Session
from workbench.ui.panels.panel import HtmlPanel, Panel
from workbench.views import html
from workbench.views.model_fields import model_fields_html
from workbench.views.pages.sizes_figure import grid_html, sized_columns

SHOWN_SIZES = 6


def backends_html(plan: Plan) -> str:
    """Return the table of backends by tensor-parallel size; a sentence without attention."""
    if plan.model.attention is None:
        return html.document("<p>This model has no attention layer, so no backend to pick.</p>")
    sizes = tensor_parallel_sizes(plan.model)[:SHOWN_SIZES]
    return grid_html(plan.across(sized_columns(plan, sizes)), plan)


def backends_panel(session: Session) -> Panel:
    """Return the lab of backends by tensor-parallel size."""
    return HtmlPanel(session, backends_html)


def model_fields_panel(session: Session) -> Panel:
    """Return the lab of the model's fields."""
    return HtmlPanel(session, model_fields_html)
