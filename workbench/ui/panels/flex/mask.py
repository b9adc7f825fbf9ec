"""Flex attention, mask: the mask of a given batch over blocks of the plan's size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import PREFIX
from workbench.core.flex.picture import BUILDS, MASK_IS_REFUSED, MaskPicture, mask_picture
from workbench.core.plan import Plan
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.flex.part import BatchInput, Part
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import dropdown, replace_children, row, text_box
from workbench.ui.session import guarded
from workbench.views.flex.text import visits_html
from workbench.views.html import document, refusal_html

FIGURES: dict[str, Callable[[MaskPicture], go.Figure]] = {
    "physical mask": MaskPicture.figure,
    "logical mask": MaskPicture.logical_figure,
    "order of the visits": MaskPicture.order_figure,
}


class MaskPart(Part):
    """The visited blocks, their order, and the visits without any visible key."""

    title = "Mask"

    def __init__(self, owner: Panel, batch_input: BatchInput) -> None:
        super().__init__(owner)
        self.batch_input = batch_input
        self.build = dropdown("Build", BUILDS)
        self.prefixes = text_box("Prefix ranges", "", "per request: 0-63; 0-9,20-29")
        self.stale = widgets.Checkbox(description="Stale columns", value=False, indent=False)
        self.picture = dropdown("Show mask", tuple(FIGURES))
        self.error, self.cost = widgets.HTML(), widgets.HTML()
        self.remedies = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        self.figure = LiveFigure()
        self.widget.children = [
            row([self.build, self.picture, self.prefixes, self.stale]),
            self.error,
            self.remedies,
            self.figure.widget,
            self.cost,
        ]
        for control in (*batch_input.controls, self.build, self.prefixes, self.stale, self.picture):
            control.observe(self._changed, names="value")

    def show(self, plan: Plan) -> None:
        """See `Part.show`."""
        with self._lock:
            self._plan = plan
            self._draw(plan)

    @guarded
    def _changed(self, _change: Any) -> None:
        with self._lock:
            if self._plan is not None and self.is_open:
                self._draw(self._plan)
                self.clear_error()

    def _draw(self, plan: Plan) -> None:
        try:
            mask = self._mask(plan)
        except ScenarioError as error:
            self.error.value = document(refusal_html(error))
            refused = error.code == MASK_IS_REFUSED
            replace_children(self.remedies, self.remedy_buttons(plan) if refused else ())
            self.figure.mark(stale=True)
            return
        self.error.value = ""
        replace_children(self.remedies, ())
        self.figure.show(FIGURES[self.picture.value](mask))
        self.cost.value = visits_html(mask.visits, mask.lists.dropped)

    def _mask(self, plan: Plan) -> MaskPicture:
        requests, kind, size = self.batch_input.read()
        self.prefixes.layout.display = None if kind == PREFIX else "none"
        return mask_picture(
            plan,
            requests,
            kind,
            size,
            prefixes=self.prefixes.value if kind == PREFIX else "",
            stale=self.stale.value,
            build=self.build.value,
        )
