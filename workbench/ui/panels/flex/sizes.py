"""Flex attention, sizes: the three grids of the plan, remedies that are tried, every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.flex.plan import FlexPlan, flex_plan
from workbench.core.plan import Plan
from workbench.core.platforms import PLATFORMS
from workbench.kernels.inspection.targets import TARGETS, Target
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.flex.part import Part
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import dropdown, replace_children, row
from workbench.ui.session import guarded
from workbench.views.flex.figure import legal_pairs, nested_grids
from workbench.views.flex.memory_figure import mask_memory_figure
from workbench.views.flex.text import TargetLimit, flex_html, targets_html

ROCM_SEEN_BYTES = 64 * 1024
"""Shared memory that vLLM assumes for every ROCm device."""
OF_CAPABILITY = {"8.0": "sm_80", "9.0": "sm_90", "10.0": "sm_100", "10.3": "sm_100"}
ALL_OTHERS = "sm_120"
"""Capabilities 8.6, 8.9 and 12.x give a program 99 KiB."""
OF_PLAN = "as the plan's capability"
SIZES: dict[str, Callable[[Plan, FlexPlan], go.Figure]] = {
    "three nested grids": lambda _plan, flex: nested_grids(flex),
    "legal pairs": lambda _plan, flex: legal_pairs(flex),
    "memory of the mask": mask_memory_figure,
}


class SizesPart(Part):
    """Tile in mask block in cache block."""

    title = "Sizes"
    takes_batch = False

    def __init__(self, owner: Panel) -> None:
        super().__init__(owner)
        devices = ((target.title, name) for name, target in TARGETS.items())
        self.target = dropdown("Device", ((OF_PLAN, OF_PLAN), *devices))
        self.picture = dropdown("Show sizes", tuple(SIZES))
        self.sizes, self.targets = widgets.HTML(), widgets.HTML()
        self.remedies = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        self.figure = LiveFigure()
        self.widget.children = [
            self.sizes,
            self.remedies,
            row([self.picture, self.target]),
            self.figure.widget,
            self.targets,
        ]
        for control in (self.target, self.picture):
            control.observe(self._picked, names="value")

    def show(self, plan: Plan) -> None:
        """See `Part.show`."""
        with self._lock:
            self._plan = plan
            replace_children(self.remedies, self.remedy_buttons(plan))
            self._draw(plan)

    @guarded
    def _picked(self, _change: Any) -> None:
        with self._lock:
            if self._plan is not None:
                self._draw(self._plan)
                self.clear_error()

    def _draw(self, plan: Plan) -> None:
        flex = _on_target(plan, _target(plan, self.target.value))
        self.sizes.value = flex_html(flex)
        self.targets.value = targets_html(
            [(_limit(target), _on_target(plan, target)) for target in TARGETS.values()]
        )
        self.figure.show(SIZES[self.picture.value](plan, flex))


def _target(plan: Plan, picked: str) -> Target:
    """Return the chosen device, or one like the plan's."""
    if picked == OF_PLAN:
        capability = plan.settings.compute_capability or PLATFORMS["cuda"].default_capability
        picked = OF_CAPABILITY.get(str(capability), ALL_OTHERS)
    return TARGETS[picked]


def _on_target(plan: Plan, target: Target) -> FlexPlan:
    flex = flex_plan(plan, _limit(target).seen_bytes)
    assert flex is not None
    return flex


def _limit(target: Target) -> TargetLimit:
    readable = target.shared_memory_bytes if target.backend == "cuda" else ROCM_SEEN_BYTES
    return TargetLimit(target.title, readable, target.shared_memory_bytes)
