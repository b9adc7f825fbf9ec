"""Flex attention, tile order: what a neighbour's stale column does, predicted and then computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from workbench.core.flex.batch import order_inversion, stale_batch
from workbench.core.flex.build import direct_build, visits
from workbench.core.flex.lab import OrderRow
from workbench.core.flex.mask import MaskRule
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.flex_part import LaunchingPart
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button
from workbench.ui.session import guarded
from workbench.views.flex_bits_text import orders_html, prediction_html
from workbench.views.flex_mask_figure import visit_order

if TYPE_CHECKING:
    from workbench.plan import Plan
    from workbench.run.flex_jobs import StopFlag

REQUEST, GROUP = 2, 16
"""The request that is reordered, and the queries of a group."""


class OrderPart(LaunchingPart):
    """The prediction on top, before anything runs; the bits below."""

    title = "Tile order"

    def __init__(self, owner: Panel) -> None:
        super().__init__(owner)
        self.prediction = widgets.HTML(
            prediction_html(order_inversion(stale_batch(), REQUEST, GROUP))
        )
        self.order_button = button("Compare orders", "Add the request up in the predicted orders")
        self.orders = widgets.HTML()
        self.figure = LiveFigure()
        self.widget.children = [
            self.prediction,
            self.figure.widget,
            widgets.HBox([self.order_button, self.stop_button]),
            self.status,
            self.orders,
        ]
        self.order_button.on_click(self._compare)

    def show(self, plan: Plan) -> None:
        """See `Part.show`. The batch is always the same: nothing here is of the plan."""
        with self._lock:
            self._plan = plan
            if self.figure.figure is None:
                batch, rule = stale_batch(), MaskRule()
                lists = direct_build(batch, rule, GROUP)
                self.figure.show(visit_order(batch, visits(batch, rule, lists)))

    def mark_stale(self) -> None:
        """See `LaunchingPart.mark_stale`."""
        self.orders.add_class("wb-stale")

    @guarded
    def _compare(self, _button: Any) -> None:
        def job(stop: StopFlag) -> tuple[OrderRow, ...]:
            from workbench.run.flex_order import order_rows

            return order_rows(stop)

        self.start(job, self._show)

    def _show(self, rows: tuple[OrderRow, ...]) -> None:
        self.orders.value = orders_html(rows)
        self.orders.remove_class("wb-stale")
