"""Flex attention: what is legal, the mask, the real kernels, whether bits depend on the batch."""

from __future__ import annotations

import threading
from typing import Any

import ipywidgets as widgets

from workbench.core.flex.plan import FLEX, flex_plan
from workbench.core.plan import Plan
from workbench.labs.flex.labs import FLEX_LABS
from workbench.ui.panels.flex.mask import MaskPart
from workbench.ui.panels.flex.part import BatchInput, LabPart, Part
from workbench.ui.panels.flex.sizes import SizesPart
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import row
from workbench.ui.session import Session, evaluate, guarded
from workbench.views.html import document, problem_html, refusal_html

OTHER_BACKEND = (
    "<p>These settings use another backend. Below is the same scenario with "
    "<b>FLEX_ATTENTION</b>; every button sets it as well.</p>"
)
NO_BLOCKS = "<p>No layer of this model uses a block size that FlexAttention supports.</p>"


class FlexPanel(Panel):
    """A row of parts, of which one is open; those with a batch share it."""

    title = "Flex attention"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._lock = threading.RLock()  # a plan comes on one thread, an input on another
        self._plan: Plan | None = None
        self.batch_input = BatchInput()
        self.sizes = SizesPart(self)
        self.mask = MaskPart(self, self.batch_input)
        self.labs = {lab.title: LabPart(self, lab, self.batch_input) for lab in FLEX_LABS}
        self.parts: tuple[Part, ...] = (self.sizes, self.mask, *self.labs.values())
        self.part = widgets.ToggleButtons(
            options=[(part.title, index) for index, part in enumerate(self.parts)],
            style={"button_width": "auto"},
        )
        self._batch = row(self.batch_input.controls)
        self._note = widgets.HTML()
        # hidden, not taken out: a figure that is put in anew takes seconds to find its width
        self._all = widgets.VBox([self.part, self._batch, *(p.widget for p in self.parts)])
        self.fill(self._note, self._all)
        self.part.observe(self._picked, names="value")
        self._show_open()

    def show(self, plan: Plan) -> None:
        """See `Panel.show`. Another backend is shown as if it were flex attention."""
        with self._lock:
            self._note.value = ""
            if plan.backend != FLEX:
                other = evaluate(plan.scenario.replace(backend=FLEX))
                if other.plan is None:
                    assert other.error is not None
                    self._refuse(document(refusal_html(other.error)))
                    return
                plan = other.plan
                self._note.value = document(OTHER_BACKEND)
            not_here = [error for error in plan.errors if error.code == "backend_not_valid"]
            if not_here:
                self._refuse(document(problem_html(not_here[0])))
                return
            if flex_plan(plan) is None:
                self._refuse(document(NO_BLOCKS))
                return
            self._plan = plan
            self._all.layout.display = None
            self._show_open()

    def _refuse(self, why: str) -> None:
        self._plan, self._note.value = None, why
        self._all.layout.display = "none"
        for part in self.parts:
            part.forget()

    @guarded
    def _picked(self, _change: Any) -> None:
        with self._lock:
            self._show_open()

    def _show_open(self) -> None:
        """Show the open part, with the batch above it if it has one."""
        opened = self.parts[self.part.value]
        _display(self._batch, shown=opened.takes_batch)
        for part in self.parts:
            _display(part.widget, shown=part is opened)
        if self._plan is not None:
            opened.show(self._plan)
            self.clear_error()


def _display(box: widgets.Widget, *, shown: bool) -> None:
    box.layout.display = None if shown else "none"
