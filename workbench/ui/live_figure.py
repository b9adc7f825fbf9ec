"""A figure of a panel: one FigureWidget, created when first seen and updated in place."""

from __future__ import annotations

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.ui.fit import Fit

CONFIG = {"displaylogo": False, "responsive": True}


class LiveFigure:
    """Shows one figure after the other; a new widget only where the kinds of traces differ."""

    def __init__(self) -> None:
        self.figure: go.FigureWidget | None = None
        self.widget = widgets.VBox(layout=widgets.Layout(width="100%"))
        self.widget.add_class("wb-figure")

    def show(self, new: go.Figure) -> None:
        """Show `new`."""
        new.layout.autosize = True
        if self.figure is None or kinds(self.figure) != kinds(new):
            self.figure = go.FigureWidget(new)
            self.figure.set_trait("_config", CONFIG)
            self.widget.children = [self.figure, Fit()]
            return
        with self.figure.batch_update():
            for trace, changed in zip(self.figure.data, new.data, strict=True):
                trace.update(changed.to_plotly_json(), overwrite=True)
            self.figure.layout.update(new.layout.to_plotly_json(), overwrite=True)


def kinds(figure: go.Figure) -> list[str]:
    """The kinds of a figure's traces, in order."""
    return [trace.type for trace in figure.data]
