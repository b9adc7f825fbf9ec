"""What a lab found, as HTML and as a figure: one entry per kind of result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import plotly.graph_objects as go

from workbench.core.flex.lab import BitLab, FlexMistake, FlexRun, OrderLab
from workbench.core.flex.picture import stale_picture
from workbench.core.flex.result import LabResult, cell
from workbench.views.flex.bits_figure import bits_figure
from workbench.views.flex.bits_text import bits_html, orders_html, prediction_html
from workbench.views.flex.mask_figure import visit_order
from workbench.views.flex.run_text import mistake_html, run_html
from workbench.views.html import document, table


def lab_html(result: LabResult) -> str:
    """Return the words of a result; a table of its rows if it has no words of its own."""
    return HTML.get(type(result), rows_html)(result)


def lab_figure(result: LabResult, theme: str = "auto") -> go.Figure | None:
    """Return the figure of a result; None if it has none."""
    draw = FIGURES.get(type(result))
    return None if draw is None else draw(result, theme)


def rows_html(result: LabResult) -> str:
    """Return one table row per row of the result."""
    header = [escape(name.replace("_", " ")) for name in result.rows[0]]
    return document(
        table(header, ([escape(cell(value)) for value in row.values()] for row in result.rows))
    )


def _order_html(lab: OrderLab) -> str:
    return prediction_html(lab.predicted) + (orders_html(lab.orders) if lab.orders else "")


def _order_figure(_lab: OrderLab, theme: str) -> go.Figure:
    stale = stale_picture()
    return visit_order(stale.batch, stale.visits, theme)


HTML: Mapping[type[LabResult], Callable[[Any], str]] = {
    FlexRun: run_html,
    BitLab: bits_html,
    OrderLab: _order_html,
    FlexMistake: mistake_html,
}
FIGURES: Mapping[type[LabResult], Callable[[Any, str], go.Figure]] = {
    BitLab: lambda lab, theme: bits_figure(lab.plan, lab, theme),
    OrderLab: _order_figure,
}
