"""Flex attention: what is legal, the mask, the real kernels, whether bits depend on the batch."""

from __future__ import annotations

import threading
from typing import Any

import ipywidgets as widgets

from workbench.core.flex.plan import FLEX, flex_plan
from workbench.plan import Plan
from workbench.ui.panels.flex_bits import BitsPart
from workbench.ui.panels.flex_launch import LaunchPart, MistakesPart
from workbench.ui.panels.flex_mask import MaskPart
from workbench.ui.panels.flex_order import OrderPart
from workbench.ui.panels.flex_part import BatchInput, Part
from workbench.ui.panels.flex_sizes import SizesPart
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import row
from workbench.ui.session import Session, evaluate, guarded
from workbench.views.html import document, problem_html, refusal_html

ASKED = (
    "<p>These settings use another backend. Shown below is the same scenario with "
    "<b>FLEX_ATTENTION</b>; every button sets it as well.</p>"
)


class FlexPanel(Panel):
    """A row of parts, of which one is open; those with a batch share it."""

    title = "Flex attention"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._lock = threading.RLock()  # a plan comes on one thread, an input on another
        self._plan: Plan | None = None
        self.typed = BatchInput()
        self.sizes = SizesPart(self)
        self.mask = MaskPart(self, self.typed)
        self.launch = LaunchPart(self, self.typed)
        self.bits = BitsPart(self, self.typed)
        self.order = OrderPart(self)
        self.mistakes = MistakesPart(self)
        self.parts: tuple[Part, ...] = (
            self.sizes,
            self.mask,
            self.launch,
            self.bits,
            self.order,
            self.mistakes,
        )
        self.part = widgets.ToggleButtons(
            options=[(part.title, index) for index, part in enumerate(self.parts)],
            style={"button_width": "auto"},
        )
        self._batch = row(self.typed.controls)
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
                self._note.value = document(ASKED)
            not_here = [found for found in plan.errors if found.code == "backend_not_valid"]
            if not_here:
                self._refuse(document(problem_html(not_here[0])))
                return
            if flex_plan(plan) is None:
                self._refuse(document("<p>Nothing here has blocks that flex attention takes.</p>"))
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
        """The open part, with the batch above it where it has one."""
        opened = self.parts[self.part.value]
        self.mask.is_open = opened is self.mask
        alone = opened in (self.sizes, self.order, self.mistakes)
        _display(self._batch, shown=not alone)
        for part in self.parts:
            _display(part.widget, shown=part is opened)
        if self._plan is not None:
            opened.show(self._plan)
            self.clear_error()


def _display(box: widgets.Widget, *, shown: bool) -> None:
    box.layout.display = None if shown else "none"
