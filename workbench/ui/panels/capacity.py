"""Groups and capacity: what is shared, what fits, what is wasted, and what if."""

from collections.abc import Callable, Mapping

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.door.session import Session
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.pieces import dropdown, grid, integer_of, text_box
from workbench.views.capacity.figure import capacity, gain_of_fp8, shared_or_separate
from workbench.views.capacity.group_figure import groups
from workbench.views.capacity.html import pool_html
from workbench.views.capacity.memory_figure import memory_bar, reserved_bytes

PICTURES: Mapping[str, Callable[[Plan, int], go.Figure]] = {
    "groups and tensors": lambda plan, _prompt: groups(plan),
    "where the memory goes": memory_bar,
    "capacity over TP and dtype": capacity,
    "bytes of a request by prompt length": lambda plan, _prompt: reserved_bytes(plan),
    "gain of an fp8 cache": lambda plan, _prompt: gain_of_fp8(plan),
    "shared or separate pools": shared_or_separate,
}
"""Name -> figure of a plan and a prompt length in tokens."""


class CapacityPanel(Panel):
    """One picture at a time, and the tables below."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.picture = dropdown("Picture", PICTURES)
        self.prompt = text_box("Prompt length", tip="In tokens; empty: as above.")
        self._figure, self._tables = LiveFigure(), widgets.HTML()
        self.fill(grid([self.picture, self.prompt]), self._figure, self._tables)
        self.watch(self.picture, self.prompt)

    def _draw(self, plan: Plan) -> Shown:
        prompt, text = self.session.length_of(plan), self.prompt.value.strip()
        self.prompt.placeholder = str(prompt)
        if plan.kept_cache is None:
            yield self._tables, pool_html(plan)
            yield self._figure, None
            return
        if text:
            try:
                prompt = integer_of(text, "prompt length", prompt, high=plan.max_model_len)
            except ScenarioError:
                yield self._tables, pool_html(plan)
                raise
        yield self._tables, pool_html(plan, prompt)
        yield self._figure, PICTURES[self.picture.value](plan, prompt)
