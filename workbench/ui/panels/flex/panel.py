"""Flex attention: what is legal, the mask, the real kernels, whether bits depend on the batch."""

from __future__ import annotations

import ipywidgets as widgets

from workbench.core.flex.plan import FLEX, flex_plan
from workbench.core.plan import Plan
from workbench.labs.flex.labs import FLEX_LABS
from workbench.ui.panels.flex.part import BatchInput, LabPart, Part
from workbench.ui.panels.flex.pictures import MaskPart, SizesPart
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import display, grid
from workbench.ui.session import Session, evaluate
from workbench.views.html import document, problem_html, refusal_html

OTHER_BACKEND = (
    "<p>These settings use another backend. Below is the same scenario with "
    "<b>FLEX_ATTENTION</b>; every button sets it as well.</p>"
)
NO_BLOCKS = "<p>No layer of this model uses a block size that FlexAttention supports.</p>"


class FlexPanel(Panel):
    """A row of parts, of which one is open; those with a batch share it."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.batch_input = BatchInput()
        self.sizes, self.mask = SizesPart(session), MaskPart(session, self.batch_input)
        self.labs = {lab.title: LabPart(session, lab, self.batch_input) for lab in FLEX_LABS}
        titles = ("Sizes", "Mask", *self.labs)
        self.parts: tuple[Part, ...] = (self.sizes, self.mask, *self.labs.values())
        self.part = widgets.ToggleButtons(
            options=[(title, index) for index, title in enumerate(titles)],
            style={"button_width": "auto"},
        )
        self._batch = grid(self.batch_input.controls)
        self._note = widgets.HTML()
        # hidden, not taken out: a figure that is put in anew takes seconds to find its width
        self._all = widgets.VBox([self.part, self._batch, *(p.widget for p in self.parts)])
        self.fill(self._note, self._all)
        self.watch(self.part, then=self._show_open)
        self._show_open()

    def show(self, plan: Plan) -> None:
        """See `Panel.show`. Another backend is shown as if it were flex attention."""
        with self._lock:
            self._plan, self._note.value = self._as_flex(plan)
            display(self._all, shown=self._plan is not None)
            if self._plan is None:
                for part in self.parts:
                    part.forget()
            else:
                self._show_open()

    def _as_flex(self, plan: Plan) -> tuple[Plan | None, str]:
        """Return the plan with flex attention and a note, or None and why there is none."""
        note = ""
        if plan.backend != FLEX:
            other = evaluate(plan.scenario.replace(backend=FLEX))
            if other.plan is None:
                assert other.error is not None
                return None, document(refusal_html(other.error))
            plan, note = other.plan, document(OTHER_BACKEND)
        not_here = [error for error in plan.errors if error.code == "backend_not_valid"]
        if not_here:
            return None, document(problem_html(not_here[0]))
        if flex_plan(plan) is None:
            return None, document(NO_BLOCKS)
        return plan, note

    def _show_open(self) -> None:
        """Show the open part, with the batch above it if it has one."""
        opened = self.parts[self.part.value]
        display(self._batch, shown=opened.takes_batch)
        for part in self.parts:
            display(part.widget, shown=part is opened)
        if self._plan is not None:
            opened.show(self._plan)
            self.clear_error()
