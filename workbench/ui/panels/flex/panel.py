"""Flex attention: what is legal, the mask, the real kernels, whether bits depend on the batch."""

from collections.abc import Iterator
from functools import partial
from html import escape

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.flex.plan import FLEX, flex_plan
from workbench.core.flex.result import LabResult
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import parse_batch
from workbench.door.session import Session, evaluate
from workbench.labs.flex.labs import FLEX_LABS, Lab, LabInput
from workbench.ui import pieces
from workbench.ui.jobs import Done, JobRunner, Work
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.flex.pictures import BatchInput, MaskPart, Part, SizesPart
from workbench.ui.panels.panel import Panel, put
from workbench.views.flex.lab import lab_figure, lab_html
from workbench.views.html import document, problem_html, refusal_html
from workbench.views.settings import changes_text

OTHER_BACKEND = (
    "<p>These settings use another backend. Below is the same scenario with "
    "<b>FLEX_ATTENTION</b>; every button sets it as well.</p>"
)
WAYS_TO_FLEX = ({"kv_cache_dtype": "auto"}, {"device": "H100"}, {"model": "llama-3.1-8b"})
"""Single changes that lead to a plan of flex attention, nearest first."""
NO_BLOCKS = "<p>No layer of this model uses a block size that FlexAttention supports.</p>"


class LabPart(Part):
    """A lab: its inputs, its button, and its result. Made from the declaration alone."""

    def __init__(self, session: Session, lab: Lab, batch: BatchInput) -> None:
        super().__init__(session)
        self.lab, self._batch, self.takes_batch = lab, batch, lab.takes_batch
        self.inputs = {one.name: _control(one) for one in lab.inputs}
        self.jobs = JobRunner(self, on_refusal=self._mark_stale)
        self.button = pieces.button(lab.button, lab.tip)
        self.result, self.figure = widgets.HTML(), LiveFigure()
        self.figure.hide()
        self.fill(
            widgets.HTML(document(f"<p>{escape(lab.explained)}</p>") if lab.explained else ""),
            pieces.grid(self.inputs.values()),
            pieces.line(self.button, self.jobs.stop_button),
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
        pieces.mark_stale(True, self.result, self.figure)

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
        pieces.mark_stale(False, self.result)
        if (figure := lab_figure(result)) is not None:
            self.figure.show(figure)


def _control(one: LabInput) -> widgets.ValueWidget:
    if one.choices or one.of_batch is not None:
        return pieces.dropdown(one.label, one.choices, tip=one.tip)
    if one.most:
        return pieces.count_box(one.label, one.most, one.tip, least=1, value=one.default)
    return pieces.text_box(one.label, one.default, tip=one.tip)


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
        controls = pieces.grid(self.batch_input.controls)
        self._batch = widgets.VBox([self.batch_input.about, controls])
        self._note, self._remedies = widgets.HTML(), pieces.line()
        # hidden, not taken out: a figure that is put in anew takes seconds to find its width
        self._all = widgets.VBox([self.part, self._batch, *(p.widget for p in self.parts)])
        self.fill(self._note, self._remedies, self._all)
        self.watch(self.part, then=self._show_open)
        for part in self.parts:
            self.when_closed(part.close)
        self._show_open()

    def show(self, plan: Plan) -> None:
        """See `Panel.show`. Another backend is shown as if it were flex attention."""
        with self._lock:
            self._plan, self._note.value = self._as_flex(plan)
            pieces.display(self._all, shown=self._plan is not None)
            put(self._remedies, () if self._plan is not None else self._ways_to_flex(plan))
            if self._plan is None:
                for part in self.parts:
                    part.forget()
            else:
                with self.mask.by_program:  # the open part is drawn once, with this plan
                    self.batch_input.start(self._plan)
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

    def _ways_to_flex(self, plan: Plan) -> Iterator[widgets.Button]:
        """Yield buttons for single changes after which flex attention accepts the plan."""
        for changes in WAYS_TO_FLEX:
            try:
                other = evaluate(plan.scenario.replace(backend=FLEX, **changes)).plan
            except ScenarioError:  # it contradicts another field
                continue
            if other is not None and self._as_flex(other)[0] is not None:
                then = partial(self.session.replace, **changes)
                yield self.apply_button(f"Apply {changes_text(changes)}", "Tested.", then)

    def _show_open(self) -> None:
        """Show the open part, with the batch above it if it has one."""
        opened = self.parts[self.part.value]
        pieces.display(self._batch, shown=opened.takes_batch)
        for part in self.parts:
            pieces.display(part.widget, shown=part is opened)
        if self._plan is not None:
            opened.show(self._plan)
            self.clear_error()
