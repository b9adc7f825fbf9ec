"""Flex attention: sizes and tiles of the plan, what is legal, and the mask of a typed batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.batch_grammar import parse_batch
from workbench.core.errors import ScenarioError
from workbench.core.flex import FLEX, FlexPlan, flex_plan
from workbench.core.flex_batch import KINDS, mask_rule, paged_batch
from workbench.core.flex_build import BlockLists, Visits, direct_build, generic_build, visits
from workbench.core.flex_mask import MaskRule, PagedBatch
from workbench.core.platforms import PLATFORMS
from workbench.kernels.inspection.targets import TARGETS, Target
from workbench.plan import Plan
from workbench.ui.controls import WIDE
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.session import Session, evaluate, guarded
from workbench.views.flex_figure import legal_pairs, nested_grids
from workbench.views.flex_mask_figure import logical_mask, physical_mask, visit_order
from workbench.views.flex_memory_figure import mask_memory_figure
from workbench.views.flex_text import TargetLimit, flex_html, targets_html, visits_html
from workbench.views.html import document, problem_html, refusal_html

DEFAULT_BATCH, DEFAULT_SIZE = "2q48_q16s700", "64"
ROCM_SEEN_BYTES = 64 * 1024
"""What vLLM takes as the shared memory of every ROCm device."""
OF_CAPABILITY = {"8.0": "sm_80", "9.0": "sm_90", "10.0": "sm_100", "10.3": "sm_100"}
ALL_OTHERS = "sm_120"
"""8.6, 8.9 and 12.x give a program 99 KiB."""
OF_PLAN = "as the plan's capability"
ASKED = (
    "<p>These settings use another backend. Shown below is the same scenario with "
    "<b>FLEX_ATTENTION</b>; every button sets it as well.</p>"
)
SIZES: dict[str, Callable[[Plan, FlexPlan], go.Figure]] = {
    "three nested grids": lambda _plan, flex: nested_grids(flex),
    "legal pairs": lambda _plan, flex: legal_pairs(flex),
    "memory of the mask": mask_memory_figure,
}


@dataclass(frozen=True, slots=True)
class _Mask:
    """What the mask pictures are drawn from."""

    batch: PagedBatch
    rule: MaskRule
    lists: BlockLists
    found: Visits


MASKS: dict[str, Callable[[_Mask], go.Figure]] = {
    "physical mask": lambda mask: physical_mask(mask.batch, mask.found),
    "logical mask": lambda mask: logical_mask(mask.batch, mask.rule),
    "order of the visits": lambda mask: visit_order(mask.batch, mask.found),
}
AS_PLANNED, GENERIC, PRUNED = BUILDS = (
    "as the plan builds it",
    "every pair evaluated",
    "direct, pruned as in 0.33",
)


class FlexPanel(Panel):
    """Sizes on top, with remedies; then the mask of a batch over the plan's own blocks."""

    title = "Flex attention"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._lock = threading.RLock()  # a plan comes on one thread, an input on another
        self._plan: Plan | None = None
        self.target = _dropdown(
            "Device",
            (
                (OF_PLAN, OF_PLAN),
                *((target.title, name) for name, target in TARGETS.items()),
            ),
        )
        self.picture = _dropdown("Show sizes", tuple(SIZES))
        self.batch = _text("Batch", DEFAULT_BATCH)
        self.kind = _dropdown("Mask", KINDS)
        self.size = _text("Its tokens", DEFAULT_SIZE)
        self.build = _dropdown("Build", BUILDS)
        self.stale = widgets.Checkbox(description="stale columns", value=False, indent=False)
        self.mask_picture = _dropdown("Show mask", tuple(MASKS))
        self._note, self._sizes, self._targets = (widgets.HTML() for _ in range(3))
        self._input_error, self._cost = widgets.HTML(), widgets.HTML()
        self._buttons = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        self._figure, self._mask_figure = LiveFigure(), LiveFigure()
        self._parts = widgets.VBox(
            [
                self._sizes,
                self._buttons,
                _row([self.picture, self.target]),
                self._figure.widget,
                self._targets,
                widgets.HTML(document("<h4>The mask of a batch over these blocks</h4>")),
                _row([self.batch, self.kind, self.size, self.build, self.mask_picture, self.stale]),
                self._input_error,
                self._mask_figure.widget,
                self._cost,
            ]
        )
        self.fill(self._note, self._parts)
        for control in (self.target, self.picture):
            control.observe(self._picked, names="value")
        for control in (
            self.batch,
            self.kind,
            self.size,
            self.build,
            self.stale,
            self.mask_picture,
        ):
            control.observe(self._typed, names="value")

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
            self._buttons.children = self._remedies(plan)
            self._parts.layout.display = None
            self._draw_sizes(plan)
            self._draw_mask(plan)

    def _refuse(self, why: str) -> None:
        self._plan, self._note.value = None, why
        self._parts.layout.display = "none"

    @guarded
    def _picked(self, _change: Any) -> None:
        with self._lock:
            if self._plan is not None:
                self._draw_sizes(self._plan)

    @guarded
    def _typed(self, _change: Any) -> None:
        with self._lock:
            if self._plan is not None:
                self._draw_mask(self._plan)

    def _draw_sizes(self, plan: Plan) -> None:
        flex = _on_target(plan, _target(plan, self.target.value))
        self._sizes.value = flex_html(flex)
        self._targets.value = targets_html(
            [(_limit(target), _on_target(plan, target)) for target in TARGETS.values()]
        )
        self._figure.show(SIZES[self.picture.value](plan, flex))
        self.clear_error()

    def _remedies(self, plan: Plan) -> list[widgets.Button]:
        """Buttons for what was tried against the first problem of flex attention."""
        buttons = []
        for problem in plan.problems:
            if not problem.code.startswith("flex_"):
                continue
            for remedy in plan.remedies(problem):
                if remedy.plan.backend != FLEX:
                    continue
                button = widgets.Button(
                    description=f"Apply {remedy.text}",
                    tooltip=f"Tried: {remedy.plan!r}",
                    layout=widgets.Layout(width="auto"),
                )
                button.add_class("wb-apply")
                button.on_click(partial(self._apply, {"backend": FLEX, **remedy.changes}))
                buttons.append(button)
        return buttons

    @guarded
    def _apply(self, changes: dict[str, Any], _button: widgets.Button) -> None:
        self.session.change(lambda present: present.replace(**changes))

    def _draw_mask(self, plan: Plan) -> None:
        try:
            mask = self._mask(plan)
        except ScenarioError as error:
            self._input_error.value = document(refusal_html(error))
            self._mask_figure.mark(stale=True)
            return
        self._input_error.value = ""
        self._mask_figure.show(MASKS[self.mask_picture.value](mask))
        self._cost.value = visits_html(mask.found, mask.lists.dropped)
        self.clear_error()

    def _mask(self, plan: Plan) -> _Mask:
        flex = flex_plan(plan)
        assert flex is not None
        requests = parse_batch(self.batch.value)
        rule = mask_rule(self.kind.value, _tokens(self.size.value))
        batch = paged_batch(requests, flex.cache_block_size, stale=self.stale.value)
        q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
        if flex.refusals:
            raise ScenarioError(
                "mask_is_refused",
                f"There is no mask to draw: {flex.refusals[0].message}",
                field=flex.refusals[0].field,
            )
        if self.build.value == PRUNED:
            lists = direct_build(batch, rule, q, pruned=True)
        elif flex.is_direct and self.build.value == AS_PLANNED:
            lists = direct_build(batch, rule, q)
        else:
            lists = generic_build(batch, rule, q, kv)
        return _Mask(batch, rule, lists, visits(batch, rule, lists))


