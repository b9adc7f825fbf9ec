"""What a model is read as, as tables."""

from workbench.door.session import Session
from workbench.ui.panels.panel import HtmlPanel, Panel
from workbench.views.model_fields import model_fields_html


def model_fields_panel(session: Session) -> Panel:
    """Return the lab of the model's fields."""
    return HtmlPanel(session, model_fields_html)
