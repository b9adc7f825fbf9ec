"""Pieces of the flex tab: parts that share a batch, and one that shows any lab."""

from __future__ import annotations

import threading
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import KINDS
from workbench.core.flex.plan import FLEX
from workbench.core.flex.result import LabResult
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.labs.lab import Lab, LabInput
from workbench.ui.jobs import JobRunner
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import apply_button, button, count_box, dropdown, row, text_box
from workbench.ui.session import guarded
from workbench.views.flex.lab import lab_figure, lab_html
from workbench.views.html import document

DEFAULT_BATCH, DEFAULT_SIZE = "2q48_q16s700", "64"


class BatchInput:
    """The batch and its mask, entered once for every part."""

    def __init__(self) -> None:
        self.batch = text_box("Flex batch", DEFAULT_BATCH)
        self.kind = dropdown("Mask", KINDS)
        self.size = text_box("Mask size (tokens)", DEFAULT_SIZE)
        self.controls = (self.batch, self.kind, self.size)

    def read(self) -> tuple[tuple[BatchRequest, ...], str, int]:
        """Return requests, kind and size of the mask. Errors: ScenarioError."""
        return parse_batch(self.batch.value), self.kind.value, tokens(self.size.value)


class Part:
    """One page of the tab. `show` gets a plan of flex attention, and only while it is open."""

    title: str
    takes_batch = True

    def __init__(self, owner: Panel) -> None:
        self.session = owner.session
        self.show_error, self.clear_error = owner.show_error, owner.clear_error
        self._lock = threading.RLock()  # a plan comes on one thread, an input on another
        self._plan: Plan | None = None
        self.widget = widgets.VBox()

    @property
    def is_open(self) -> bool:
        """Return whether this is the page that is shown."""
        return self.widget.layout.display != "none"

    def show(self, plan: Plan) -> None:
        """Show `plan`."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drop the plan: there is none to show."""
        self._plan = None

    def remedy_buttons(self, plan: Plan) -> list[widgets.Button]:
        """Return buttons for the tested remedies of the problems of flex attention."""
        buttons = []
        for problem in plan.problems:
            if not problem.code.startswith("flex_"):
                continue
            for remedy in plan.remedies(problem):
                if remedy.plan.backend != FLEX:
                    continue
                changes = {"backend": FLEX, **remedy.changes}
                buttons.append(
                    apply_button(
                        f"Apply {remedy.text}",
                        f"Tested: {remedy.plan!r}",
                        partial(self._apply, changes),
                    )
                )
        return buttons

    @guarded
    def _apply(self, changes: dict[str, Any], _button: widgets.Button) -> None:
        self.session.replace(**changes)


class LabPart(Part):
    """A lab: its inputs, its button, and its result. Made from the declaration alone."""

    def __init__(self, owner: Panel, lab: Lab, batch: BatchInput) -> None:
        super().__init__(owner)
        self.title, self.takes_batch = lab.title, lab.takes_batch
        self.lab, self._batch = lab, batch
        self.inputs = {one.name: _control(one) for one in lab.inputs}
        self.jobs = JobRunner(owner, on_refusal=self.mark_stale)
        self.button = button(lab.button, lab.tip)
        self.result, self.figure = widgets.HTML(), LiveFigure()
        self.figure.hide()
        self.widget.children = [
            widgets.HTML(document(f"<p>{escape(lab.explained)}</p>") if lab.explained else ""),
            row(self.inputs.values()),
            widgets.HBox([self.button, self.jobs.stop_button]),
            self.jobs.status,
            self.result,
            self.figure.widget,
        ]
        self.button.on_click(self._run)
        if any(one.of_batch for one in lab.inputs):
            batch.batch.observe(self._batch_changed, names="value")
            self._offer()

    def show(self, plan: Plan) -> None:
        """See `Part.show`: what ran for another plan is stopped, and marked as stale."""
        with self._lock:
            changed = self._plan is not None and plan.fingerprint != self._plan.fingerprint
            self._plan = plan
        if changed and self.jobs.pending is not None:
            self.jobs.cancel()
            self.mark_stale()
        if self.lab.before is not None and not self.result.value:
            self._show(self.lab.before())

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.jobs.cancel()

    def mark_stale(self) -> None:
        """Grey out what is shown: it belongs to another plan, or to other inputs."""
        self.result.add_class("wb-stale")
        self.figure.mark(stale=True)

    @guarded
    def _batch_changed(self, _change: Any) -> None:
        self._offer()

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

    @guarded
    def _run(self, _button: Any) -> None:
        plan = self._plan
        if plan is None:
            return
        self.clear_error()
        given = {name: control.value for name, control in self.inputs.items()}
        try:
            if self.lab.takes_batch:
                batch, mask, mask_tokens = self._batch.read()
                given |= {"batch": batch, "mask": mask, "mask_tokens": mask_tokens}
        except ScenarioError as error:
            self.jobs.refuse(error)
            return
        self.jobs.start(lambda job: self.lab.run(plan, job=job, **given), self._show)

    def _show(self, result: LabResult) -> None:
        self.result.value = lab_html(result)
        self.result.remove_class("wb-stale")
        if (figure := lab_figure(result)) is not None:
            self.figure.show(figure)


def _control(one: LabInput) -> widgets.ValueWidget:
    if one.choices or one.of_batch is not None:
        made = dropdown(one.label, one.choices)
    elif one.most:
        return count_box(one.label, one.most, one.tip, least=1, value=one.default)
    else:
        made = text_box(one.label, one.default)
    made.tooltip = one.tip
    return made


def tokens(text: str) -> int:
    """Return a number of tokens, commas allowed. Errors: ScenarioError."""
    digits = text.strip().replace(",", "")
    if digits.isdecimal() and digits.isascii():
        return int(digits[:12])
    raise ScenarioError(
        "wrong_type",
        f"Invalid mask size {text[:40]!r}. Expected an integer number of tokens, at least 1. "
        f"Nearest valid value: {DEFAULT_SIZE}.",
        field="batch",
    )
