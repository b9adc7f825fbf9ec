"""The live page figure: one FigureWidget, updated in place."""

from __future__ import annotations

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.plan import Plan
from workbench.ui.fit import Fit
from workbench.views.page_figure import page_layout, page_traces

CONFIG = {"displaylogo": False, "responsive": True}


class PageFigure:
    """Attention page and mamba page of the newest plan."""

    def __init__(self) -> None:
        self._figure: go.FigureWidget | None = None
        self.widget = widgets.VBox(layout=widgets.Layout(width="100%"))
        self.widget.add_class("wb-figure")

    def show(self, plan: Plan) -> None:
        """Draw `plan`; the first call creates the traces, later ones only change their values."""
        if self._figure is None:
            layout = page_layout(plan)
            layout.autosize = True
            self._figure = go.FigureWidget(page_traces(plan), layout=layout)
            self._figure.set_trait("_config", CONFIG)
            self.widget.children = [self._figure, Fit()]
            return
        layout = page_layout(plan)
        with self._figure.batch_update():
            for trace, new in zip(self._figure.data, page_traces(plan), strict=True):
                trace.update(new.to_plotly_json(), overwrite=False)
                trace.x, trace.y = new.x, new.y
            self._figure.layout.title.text = layout.title.text
            self._figure.layout.xaxis.range = layout.xaxis.range
            self._figure.layout.yaxis.range = layout.yaxis.range
            self._figure.layout.xaxis2.update(
                range=layout.xaxis2.range, visible=layout.xaxis2.visible
            )
            self._figure.layout.xaxis2.title.text = layout.xaxis2.title.text
