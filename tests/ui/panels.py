"""Visible parts of a panel, without a browser."""

from __future__ import annotations

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.ui import Explorer
from workbench.ui.jobs import JobRunner


def buttons(panel: Explorer) -> list[widgets.Button]:
    """Return the buttons that apply a remedy of a problem, top to bottom."""
    found = []

    def walk(widget: widgets.Widget) -> None:
        if isinstance(widget, widgets.Button):
            found.append(widget)
        for child in getattr(widget, "children", ()):
            walk(child)

    walk(panel._problems.widget)
    return found


def text(panel: Explorer) -> str:
    """Return the HTML of every HTML widget of every tab, without the style sheet."""
    parts = []
    for title in panel._tabs.panels:
        panel.open(title)

    def walk(widget: widgets.Widget) -> None:
        if isinstance(widget, widgets.HTML):
            parts.append(widget.value.partition("</style>")[2] or widget.value)
        for child in getattr(widget, "children", ()):
            walk(child)

    walk(panel.widget)
    return "\n".join(parts)


def headline(panel: Explorer) -> str:
    """Return the line with the block size."""
    return panel._headline.value


def input_error(panel: Explorer) -> str:
    """Return the message about the last input, empty when it is valid."""
    return panel._problems._input_error.value


def figure(panel: Explorer) -> go.Figure | None:
    """Return the page figure that is shown."""
    return panel._figure.figure


def is_stale(panel: Explorer) -> bool:
    """Return whether figure, facts and tabs are all greyed out; mixed is a defect."""
    parts = (panel._figure.widget, panel._facts, panel._tabs.widget)
    stale = {"wb-stale" in part._dom_classes for part in parts}
    assert len(stale) == 1
    return stale.pop()


def is_verdict_stale(panel: Explorer) -> bool:
    """Return whether headline and problems are greyed out as well: of an older scenario."""
    parts = (panel._headline, panel._problems.widget)
    stale = {"wb-stale" in part._dom_classes for part in parts}
    assert len(stale) == 1
    return stale.pop()


def options(panel: Explorer, field: str) -> tuple[object, ...]:
    """Return the values that a dropdown offers."""
    return tuple(value for _label, value in panel.controls[field].options)


def shown_in_time(jobs: JobRunner, timeout_s: float = 300.0) -> bool:
    """Wait until everything that was started has been shown; return False if it has not."""
    try:
        if jobs.pending is not None:
            jobs.pending.exception(timeout_s)
    except TimeoutError:
        return False
    return True
