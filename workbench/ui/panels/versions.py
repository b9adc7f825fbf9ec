"""The tab that shows the scenario under all rule sets."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.differences import compare, outcomes
from workbench.models import catalog_names, load_model
from workbench.scenario import Scenario
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.session import Session, guarded
from workbench.views.versions.differences import differences_html, matrix_html
from workbench.views.versions.figure import versions


class VersionsPanel(Panel):
    """Two rule sets to compare, the figure over all of them, and the catalog's matrix on demand."""

    title = "Versions"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        names = tuple(RULE_SETS)
        self.old = widgets.Dropdown(options=names, value=RULE_SETS.previous, description="From")
        self.new = widgets.Dropdown(options=names, value=RULE_SETS.newest, description="To")
        self.catalog = widgets.Button(description="Whole catalog")
        self.figure = LiveFigure()
        self._table = widgets.HTML()
        self._matrix = widgets.HTML()
        for picker in (self.old, self.new):
            picker.observe(self._picked, names="value")
        self.catalog.on_click(self._whole_catalog)
        self._scenario: Scenario | None = None
        self.fill(
            widgets.HBox([self.old, self.new, self.catalog]),
            self._table,
            self.figure.widget,
            self._matrix,
        )

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        self._draw(plan.scenario)

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """Show the comparison: a scenario that these rules refuse may be valid in others."""
        self._draw(scenario)

    def _draw(self, scenario: Scenario) -> None:
        self._scenario = scenario
        try:
            model = load_model(scenario.model)
        except WorkbenchError:
            return
        found = compare(model, scenario, self.old.value, self.new.value)
        self._table.value = differences_html(found)
        self.figure.show(versions(outcomes(model, scenario, tuple(RULE_SETS))))

    @guarded
    def _picked(self, _change: Any) -> None:
        self.clear_error()
        self._matrix.value = ""
        if self._scenario is not None:
            self._draw(self._scenario)

    @guarded
    def _whole_catalog(self, _button: Any) -> None:
        """Compare every model of the catalog with the other settings kept, refusals included."""
        self.clear_error()
        if self._scenario is None:
            return
        scenario = self._scenario
        self._matrix.value = matrix_html(
            [
                compare(
                    load_model(name),
                    scenario.replace(model=name),
                    self.old.value,
                    self.new.value,
                )
                for name in catalog_names()
            ]
        )