def _target(plan: Plan, picked: str) -> Target:
    """The device that was picked, or one like the plan's."""
    if picked == OF_PLAN:
        capability = plan.settings.compute_capability or PLATFORMS["cuda"].default_capability
        picked = OF_CAPABILITY.get(str(capability), ALL_OTHERS)
    return TARGETS[picked]


def _on_target(plan: Plan, target: Target) -> FlexPlan:
    flex = flex_plan(plan, _limit(target).seen_bytes)
    assert flex is not None
    return flex


def _limit(target: Target) -> TargetLimit:
    seen = target.shared_memory_bytes if target.backend == "cuda" else ROCM_SEEN_BYTES
    return TargetLimit(target.title, seen, target.shared_memory_bytes)


def _tokens(typed: str) -> int:
    digits = typed.strip().replace(",", "")
    if digits.isdecimal() and digits.isascii():
        return int(digits[:12])
    raise ScenarioError(
        "wrong_type",
        "The size of the mask is a whole number of tokens, at least 1; got "
        f"{typed[:40]!r}. Nearest valid value: {DEFAULT_SIZE}.",
        field="batch",
    )


def _dropdown(label: str, options: tuple[Any, ...]) -> widgets.Dropdown:
    return widgets.Dropdown(
        description=label, options=options, style=WIDE, layout=widgets.Layout(width="auto")
    )


def _text(label: str, value: str) -> widgets.Text:
    return widgets.Text(
        value=value,
        description=label,
        continuous_update=False,
        style=WIDE,
        layout=widgets.Layout(width="auto"),
    )


def _row(controls: list[widgets.Widget]) -> widgets.GridBox:
    return widgets.GridBox(
        controls,
        layout=widgets.Layout(
            grid_template_columns="repeat(auto-fill, minmax(270px, 1fr))", grid_gap="2px 14px"
        ),
    )
