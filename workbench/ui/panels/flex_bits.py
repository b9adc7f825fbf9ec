"""Flex attention, same bits: one request in many surroundings, beside a control that differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.flex.lab import BitLab
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.plan import Plan
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.flex_part import BatchInput, LaunchingPart
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button, count_box, dropdown, row
from workbench.ui.session import guarded
from workbench.views.flex_bits_figure import bits_figure
from workbench.views.flex_bits_text import bits_html
from workbench.views.html import document

if TYPE_CHECKING:
    from workbench.run.flex_jobs import StopFlag

DTYPES = ("as planned", "float16", "float32", "bfloat16")
MOST_OFFERED = 200
EXPLAINED = (
    "<p>One request of the batch above is computed alone, then in random batches of the others and "
    "two strangers, between dummies, on permuted pages, with other page sizes and in chunks. Every "
    "other bit is counted and located, under our two ways to choose tiles, and under a control "
    "that chooses them by the size of the batch.</p>"
)


class BitsPart(LaunchingPart):
    """A table of every trial, and a picture of where bits differ."""

    title = "Same bits"

    def __init__(self, owner: Panel, typed: BatchInput) -> None:
        super().__init__(owner)
        self.typed = typed
        self.request = dropdown("This request", ())
        self.dtype = dropdown("Compare in", DTYPES)
        self.batches = count_box("Batches", 200, least=1, value=4)
        self.compare_button = button("Compare bits", "Serve the request in every way, and compare")
        self.verdict = widgets.HTML()
        self.figure = LiveFigure()
        self.widget.children = [
            widgets.HTML(document(EXPLAINED)),
            row([self.request, self.dtype, self.batches]),
            widgets.HBox([self.compare_button, self.stop_button]),
            self.status,
            self.verdict,
            self.figure.widget,
        ]
        self.compare_button.on_click(self._compare)
        typed.batch.observe(self._typed, names="value")
        self._offer()

    def mark_stale(self) -> None:
        """See `LaunchingPart.mark_stale`."""
        self.verdict.add_class("wb-stale")
        self.figure.mark(stale=True)

    @guarded
    def _typed(self, _change: Any) -> None:
        self._offer()

    def _offer(self) -> None:
        """The requests of the batch; a batch that cannot be read keeps the ones before."""
        try:
            requests = parse_batch(self.typed.batch.value)
        except ScenarioError:
            return
        offered = [(_name(i, one), i) for i, one in enumerate(requests[:MOST_OFFERED])]
        if list(self.request.options) != offered:
            self.request.options = offered
            self.request.value = offered[-1][1]

    @guarded
    def _compare(self, _button: Any) -> None:
        plan = self._plan
        if plan is None:
            return
        try:
            batch, mask, size = self.typed.read()
        except ScenarioError as error:
            self.refuse(error)
            return
        subject, dtype, batches = self.request.value, self.dtype.value, self.batches.value

        def job(stop: StopFlag) -> BitLab:
            from workbench.run.flex_bits import bit_lab

            return bit_lab(
                plan,
                batch,
                subject,
                mask=mask,
                mask_tokens=size,
                dtype=dtype,
                batches=batches,
                stop=stop,
                progress=lambda done, total: self.say(stop, f"Trial {done + 1} of {total} ..."),
            )

        self.start(job, lambda lab: self._show(plan, lab))

    def _show(self, plan: Plan, lab: BitLab) -> None:
        self.verdict.value = bits_html(lab)
        self.verdict.remove_class("wb-stale")
        self.figure.show(bits_figure(plan, lab))


def _name(index: int, request: BatchRequest) -> str:
    return f"{index}: {request.query_tokens:,} queries over {request.sequence_tokens:,} keys"
