"""Groups and capacity: what is shared, what fits, what is wasted, and what if."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.capacity.occupancy import USUAL_PROMPT_TOKENS, check_prompt, usual_prompt
from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.session import Session, guarded
from workbench.views.capacity.figure import capacity, gain_of_fp8, shared_or_separate
from workbench.views.capacity.group_figure import groups
from workbench.views.capacity.html import pool_html
from workbench.views.capacity.memory_figure import memory_bar
from workbench.views.capacity.waste_figure import reserved_bytes

MAX_DIGITS = 12
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

    title = "Groups and capacity"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._plan: Plan | None = None
        self.picture = widgets.Dropdown(options=tuple(PICTURES), description="Picture")
        self.prompt = widgets.Text(
            value=str(USUAL_PROMPT_TOKENS),
            description="Prompt length",
            continuous_update=False,
            style={"description_width": "104px"},
        )
        self._figure = LiveFigure()
        self._tables = widgets.HTML()
        self.fill(widgets.HBox([self.picture, self.prompt]), self._figure.widget, self._tables)
        for control in (self.picture, self.prompt):
            control.observe(self._picked, names="value")

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        self._plan = plan
        self._picked(None)

    @guarded
    def _picked(self, _change: Any) -> None:
        if self._plan is None:
            return
        try:
            self._draw(self._plan)
        except ScenarioError as error:
            self._tables.value = pool_html(self._plan)
            self.refuse_input(error, self._figure.widget)
            return
        self.accept_input(self._figure.widget)

    def _draw(self, plan: Plan) -> None:
        if plan.cache is None:
            self._figure.hide()
            self._tables.value = pool_html(plan)
            return
        if self.prompt.value == str(USUAL_PROMPT_TOKENS):
            prompt = usual_prompt(plan)
        else:
            prompt = self._prompt_tokens(plan)
        self._tables.value = pool_html(plan, prompt)
        self._figure.show(PICTURES[self.picture.value](plan, prompt))

    def _prompt_tokens(self, plan: Plan) -> int:
        text = self.prompt.value.strip().replace(",", "")
        if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS:
            check_prompt(plan, int(text))
            return int(text)
        near = 1 if text.startswith("-") else usual_prompt(plan)
        raise ScenarioError(
            "wrong_type",
            f"Invalid prompt length {text[:40]!r}. Expected an integer number of tokens from 1 to "
            f"{plan.max_model_len:,}. Nearest valid value: {near}.",
            field="prompt_tokens",
        )
