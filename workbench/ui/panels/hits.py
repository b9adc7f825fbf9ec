"""What prefix caching can hit: the curve over prompt length, and one prompt's steps."""

from __future__ import annotations

import ipywidgets as widgets

from workbench.plan import Plan
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.session import Session
from workbench.views.hit_figure import hit_curve
from workbench.views.hits import hits_html


class HitsPanel(Panel):
    """The curve is left out where nothing can hit; the text says why."""

    title = "Prefix hits"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._text = widgets.HTML()
        self._curve = LiveFigure()
        self._place = widgets.VBox()
        self.fill(self._text, self._place)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        self._text.value = hits_html(plan)
        if plan.cache is None or not plan.enable_prefix_caching:
            self._place.children = ()
            return
        self._curve.show(hit_curve(plan))
        self._place.children = (self._curve.widget,)
