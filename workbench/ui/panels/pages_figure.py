"""A figure of a tab: one FigureWidget, whose traces never change in number, updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go

from workbench.ui.fit import Fit

CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "doubleClick": False,
    "modeBarButtonsToRemove": ["autoScale2d", "resetScale2d", "select2d", "lasso2d"],
}
"""Double clicks and resets are off: plotly would go back to the range of the very first drawing."""


class LiveFigure:
    """Shows traces and a layout; the first call creates the widget, later ones change values."""

    def __init__(self) -> None:
        self.figure: go.FigureWidget | None = None
        self._drawn: list[dict[str, Any]] = []
        self.widget = widgets.VBox(layout=widgets.Layout(width="100%"))
        self.widget.add_class("wb-figure")

    def show(self, traces: Sequence[Any], layout: go.Layout) -> bool:
        """Draw; whether the widget was created by this call."""
        self.mark(stale=False)
        before, self._drawn = self._drawn, [part.to_plotly_json() for part in (*traces, layout)]
        if self.figure is None:
            layout.autosize = True
            self.figure = go.FigureWidget(list(traces), layout=layout)
            self.figure.set_trait("_config", CONFIG)
            self.widget.children = [self.figure, Fit()]
            return True
        parts = (*self.figure.data, self.figure.layout)
        with self.figure.batch_update():
            for part, old, new in zip(parts, before, self._drawn, strict=True):
                part.update(_changed(old, new), overwrite=False)
        return False

    def mark(self, *, stale: bool) -> None:
        """Grey the figure out, or show it in full again."""
        (self.widget.add_class if stale else self.widget.remove_class)("wb-stale")


def _changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What differs: setting a property to what it is costs as much as changing it.

    A person can drag the range of the axis to somewhere else, so that is always set.
    """
    found: dict[str, Any] = {}
    for name, value in new.items():
        present = old.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            inside = _changed(present, value)
            if inside:
                found[name] = inside
        elif name == "range" or not _same(present, value):
            found[name] = value
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)
