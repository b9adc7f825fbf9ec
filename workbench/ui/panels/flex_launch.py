"""Flex attention, launch: the real kernels on a typed batch, checked; and mistakes that are caught.

Nothing of torch is imported before a button is pressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.flex.lab import FlexMistake, FlexRun
from workbench.ui.panels.flex_part import BatchInput, LaunchingPart
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button, dropdown, row, text_box
from workbench.ui.session import guarded
from workbench.views.flex_run_text import mistake_html, run_html
from workbench.views.html import document

if TYPE_CHECKING:
    from workbench.run.flex_jobs import StopFlag

PATHS = ("our kernel, fast", "our kernel, bitwise", "torch flex over the paged mask")
DTYPES = ("as planned", "float16", "float32", "bfloat16")
MISTAKES = (
    "a tile of 8",
    "a tile of 48",
    "a tile larger than the mask block",
    "a mask with five parameters",
    "a mask with a Python if",
    "more memory than there is",
    "more shared memory than a program has",
)
EXPLAINED = (
    "<p>The batch above, in the shape of one rank of this plan, with random numbers on random "
    "pages: on a GPU if there is one, else interpreted, or eager for torch's path. The result is "
    "compared with float64; a second run has NaN wherever nobody may read.</p>"
)


class LaunchPart(LaunchingPart):
    """One launch and its verdict."""

    title = "Launch"

    def __init__(self, owner: Panel, typed: BatchInput) -> None:
        super().__init__(owner)
        self.typed = typed
        self.path = dropdown("Kernel", PATHS)
        self.dtype = dropdown("Launch in", DTYPES)
        self.tile = text_box("Tile", "", "shipped, or 64 x 32")
        self.launch_button = button("Launch batch", "Run this batch, and compare it with float64")
        self.result = widgets.HTML()
        self.widget.children = [
            widgets.HTML(document(EXPLAINED)),
            row([self.path, self.dtype, self.tile]),
            widgets.HBox([self.launch_button, self.stop_button]),
            self.status,
            self.result,
        ]
        self.launch_button.on_click(self._launch)

    def mark_stale(self) -> None:
        """See `LaunchingPart.mark_stale`."""
        self.result.add_class("wb-stale")

    @guarded
    def _launch(self, _button: Any) -> None:
        plan = self._plan
        if plan is None:
            return
        try:
            batch, mask, size = self.typed.read()
        except ScenarioError as error:
            self.refuse(error)
            return
        path, dtype, tile = self.path.value, self.dtype.value, self.tile.value

        def job(stop: StopFlag) -> FlexRun:
            from workbench.run.flex_launch import FlexRequest, launch_flex

            return launch_flex(plan, batch, FlexRequest(path, mask, size, dtype, tile), stop=stop)

        self.start(job, self._show)

    def _show(self, run: FlexRun) -> None:
        self.result.value = run_html(run)
        self.result.remove_class("wb-stale")


class MistakesPart(LaunchingPart):
    """Mistakes made on purpose: the answer, and the next launch."""

    title = "Mistakes"

    def __init__(self, owner: Panel) -> None:
        super().__init__(owner)
        self.mistake = dropdown("Drill", MISTAKES)
        self.make_button = button("Try it", "Make the mistake, then launch as it should be")
        self.result = widgets.HTML()
        self.widget.children = [
            widgets.HTML(
                document(
                    "<p>Each is made for real, and refused with what is allowed; then a right "
                    "launch shows that nothing is broken.</p>"
                )
            ),
            widgets.HBox([self.mistake, self.make_button, self.stop_button]),
            self.status,
            self.result,
        ]
        self.make_button.on_click(self._make)

    def mark_stale(self) -> None:
        """See `LaunchingPart.mark_stale`."""
        self.result.add_class("wb-stale")

    @guarded
    def _make(self, _button: Any) -> None:
        plan, name = self._plan, self.mistake.value
        if plan is None:
            return

        def job(stop: StopFlag) -> FlexMistake:
            from workbench.run.flex_mistakes import make_flex_mistake

            return make_flex_mistake(plan, name, stop)

        self.start(job, self._show)

    def _show(self, made: FlexMistake) -> None:
        self.result.value = mistake_html(made)
        self.result.remove_class("wb-stale")
