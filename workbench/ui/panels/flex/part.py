"""Pieces of the flex tab: parts that share a batch, and one that shows any lab."""

from __future__ import annotations

from functools import partial
from html import escape

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import KINDS
from workbench.core.flex.plan import FLEX
from workbench.core.flex.result import LabResult
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.labs.flex.labs import Lab, LabInput
from workbench.ui.jobs import Done, JobRunner, Work
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import (
    button,
    count_box,
    dropdown,
    grid,
    integer_of,
    line,
    mark_stale,
    text_box,
)
from workbench.ui.session import Session
from workbench.views.flex.lab import lab_figure, lab_html
from workbench.views.html import document

DEFAULT_BATCH, DEFAULT_SIZE = "2q48_q16s700", 64


class BatchInput:
    """The batch and its mask, entered once for every part."""

    def __init__(self) -> None:
        self.batch = text_box("Flex batch", DEFAULT_BATCH)
        self.kind = dropdown("Mask", KINDS)
        self.size = text_box("Mask size (tokens)", str(DEFAULT_SIZE))
        self.controls = (self.batch, self.kind, self.size)

    def read(self) -> tuple[tuple[BatchRequest, ...], str, int]:
        """Return requests, kind and size of the mask. Errors: ScenarioError."""
        size = integer_of(self.size.value, "mask size", DEFAULT_SIZE)
        return parse_batch(self.batch.value), self.kind.value, size


class Part(Panel):
    """One page of the tab. `show` gets a plan of flex attention, and only while it is open."""

    takes_batch = True

    def forget(self) -> None:
        """Drop the plan: there is none to show."""
        self._plan = None

    def remedy_buttons(self, plan: Plan) -> list[widgets.Button]:
        """Return buttons for the tested remedies of the problems of flex attention."""
        return [
            self.apply_button(
                f"Apply {remedy.text}",
                f"Tested: {remedy.plan!r}",
                partial(self.session.replace, **{"backend": FLEX, **remedy.changes}),
            )
            for problem in plan.problems
            if problem.code.startswith("flex_")
            for remedy in plan.remedies(problem)
            if remedy.plan.backend == FLEX
        ]


class LabPart(Part):
    """A lab: its inputs, its button, and its result. Made from the declaration alone."""

    def __init__(self, session: Session, lab: Lab, batch: BatchInput) -> None:
        super().__init__(session)
        self.lab, self._batch, self.takes_batch = lab, batch, lab.takes_batch
        self.inputs = {one.name: _control(one) for one in lab.inputs}
        self.jobs = JobRunner(self, on_refusal=self._mark_stale)
        self.button = button(lab.button, lab.tip)
        self.result, self.figure = widgets.HTML(), LiveFigure()
        self.figure.hide()
        self.fill(
            widgets.HTML(document(f"<p>{escape(lab.explained)}</p>") if lab.explained else ""),
            grid(self.inputs.values()),
            line(self.button, self.jobs.stop_button),
            self.jobs.status,
            self.result,
            self.figure,
        )
        self.jobs.start_with(self.button, self._run)
        self._offer()
        self.watch(batch.batch, then=self._offer)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`: what ran for another plan is stopped, and marked as stale."""
        with self._lock:
            changed = self._plan is not None and plan.fingerprint != self._plan.fingerprint
            self._plan = plan
        if changed and self.jobs.pending is not None:
            self.jobs.cancel()
            self._mark_stale()
        if self.lab.before is not None and not self.result.value:
            self._show(self.lab.before())

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.jobs.cancel()

    def _mark_stale(self) -> None:
        mark_stale(True, self.result, self.figure)

    def _offer(self) -> None:
        """Offer the requests of the batch; one that cannot be read keeps those of the last."""
        try:
            requests = parse_batch(self._batch.batch.value)
        except ScenarioError:
            return
        for one in self.lab.inputs:
            picker = self.inputs[one.name]
            if one.of_batch is not None and (offered := one.of_batch(requests)) != picker.options:
                picker.options = offered
                picker.value = offered[-1][1]

    def _run(self) -> tuple[Work, Done] | None:
        plan = self._plan
        if plan is None:
            return None
        given = {name: control.value for name, control in self.inputs.items()}
        if self.takes_batch:
            given |= zip(("batch", "mask", "mask_tokens"), self._batch.read(), strict=True)
        return lambda job: self.lab.function(plan, job=job, **given), self._show

    def _show(self, result: LabResult) -> None:
        self.result.value = lab_html(result)
        mark_stale(False, self.result)
        if (figure := lab_figure(result)) is not None:
            self.figure.show(figure)


def _control(one: LabInput) -> widgets.ValueWidget:
    if one.choices or one.of_batch is not None:
        return dropdown(one.label, one.choices, tip=one.tip)
    if one.most:
        return count_box(one.label, one.most, one.tip, least=1, value=one.default)
    return text_box(one.label, one.default, tip=one.tip)
