"""Flex attention, mask: the mask of a typed batch over blocks of the plan's size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import PREFIX, mask_rule, paged_batch
from workbench.core.flex.build import BlockLists, Visits, direct_build, generic_build, visits
from workbench.core.flex.mask import MaskRule, PagedBatch
from workbench.core.flex.plan import flex_plan
from workbench.core.flex.prefix import parse_prefixes
from workbench.plan import Plan
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.flex_part import BatchInput, Part
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import dropdown, replace_children, row, text_box
from workbench.ui.session import guarded
from workbench.views.flex_mask_figure import logical_mask, physical_mask, visit_order
from workbench.views.flex_text import visits_html
from workbench.views.html import document, refusal_html

MASK_IS_REFUSED = "mask_is_refused"


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


class MaskPart(Part):
    """What is visited, in which order, and in vain."""

    title = "Mask"

    def __init__(self, owner: Panel, typed: BatchInput) -> None:
        super().__init__(owner)
        self.typed = typed
        self.build = dropdown("Build", BUILDS)
        self.prefixes = text_box("Prefix ranges", "", "by request: 0-63; 0-9,20-29")
        self.stale = widgets.Checkbox(description="stale columns", value=False, indent=False)
        self.picture = dropdown("Show mask", tuple(MASKS))
        self.error, self.cost = widgets.HTML(), widgets.HTML()
        self.remedies = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        self.figure = LiveFigure()
        self.widget.children = [
            row([self.build, self.picture, self.prefixes, self.stale]),
            self.error,
            self.remedies,
            self.figure.widget,
            self.cost,
        ]
        for control in (*typed.controls, self.build, self.prefixes, self.stale, self.picture):
            control.observe(self._changed, names="value")
        self.is_open = False

    def show(self, plan: Plan) -> None:
        """See `Part.show`."""
        with self._lock:
            self._plan = plan
            self._draw(plan)

    @guarded
    def _changed(self, _change: Any) -> None:
        with self._lock:
            if self._plan is not None and self.is_open:
                self._draw(self._plan)
                self.clear_error()

    def _draw(self, plan: Plan) -> None:
        try:
            mask = self._mask(plan)
        except ScenarioError as error:
            self.error.value = document(refusal_html(error))
            refused = error.code == MASK_IS_REFUSED
            replace_children(self.remedies, self.remedy_buttons(plan) if refused else ())
            self.figure.mark(stale=True)
            return
        self.error.value = ""
        replace_children(self.remedies, ())
        self.figure.show(MASKS[self.picture.value](mask))
        self.cost.value = visits_html(mask.found, mask.lists.dropped)

    def _mask(self, plan: Plan) -> _Mask:
        flex = flex_plan(plan)
        assert flex is not None
        requests, kind, size = self.typed.read()
        rule = mask_rule(kind, size)
        self.prefixes.layout.display = None if kind == PREFIX else "none"
        if kind == PREFIX:
            rule = replace(rule, prefixes=parse_prefixes(self.prefixes.value, len(requests)))
        batch = paged_batch(requests, flex.cache_block_size, stale=self.stale.value)
        q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
        if flex.refusals:
            raise ScenarioError(
                MASK_IS_REFUSED,
                f"There is no mask to draw: {flex.refusals[0].message}",
                field=flex.refusals[0].field,
            )
        if self.build.value == PRUNED:
            lists = direct_build(batch, rule, q, pruned=True)
        elif flex.is_direct and self.build.value == AS_PLANNED:
            lists = direct_build(batch, rule, q, pruned=plan.rules.flex_prunes_pages)
        else:
            lists = generic_build(batch, rule, q, kv)
        return _Mask(batch, rule, lists, visits(batch, rule, lists))
