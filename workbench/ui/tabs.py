"""The tabs below the figure; the open one is kept up to date, the others when opened."""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.scenario import Scenario
from workbench.ui.panels.block_tables import BlockTablesPanel
from workbench.ui.panels.capacity import CapacityPanel
from workbench.ui.panels.chunks import ChunksPanel
from workbench.ui.panels.copy import CopyPanel
from workbench.ui.panels.flex.panel import FlexPanel
from workbench.ui.panels.hits import HitsPanel
from workbench.ui.panels.log import LogPanel
from workbench.ui.panels.offload import OffloadPanel
from workbench.ui.panels.pages import PagesPanel
from workbench.ui.panels.panel import HtmlPanel, Panel
from workbench.ui.panels.sweeps.panel import TuningPanel
from workbench.ui.panels.verify import VerifyPanel
from workbench.ui.panels.versions import VersionsPanel
from workbench.ui.session import RecordedError, Session, guarded
from workbench.views import html
from workbench.views.pages.sizes_figure import grid_html, sized_columns

SHOWN_SIZES = 6


def backends_html(plan: Plan) -> str:
    """Return the table of backends by tensor-parallel size; a sentence without attention."""
    if plan.model.attention is None:
        return html.document("<p>This model has no attention layer, so no backend to pick.</p>")
    sizes = tensor_parallel_sizes(plan.model)[:SHOWN_SIZES]
    return grid_html(plan.across(sized_columns(plan, sizes)), plan)


def _html(render: Callable[[Plan], str]) -> Callable[[Session], Panel]:
    return partial(HtmlPanel, render=render)


PANELS: Mapping[str, Callable[[Session], Panel]] = {
    "Why": _html(lambda plan: html.trace_html(plan.steps)),
    "What if": _html(lambda plan: plan.sensitivity()._repr_html_()),
    "Backends by TP": _html(backends_html),
    "Groups and capacity": CapacityPanel,
    "Bytes of a page": PagesPanel,
    "Prefix hits": HitsPanel,
    "Offload and transfer": OffloadPanel,
    "Chunks": ChunksPanel,
    "Block tables": BlockTablesPanel,
    "Flex attention": FlexPanel,
    "Versions": VersionsPanel,
    "Verify": VerifyPanel,
    "Tuning": TuningPanel,
    "Model fields": _html(lambda plan: html.document(html.origins_html(plan))),
    "Copy": CopyPanel,
    "Log": LogPanel,
}
"""Title -> the panel below it, in the order of the tabs."""


class Tabs:
    """Every panel in a tab of its own."""

    def __init__(self, session: Session, show_error: Callable[[RecordedError], None]) -> None:
        self.session = session
        self.show_error = show_error
        self.panels = {title: made(session) for title, made in PANELS.items()}
        self._lock = threading.RLock()  # a tab is opened on one thread, a plan comes on another
        self._waiting: dict[str, Callable[[Panel], None]] = {}
        pages = [panel.widget for panel in self.panels.values()]
        for page in pages:
            page.add_class("wb-tab")
        self.widget = widgets.Tab(pages, titles=tuple(PANELS), selected_index=0)
        self.widget.observe(self._opened, names="selected_index")

    def show(self, plan: Plan) -> None:
        """Show `plan` in the open tab now, in the others when they are opened."""
        self._each(lambda panel: panel.show(plan))

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """Pass the refusal to every tab."""
        self._each(lambda panel: panel.show_refusal(scenario, error))

    def open(self, title: str) -> Panel:
        """Open the tab with this title. Errors: ValueError lists the titles."""
        if title not in self.panels:
            raise ValueError(f"no tab {title!r}; tabs: {', '.join(self.panels)}")
        self.widget.selected_index = [*self.panels].index(title)
        return self.panels[title]

    def _each(self, showing: Callable[[Panel], None]) -> None:
        with self._lock:
            self._waiting = dict.fromkeys(self.panels, showing)
            self._show_open()

    def _show_open(self) -> None:
        with self._lock:
            title = [*self.panels][self.widget.selected_index]
            showing = self._waiting.pop(title, None)
            if showing is not None:
                showing(self.panels[title])

    @guarded
    def _opened(self, _change: Any) -> None:
        self._show_open()
