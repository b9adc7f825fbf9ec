"""What stands below the figure: why, what if, backends by TP, the model's fields, copy as."""

from __future__ import annotations

import ipywidgets as widgets

from workbench.core.choices import tensor_parallel_sizes
from workbench.core.errors import WorkbenchError
from workbench.interop.code import scenario_code
from workbench.plan import Plan
from workbench.scenario import Scenario
from workbench.ui.copy_box import CopyBox
from workbench.views import html
from workbench.views.grid_table import grid_html
from workbench.views.hits import hits_html
from workbench.views.pool import pool_html
from workbench.views.sizes_figure import sized_columns

TITLES = (
    "Why",
    "What if",
    "Backends by TP",
    "Groups and capacity",
    "Prefix hits",
    "Model fields",
    "Copy",
)
SHOWN_SIZES = 6


class Tabs:
    """Tabs whose contents follow the newest plan."""

    def __init__(self) -> None:
        self._why, self._what_if, self._grid = (widgets.HTML() for _ in range(3))
        self._pool, self._hits, self._fields = (widgets.HTML() for _ in range(3))
        self._code, self._flags = CopyBox(label="as code"), CopyBox(label="as vLLM flags")
        self._log = widgets.HTML()
        copy = widgets.VBox([self._code, self._flags, self._log])
        self.widget = widgets.Tab(
            [
                self._why,
                self._what_if,
                self._grid,
                self._pool,
                self._hits,
                self._fields,
                copy,
            ],
            titles=TITLES,
        )

    def show(self, plan: Plan) -> None:
        """Fill every tab."""
        self._why.value = html.trace_html(plan.steps)
        self._what_if.value = plan.sensitivity()._repr_html_()
        self._grid.value = self._backends(plan)
        self._pool.value = pool_html(plan)
        self._hits.value = hits_html(plan)
        self._fields.value = html.document(html.origins_html(plan))
        self._code.text = plan.to_code()
        self._flags.text = plan.to_vllm_command()
        self._log.value = html.document(html.log_html(plan.log_lines))

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """There is no plan: only the scenario itself can be taken away."""
        self._code.text = scenario_code(scenario.to_dict())
        self._flags.text = f"# {error.message}"
        self._log.value = ""

    def _backends(self, plan: Plan) -> str:
        if plan.model.attention is None:
            return html.document("<p>This model has no attention layer, so no backend to pick.</p>")
        sizes = tensor_parallel_sizes(plan.model)[:SHOWN_SIZES]
        return grid_html(plan.across(sized_columns(plan, sizes)), plan)
