"""A figure that changes often: one FigureWidget, of which only what differs is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go

from workbench.ui.fit import Fit

CONFIG = {"displaylogo": False, "responsive": True}
ZOOMABLE = {
    **CONFIG,
    "doubleClick": False,
    "modeBarButtonsToRemove": ["autoScale2d", "resetScale2d", "select2d", "lasso2d"],
}
"""For figures that are drawn anew when zoomed: plotly's own resets lead back to the very first."""


class LiveFigure:
    """Shows one figure after the other; a new widget only where the forms of the traces differ.

    created: called with each new widget, to listen to it.
    """

    def __init__(
        self,
        config: Mapping[str, Any] = CONFIG,
        created: Callable[[go.FigureWidget], None] | None = None,
    ) -> None:
        self.figure: go.FigureWidget | None = None
        self._config, self._created = dict(config), created
        self._drawn: list[dict[str, Any]] = []
        self.widget = widgets.VBox(layout=widgets.Layout(width="100%"))
        self.widget.add_class("wb-figure")

    def show(self, new: go.Figure) -> None:
        """Show `new`."""
        new.layout.autosize = True
        before = self._drawn
        self._drawn = [part.to_plotly_json() for part in (*new.data, new.layout)]
        self.mark(stale=False)
        if self.figure is None or _forms(before) != _forms(self._drawn):
            outdated = self.widget.children
            self.figure = go.FigureWidget(new)
            self.figure.set_trait("_config", self._config)
            self.widget.children = [self.figure, Fit()]
            for widget in outdated:
                widget.close()
            if self._created is not None:
                self._created(self.figure)
            return
        parts = (*self.figure.data, self.figure.layout)
        with self.figure.batch_update():
            for part, old, fresh in zip(parts, before, self._drawn, strict=True):
                part.update(_changed(old, fresh), overwrite=False)

    def mark(self, *, stale: bool) -> None:
        """Grey the figure out, or show it in full again."""
        (self.widget.add_class if stale else self.widget.remove_class)("wb-stale")


def _forms(drawn: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Kind of every trace and, of a heatmap, its rows and columns: plotly fails to change those."""
    return [
        (part.get("type"), *np.shape(part["z"]))
        if part.get("type") == "heatmap"
        else (part.get("type"),)
        for part in drawn
    ]


def _changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What differs, None for what is gone: setting what is there costs as much as changing it.

    A person can drag the range of an axis to somewhere else, so that is always set.
    """
    found: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        present = old.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            if inside := _changed(present, value):
                found[name] = inside
        elif name == "range" or not _same(present, value):
            found[name] = value
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)
