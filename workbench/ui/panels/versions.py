"""The tab that shows the scenario under all rule sets."""

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.differences import compare, outcomes
from workbench.door.session import Session
from workbench.models import catalog_names, load_scenario_model
from workbench.scenario import Scenario
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button, dropdown, grid
from workbench.views.html import document, refusal_html
from workbench.views.versions.differences import differences_html, matrix_html
from workbench.views.versions.figure import versions


class VersionsPanel(Panel):
    """Two rule sets to compare, the figure over all of them, and the catalog's matrix on demand."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._scenario: Scenario | None = None
        self.old = dropdown("From", RULE_SETS, RULE_SETS.previous)
        self.new = dropdown("To", RULE_SETS, RULE_SETS.newest)
        self.catalog = button("Whole catalog")
        self.figure = LiveFigure()
        self._table, self._matrix = widgets.HTML(), widgets.HTML()
        self.fill(grid([self.old, self.new, self.catalog]), self._table, self.figure, self._matrix)
        self.watch(self.old, self.new, then=self._other_versions)
        self.press(self.catalog, self._whole_catalog)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        self._compare(plan.scenario)

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """Show the comparison: a scenario that these rules refuse may be valid in others."""
        self._compare(scenario)

    def _compare(self, scenario: Scenario) -> None:
        self._scenario = scenario
        try:
            model = load_scenario_model(scenario)
        except WorkbenchError:
            return
        found = compare(model, scenario, self.old.value, self.new.value)
        self._table.value = differences_html(found)
        self.figure.show(versions(outcomes(model, scenario, tuple(RULE_SETS))))

    def _other_versions(self) -> None:
        self.clear_error()
        self._matrix.value = ""
        if self._scenario is not None:
            self._compare(self._scenario)

    def _whole_catalog(self) -> None:
        """Compare every model of the catalog with the other settings kept, refusals included."""
        self.clear_error()
        if (present := self._scenario) is None:
            return
        versions_compared = self.old.value, self.new.value
        scenarios = (present.replace(model=name) for name in catalog_names())
        try:
            found = [
                compare(load_scenario_model(one), one, *versions_compared) for one in scenarios
            ]
        except WorkbenchError as error:  # of a setting that no model can have, such as the drafter
            self._matrix.value = document(refusal_html(error))
        else:
            self._matrix.value = matrix_html(found)
